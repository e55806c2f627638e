"""Stand-in for relax.engine.filters.base_types."""

from migrate_tools.rehearsal.runtime.filters import DynamicFilterOutput

__all__ = ["DynamicFilterOutput"]
