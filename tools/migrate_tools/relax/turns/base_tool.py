"""What tools of verl are written against, without verl: base class, response, schema.

This file is copied into the examples that have tools. Behaviour as verl's verl/tools (0.4 to 0.9.1) shows it to a tool:
`config` and `tool_schema` are set, `create` gives an id, `execute` gives (response, reward, metrics).
"""

from __future__ import annotations

import copy
import json
import uuid
from typing import Any


class Record(dict):  # type: ignore[type-arg]
    """A dict whose keys are attributes too, with the two methods of a pydantic model that tools call."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    @classmethod
    def model_validate(cls, value: Any) -> Any:
        """The value as nested records."""
        if isinstance(value, dict):
            return cls({key: Record.model_validate(item) for key, item in value.items()})
        return [Record.model_validate(item) for item in value] if isinstance(value, list) else value

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """A plain deep copy."""
        plain: dict[str, Any] = json.loads(json.dumps(self)) if _is_json(self) else copy.deepcopy(dict(self))
        return plain


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


class OpenAIFunctionToolSchema(Record):
    """The schema of a tool."""


class ToolResponse:
    """What a tool shows to the model: text, and lists of images or videos."""

    def __init__(self, text: str | None = None, image: list[Any] | None = None, video: list[Any] | None = None) -> None:
        for name, value in (("image", image), ("video", video)):
            if value is not None and not isinstance(value, list):
                raise ValueError(f"{name} must be a list, not {type(value).__name__}")
        self.text, self.image, self.video = text, image, video

    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.text or self.image or self.video)

    def is_text_only(self) -> bool:
        """Whether there is a text and nothing else."""
        return bool(self.text) and not (self.image or self.video)


class BaseTool:
    """Base of every tool class."""

    def __init__(self, config: dict[str, Any], tool_schema: Any) -> None:
        self.config = config
        self.tool_schema = tool_schema or self.get_openai_tool_schema()
        self.name = self.tool_schema.function.name

    def get_openai_tool_schema(self) -> Any:
        """The schema; tools without one in their configuration make it here."""
        return self.tool_schema

    async def create(self, instance_id: str | None = None, **kwargs: Any) -> Any:
        """An id for one use of the tool."""
        return instance_id or str(uuid.uuid4()), ToolResponse()

    async def execute(self, instance_id: str, parameters: dict[str, Any], **kwargs: Any) -> Any:
        """(response, reward, metrics)."""
        return ToolResponse(text="Updated the tool state."), 0.0, {}

    async def calc_reward(self, instance_id: str, **kwargs: Any) -> float:
        """Reward of the tool's state."""
        return 0.0

    async def release(self, instance_id: str, **kwargs: Any) -> None:
        """Forget one use of the tool."""
