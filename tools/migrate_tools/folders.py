"""Folders that tools keep beside a recipe and that are no part of it."""

from __future__ import annotations

TOOL_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "node_modules"}
    | {".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
"""Version control, environments, caches of checkers: never read, copied or counted."""
PYTHON_CACHE = "__pycache__"
