"""The syntax tree of a shell script (shfmt's JSON), and what can be read from it alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from migrate_tools.errors import MachineError
from migrate_tools.model import Note, SourceRef

MAX_SCRIPT_BYTES = 2 << 20
Node = dict[str, Any]


class ShellSyntaxError(Exception):
    """The script is not valid bash; the message is the parser's, with the line."""


@dataclass(frozen=True)
class Script:
    """A parsed script; `file` is the name that references show."""

    path: Path
    file: str
    source: bytes
    tree: Node

    def text(self, node: Node) -> str:
        """The source text of a node."""
        return self.between(node["Pos"]["Offset"], node["End"]["Offset"])

    def between(self, start: int, end: int) -> str:
        """The source text between two byte offsets."""
        return self.source[start:end].decode("utf-8", "replace")

    def ref(self, line: int | None) -> SourceRef:
        """A reference to a line of the script."""
        return SourceRef(file=self.file, line=line)


def shfmt_path() -> str:
    """The shfmt program: beside this interpreter, or on the path.

    Raises:
        MachineError: there is none.
    """
    beside = Path(sys.executable).with_name("shfmt")
    found = str(beside) if beside.exists() else shutil.which("shfmt")
    if not found:
        raise MachineError("shfmt is not installed", "pip install shfmt-py")
    return found


def parse_script(path: Path, file: str) -> Script:
    """Parse a bash script.

    Raises:
        ShellSyntaxError: bash would not accept it.
        OSError: it cannot be read.
    """
    source = path.read_bytes()[:MAX_SCRIPT_BYTES].replace(b"\r\n", b"\n")
    done = subprocess.run(
        [shfmt_path(), "--to-json", "-ln", "bash"], input=source, capture_output=True, timeout=60, check=False
    )
    if done.returncode != 0:
        message = done.stderr.decode("utf-8", "replace").replace("<standard input>:", "line ").strip()
        raise ShellSyntaxError(message.splitlines()[0] if message else "not valid bash")
    return Script(path, file, source, json.loads(done.stdout))


def walk(node: Any) -> Iterator[Node]:
    """Every node of a tree in source order."""
    if isinstance(node, dict):
        if "Pos" in node:
            yield node
        for value in node.values():
            if isinstance(value, dict | list):
                yield from walk(value)
    elif isinstance(node, list):
        for item in node:
            yield from walk(item)


def line_of(node: Node) -> int:
    """The line a node starts on, from 1."""
    return int(node["Pos"]["Line"])


def last_line_of(node: Node) -> int:
    """The line a node ends on."""
    return int(node["End"]["Line"])


def literal(word: Node | None) -> str | None:
    """The text of a word without expansions; None when it has some."""
    if not word:
        return None
    out = ""
    for part in word.get("Parts") or []:
        kind = part["Type"]
        if kind in ("Lit", "SglQuoted"):
            out += part.get("Value", "")
        elif kind == "DblQuoted":
            inner = literal(part)
            if inner is None:
                return None
            out += inner
        else:
            return None
    return out


_SIDE_EFFECTS = {
    "rm": "removes files", "mv": "moves files", "cp": "copies files", "wget": "downloads",
    "curl": "makes a web request",
    "git": "runs git", "pip": "installs packages", "pip3": "installs packages", "apt": "installs packages",
    "apt-get": "installs packages", "conda": "changes the environment", "ssh": "runs commands on another machine",
    "scp": "copies to another machine", "rsync": "copies files", "sbatch": "submits a SLURM job",
    "srun": "runs under SLURM", "docker": "runs a container", "kill": "ends processes", "pkill": "ends processes",
    "killall": "ends processes", "huggingface-cli": "downloads or uploads models", "hf": "downloads or uploads models",
    "modelscope": "downloads models", "trap": "sets a trap", "ulimit": "changes a limit", "eval": "evaluates text",
    "vllm": "starts a server", "tmux": "starts a terminal session", "wandb": "logs in to wandb",
}  # fmt: skip
_ONLY_WITH = {"wandb": ("login",), "git": ("clone", "checkout", "apply", "pull", "submodule", "reset"),
              "pip": ("install", "uninstall"), "pip3": ("install", "uninstall")}  # fmt: skip


def side_effects(script: Script) -> list[Note]:
    """What the script does besides training, each kind once: it is named and never carried over or executed."""
    notes: dict[str, Note] = {}
    for node in walk(script.tree):
        if node.get("Type") != "CallExpr" or not node.get("Args"):
            continue
        words = [literal(word) or "" for word in node["Args"][:4]]
        while words and words[0] in ("sudo", "nohup", "exec", "time", "command"):
            words.pop(0)
        effect = _effect(words)
        if effect and effect not in notes:
            shown = " ".join(word for word in words[:2] if word)
            notes[effect] = Note(
                code="shell-side-effect", text=f"`{shown}` {effect}: not carried over", source=script.ref(line_of(node))
            )
    return list(notes.values())


def _effect(words: list[str]) -> str:
    if not words:
        return ""
    name, rest = words[0], words[1:]
    if name == "sed":
        return "edits files in place" if any(re.match(r"-i|--in-place", word) for word in rest) else ""
    if name == "ray":
        effects = {"start": "starts a Ray node", "stop": "stops Ray", "job": "submits a Ray job"}
        return effects.get(rest[0] if rest else "", "")
    if name == "uv":
        return "installs packages" if rest[:1] == ["pip"] else ""
    if name in _ONLY_WITH and not set(rest) & set(_ONLY_WITH[name]):
        return ""
    return _SIDE_EFFECTS.get(name, "")
