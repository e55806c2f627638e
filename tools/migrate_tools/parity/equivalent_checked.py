"""Rules for what an early way out has made sure of: a text that stands once, or first; a number that is whole."""

from __future__ import annotations

import ast
import re._constants as sre  # type: ignore[import-not-found]
from collections.abc import Iterator

from migrate_tools.parity.faults_patterns import parsed
from migrate_tools.parity.mutation import Code, Edit, call_name, number, text
from migrate_tools.parity.value_before import is_stored, value_before

ENDS = frozenset({"find", "rfind", "index", "rindex", "partition", "rpartition"})


def stands_once(code: Code, edit: Edit) -> str:
    """The first for the last place of a text in another that was just found to hold it once."""
    call = code.parents.get(edit.node)
    if edit.operator != "first for last match" or not isinstance(call, ast.Call) or call.func is not edit.node:
        return ""
    if call_name(call) not in ENDS or len(call.args) != 1 or not isinstance(call.func, ast.Attribute):
        return ""
    held, sought = call.func.value, call.args[0]
    if not isinstance(held, ast.Name) or text(sought) in (None, ""):
        return ""
    wanted = (f"{held.id}.count({ast.unparse(sought)}) == 1", f"1 == {held.id}.count({ast.unparse(sought)})")
    known = any(ast.unparse(item) in wanted for item in made_sure(code, held))
    return f"{ast.unparse(sought)} stands there once" if known else ""


def first_anyway(code: Code, edit: Edit) -> str:
    """`match` for `search` with a pattern that begins with a text that was just found to stand first, then anything."""
    call = code.parents.get(edit.node)
    if edit.operator != "strictness" or not isinstance(call, ast.Call) or call_name(call) not in ("search", "match"):
        return ""
    if len(call.args) != 3 or call.keywords or ast.unparse(call.args[2]) not in ("re.DOTALL", "re.S"):
        return ""
    first, held = call.args[:2]
    pattern = text(value_before(code, first) if isinstance(first, ast.Name) else first)
    if pattern is None or not isinstance(held, ast.Name) or ast.unparse(edit.node) not in ("re.search", "re.match"):
        return ""
    head = _head_before_anything(pattern)
    known = head and any(_starts_with(item, held.id, head) for item in made_sure(code, held))
    return "the text starts with what the pattern starts with" if known else ""


def whole_already(code: Code, edit: Edit) -> str:
    """float() for int() of a number that was just found to be whole."""
    node = edit.node
    if edit.operator != "float for int" or not isinstance(node, ast.Call) or len(node.args) != 1:
        return ""
    value, parent = node.args[0], code.parents.get(node)
    if not isinstance(value, ast.Name) or not isinstance(parent, (ast.Compare, ast.BinOp, ast.Return)):
        return ""
    wanted = {f"{value.id} == int({value.id})", f"int({value.id}) == {value.id}", f"{value.id}.is_integer()"}
    known = any(ast.unparse(item) in wanted for item in made_sure(code, value))
    return f"{value.id} is a whole number there" if known else ""


def adds_nothing(code: Code, edit: Edit) -> str:
    """A term is lost that is zero there."""
    node = edit.node
    if edit.operator != "bonus or penalty lost" or not isinstance(node, ast.AugAssign):
        return ""
    value = value_before(code, node.value) if isinstance(node.value, ast.Name) else node.value
    return f"{code.segment(node.value)} is 0 there" if number(value) == 0 else ""


def made_sure(code: Code, name: ast.Name) -> Iterator[ast.expr]:
    """Conditions that hold where a name is used, its value being the same then.

    Of an `if` round the use its condition, or the opposite in its `else`; of one before it that ends with a way out the
    opposite. Parts joined by `and` (of the opposite: by `or`) hold each.
    """
    function = code.function(name)
    if function is None:
        return
    for node in (code.statement(name), *code.above(code.statement(name))):
        parent = code.parents.get(node)
        block = next((b for b in (getattr(parent, f, None) for f in ("body", "orelse")) if _holds(b, node)), None)
        if block is not None:
            for before in reversed(block[: block.index(node)]):
                if isinstance(before, ast.If) and not before.orelse and _leaves(before.body[-1]):
                    yield from _opposites(before.test)
                if is_stored(before, name.id):
                    return
        if isinstance(parent, ast.If) and _holds(parent.body, node):
            yield from _parts(parent.test, ast.And)
        if isinstance(parent, ast.If) and _holds(parent.orelse, node):
            yield from _opposites(parent.test)
        if parent is function or isinstance(parent, (ast.For, ast.While, ast.Try)) and is_stored(parent, name.id):
            return


def _holds(block: object, node: ast.AST) -> bool:
    return isinstance(block, list) and node in block


def _leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _parts(test: ast.expr, joint: type[ast.boolop]) -> list[ast.expr]:
    return list(test.values) if isinstance(test, ast.BoolOp) and isinstance(test.op, joint) else [test]


def _opposites(test: ast.expr) -> Iterator[ast.expr]:
    """What holds when a condition does not."""
    for part in _parts(test, ast.Or):
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
            yield part.operand
        elif isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], (ast.NotEq, ast.Is)):
            other = ast.Eq() if isinstance(part.ops[0], ast.NotEq) else ast.IsNot()
            yield ast.Compare(part.left, [other], part.comparators)


def _starts_with(test: ast.expr, name: str, head: str) -> bool:
    if call_name(test) != "startswith" or not isinstance(test, ast.Call) or not isinstance(test.func, ast.Attribute):
        return False
    held = test.func.value
    known = isinstance(held, ast.Name) and held.id == name and len(test.args) == 1
    return known and text(test.args[0]) == head


def _head_before_anything(pattern: str) -> str:
    """The plain text that a pattern starts with, where `.*` or `.*?` follows; else empty."""
    tree = list(parsed(pattern) or ())
    size = next((place for place, (kind, _) in enumerate(tree) if kind is not sre.LITERAL), len(tree))
    if size == len(tree):
        return ""
    kind, detail = tree[size]
    if kind is sre.SUBPATTERN and not (detail[1] or detail[2]) and len(detail[3]) == 1:
        kind, detail = detail[3][0]
    if kind not in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        return ""
    low, high, inner = detail
    anything = low == 0 and high is sre.MAXREPEAT and [item for item, _ in inner] == [sre.ANY]
    return "".join(chr(value) for _, value in tree[:size]) if anything else ""
