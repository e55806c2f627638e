"""Templates, and the formatters that every generated file passes through."""

from __future__ import annotations

import pprint
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from migrate_tools import __version__
from migrate_tools.errors import MachineError

TOOL_SECONDS = 60
LINE_LENGTH = 120
TEMPLATES = Path(__file__).parent / "templates"


def render_template(name: str, **values: Any) -> str:
    """A template of templates/ with its values; an undefined value is an error."""
    return str(_environment().get_template(name).render(version=__version__, **values))


def format_python(text: str) -> str:
    """Python text with sorted imports, as `ruff format` writes it, whatever configuration lies around.

    Raises:
        MachineError: ruff is not installed.
        ValueError: the text is not Python.
    """
    options = ["--isolated", "--no-cache", f"--line-length={LINE_LENGTH}", "-"]
    sort = [tool("ruff"), "check", "--select=I001", "--fix", "--quiet", "--exit-zero", *options]
    return _piped([tool("ruff"), "format", *options], _piped(sort, text))


def format_shell(text: str) -> str:
    """Shell text as `shfmt -i 4 -ci` writes it.

    Raises:
        MachineError: shfmt is not installed.
        ValueError: the text is not a bash script.
    """
    return _piped([tool("shfmt"), "-ln", "bash", "-i", "4", "-ci", "-"], text)


def tool(name: str) -> str:
    """The program beside this Python, else the one on PATH.

    Raises:
        MachineError: there is none.
    """
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise MachineError(f"{name} is not installed", f"pip install {'shfmt-py' if name == 'shfmt' else name}")
    return found


def python_literal(value: Any) -> str:
    """A value of plain types as Python source, the same for equal values."""
    return pprint.pformat(value, width=100, sort_dicts=False)


def commented(text: str) -> str:
    """Every line of a text as a comment."""
    return "\n".join(f"# {line}".rstrip() for line in text.splitlines())


def _piped(command: list[str], text: str) -> str:
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=TOOL_SECONDS, check=False)
    if done.returncode:
        detail = done.stderr.decode(errors="replace").strip().splitlines()
        raise ValueError(f"{Path(command[0]).name}: {detail[0] if detail else 'failed'}")
    return done.stdout.decode()


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["py"] = python_literal
    return environment
