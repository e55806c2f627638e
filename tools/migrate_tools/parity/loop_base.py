"""verl's own base of agent loops inside the sandbox, without Ray, torch and an engine.

verl/experimental/agent_loop/agent_loop.py imports the whole trainer. Here its text is read, and only what a loop is
written against is run: base class, outputs, registry. Annotations of functions go, those of pydantic fields stay.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from migrate_tools.parity import moved, stubs

PACKAGE = "verl.experimental.agent_loop"
LOOP_FILE = "verl/experimental/agent_loop/agent_loop.py"
ANSWER_FILE = "verl/workers/rollout/replica.py"
KEPT = frozenset(
    {"AgentLoopMetrics", "AgentLoopOutput", "_DummyConfig", "DictConfigWrap", "ToolListWrap", "AgentLoopBase"}
    | {"register", "_agent_loop_registry"}
)
"""What loops are written against (verl 0.5 to 0.9); each version has most of it."""
OURS = Path(__file__).parents[1] / "relax" / "turns"
SMALL = {
    "verl.utils.profiler": "agent_loop.py",
    "verl.utils.rollout_trace": "small_parts.py",
    "verl.utils.ray_utils": "small_parts.py",
}
"""Modules of verl that measure, trace or start Ray -> ours in their place."""


def install(root: Path) -> types.ModuleType:
    """verl's module of agent loops over the source at `root`; `stubs.install` has been called.

    Raises:
        OSError: this verl has no agent loops.
    """
    for name, file in SMALL.items():
        moved.load_file(name, OURS / file)
    for name in (PACKAGE, "verl.workers.rollout"):
        stubs.bare_package(name)
    sys.modules["verl.workers.rollout.replica"] = _module(root / ANSWER_FILE, "replica", frozenset({"TokenOutput"}))
    made = _module(root / LOOP_FILE, f"{PACKAGE}.agent_loop", KEPT)
    sys.modules[made.__name__] = made
    for name, value in vars(made).items():
        if name in KEPT:
            setattr(sys.modules[PACKAGE], name, value)
    return made


def given_names(root: Path) -> tuple[str, ...]:
    """Keywords with which this verl makes a loop."""
    for node in ast.walk(ast.parse((root / LOOP_FILE).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            names = tuple(item.arg for item in node.keywords if item.arg)
            if "trainer_config" in names:
                return names
    return ()


def _module(path: Path, name: str, kept: frozenset[str]) -> types.ModuleType:
    """A module with some names of a file, and the imports that these use."""
    made = types.ModuleType(name)
    if not path.is_file():
        return made
    tree = ast.parse(path.read_text(encoding="utf-8"))
    wanted = _closure(tree, kept)
    nodes = [node for node in tree.body if wanted & set(_defined(node))]
    for node in nodes:
        for item in ast.walk(node):
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                _bare(item)
    used = {item.id for node in nodes for item in ast.walk(node) if isinstance(item, ast.Name)}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            _import(node, used, made)
    vars(made)["logger"] = types.SimpleNamespace(warning=_quiet, info=_quiet, error=_quiet, debug=_quiet)
    sys.modules[name] = made  # pydantic looks annotations up there
    exec(compile(ast.Module(list(nodes), []), str(path), "exec"), vars(made))
    vars(made)["__getattr__"] = _other
    return made


def _other(name: str) -> Any:
    """What else of the module a recipe imports, to name it in an annotation."""
    if name.startswith("__"):
        raise AttributeError(name)
    return stubs.StandIn(name)


def _closure(tree: ast.Module, names: frozenset[str]) -> set[str]:
    """The names, and the functions of the file that they call, at any depth."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found, waiting = set(names), [node for node in tree.body if names & set(_defined(node))]
    while waiting:
        used = {item.id for item in ast.walk(waiting.pop()) if isinstance(item, ast.Name)}
        waiting += [functions[name] for name in used - found if name in functions]
        found |= used & set(functions)
    return found


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        yield node.name
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Assign):
        yield from (item.id for item in node.targets if isinstance(item, ast.Name))


def _bare(node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    node.returns = None
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        argument.annotation = None


def _import(node: ast.Import | ast.ImportFrom, used: set[str], made: types.ModuleType) -> None:
    """The names of an import statement that are used; a stand-in for one that is not here."""
    node.names = [item for item in node.names if (item.asname or item.name).partition(".")[0] in used]
    if not node.names:
        return
    try:
        exec(compile(ast.Module([node], []), made.__name__, "exec"), vars(made))
    except ImportError:
        for item in node.names:
            vars(made)[item.asname or item.name] = stubs.StandIn(item.name)


def _quiet(*_: Any, **__: Any) -> None:
    return
