"""What the tests ask for."""

from __future__ import annotations

from typing import Literal

from migrate_agent.llm.talk import Message
from pydantic import BaseModel, ConfigDict, field_validator


class Edit(BaseModel):
    """One action."""

    model_config = ConfigDict(extra="forbid")
    action: Literal["edit", "give_up"]
    path: str
    line: int = 0

    @field_validator("path")
    @classmethod
    def relative(cls, value: str) -> str:
        if value.startswith("/"):
            raise ValueError("the path is absolute")
        return value


QUESTION = (Message(role="system", content="You mend."), Message(role="user", content="What now?"))
RIGHT = '{"action": "edit", "path": "a.py", "line": 3}'
EDIT = Edit(action="edit", path="a.py", line=3)
