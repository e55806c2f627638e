"""Rung 1: the example keeps Relax's contract."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from migrate_tools.checks.base import MODES, CheckContext, finding
from migrate_tools.model import CheckResult, ExampleFile, Translation
from migrate_tools.relax.contract import VERSIONS, load_contract, missing_in
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
            found.evidence |= {
                "relax": context.relax_version,
                "argv": {launch: "recorded" if yes else "from the tables" for launch, yes in recorded.items()},
                "flags": len(used),
                "warnings": warnings,
                "missing_in": {
                    version: lacking
                    for version in VERSIONS
                    if version != context.relax_version and (lacking := list(missing_in(sorted(used), version)))
                },
            }
            found.summary = f"{len(used)} flags, all known to Relax {context.relax_version}; no rule is broken"
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
