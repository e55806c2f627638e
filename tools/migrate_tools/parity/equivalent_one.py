"""A rule for lists that hold one item at most: the first of them is the last, and there is no more than the first."""

from __future__ import annotations

import ast

from migrate_tools.parity.equivalent_match import end_taken
from migrate_tools.parity.mutation import Code, Edit, FunctionNode, call_name
from migrate_tools.parity.value_before import arguments_for, stores, value_before

DEEPEST = 14
COPIES = frozenset({"list", "tuple", "sorted", "reversed"})
SHOWERS = frozenset({"len", "print", "str", "repr", "bool"})
"""Built-in functions that leave a list that they are given as it is, and its items too."""
READERS = frozenset({*COPIES, *SHOWERS, "zip", "enumerate", "sum", "min", "max", "any", "all"})
"""Built-in functions that leave the list as it is, though they may hand out its items."""
ONLY_READ = frozenset({"count", "index", "copy"})


def one_item_at_most(code: Code, edit: Edit) -> str:
    """First for last, or only the first, of a list that no way through the module gives a second item."""
    subscript = end_taken(code, edit)
    listed = subscript.value if subscript is not None else edit.node
    if subscript is None and edit.operator != "only the first of a list" or not isinstance(listed, ast.expr):
        return ""
    return "the list has one item at most" if _one(code, listed, 0, DEEPEST) else ""


def _one(code: Code, node: ast.expr, inside: int, depth: int) -> bool:
    """True when a list has one item at most; of `inside` > 0: the items of its items, so many levels down, have."""
    if depth == 0:
        return False
    if isinstance(node, (ast.List, ast.Tuple)):
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return False
        return all(_one(code, item, inside - 1, depth - 1) for item in node.elts) if inside else len(node.elts) <= 1
    if isinstance(node, ast.ListComp):
        alone = len(node.generators) == 1 and not inside
        return alone and _one(code, node.generators[0].iter, 0, depth - 1)
    if isinstance(node, ast.Name):
        return _named(code, node, inside, depth)
    return isinstance(node, ast.Call) and _called(code, node, inside, depth)


def _called(code: Code, node: ast.Call, inside: int, depth: int) -> bool:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in code.functions:
        return not inside and _returns_one(code, code.functions[name], depth - 1)
    if name == "zip" and not inside:
        return any(_one(code, item, 0, depth - 1) for item in node.args if not isinstance(item, ast.Starred))
    return name in COPIES and bool(node.args) and _one(code, node.args[0], inside, depth - 1)


def _named(code: Code, name: ast.Name, inside: int, depth: int) -> bool:
    """What a name was given, where nothing adds to it afterwards; an item of what a loop goes through."""
    function = code.function(name)
    if function is None or not _unchanged(code, function, name.id, inside, depth):
        return False
    loop = _loop(code, name)
    if loop is not None:
        return _one(code, loop, inside + 1, depth - 1)
    if (value := value_before(code, name)) is not None:
        return _one(code, value, inside, depth - 1)
    given = list(arguments_for(code, function, name.id))
    return bool(given) and all(item is not None and _one(code, item, inside, depth - 1) for item in given)


def _loop(code: Code, name: ast.Name) -> ast.expr | None:
    """What the loop with this very name as its target goes through; None when the name is stored elsewhere."""
    for item in code.above(name):
        loops = item.generators if isinstance(item, (ast.ListComp, ast.GeneratorExp, ast.SetComp)) else [item]
        for loop in loops:
            if not isinstance(loop, (ast.For, ast.comprehension)) or name in set(ast.walk(loop.iter)):
                continue
            if isinstance(loop.target, ast.Name) and loop.target.id == name.id:
                return loop.iter if len(list(stores(item, name.id))) == 1 else None
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None
    return None


def _unchanged(code: Code, function: FunctionNode, name: str, inside: int, depth: int) -> bool:
    """True when a function only reads the list of this name, and so does every own function that it hands it to.

    Of `inside` > 0 the lists in it, so many levels down, are only read too.
    """
    if depth == 0 or any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in ast.walk(function)):
        return False
    uses = (node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name)
    return all(_only_read(code, function, use, inside, depth) for use in uses if isinstance(use.ctx, ast.Load))


