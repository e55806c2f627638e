"""Stand-in for relax.engine.rollout.sglang_rollout."""

from migrate_tools.rehearsal.runtime.generate import GenerateState, generate

__all__ = ["GenerateState", "generate"]
