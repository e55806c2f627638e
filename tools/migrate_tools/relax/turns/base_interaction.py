"""What a simulated user of verl is written against, without verl.

This file is copied into the examples that have one. Behaviour as verl's verl/interactions/base.py (0.4 to 0.7).
"""

from __future__ import annotations

import uuid
from typing import Any


class BaseInteraction:
    """Base of every interaction class."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.name = config.get("name", "interaction_agent")

    async def start_interaction(self, instance_id: str | None = None, **kwargs: Any) -> str:
        """An id for one conversation."""
        return instance_id or str(uuid.uuid4())

    async def generate_response(
        self, instance_id: str, messages: list[dict[str, Any]], **kwargs: Any
    ) -> tuple[bool, str, float, dict[str, Any]]:
        """(whether the conversation ends, the user's next words, score of this turn, anything else)."""
        return False, "Your current result seems acceptable.", 0.8, {}

    async def calculate_score(self) -> float:
        """Score of the conversation."""
        return 0.0

    async def finalize_interaction(self) -> None:
        """Forget one conversation."""
