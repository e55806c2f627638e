"""A tool that checks an answer, and one that looks a word up."""

from typing import Any, Optional
from uuid import uuid4

from verl.tools.base_tool import BaseTool
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse
from verl.utils.rollout_trace import rollout_trace_op


class CheckTool(BaseTool):
    """Says whether an answer is right; keeps the last answer of each use."""

    def __init__(self, config: dict, tool_schema: OpenAIFunctionToolSchema):
        super().__init__(config, tool_schema)
        self.uses: dict[str, dict[str, Any]] = {}
        self.hint = config["hint"]

    async def create(self, instance_id: Optional[str] = None, **kwargs) -> tuple[str, ToolResponse]:
        instance_id = instance_id or str(uuid4())
        truth = kwargs.get("create_kwargs", {}).get("ground_truth", "")
        self.uses[instance_id] = {"truth": truth, "answer": None}
        return instance_id, ToolResponse()

    @rollout_trace_op
    async def execute(self, instance_id: str, parameters: dict[str, Any], **kwargs) -> tuple[ToolResponse, float, dict]:
        answer = parameters["answer"]
        self.uses[instance_id]["answer"] = answer
        right = str(answer) == str(self.uses[instance_id]["truth"])
        text = "right" if right else f"wrong, {self.hint}: {answer}"
        return ToolResponse(text=text), 0.5 if right else -0.05, {"right": right}

    async def release(self, instance_id: str, **kwargs) -> None:
        del self.uses[instance_id]


class LookupTool(BaseTool):
    """Explains a word, at length."""

    def get_openai_tool_schema(self) -> OpenAIFunctionToolSchema:
        return OpenAIFunctionToolSchema.model_validate(
            {
                "type": "function",
                "function": {
                    "name": "lookup",
                    "description": "Explains a word.",
                    "parameters": {
                        "type": "object",
                        "properties": {"word": {"type": "string", "description": "The word."}},
                        "required": ["word"],
                    },
                },
            }
        )

    async def execute(self, instance_id: str, parameters: dict[str, Any], **kwargs) -> tuple[ToolResponse, float, dict]:
        word = parameters["word"]
        if word == "unknown":
            raise KeyError(word)
        return ToolResponse(text=f"{word} means {word * 40}"), None, {}
