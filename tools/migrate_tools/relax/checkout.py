"""What one Relax checkout has: flags, hooks, model scripts and Sample fields, by static analysis; nothing is imported.

The flags of Megatron and SGLang come from packages outside the checkout, so those of the nearest built-in contract are
kept; where the checkout sets another default for one of them, that default holds.
"""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from migrate_tools.errors import RefusedInput
from migrate_tools.relax.checkout_flags import FlagReader, Unread
from migrate_tools.relax.checkout_literals import Module
from migrate_tools.relax.contract import SAVED_KIND, SAVED_SCHEMA, FlagContract, load_contract
from migrate_tools.relax.flag_model import VERSIONS, FlagInfo, Version

ENTRY = "relax.entrypoints.train"
ARGUMENTS = "relax.utils.arguments"
COMPARED = ("type", "action", "nargs", "choices", "default")
_LOADER_CALLS = {"import_module", "getattr"}


@dataclass(frozen=True)
class Difference:
    """One field of one flag that the checkout and the built-in contract have differently."""

    flag: str
    field: str
    built_in: Any
    checkout: Any


@dataclass(frozen=True)
class Checkout:
    """Everything that was read; `flags` are entries in the form of flags.json."""

    name: str
    commit: str | None
    base: Version
    """The built-in contract that is nearest: it has the same flags but for the fewest."""
    flags: tuple[dict[str, Any], ...]
    unread: tuple[Unread, ...]
    hooks: dict[str, str]
    """Attribute of the parsed arguments -> "file:line" where the checkout loads the function that it names."""
    model_scripts: tuple[str, ...]
    sample_fields: dict[str, str]
    """Field of Sample -> its type as written."""
    only_here: tuple[str, ...] = ()
    only_built_in: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    unparsed: tuple[str, ...] = field(default=())
    """Files that this Python cannot parse."""

    def saved(self) -> str:
        """The contract as text for a file: `load_contract(PATH)` reads it; equal checkouts give equal bytes."""
        document = {
            "kind": SAVED_KIND,
            "schema": SAVED_SCHEMA,
            "name": self.name,
            "commit": self.commit,
            "base": self.base,
            "hooks": dict(sorted(self.hooks.items())),
            "model_scripts": list(self.model_scripts),
            "sample_fields": self.sample_fields,
            "unread": [f"{item.file}:{item.line}: {item.why}" for item in self.unread],
            "flags": [
                dict(sorted(entry.items())) for entry in sorted(self.flags, key=lambda entry: str(entry["flag"]))
            ],
        }
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_checkout(root: Path) -> Checkout:
    """Read a Relax checkout.

    Raises:
        RefusedInput: `root` has no folder relax/, or nothing below it adds a flag.
    """
    if not (root / "relax").is_dir():
        raise RefusedInput(f"{root} is not a Relax checkout: it has no folder relax/", "give the root of a checkout")
    modules, unparsed = _modules(root)
    entry = ENTRY if ENTRY in modules else ARGUMENTS
    trainer = _closure(modules, entry) if entry in modules else modules
    found = FlagReader(trainer, ENTRY).read()
    if not found.flags:
        raise RefusedInput(
            f"no flag is added below {root / 'relax'}",
            "give the root of a checkout, or take a built-in contract: --relax-version latest",
        )
    base = _nearest(found.flags)
    built_in = load_contract(base).flags
    return Checkout(
        name=root.resolve().name,
        commit=_commit(root),
        base=base,
        flags=tuple(found.flags.values()),
        unread=tuple(found.unread),
        hooks=_hooks(modules.values()),
        model_scripts=_model_scripts(root),
        sample_fields=_sample_fields(modules),
        only_here=tuple(sorted(set(found.flags) - set(built_in))),
        only_built_in=tuple(sorted(name for name in _relax(built_in.values()) if name not in found.flags)),
        differences=tuple(_differences(found.flags, load_contract(base))),
        unparsed=unparsed,
    )


