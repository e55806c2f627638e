"""Names in a sample's metadata that the rollout writes and the reward, the checks and the rehearsal read."""

from __future__ import annotations

from typing import Final

ROLLOUT_METADATA: Final = "verl_rollout"
"""Under it a rollout leaves what verl's agent loop hands to the reward: num_turns, tool_rewards, turn_scores, ..."""
RESUME_METADATA: Final = "verl_resume"
"""Under it an aborted multi-turn rollout leaves where it stopped, for `--partial-rollout`."""
RAW_PROMPT: Final = "raw_prompt"
"""The messages of the row, for agent loops of the recipe's own: the prompt itself is text with the template applied."""
