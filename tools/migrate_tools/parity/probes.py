"""What a scorer does on one input: statements, branches and comparisons, noted by probes in its own modules.

Modules below the chosen folders are rewritten when they are imported: every statement, test, comparison, loop and text
step inside a function passes its value through a probe, which notes it and hands it on unchanged. Used where inputs are
looked for and coverage is counted, never where answers are recorded. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from typing import Any, NamedTuple

from migrate_tools.parity.probe_rewriter import Rewriter, Site

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "In": lambda item, box: item in box,
    "NotIn": lambda item, box: item not in box,
}
PLAIN = frozenset({bool, int, float, str, list, tuple, dict, set, type(None)})
PAIRS_A_SITE = 3
LONGEST = 4000
NOTED = 400
"""Longest text of a noted operand."""


class Pair(NamedTuple):
    """Two values that a scorer compared."""

    site: int
    how: str
    """Eq, Lt, In ... or the name of a text method; "len" for a length against the bound of a slice."""
    left: Any
    right: Any


class Notes:
    """What the probes saw since `begin`, and the places that have a probe."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.seen: set[tuple[int, Any]] = set()
        """(site, what): a side of a branch, a sign of a comparison, the size of a list ..."""
        self.pairs: dict[int, list[Pair]] = {}

    def begin(self) -> None:
        """A new input: forget what the last one did."""
        self.seen = set()
        self.pairs = {}

    def hit(self, site: int) -> None:
        """A statement, handler or case was reached."""
        self.seen.add((site, 1))

    def test(self, site: int, value: Any) -> bool:
        """A condition; its truth is asked for once."""
        if value:
            self.seen.add((site, True))
            return True
        self.seen.add((site, False))
        return False

    def operand(self, site: int, value: Any) -> Any:
        """An operand of `and` or `or`."""
        if type(value) in PLAIN:
            self.seen.add((site, bool(value)))
        return value

    def compare(self, site: int, how: str, left: Any, right: Any) -> Any:
        """A comparison of two operands."""
        result = COMPARE[how](left, right)
        kinds = type(left), type(right)
        if kinds[0] in (int, float) and kinds[1] in (int, float):
            self.seen.add((site, "<" if left < right else ">" if left > right else "="))
            self._pair(site, how, left, right)
        elif kinds[0] is str:
            if type(result) is bool:
                self.seen.add((site, result))
            self._pair(site, how, left, right if kinds[1] is str else None)
        return result

    def method(self, site: int, receiver: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """A call of a text or pattern method."""
        result = getattr(receiver, name)(*args, **kwargs)
        kind = type(result)
        if kind is str:
            text = receiver if type(receiver) is str else args[-1] if args else None
            self.seen.add((site, "same" if result == text else "changed"))
        elif kind is list or kind is tuple:
            self.seen.add((site, min(len(result), 3)))
        elif kind is int:
            self.seen.add((site, (result > 0) - (result < 0)))
        else:
            self.seen.add((site, result is not None and result is not False))
        if type(receiver) is str and args and type(args[0]) is str:
            self._pair(site, name, args[0], receiver)
        return result

    def index(self, site: int, box: Any, place: int) -> Any:
        """An item by a constant position."""
        if type(box) in (list, tuple, str):
            self.seen.add((site, min(len(box), 3)))
        return box[place]

    def bound(self, site: int, box: Any, bound: int) -> Any:
        """What is about to be cut at a constant position."""
        if type(box) in (list, tuple, str):
            size = len(box)
            self.seen.add((site, "<" if size < bound else ">" if size > bound else "="))
            self._pair(site, "len", size, bound)
        return box

    def loop(self, site: int, box: Any) -> Any:
        """What a loop runs over."""
        if type(box) in (list, tuple, str, dict, set):
            self.seen.add((site, min(len(box), 3)))
        return box

    def _pair(self, site: int, how: str, left: Any, right: Any) -> None:
        noted = self.pairs.setdefault(site, [])
        if len(noted) < PAIRS_A_SITE and len(str(left)) <= NOTED:
            noted.append(Pair(site, how, left, right[-LONGEST:] if type(right) is str else right))


def install(folders: Sequence[str]) -> Notes:
    """Puts probes into every module below `folders` that is imported from now on; once a process."""
    notes = Notes()
    for name in ("hit", "test", "operand", "compare", "method", "index", "bound", "loop"):
        setattr(builtins, f"_probe_{name}", getattr(notes, name))
    places = tuple(folders)
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> Any:
        path = loader.get_filename(fullname)
        if not path.startswith(places):
            return original(loader, fullname)
        return compile_probed(ast.parse(loader.get_data(path), path), path, notes)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    return notes


def compile_probed(tree: ast.Module, path: str, notes: Notes) -> Any:
    """The code of a module with probes; without them where the rewritten module does not compile."""
    before = len(notes.sites)
    plain = compile(tree, path, "exec", dont_inherit=True)
    try:
        changed = Rewriter(path, notes.sites).visit(tree)
        return compile(ast.fix_missing_locations(changed), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        del notes.sites[before:]
        return plain