def _modules(root: Path) -> tuple[dict[str, Module], tuple[str, ...]]:
    """Every module below relax/ by its dotted name; paths relative to the root."""
    modules: dict[str, Module] = {}
    unparsed: list[str] = []
    for path in sorted((root / "relax").rglob("*.py")):
        relative = path.relative_to(root)
        parts = relative.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        try:
            modules[name] = Module(name, relative, ast.parse(path.read_bytes()))
        except (SyntaxError, ValueError, OSError, RecursionError):
            unparsed.append(relative.as_posix())
    return modules, tuple(unparsed)


def _closure(modules: dict[str, Module], entry: str) -> dict[str, Module]:
    """The modules that the entry imports, directly or not, in the order of their names."""
    seen: set[str] = set()
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in modules:
            continue
        seen.add(name)
        for source, item in modules[name].imported.values():
            waiting += [source, f"{source}.{item}"]
        waiting.append(name.rpartition(".")[0])
    return {name: module for name, module in modules.items() if name in seen}


def _nearest(flags: Iterable[str]) -> Version:
    names = set(flags)
    return min(VERSIONS, key=lambda version: len(names ^ set(_relax(load_contract(version).flags.values()))))


def _relax(infos: Iterable[FlagInfo]) -> Iterator[str]:
    return (info.name for info in infos if info.family == "relax")


def _differences(flags: dict[str, dict[str, Any]], built_in: FlagContract) -> Iterator[Difference]:
    """Fields that both sides know and have differently; a Megatron flag that is only given a default has no more."""
    for name, entry in sorted(flags.items()):
        info = built_in.flags.get(name)
        if info is None:
            continue
        fields = COMPARED if info.family == "relax" else ("default",)
        for key in fields:
            if key in entry.get("computed", ()) or (info.family != "relax" and key not in entry):
                continue
            here, there = _field(entry, key), getattr(info, key)
            there = list(there) if isinstance(there, tuple) else there
            if key == "choices" and not (here and there):
                continue  # choices computed at run time are in neither contract
            if here != there:
                yield Difference(name, key, there, here)


def _field(entry: dict[str, Any], key: str) -> Any:
    if key == "type":
        return entry.get(
            "type", "" if entry.get("action") in ("store_true", "store_false", "boolean_optional") else "str"
        )
    return entry.get(key, {"action": "", "choices": []}.get(key))


def _hooks(modules: Iterable[Module]) -> dict[str, str]:
    """Arguments that a loader is called with: a function that imports a module by name and takes an attribute of it."""
    modules = list(modules)
    loaders = {
        name
        for module in modules
        for name, function in module.functions.items()
        if {_name(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)} >= _LOADER_CALLS
    }
    hooks: dict[str, str] = {}
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and _name(node.func) in loaders and node.args:
                dest = _argument(node.args[0])
                if dest:
                    hooks.setdefault(dest, f"{module.path.as_posix()}:{node.lineno}")
    return hooks


def _argument(node: ast.expr) -> str:
    """`args.X`, `self.args.X` or `getattr(args, "X", ...)` -> X."""
    if isinstance(node, ast.Attribute) and "args" in ast.unparse(node.value).split("."):
        return node.attr
    if isinstance(node, ast.Call) and _name(node.func) == "getattr" and len(node.args) > 1:
        name = node.args[1]
        return str(name.value) if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""
    return ""


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _model_scripts(root: Path) -> tuple[str, ...]:
    """Names of scripts/models/*.sh that set MODEL_ARGS."""
    paths = sorted((root / "scripts" / "models").glob("*.sh"))
    return tuple(path.stem for path in paths if "MODEL_ARGS" in path.read_text("utf-8", errors="replace"))


def _sample_fields(modules: dict[str, Module]) -> dict[str, str]:
    """Annotated fields, methods and properties of the class Sample; empty when there is none."""
    named = [modules["relax.utils.types"]] if "relax.utils.types" in modules else []
    for module in (*named, *modules.values()):
        if "Sample" in module.classes:
            body = module.classes["Sample"].body
            fields = {
                item.target.id: ast.unparse(item.annotation)
                for item in body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            }
            methods = {item.name: "method" for item in body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}
            classes = {item.name: "class" for item in body if isinstance(item, ast.ClassDef)}
            return {**fields, **methods, **classes}
    return {}


def _commit(root: Path) -> str | None:
    """The commit of the checkout, None when it is no git repository or git is not installed."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
