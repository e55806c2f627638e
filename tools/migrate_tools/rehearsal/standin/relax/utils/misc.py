"""Stand-in for relax.utils.misc."""

from migrate_tools.rehearsal.runtime.generate import SingletonMeta
from migrate_tools.rehearsal.runtime.hooks import load_function

__all__ = ["SingletonMeta", "load_function"]
