"""Stand-in for relax.utils.http_utils."""

from migrate_tools.rehearsal.runtime.generate import post

__all__ = ["post"]
