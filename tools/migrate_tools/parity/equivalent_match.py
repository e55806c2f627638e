"""Rules for matches of which only a part counts: whether there is one; the one answer that a server gives."""

from __future__ import annotations

import ast
import re

from migrate_tools.parity.mutation import Code, Edit, call_name, text

ORDER = frozenset({"greedy for lazy", "lazy for greedy"})
"""Changes of the order in which a pattern tries its ways to match, not of what it matches."""
UNORDERED = re.compile(r"\(\?>|\(\?\(|[*+?}]\+")
"""Parts that make the order count for whether there is a match: atomic groups, possessive repeats, conditions."""
ASKED = ("search", "match", "fullmatch")


def only_whether_it_matches(code: Code, edit: Edit) -> str:
    """Greedy or lazy, where nothing but the truth of the match is looked at."""
    call = code.parents.get(edit.node)
    if edit.operator not in ORDER or not isinstance(call, ast.Call) or edit.node not in call.args[:1]:
        return ""
    module = call.func.value if isinstance(call.func, ast.Attribute) else None
    if call_name(call) not in ASKED or getattr(module, "id", "") != "re":
        return ""
    pattern = text(edit.node)
    if pattern is None or UNORDERED.search(pattern):
        return ""
    return "only whether it matches counts" if _is_truth(code, call) or _named_truth(code, call) else ""


def _is_truth(code: Code, node: ast.AST) -> bool:
    """True where nothing but the truth of the value counts, or whether it is None (a match never is false)."""
    parent = code.parents.get(node)
    if isinstance(parent, ast.BoolOp):
        return _is_truth(code, parent)
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id == "bool" and node in parent.args
    if isinstance(parent, ast.UnaryOp):
        return isinstance(parent.op, ast.Not)
    if isinstance(parent, ast.Compare):
        other = parent.comparators[0]
        is_none = isinstance(other, ast.Constant) and other.value is None and len(parent.ops) == 1
        return is_none and parent.left is node and isinstance(parent.ops[0], (ast.Is, ast.IsNot))
    return isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert)) and parent.test is node


def _named_truth(code: Code, call: ast.Call) -> bool:
    """True where the match has a name of its own in a function, and only the truth of the name is looked at."""
    statement, function = code.parents.get(call), code.function(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or function is None:
        return False
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or any(isinstance(n, (ast.Global, ast.Nonlocal)) for n in ast.walk(function)):
        return False
    loads = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == target.id and n is not target]
    return all(isinstance(name.ctx, ast.Store) or _is_truth(code, name) for name in loads)


def one_choice(code: Code, edit: Edit) -> str:
    """The first and the last of the choices of a chat completion, of which nobody asks for more than one."""
    if edit.operator != "first for last match" or edit.text not in ("0", "-1"):
        return ""
    subscript = code.parents.get(edit.node)
    if not isinstance(subscript, ast.Subscript):
        return ""
    held = subscript.value
    key = text(held.slice) if isinstance(held, ast.Subscript) else getattr(held, "attr", "")
    return "a server gives one choice unless asked for more" if key == "choices" and not _asks_for_more(code) else ""


def _asks_for_more(code: Code) -> bool:
    """True when a request may have a number of choices: `n`, `best_of`, or arguments that are not seen here."""
    for node in ast.walk(code.tree):
        if isinstance(node, ast.keyword) and node.arg in ("n", "best_of"):
            return True
        if isinstance(node, ast.Call) and call_name(node) == "create" and any(k.arg is None for k in node.keywords):
            return True
        if isinstance(node, ast.Constant) and node.value in ("n", "best_of"):
            return True
    return False
