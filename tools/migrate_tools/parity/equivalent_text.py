"""A rule for texts cut out by a pattern: a character that the pattern cannot match is not there to be removed."""

from __future__ import annotations

import ast
import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parse  # type: ignore[import-not-found]
import warnings
from collections.abc import Callable
from typing import Any

from migrate_tools.parity.mutation import Code, Edit, call_name, is_text_statement, number, text
from migrate_tools.parity.value_before import stores, value_before

BLANK = "".join(char for char in map(chr, range(0x110000)) if char.isspace())
STRIPS = frozenset({"strip", "lstrip", "rstrip"})
SPLITS = frozenset({"split", "rsplit", "splitlines", "partition", "rpartition"})
CLASSES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdecimal,
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
}
OPPOSITES = {
    sre.CATEGORY_NOT_DIGIT: sre.CATEGORY_DIGIT,
    sre.CATEGORY_NOT_SPACE: sre.CATEGORY_SPACE,
    sre.CATEGORY_NOT_WORD: sre.CATEGORY_WORD,
}
REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)
SEARCHES = frozenset({"search", "match", "fullmatch"})


def not_there_to_remove(code: Code, edit: Edit) -> str:
    """A `replace` or `strip` is lost on a text that holds nothing of what it removes."""
    node = edit.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return ""
    if edit.text != code.segment(node.func.value) or code.function(node) is None:
        return ""
    removed = text(node.args[0]) if node.args else None
    if node.func.attr == "replace" and len(node.args) == 2 and removed:
        if any(not _Text(code, char).may_stand_in(node.func.value) for char in set(removed)):
            return f"the pattern before it cannot match {removed!r}"
    elif node.func.attr in STRIPS and len(node.args) < 2 and (removed or not node.args):
        chars = BLANK if removed is None else removed
        if not any(_Text(code, char).may_stand_in(node.func.value) for char in chars):
            return "the pattern before it matches nothing that could be stripped"
    return ""


def gives_back_what_it_gets(code: Code, edit: Edit) -> str:
    """A call of an own function is lost that returns its argument as it is."""
    name = call_name(edit.node)
    if (
        edit.operator != "normalisation step dropped"
        or name not in code.functions
        or not isinstance(edit.node, ast.Call)
    ):
        return ""
    if not isinstance(edit.node.func, ast.Name) or edit.text != f"({code.segment(edit.node.args[0])})":
        return ""
    function = code.functions[name]
    body = [item for item in function.body if not is_text_statement(item)]
    parameters = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    value = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    same = isinstance(value, ast.Name) and parameters[:1] == [value.id] and not function.decorator_list
    return f"{name} gives back what it gets" if same and isinstance(function, ast.FunctionDef) else ""


def has_no_blank(code: Code, node: ast.expr) -> bool:
    """True for a text that holds no blank in any case: one that a pattern without blanks has cut out."""
    return not any(_Text(code, char).may_stand_in(node) for char in BLANK)


