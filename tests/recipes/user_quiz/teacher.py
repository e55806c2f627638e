"""A teacher who looks at the answer and asks once more."""

from typing import Any, Optional
from uuid import uuid4

from verl.interactions.base import BaseInteraction


class TeacherInteraction(BaseInteraction):
    """Ends the conversation when the answer is right, or when the teacher has lost patience."""

    def __init__(self, config: dict):
        super().__init__(config)
        self.pupils: dict[str, dict[str, Any]] = {}

    async def start_interaction(
        self, instance_id: Optional[str] = None, ground_truth: Optional[str] = None, **kwargs
    ) -> str:
        instance_id = instance_id or str(uuid4())
        self.pupils[instance_id] = {"truth": ground_truth, "wrong": 0}
        return instance_id

    async def generate_response(
        self, instance_id: str, messages: list[dict[str, Any]], **kwargs
    ) -> tuple[bool, str, float, dict]:
        pupil = self.pupils[instance_id]
        answer = next(item["content"] for item in reversed(messages) if item["role"] == "assistant")
        question = next(item["content"] for item in messages if item["role"] == "user")
        if answer.endswith(f"nswer: {pupil['truth']}") or answer.endswith(f"answer is {pupil['truth']}."):
            return True, "That is right.", 1.0, {}
        pupil["wrong"] += 1
        if pupil["wrong"] > self.config["patience"]:
            return True, "Enough for today.", -1.0, {}
        return False, f"No, {self.config['hint']} ({len(messages)}): {question}", 0.0, {}

    async def finalize_interaction(self, instance_id: str, **kwargs) -> None:
        del self.pupils[instance_id]
