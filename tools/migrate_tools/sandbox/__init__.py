"""Where foreign code runs: one interface, two providers (Docker, bubblewrap)."""

from __future__ import annotations

from migrate_tools.sandbox.api import Job, Limits, Mount, Outcome, Sandbox
from migrate_tools.sandbox.choose import ensure_image, open_sandbox, probe
from migrate_tools.sandbox.layout import PYTHON, empty_folders, python_env, python_mounts

__all__ = [
    "PYTHON",
    "Job",
    "Limits",
    "Mount",
    "Outcome",
    "Sandbox",
    "empty_folders",
    "ensure_image",
    "open_sandbox",
    "probe",
    "python_env",
    "python_mounts",
]
