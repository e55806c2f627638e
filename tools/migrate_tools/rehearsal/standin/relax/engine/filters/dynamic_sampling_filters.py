"""Stand-in for relax.engine.filters.dynamic_sampling_filters."""

from migrate_tools.rehearsal.runtime.filters import check_reward_nonzero_std

__all__ = ["check_reward_nonzero_std"]