class _Text:
    """Whether one character may stand in the value of an expression, always a text. What is not known may be."""

    def __init__(self, code: Code, char: str) -> None:
        self._code, self._char = code, char

    def may_stand_in(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return not isinstance(node.value, str) or self._char in node.value
        if isinstance(node, ast.Name):
            value = value_before(self._code, node)
            return value is None or self.may_stand_in(value)
        if isinstance(node, ast.Subscript):
            return self._part(node)
        return self._of_method(node)

    def _part(self, node: ast.Subscript) -> bool:
        """An item of what `findall` or `split` gives, or a piece of a text."""
        if isinstance(node.slice, ast.Slice):
            return self.may_stand_in(node.value)
        whole = value_before(self._code, node.value) if isinstance(node.value, ast.Name) else node.value
        if call_name(whole or node) == "findall":
            return self._matched(whole, None)
        return self.may_stand_in(node.value) if call_name(node.value) in SPLITS else True

    def _of_method(self, node: ast.expr) -> bool:
        """A method of a text that leaves out characters, adds none but those of its arguments; a match's group."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return True
        name, value = node.func.attr, node.func.value
        if name == "group":
            return self._group(node, value)
        if name == "replace" and len(node.args) == 2:
            new = text(node.args[1])
            return new is None or self._char in new or self.may_stand_in(value)
        return self.may_stand_in(value) if name in SPLITS or name in STRIPS else True

    def _group(self, call: ast.Call, match: ast.expr) -> bool:
        which = number(call.args[0]) if call.args else 0
        found = value_before(self._code, match) if isinstance(match, ast.Name) else None
        known = isinstance(which, int) and found is not None and call_name(found) in SEARCHES
        return not known or self._matched(found, which)  # type: ignore[arg-type]

    def _matched(self, call: ast.expr | None, group: int | None) -> bool:
        """True when the pattern of a call of `re` may match the character, or is not known."""
        if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Attribute):
            return True
        if len(call.args) == 1:
            pattern = _compiled(self._code, call.func.value)
        elif len(call.args) == 2 and getattr(call.func.value, "id", "") == "re":
            pattern = text(call.args[0])
        else:
            return True
        return pattern is None or may_match(pattern, self._char, group)


def _compiled(code: Code, node: ast.expr) -> str | None:
    """The pattern of a name of the module that is given `re.compile(pattern)` once, without flags; else None."""
    if not isinstance(node, ast.Name) or len(found := list(stores(code.tree, node.id))) != 1:
        return None
    statement = code.parents.get(found[0])
    made = statement.value if isinstance(statement, ast.Assign) and statement in code.tree.body else None
    if not isinstance(made, ast.Call) or ast.unparse(made.func) != "re.compile" or len(made.args) != 1 or made.keywords:
        return None
    return text(made.args[0])


def may_match(pattern: str, char: str, group: int | None = 0) -> bool:
    """Whether the character may stand in what the pattern matches; what is not understood may be.

    Args:
        group: number of the group; 0 is the whole match; None is what `re.findall` gives.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = sre_parse.parse(pattern)
            groups = re.compile(pattern).groups
    except (re.error, RecursionError, OverflowError):
        return True
    if tree.state.flags & ~(re.UNICODE | re.DOTALL | re.MULTILINE):
        return True
    always = True  # a group that took no part is None
    if group is None:
        if groups > 1:
            return True
        group, always = groups, False
    part = tree if group == 0 else _find(tree, group, always)
    return part is None or _any_holds(part, char)


def _find(tree: Any, group: int, always: bool) -> Any:
    """The part of the pattern that a group is; None where it may be left out and `always` is wanted."""
    for kind, detail in tree:
        if kind is sre.SUBPATTERN and detail[0] == group:
            return detail[3]
        if always and (kind is sre.BRANCH or kind in REPEATS and not detail[0]):
            continue
        for inner in _inner(kind, detail):
            if (found := _find(inner, group, always)) is not None:
                return found
    return None


def _inner(kind: Any, detail: Any) -> list[Any]:
    if kind is sre.SUBPATTERN:
        return [detail[3]]
    if kind is sre.BRANCH:
        return list(detail[1])
    return [detail[2]] if kind in REPEATS else []


def _any_holds(tree: Any, char: str) -> bool:
    return any(_holds(kind, detail, char) for kind, detail in tree)


def _holds(kind: Any, detail: Any, char: str) -> bool:
    if kind is sre.LITERAL:
        return chr(detail) == char
    if kind is sre.NOT_LITERAL:
        return chr(detail) != char
    if kind is sre.IN:
        return _in_set(detail, char)
    if kind in (sre.AT, sre.ASSERT, sre.ASSERT_NOT):
        return False  # nothing is matched there
    if kind is sre.SUBPATTERN and (detail[1] or detail[2]):
        return True  # flags of its own
    inner = _inner(kind, detail)
    return any(_any_holds(part, char) for part in inner) if inner else True


def _in_set(options: Any, char: str) -> bool:
    negated = bool(options) and options[0][0] is sre.NEGATE
    return any(_is_option(kind, detail, char) for kind, detail in options[negated:]) != negated


def _is_option(kind: Any, detail: Any, char: str) -> bool:
    if kind is sre.LITERAL:
        return chr(detail) == char
    if kind is sre.RANGE:
        return detail[0] <= ord(char) <= detail[1]  # type: ignore[no-any-return]
    if detail in OPPOSITES:
        return not CLASSES[OPPOSITES[detail]](char)
    return CLASSES[detail](char)
