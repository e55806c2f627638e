"""Rung 1: the example keeps Relax's contract."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from migrate_tools.checks.base import MODES, CheckContext, finding
from migrate_tools.checks.imports import HOOK_DESTS
from migrate_tools.model import CheckResult, ExampleFile, Translation
from migrate_tools.relax.contract import VERSIONS, FlagContract, load_contract, missing_in
from migrate_tools.relax.flag_rules import check_rules

HYDRA = re.compile(r"(?<![\w./${-])[+~]{0,2}[a-z_][a-z_0-9]*(?:\.[a-z_0-9]+)+=")
"""`actor_rollout_ref.rollout.n=8`, `+data.x=1`: an override of a Hydra configuration."""
_SAME_IN_BOTH = "both modes"


class ContractCheck:
    """No verl import, no Hydra syntax, every flag known and well typed, the rules between flags kept."""

    name = "contract"
    rung = 1

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        recorded = {item.launch: _is_recorded(context, item) for item in context.translations}
        with finding(self.name, self.rung) as found:
            for item in context.example.files:
                if item.path.endswith(".py"):
                    found.problems += verl_imports(item)
                elif item.path.endswith(".sh"):
                    found.problems += hydra_words(item)
            warnings: list[str] = []
            used: set[str] = set()
            for translation in context.translations:
                problems, remarks, names = _flags(context, translation)
                found.problems += problems
                warnings += remarks
                used |= names
            contract = load_contract(context.relax_version)
            found.problems += foreign_fields(context.example.files, contract.sample_fields)
            found.problems += missing_scripts(context.translations, contract.model_scripts)
            warnings += unloaded_hooks(used, contract)
            found.evidence |= {
                "relax": contract.title,
                "argv": {launch: "recorded" if yes else "from the tables" for launch, yes in recorded.items()},
                "flags": len(used),
                "warnings": warnings,
                "missing_in": {
                    version: lacking
                    for version in VERSIONS
                    if version != context.relax_version and (lacking := list(missing_in(sorted(used), version)))
                },
            }
            found.summary = f"{len(used)} flags, all known to Relax {contract.title}; no rule is broken"
        return (found.result(),)


def _is_recorded(context: CheckContext, translation: Translation) -> bool:
    """Runs the scripts (their time is the rehearsal's); whether the trainer was reached in every mode it has."""
    modes = [mode for mode in MODES if mode == "sync" or not translation.async_refusal]
    return all([context.rehearsed(translation, mode).argv is not None for mode in modes])


def _flags(context: CheckContext, translation: Translation) -> tuple[list[str], list[str], set[str]]:
    """Errors, warnings and flag names of one launch in both modes."""
    contract = load_contract(context.relax_version)
    gpus = translation.gpus.total if translation.gpus else None
    errors: dict[str, list[str]] = {}
    warnings: dict[str, list[str]] = {}
    names: set[str] = set()
    modes = [mode for mode in MODES if mode == "sync" or not translation.async_refusal]
    for mode in modes:
        parsed = contract.parse(context.argv(translation, mode))
        names |= set(parsed.given)
        for problem in (*parsed.problems, *check_rules(parsed, gpus=gpus)):
            where = errors if problem.severity == "error" else warnings
            where.setdefault(f"{problem.rule}: {problem.text}", []).append(mode)
    label = f"{translation.launch} " if len(context.translations) > 1 else ""
    return _lines(label, errors, modes), _lines(label, warnings, modes), names


def _lines(label: str, found: Mapping[str, Sequence[str]], modes: Sequence[str]) -> list[str]:
    return [
        f"{label}[{_SAME_IN_BOTH if len(where) == len(modes) > 1 else where[0]}] {text}"
        for text, where in found.items()
    ]


def verl_imports(item: ExampleFile) -> list[str]:
    """Imports of verl in a Python file, by its syntax tree; also import_module and __import__ of a literal name."""
    try:
        tree = ast.parse(item.text)
    except SyntaxError:
        return []  # rung 0 says so
    lines: list[str] = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
            first = node.args[0]
            names = [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
        lines += [
            f"{item.path}:{getattr(node, 'lineno', 0)}: imports {name}"
            for name in names
            if name.partition(".")[0] == "verl"
        ]
    return lines


def foreign_fields(files: Iterable[ExampleFile], known: Collection[str]) -> list[str]:
    """Uses of a field that this Relax's Sample does not have: `sample.X` in the example's Python files.

    Fields that the file itself assigns count as known; nothing is said when the fields of Sample are not known.
    """
    if not known:
        return []
    found: list[str] = []
    for item in files:
        if not item.path.endswith(".py") or not item.path.startswith("examples/"):
            continue
        try:
            nodes = [node for node in ast.walk(ast.parse(item.text)) if isinstance(node, ast.Attribute)]
        except SyntaxError:
            continue  # rung 0 says so
        ours = [node for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "sample"]
        ours.sort(key=lambda node: node.lineno)
        own = {node.attr for node in ours if isinstance(node.ctx, ast.Store)}
        missing = {node.attr: node.lineno for node in reversed(ours) if node.attr not in known and node.attr not in own}
        found += [f"{item.path}:{line}: Sample has no {name} in this Relax" for name, line in missing.items()]
    return found


def missing_scripts(translations: Iterable[Translation], known: Collection[str] | None) -> list[str]:
    """Model scripts that a run script sources and this checkout does not have."""
    if known is None:
        return []
    names = sorted({item.model_script for item in translations if item.model_script} - set(known))
    return [f"scripts/models/{name}.sh is not in this Relax checkout" for name in names]


def unloaded_hooks(flags: Iterable[str], contract: FlagContract) -> list[str]:
    """Flags in use that could not be confirmed in the checkout, or name a function that nothing there loads."""
    names = sorted(set(flags))
    lines = [
        f"{name} could not be confirmed: some flags of the checkout are computed"
        for name in names
        if name in contract.unconfirmed
    ]
    for name in names:
        info = contract.find(name)
        if contract.hooks and info is not None and info.dest in HOOK_DESTS and info.dest not in contract.hooks:
            lines.append(f"{name} exists, but no call in the checkout was found that loads its function")
    return lines


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def hydra_words(item: ExampleFile) -> list[str]:
    """Lines of a script with a Hydra override or a verl entry point; comments do not count."""
    found: list[str] = []
    for number, line in enumerate(item.text.splitlines(), 1):
        code = line.strip()
        if code.startswith("#"):
            continue
        if match := HYDRA.search(code):
            found.append(f"{item.path}:{number}: Hydra override {match.group().strip()}")
        elif "verl.trainer" in code:
            found.append(f"{item.path}:{number}: verl entry point")
    return found
