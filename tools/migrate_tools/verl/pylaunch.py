"""Training commands of Python launchers: argument lists for subprocesses, Hydra compositions, and `@hydra.main` entries
that hand over to verl. Nothing is run; what only a run could tell is named."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from migrate_tools.verl.pyrun import Follower, TooLong
from migrate_tools.verl.pyvalues import Item, Text, Unknown, pieces_of, plain
from migrate_tools.verl.symbolic import Piece, Word, static

ENTRY = "verl.trainer.main_ppo"
_STARTERS = re.compile(
    r"^(?:subprocess|sp)\.(?:run|call|check_call|check_output|Popen)$|^os\.(?:system|exec[lv]p?e?|popen)$"
)
_VERL_IMPORT = re.compile(r"^verl\.trainer\.(\w*main\w*)$|^verl\.trainer\.ppo\.ray_trainer$")
MAX_BYTES = 1 << 20
MADE_IN_CODE = 0.25
"""Share of arguments that only a run can tell, above which a command counts as unreadable."""
ADVICE = (
    "print the command that it starts, put that into a .sh file in the recipe's folder, and give this with --launch"
)


@dataclass(frozen=True)
class Started:
    """One command of a launcher, word by word."""

    words: tuple[Word, ...]
    line: int


@dataclass
class PythonLauncher:
    """What a launcher starts; `problem` says why nothing could be read, or names what is missing."""

    path: Path
    file: str
    commands: list[Started] = field(default_factory=list)
    problem: str = ""
    line: int = 0
    patches: list[tuple[str, int]] = field(default_factory=list)
    """Parts of verl that the launcher replaces at run time, with the line."""
    untaken: list[tuple[str, int]] = field(default_factory=list)


def read_launcher(path: Path, file: str) -> PythonLauncher:
    """The commands of a Python launcher; `file` is its name in references, relative to the project."""
    out = PythonLauncher(path, file)
    try:
        text = path.read_bytes()[:MAX_BYTES].decode("utf-8", "replace")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError) as error:
        out.problem = f"it is not valid Python ({error})"
        return out
    out.patches = _patches(tree)
    seen = _Calls(tree, out)
    follower = Follower(tree, file, seen.called)
    seen.follower = follower
    try:
        follower.follow()
        if not out.commands and seen.unread is None:
            follower.call_each(lambda node: any(_STARTERS.match(ast.unparse(c.func)) for c in _calls(node)))
    except (TooLong, RecursionError):
        out.problem = "it is too long to be followed"
    out.untaken = follower.untaken
    if not out.commands and not out.problem:
        out.problem, out.line = seen.unread or ("no command that starts verl was found in it", 0)
    return out


def _calls(node: ast.AST) -> list[ast.Call]:
    return [item for item in ast.walk(node) if isinstance(item, ast.Call)]


def _patches(tree: ast.Module) -> list[tuple[str, int]]:
    """`verl.a.b = c`, also through a name that an import of verl binds."""
    names = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0] == "verl"
    }
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                root: ast.expr = target
                while isinstance(root, ast.Attribute):
                    root = root.value
                if isinstance(target, ast.Attribute) and isinstance(root, ast.Name) and root.id in names:
                    found.setdefault(ast.unparse(target), node.lineno)
    return list(found.items())


class _Calls:
    """Picks the calls that start verl out of a launcher."""

    def __init__(self, tree: ast.Module, out: PythonLauncher) -> None:
        self.out = out
        self.follower: Follower | None = None
        self.unread: tuple[str, int] | None = None
        self.entries: dict[str, str] = {}
        """Names under which the launcher has imported an entry point of verl -> its module."""
        self.config: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and _VERL_IMPORT.match(node.module or ""):
                for alias in node.names:
                    self.entries[alias.asname or alias.name] = node.module or ""
        self.hydra = {
            node.name: node
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
            and any(ast.unparse(d.func if isinstance(d, ast.Call) else d) == "hydra.main" for d in node.decorator_list)
        }

    def called(self, name: str, node: ast.Call, given: list[Any], keywords: dict[str, Any]) -> bool:
        """Whether the call is one of these; what it starts is kept."""
        if _STARTERS.match(name):
            self._process(name, node, given, keywords)
            return True
        last = name.rsplit(".", 1)[-1]
        if last in ("initialize_config_dir", "initialize"):
            folder = keywords.get("config_dir", keywords.get("config_path", given[0] if given else None))
            self.config["path"] = _known(folder) or ""
            return True
        if last == "compose" and (keywords or given):
            self._composed(node, given, keywords)
            return True
        if name in self.hydra:
            return self._entry(self.hydra[name], node)
        if name in self.entries and self.follower is not None and len(self.follower.argv) > 1:
            self._add(["python3", "-m", self.entries[name], *self.follower.argv[1:]], node.lineno)
            return True
        return False

    def _process(self, name: str, node: ast.Call, given: list[Any], keywords: dict[str, Any]) -> None:
        value = plain(
            given[-1] if name.startswith("os.exec") and given else given[0] if given else keywords.get("args")
        )
        if isinstance(value, str | Text):
            value = _split(value, node.lineno)
        if isinstance(value, list | tuple):
            self._add(value, node.lineno)
        elif "verl" in ast.unparse(node) or isinstance(value, Unknown):
            self.unread = (f"the command of {name} is assembled in code", node.lineno)

    def _composed(self, node: ast.Call, given: list[Any], keywords: dict[str, Any]) -> None:
        name = _known(keywords.get("config_name", given[0] if given else None))
        overrides = plain(keywords.get("overrides", given[1] if len(given) > 1 else []))
        if not isinstance(overrides, list | tuple):
            self.unread = ("the overrides of hydra.compose are assembled in code", node.lineno)
            return
        options = [f"--config-path={self.config['path']}"] if self.config.get("path") else []
        options += [f"--config-name={name}"] if name else []
        self._add(["python3", self.out.file, *options, *overrides], node.lineno)

    def _entry(self, function: ast.FunctionDef, node: ast.Call) -> bool:
        """`@hydra.main`: the configuration that the decorator names is all there is, unless sys.argv is filled."""
        called = {ast.unparse(item.func) for item in ast.walk(function) if isinstance(item, ast.Call)}
        if not called & self.entries.keys() and not any(name.endswith((".fit", "run_ppo")) for name in called):
            return False
        argv = self.follower.argv[1:] if self.follower is not None else []
        self._add(["python3", self.out.file, *argv], node.lineno, keep=True)
        return True

    def _add(self, argv: Sequence[Any], line: int, keep: bool = False) -> None:
        words = []
        for value in argv:
            inner = plain(value)
            pieces = pieces_of(value, line)
            if isinstance(inner, Unknown) and inner.what.startswith("*"):
                self.unread = (f"its arguments {inner.what} are assembled in code", inner.line)
                return
            place = value.line if isinstance(value, Item) and value.line else line
            if pieces is None:
                what = inner.what if isinstance(inner, Unknown) else ""
                pieces = (Piece("opaque", what, place),)
            words.append(Word(pieces, self.out.file, place))
        text = " ".join(static(word.pieces) or "?" for word in words)
        made = [word for word in words if any(piece.kind == "opaque" for piece in word.pieces)]
        if len(made) > MADE_IN_CODE * len(words):
            shown = next((p.text for p in made[0].pieces if p.kind == "opaque"), "")
            what = f"{len(made)} of its {len(words)} arguments are made in code, the first from `{shown[:80]}`"
            self.unread = (what, made[0].line)
            return
        if keep or "verl" in text or re.search(r"\bactor_rollout_ref\.|\balgorithm\.adv_estimator", text):
            self.out.commands.append(Started(tuple(words), line))


def _known(value: Any) -> str | None:
    value = plain(value)
    return value if isinstance(value, str) else None


def _split(value: str | Text, line: int) -> list[Any] | None:
    """A shell command line as words; variables stay whole."""
    marks: list[Piece] = []
    text = ""
    for piece in value.pieces if isinstance(value, Text) else (Piece("literal", value, line),):
        if piece.kind == "literal":
            text += piece.text
        else:
            text += f"\x01{len(marks)}\x02"
            marks.append(piece)
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return None
    out: list[Any] = []
    for word in words:
        parts = re.split(r"\x01(\d+)\x02", word)
        pieces = [
            marks[int(part)] if index % 2 else Piece("literal", part, line) for index, part in enumerate(parts) if part
        ]
        out.append(Item(Text(tuple(pieces)), line))
    return out
