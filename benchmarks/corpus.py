"""Seconds and peak memory of `inspect` and `run` for each recipe, and where the time goes.

    python benchmarks/corpus.py PATH... [--out TABLE.md] [--verl-root DIR] [--timeout SECONDS]

Each PATH is a recipe folder. Every command runs in a process of its own with an empty run folder; the sandbox image and
the verl wheels should be there already (`migrate-agent doctor --fix`), so that first-time costs stay out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

NODES = ("inspect", "plan", "draft", "test", "repair", "smoke", "report")


@dataclass(frozen=True)
class Measure:
    """One command: exit code, wall seconds, peak memory of its process in MiB, and what it said last."""

    code: int | None
    seconds: float
    peak_mib: float
    output: str
    complaint: str


def main() -> None:
    """Measures every path and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--verl-root", type=Path)
    parser.add_argument("--timeout", type=float, default=600)
    options = parser.parse_args()
    extra = ["--verl-root", str(options.verl_root)] if options.verl_root else []
    lines = [
        f"{os.cpu_count()} cores, Python {platform.python_version()}. Seconds are wall time; memory is the peak of our "
        "own process, sandboxed jobs apart.",
        "",
        "| recipe | launches | inspect s | MiB | run s | MiB | verdict | " + " | ".join(NODES) + " | why |",
        "|" + " --- |" * (8 + len(NODES)),
    ]
    looks, runs = [], []
    for path in options.paths:
        look = measure(["inspect", str(path), "--json", *extra], options.timeout)
        with tempfile.TemporaryDirectory() as home:
            done = measure(["run", str(path), "--json", "--dry-run", *extra], options.timeout, home)
            nodes = node_seconds(Path(home))
        looks.append(look.seconds)
        runs.append(done.seconds)
        lines.append(row(path, look, done, nodes))
        print(lines[-1], file=sys.stderr, flush=True)
    lines += ["", f"Median: inspect {statistics.median(looks):.2f} s, run {statistics.median(runs):.2f} s."]
    text = "\n".join(lines) + "\n"
    if options.out:
        options.out.write_text(text, "utf-8")
    print(text, end="")


def measure(arguments: list[str], timeout: float, home: str | None = None) -> Measure:
    """Runs one migrate-agent command and reads its resource usage."""
    environment = {**os.environ, **({"MIGRATE_AGENT_HOME": home} if home else {})}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, "-m", "migrate_agent.cli", *arguments], stdout=out, stderr=err, env=environment
        )
        code, usage = wait(child, begin + timeout)
        seconds = time.monotonic() - begin
        out.seek(0)
        err.seek(0)
        said = err.read().decode(errors="replace").strip().splitlines()
        return Measure(code, seconds, usage / 1024, out.read().decode(errors="replace"), said[-1] if said else "")


def wait(child: subprocess.Popen[bytes], deadline: float) -> tuple[int | None, float]:
    """Exit code (None after the deadline) and peak memory in KiB."""
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, usage.ru_maxrss
        if time.monotonic() > deadline:
            child.kill()
            _, _, usage = os.wait4(child.pid, 0)
            child.returncode = -9
            return None, usage.ru_maxrss
        time.sleep(0.01)


def node_seconds(home: Path) -> dict[str, float]:
    """Seconds of each node of the only run below `home`."""
    for path in home.glob("runs/*/timings.json"):
        found: dict[str, float] = json.loads(path.read_text())
        return found
    return {}


def row(path: Path, look: Measure, done: Measure, nodes: dict[str, float]) -> str:
    """One line of the table."""
    try:
        document = json.loads(done.output)
        verdict, why = document["verdict"], "; ".join(document["reasons"][:2])
        launches = str(len(document["launches"]))
    except ValueError:
        verdict = "timeout" if done.code is None else f"exit {done.code}"
        launches, why = "-", done.complaint.removeprefix("migrate-agent: ")
    cells = [
        path.name,
        launches,
        f"{look.seconds:.2f}",
        f"{look.peak_mib:.0f}",
        f"{done.seconds:.2f}",
        f"{done.peak_mib:.0f}",
        verdict,
        *(f"{nodes[name]:.2f}" if name in nodes else "-" for name in NODES),
        why.replace("|", "/")[:200],
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