def _only_read(code: Code, function: FunctionNode, use: ast.Name, inside: int, depth: int) -> bool:
    parent = code.parents.get(use)
    if isinstance(parent, ast.Subscript):
        within = code.parents.get(parent)
        deeper = isinstance(within, ast.Subscript) and within.value is parent and inside == 1
        return parent.value is not use or isinstance(parent.ctx, ast.Load) and (not inside or deeper)
    if isinstance(parent, ast.Attribute):
        return parent.attr in ONLY_READ and not inside
    if isinstance(parent, (ast.For, ast.comprehension)):
        target = parent.target
        named = isinstance(target, ast.Name) and _unchanged(code, function, target.id, inside - 1, depth - 1)
        return parent.iter is use and (not inside or named)
    call = code.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call):
        return isinstance(parent, (ast.Compare, ast.If, ast.FormattedValue))
    target_name = call.func.id if isinstance(call.func, ast.Name) else ""
    if target_name not in code.functions:
        return target_name in (SHOWERS if inside else READERS)
    given = _parameter(code.functions[target_name], call, parent if isinstance(parent, ast.keyword) else use)
    return given is not None and _unchanged(code, code.functions[target_name], given, inside, depth - 1)


def _parameter(function: FunctionNode, call: ast.Call, given: ast.Name | ast.keyword) -> str | None:
    """The parameter that an argument of a call is given to; None when that is not certain."""
    names = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(given, ast.keyword):
        return given.arg if given.arg in names else None
    place = call.args.index(given)
    return names[place] if place < len(names) and not any(isinstance(item, ast.Starred) for item in call.args) else None


def _returns_one(code: Code, function: FunctionNode, depth: int) -> bool:
    """True when a function returns a list of one item at most, also one that a loop of one turn at most adds to."""
    inside = [node for node in ast.walk(function) if code.function(node) is function]
    returned = [node.value for node in inside if isinstance(node, ast.Return)]
    if isinstance(function, ast.AsyncFunctionDef) or any(
        isinstance(node, (ast.Yield, ast.YieldFrom)) for node in inside
    ):
        return False
    return bool(returned) and all(
        value is not None and (_one(code, value, 0, depth) or _collected(code, function, value, depth))
        for value in returned
    )


def _collected(code: Code, function: FunctionNode, value: ast.expr, depth: int) -> bool:
    """True for a name that starts as an empty list and gets one item at most from one loop of one turn at most."""
    if not isinstance(value, ast.Name) or len(stored := list(stores(function, value.id))) != 1:
        return False
    start = code.parents.get(stored[0])
    if not isinstance(start, ast.Assign) or ast.unparse(start.value) not in ("[]", "list()"):
        return False
    added: list[ast.stmt] = []
    for use in (node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == value.id):
        returned = isinstance(code.parents.get(use), ast.Return)
        if isinstance(use.ctx, ast.Load) and not returned and not _only_read(code, function, use, 0, depth):
            holder = code.parents.get(use)
            call = code.parents.get(holder) if isinstance(holder, ast.Attribute) else None
            statement = code.statement(use)
            if call_name(call or use) != "append" or not isinstance(statement, ast.Expr) or statement.value is not call:
                return False
            added.append(statement)
    loops = {_outer_loop(code, statement) for statement in added}
    loop = next(iter(loops), None)
    if len(loops) != 1 or not isinstance(loop, ast.For) or not _one(code, loop.iter, 0, depth - 1):
        return False
    return all(statement is loop.body[-1] or _then_continues(code, statement) for statement in added)


def _outer_loop(code: Code, statement: ast.stmt) -> ast.AST | None:
    """The one loop round a statement; None when there is none or more than one."""
    loops = [item for item in code.above(statement) if isinstance(item, (ast.For, ast.While, ast.AsyncFor))]
    return loops[0] if len(loops) == 1 else None


def _then_continues(code: Code, statement: ast.stmt) -> bool:
    """True where `continue` follows the statement at once."""
    parent = code.parents.get(statement)
    for field in ("body", "orelse"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and statement in block:
            place = block.index(statement) + 1
            return place < len(block) and isinstance(block[place], ast.Continue)
    return False
