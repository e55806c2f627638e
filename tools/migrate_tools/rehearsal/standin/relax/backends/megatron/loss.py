"""Stand-in for relax.backends.megatron.loss."""

from migrate_tools.rehearsal.runtime.training_hooks import get_log_probs_and_entropy

__all__ = ["get_log_probs_and_entropy"]
