"""Stand-in for relax.utils.types."""

from migrate_tools.rehearsal.runtime.sample import Sample

__all__ = ["Sample"]
