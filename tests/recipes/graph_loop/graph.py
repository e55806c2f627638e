"""An agent loop that is a graph of LangGraph: the model, a tool, the model."""

import json
import re
from typing import TypedDict
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, StateGraph
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

DOUBLE = {
    "type": "function",
    "function": {
        "name": "double",
        "description": "Doubles a number.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}


class State(TypedDict):
    prompt_ids: list
    mask: list
    text: str
    turns: int


async def call_model(state: State, config: RunnableConfig):
    setup = config["configurable"]
    answer = await setup["server"].generate(
        request_id=setup["request_id"], prompt_ids=state["prompt_ids"], sampling_params=setup["sampling_params"]
    )
    return {
        "prompt_ids": state["prompt_ids"] + answer.token_ids,
        "mask": state["mask"] + [1] * len(answer.token_ids),
        "text": setup["tokenizer"].decode(answer.token_ids),
        "turns": state["turns"] + 1,
    }


async def call_tool(state: State, config: RunnableConfig):
    loop = config["configurable"]["loop"]
    arguments = json.loads(re.search(r"<tool_call>(.*?)</tool_call>", state["text"], re.DOTALL)[1])["arguments"]
    message = {"role": "tool", "content": str(2 * arguments["number"])}
    ids = await loop.apply_chat_template([message], remove_system_prompt=True)
    return {
        "prompt_ids": state["prompt_ids"] + ids,
        "mask": state["mask"] + [0] * len(ids),
        "text": "",
        "turns": state["turns"] + 1,
    }


def where_next(state: State, config: RunnableConfig) -> str:
    full = state["turns"] > 2 * config["configurable"]["most"]
    return END if full or "</tool_call>" not in state["text"] else "tool"


class GraphLoop(AgentLoopBase):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        graph = StateGraph(State)
        graph.add_node("model", call_model)
        graph.add_node("tool", call_tool)
        graph.set_entry_point("model")
        graph.add_conditional_edges("model", where_next, {"tool": "tool", END: END})
        graph.add_edge("tool", "model")
        self.graph = graph.compile()

    async def run(self, sampling_params, **kwargs):
        prompt_ids = await self.apply_chat_template(list(kwargs["raw_prompt"]), tools=[DOUBLE])
        setup = {
            "loop": self,
            "server": self.server_manager,
            "tokenizer": self.tokenizer,
            "request_id": uuid4().hex,
            "sampling_params": sampling_params,
            "most": self.rollout_config.multi_turn.max_assistant_turns or 4,
        }
        state = await self.graph.ainvoke(
            {"prompt_ids": prompt_ids, "mask": [], "text": "", "turns": 1}, config={"configurable": setup}
        )
        length = self.rollout_config.response_length
        return AgentLoopOutput(
            prompt_ids=prompt_ids,
            response_ids=state["prompt_ids"][len(prompt_ids) :][:length],
            response_mask=state["mask"][:length],
            num_turns=state["turns"],
            metrics={},
        )
