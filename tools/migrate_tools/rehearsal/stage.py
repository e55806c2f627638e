"""Folders of a rehearsal: the stand-in Relax tree with a generated example laid over it."""

from __future__ import annotations

import shutil
from pathlib import Path

from migrate_tools.model import Example
from migrate_tools.rehearsal.models import model_names, model_script
from migrate_tools.sandbox import PYTHON

STANDIN = Path(__file__).with_name("standin")
_STUBS = {
    "ray": '#!/bin/bash\n# "ray job submit ... -- CMD" runs CMD; anything else does nothing\n'
    'while [ $# -gt 0 ]; do\n    if [ "$1" = -- ]; then shift; exec "$@"; fi\n    shift\ndone\n',
    "pkill": "#!/bin/bash\n",
    "nvidia-smi": "#!/bin/bash\nexit 9\n",
    "python3": f'#!/bin/bash\nexec {PYTHON} "$@"\n',
    "python": f'#!/bin/bash\nexec {PYTHON} "$@"\n',
}
"""Commands that must be harmless, or absent, in a rehearsal."""


def fresh(folder: Path) -> Path:
    """An empty folder in place of whatever was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def build_tree(target: Path, example: Example) -> Path:
    """Write the stand-in tree and the example's files below `target`.

    A file of the example never replaces one of the stand-in: the run script must meet our local.sh, not a real one.
    """
    shutil.copytree(STANDIN, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    models = target / "scripts" / "models"
    models.mkdir(parents=True, exist_ok=True)
    for name in model_names():
        (models / f"{name}.sh").write_text(model_script(name), encoding="utf-8")
    for item in example.files:
        path = target / item.path
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(item.text, encoding="utf-8")
        if item.executable:
            path.chmod(0o755)
    return target


def build_commands(target: Path) -> Path:
    """Write the stub commands into `target`."""
    target.mkdir(parents=True, exist_ok=True)
    for name, text in _STUBS.items():
        (target / name).write_text(text, encoding="utf-8")
        (target / name).chmod(0o755)
    return target
