"""`migrate-agent doctor`: what this machine has, and with --fix what it can get."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from migrate_tools.errors import MigrateError
from migrate_tools.model import Frozen

from migrate_agent.console import table

DEFAULT_VERL = "0.9.1"
PROBE_SECONDS = 20


class Finding(Frozen):
    """One line of the doctor's table. `needed` findings decide the exit code."""

    name: str
    state: Literal["ok", "missing", "optional"]
    detail: str
    needed: bool = False


def doctor(*, fix: bool, as_json: bool) -> int:
    """Prints the findings; returns 3 when something that a run needs is missing, else 0."""
    findings = [*_sandbox(fix), _verl(fix), _python(), *_tools(), _gpu(), _scorers(), _model()]
    if as_json:
        print(json.dumps([finding.model_dump() for finding in findings], indent=1))
    else:
        print(table(["what", "state", "detail"], [[item.name, item.state, item.detail] for item in findings]))
    return 3 if any(item.needed and item.state != "ok" for item in findings) else 0


def gpu_name() -> str | None:
    """Name of the first NVIDIA GPU; None where there is none or its driver does not answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def _sandbox(fix: bool) -> list[Finding]:
    from migrate_tools import sandbox

    found: list[Finding] = []
    if fix:
        found.append(_attempt("sandbox image", lambda: str(sandbox.ensure_image())))
    for name, answer in sandbox.probe().items():
        found.append(Finding(name=f"sandbox: {name}", state="optional", detail=_short(answer)))
    found.append(_attempt("sandbox in use", lambda: sandbox.open_sandbox("auto").name, needed=True))
    return found


def _verl(fix: bool) -> Finding:
    from migrate_tools.verl import source

    cached = Path(os.environ.get("MIGRATE_AGENT_CACHE") or Path.home() / ".cache" / "migrate-agent") / "verl"
    if fix:
        return _attempt("verl source", lambda: f"wheel {source.wheel(DEFAULT_VERL).version} in {cached}")
    versions = sorted(path.name for path in cached.glob("*") if path.is_dir())
    if versions:
        return Finding(name="verl source", state="ok", detail=f"wheels in {cached}: {', '.join(versions)}")
    return Finding(name="verl source", state="optional", detail="fetched on first use, or now with --fix")


def _python() -> Finding:
    return Finding(name="Python", state="ok", detail=f"{platform.python_version()} at {sys.executable}", needed=True)


def _tools() -> list[Finding]:
    found = []
    for name in ("ruff", "shellcheck", "shfmt"):
        beside = Path(sys.executable).parent / name
        path = str(beside) if beside.is_file() else shutil.which(name)
        found.append(
            Finding(name=name, state="ok" if path else "missing", detail=path or "pip install it", needed=True)
        )
    return found


def _gpu() -> Finding:
    name = gpu_name()
    return Finding(name="GPU", state="ok" if name else "optional", detail=name or "none: the GPU step is skipped")


def _scorers() -> Finding:
    from importlib.util import find_spec

    absent = [name for name in ("math_verify", "mathruler", "pylatexenc", "sympy") if find_spec(name) is None]
    detail = f"missing: {', '.join(absent)}; pip install migrate-agent[scorers]" if absent else "all there"
    return Finding(name="scorer packages", state="optional" if absent else "ok", detail=detail)


def _model() -> Finding:
    """The configured model, asked a few short questions; what it can do is kept for later runs."""
    from migrate_agent.llm_settings import endpoint_of

    try:
        endpoint = endpoint_of(os.environ)
    except MigrateError as error:
        return Finding(name="model", state="missing", detail=error.line())
    if endpoint is None:
        return Finding(name="model", state="optional", detail="none: MIGRATE_AGENT_MODEL is not set; rules work alone")
    from migrate_agent.llm.budget import price_of
    from migrate_agent.llm.capability import remember
    from migrate_agent.llm.client import OpenAiWire
    from migrate_agent.llm.probe import probe

    found = probe(endpoint, OpenAiWire(endpoint))
    who = f"{endpoint.model} at {endpoint.place}"
    if found.capability is None:
        return Finding(name="model", state="missing", detail=found.words)
    remember(endpoint, found.capability)
    price = price_of(endpoint)
    cost = "unknown price: tokens only" if price is None else f"{price.input:g}/{price.output:g} USD a million tokens"
    state: Literal["ok", "missing"] = "missing" if found.listed is False else "ok"
    return Finding(name="model", state=state, detail=f"{who}: {found.words}; {cost}")


def _attempt(name: str, action: Callable[[], str], *, needed: bool = False) -> Finding:
    try:
        return Finding(name=name, state="ok", detail=action(), needed=needed)
    except MigrateError as error:
        return Finding(name=name, state="missing", detail=error.line(), needed=needed)


def _short(answer: object) -> str:
    if isinstance(answer, dict):
        return ", ".join(f"{key}: {value}" for key, value in answer.items())
    return " ".join(str(answer).split())
