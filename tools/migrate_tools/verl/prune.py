"""Takes branches out of functions when their tests are false for every combination of known values."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from migrate_tools.model import Note, SourceRef
from migrate_tools.verl.pymodule import PyModule
from migrate_tools.verl.truth import UnknownValue, truth

DROPPED, ALWAYS = "reward-branch-dropped", "reward-branch-always"
"""Codes of the notes: a branch that was left out; a test that was left out because it always holds."""
Known: TypeAlias = Mapping[str, tuple[object, ...]]
"""Parameter -> the values it may have."""
Pruned: TypeAlias = cst.BaseStatement | cst.If | cst.Else | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel


def prune(module: PyModule, known: Mapping[str, Known]) -> tuple[str, list[Note]]:
    """The text of a module without the unreachable branches of the named functions."""
    wrapper = MetadataWrapper(cst.parse_module(module.code), unsafe_skip_copy=True)
    transformer = _Prune(module.shown, known, wrapper.resolve(PositionProvider))
    return wrapper.module.visit(transformer).code, transformer.notes


@dataclass(frozen=True)
class _Test:
    always: bool
    never: bool


class _Prune(cst.CSTTransformer):
    def __init__(self, shown: str, known: Mapping[str, Known], positions: Mapping[cst.CSTNode, Any]) -> None:
        super().__init__()
        self.notes: list[Note] = []
        self._shown = shown
        self._known = known
        self._positions = positions
        self._stack: list[str] = []
        self._elifs: set[int] = set()
        self._module = cst.Module(body=[])

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        self._stack.append(node.name.value)
        return True

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self._stack.pop()
        return updated_node

    def visit_If(self, node: cst.If) -> bool:
        if isinstance(node.orelse, cst.If):
            self._elifs.add(id(node.orelse))
        return True

    def leave_If(  # type: ignore[override]  # an `elif` may become an `else`, which the stub does not foresee
        self, original_node: cst.If, updated_node: cst.If
    ) -> Pruned:
        if not self._stack or self._stack[0] not in self._known:
            return updated_node
        result = self._test(original_node.test)
        is_elif = id(original_node) in self._elifs
        if result.never:
            self._note(original_node)
            rest = updated_node.orelse
            if rest is None:
                return cst.RemoveFromParent()
            if is_elif:
                return rest
            if isinstance(rest, cst.Else):
                return self._body(rest.body, updated_node.leading_lines)
            return rest.with_changes(leading_lines=updated_node.leading_lines)
        if result.always:
            self._note(original_node, always=True)
            rest = original_node.orelse
            while isinstance(rest, cst.If):
                self._note(rest)
                rest = rest.orelse
            if is_elif:
                return cst.Else(body=updated_node.body, leading_lines=updated_node.leading_lines)
            return self._body(updated_node.body, updated_node.leading_lines)
        return updated_node

    def _body(
        self, body: cst.BaseSuite, leading: Iterable[cst.EmptyLine]
    ) -> cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        statements: list[cst.BaseStatement] = []
        if isinstance(body, cst.IndentedBlock):
            statements = list(body.body)
        elif isinstance(body, cst.SimpleStatementSuite):
            statements = [cst.SimpleStatementLine(body=body.body)]
        if not statements:
            return cst.RemoveFromParent()
        first = statements[0]
        if isinstance(first, cst.SimpleStatementLine | cst.If):
            statements[0] = first.with_changes(leading_lines=[*leading, *first.leading_lines])
        return cst.FlattenSentinel(statements)

    def _note(self, node: cst.If, *, always: bool = False) -> None:
        text = " ".join(self._module.code_for_node(node.test).split())
        what = "holds for every row: its test" if always else "is never selected by this data and"
        self.notes.append(
            Note(
                code=ALWAYS if always else DROPPED,
                text=f"branch `{text[:160]}` {what} was left out",
                source=SourceRef(file=self._shown, line=self._positions[node].start.line),
            )
        )

    def _test(self, test: cst.BaseExpression) -> _Test:
        try:
            tree = ast.parse(self._module.code_for_node(test).strip(), mode="eval").body
        except SyntaxError:
            return _Test(False, False)
        known = self._known[self._stack[0]]
        names = sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in known})
        results: set[bool | None] = set()
        for values in itertools.product(*(known[name] for name in names)):
            try:
                results.add(truth(tree, dict(zip(names, values, strict=True))))
            except UnknownValue:
                results.add(None)
        return _Test(results == {True}, results == {False})
