"""Rules for matches of which only a part counts: whether there is one; the one answer that a server gives."""

from __future__ import annotations

import ast
import re
import re._constants as sre  # type: ignore[import-not-found]

from migrate_tools.parity.faults_patterns import parsed
from migrate_tools.parity.mutation import Code, Edit, call_name, text
from migrate_tools.parity.value_before import value_before

ORDER = frozenset({"greedy for lazy", "lazy for greedy"})
"""Changes of the order in which a pattern tries its ways to match, not of what it matches."""
UNORDERED = re.compile(r"\(\?>|\(\?\(|[*+?}]\+")
"""Parts that make the order count for whether there is a match: atomic groups, possessive repeats, conditions."""
SAME_START = frozenset({"DOTALL", "S", "IGNORECASE", "I", "ASCII", "A", "VERBOSE", "X", "UNICODE", "U"})
"""Flags with which `^` is the start of the text and of no line."""
STARTS = (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)
ASKED = ("search", "match", "fullmatch")


def only_whether_it_matches(code: Code, edit: Edit) -> str:
    """Greedy or lazy, where nothing but the truth of the match is looked at."""
    call = code.parents.get(edit.node)
    if edit.operator not in ORDER or not isinstance(call, ast.Call) or edit.node not in call.args[:1]:
        return ""
    pattern = text(edit.node)
    if not _of_re(call) or pattern is None or UNORDERED.search(pattern):
        return ""
    found = _uses(code, call) if call_name(call) == "compile" else [call]
    asked = found and all(
        call_name(one) in ASKED and (_is_truth(code, one) or _named_truth(code, one)) for one in found
    )
    return "only whether it matches counts" if asked else ""


def whole_anyway(code: Code, edit: Edit) -> str:
    """`match` for `fullmatch` with a pattern that takes all the rest at its end."""
    call = code.parents.get(edit.node)
    if edit.operator != "strictness" or not edit.text.endswith(".match") or call_name(call or edit.node) != "fullmatch":
        return ""
    if not isinstance(call, ast.Call) or not call.args or not _of_re(call):
        return ""
    first = call.args[0]
    made = value_before(code, first) if isinstance(first, ast.Name) else call
    if not isinstance(made, ast.Call) or not _of_re(made) or call_name(made) not in ("compile", "fullmatch"):
        return ""
    pattern, flags = text(made.args[0]) if made.args else None, ast.unparse(made.args[-1])
    if pattern is None or len(made.args) != (2 if made is not call else 3) or flags not in ("re.DOTALL", "re.S"):
        return ""
    return "the pattern takes all the rest" if _takes_the_rest(pattern) else ""


def from_the_start(code: Code, edit: Edit) -> str:
    """`match` for `search`, or the other way round, with a pattern that only matches at the start of a text."""
    call = code.parents.get(edit.node)
    if edit.operator != "strictness" or not isinstance(call, ast.Call) or call.func is not edit.node:
        return ""
    if call_name(call) not in ("search", "match") or not _of_re(call) or not 2 <= len(call.args) <= 3 or call.keywords:
        return ""
    flags = set(re.findall(r"\w+", ast.unparse(call.args[2]).replace("re.", ""))) if call.args[2:] else set()
    first = call.args[0]
    pattern = text(value_before(code, first) if isinstance(first, ast.Name) else first)
    starts = pattern is not None and flags <= SAME_START and _starts(pattern)
    return "the pattern matches at the start only" if starts else ""


def _starts(pattern: str) -> bool:
    r"""True for a pattern whose first part is `^` or `\A`, without flags of its own."""
    if (tree := parsed(pattern)) is None:
        return False
    multiline = tree.state.flags & re.MULTILINE
    return bool(len(tree)) and tree[0][0] is sre.AT and tree[0][1] in STARTS and not multiline


def _takes_the_rest(pattern: str) -> bool:
    """True for a pattern that ends with `.*`, in no branch."""
    tree = list(parsed(pattern) or ())
    if not tree or tree[-1][0] is not sre.MAX_REPEAT:
        return False
    low, high, inner = tree[-1][1]
    return low == 0 and high is sre.MAXREPEAT and [kind for kind, _ in inner] == [sre.ANY]


def _of_re(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "re"


def _uses(code: Code, compiled: ast.Call) -> list[ast.Call]:
    """Every call that a compiled pattern is used in, by its own name; none when it may be used elsewhere."""
    statement = code.parents.get(compiled)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, ast.Name):
        return []
    scope = code.function(statement) if isinstance(statement, ast.Assign) else None
    found: list[ast.Call] = []
    for node in ast.walk(scope or code.tree):
        if not isinstance(node, ast.Name) or node.id != target.id or node is target:
            continue
        parent = code.parents.get(node)
        call = code.parents.get(parent) if isinstance(parent, ast.Attribute) else parent
        by_re = isinstance(call, ast.Call) and call.args[:1] == [node] and _of_re(call)
        if not isinstance(call, ast.Call) or not (by_re or call.func is parent):
            return []
        found.append(call)
    return found


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


def end_taken(code: Code, edit: Edit) -> ast.Subscript | None:
    """What takes the first for the last, or the last for the first; None for any other change."""
    if edit.operator != "first for last match" or edit.text not in ("0", "-1"):
        return None
    subscript = code.parents.get(edit.node)
    return subscript if isinstance(subscript, ast.Subscript) else None


def one_choice(code: Code, edit: Edit) -> str:
    """The first and the last of the choices of a chat completion, of which nobody asks for more than one."""
    subscript = end_taken(code, edit)
    if subscript is None:
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
