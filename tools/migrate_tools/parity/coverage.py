"""Which lines of the scorer ran: cheap line tracing that switches itself off line by line."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

TOOL = 3


class LineTrace:
    """Collects "file:line" of the given files while started; every line is reported once.

    Uses sys.monitoring where there is one (3.12), else sys.settrace.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._files = frozenset(files)
        self._seen: set[str] = set()
        self._fresh: list[str] = []
        self._monitor: Any = getattr(sys, "monitoring", None)
        if self._monitor is not None and self._files:
            self._monitor.use_tool_id(TOOL, "migrate-agent")
            self._monitor.register_callback(TOOL, self._monitor.events.LINE, self._line_event)

    def start(self) -> None:
        """Begins to watch."""
        if not self._files:
            return
        if self._monitor is not None:
            self._monitor.set_events(TOOL, self._monitor.events.LINE)
        else:
            sys.settrace(self._call)

    def stop(self) -> None:
        """Ends watching."""
        if not self._files:
            return
        if self._monitor is not None:
            self._monitor.set_events(TOOL, 0)
        else:
            sys.settrace(None)

    def new_lines(self) -> list[str]:
        """Lines seen since the last call and never before."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def _note(self, file: str, line: int) -> None:
        name = f"{file}:{line}"
        if name not in self._seen:
            self._seen.add(name)
            self._fresh.append(name)

    def _line_event(self, code: CodeType, line: int) -> Any:
        if code.co_filename in self._files:
            self._note(code.co_filename, line)
        return self._monitor.DISABLE

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self._note(frame.f_code.co_filename, frame.f_lineno)
        return self._line


def body_lines(path: Path, functions: Sequence[str] | None = None) -> set[int]:
    """Lines with a statement inside the functions of a file (of all when none are named); empty on bad syntax."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, OSError):
        return set()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if functions is not None and node.name not in functions:
            continue
        lines.update(_statements(node))
    return lines


def functions_at(path: Path, lines: set[int]) -> set[str]:
    """Names of the innermost functions that hold these lines."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, OSError):
        return set()
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    nodes.sort(key=lambda node: node.lineno)
    names: set[str] = set()
    for line in lines:
        inside = [node.name for node in nodes if node.lineno <= line <= (node.end_lineno or node.lineno)]
        names.update(inside[-1:])
    return names


def _statements(node: ast.AST) -> set[int]:
    found: set[int] = set()
    for child in ast.walk(node):
        if not isinstance(child, ast.stmt) or child is node:
            continue
        docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if not docstring and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Try)):
            found.add(child.lineno)
    return found
