"""Finer mutants than those that measure: they only lead the search for inputs.

Every comparison, entry of a table, step, call, bound and part of a pattern is changed in each way that a port may get
it wrong, so that an input is looked for wherever two versions of a scorer can part.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrate_tools.parity.faults_patterns import RE_CALLS, literal, parsed, pattern_of
from migrate_tools.parity.mutation import Code, Edit, call_name, number, text
from migrate_tools.parity.pattern_mutants import pattern_mutants

RELATIONS: dict[type, tuple[str, ...]] = {
    ast.Lt: ("<=", "!=", ">"),
    ast.LtE: ("<", "=="),
    ast.Gt: (">=", "!=", "<"),
    ast.GtE: (">", "=="),
    ast.Eq: ("<=", ">="),
    ast.NotEq: ("<", ">"),
}
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
METHODS = {
    "lower": ("casefold", "upper"),
    "casefold": ("lower",),
    "upper": ("lower", "title"),
    "strip": ("lstrip", "rstrip"),
    "isdigit": ("isdecimal", "isnumeric", "isalnum"),
    "isnumeric": ("isdigit",),
    "isdecimal": ("isdigit",),
    "isalpha": ("isalnum",),
    "startswith": ("endswith", "__contains__"),
    "endswith": ("startswith", "__contains__"),
    "removeprefix": ("lstrip",),
    "removesuffix": ("rstrip",),
    "append": ("count",),
    "update": ("count",),
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "findall": "search"}
DROPPED = frozenset({"abs", "sorted", "set", "str", "float", "int", "list", "reversed", "dict", "tuple", "frozenset"})
BITS: dict[type, str] = {ast.BitAnd: "|", ast.BitOr: "&"}
FLAG_CALLS = RE_CALLS - {"split", "sub", "subn"}


def relations(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Another comparison; of a chain, one part of it."""
    if not isinstance(node, ast.Compare):
        return
    parts = [node.left, *node.comparators]
    signs = [code.source_between(one, other) for one, other in zip(parts, parts[1:], strict=False)]
    texts = [code.operand(part) for part in parts]
    for place, sign in enumerate(node.ops):
        for other in RELATIONS.get(type(sign), ()):
            chain = "".join(
                f"{item} {other if number_ == place else signs[number_]} " for number_, item in enumerate(texts[:-1])
            )
            yield Edit("relation", node, f"({chain}{texts[-1]})")
    for place in range(len(signs)) if len(signs) > 1 else ():
        yield Edit("relation", node, f"({texts[place]} {signs[place]} {texts[place + 1]})")


def operands(code: Code, node: ast.AST) -> Iterator[Edit]:
    """One operand of a condition or of a calculation alone; the two of a subtraction change places."""
    if isinstance(node, ast.BoolOp):
        word = " and " if isinstance(node.op, ast.And) else " or "
        for lost in node.values:
            kept = [code.operand(value) for value in node.values if value is not lost]
            yield Edit("operand lost", node, f"({word.join(kept)})")
    elif isinstance(node, ast.BinOp):
        left, right = code.operand(node.left), code.operand(node.right)
        yield Edit("operand lost", node, left)
        yield Edit("operand lost", node, right)
        if isinstance(node.op, (ast.Sub, ast.Div)):
            yield Edit("operands swapped", node, f"({right} {'-' if isinstance(node.op, ast.Sub) else '/'} {left})")
        if type(node.op) in BITS:
            yield Edit("operator", node, f"({left} {BITS[type(node.op)]} {right})")
    elif isinstance(node, ast.IfExp):
        yield Edit("choice", node, f"({code.segment(node.body)})")
        yield Edit("choice", node, f"({code.segment(node.orelse)})")


def steps(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A statement that changes a name, adds to one, or leaves a loop is not there, or does it once."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name, function = node.targets[0].id, code.function(node)
        if function is not None and _known_before(function, node, name):
            yield Edit("step lost", node, "pass")
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield Edit("step lost", node, "pass")
    elif isinstance(node, ast.Continue):
        yield Edit("loop", node, "break")
    elif isinstance(node, ast.Break):
        yield Edit("loop", node, "continue")
    elif isinstance(node, (ast.For, ast.comprehension)):
        whole = code.segment(node.iter)
        for form in (f"list({whole})[:1]", f"list({whole})[1:]", f"list({whole})[::-1]", f"list({whole})[:-1]"):
            yield Edit("loop", node.iter, form)
        for test in getattr(node, "ifs", ()):
            yield Edit("condition", test, "True")


def _known_before(function: ast.AST, node: ast.Assign, name: str) -> bool:
    names = [item for item in ast.walk(function) if isinstance(item, (ast.Name, ast.arg))]
    earlier = (
        item for item in names if item.lineno < node.lineno and not isinstance(getattr(item, "ctx", 0), ast.Load)
    )
    return any(getattr(item, "id", getattr(item, "arg", "")) == name for item in earlier)


def entries(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A table without one of its entries."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)) and len(node.elts) > 1:
        caught = isinstance(code.parents.get(node), ast.ExceptHandler)
        free = caught or isinstance(node, (ast.Set, ast.List)) or all(map(_plain, node.elts))
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or not free:
            return
        parts = [code.segment(item) for item in node.elts]
        opening, closing = {ast.List: ("[", "]"), ast.Set: ("{", "}")}.get(type(node), ("(", ",)"))
        for place in range(len(parts)):
            yield Edit("entry", node, f"{opening}{', '.join(parts[:place] + parts[place + 1 :])}{closing}")
    elif isinstance(node, ast.Dict) and len(node.keys) > 1 and all(node.keys):
        pairs = [(code.segment(k), code.segment(v)) for k, v in zip(node.keys, node.values, strict=True) if k]
        for lost in range(len(pairs)):
            kept = [f"{key}: {value}" for place, (key, value) in enumerate(pairs) if place != lost]
            yield Edit("entry", node, "{" + ", ".join(kept) + "}")


def _plain(node: ast.AST) -> bool:
    return isinstance(node, (ast.Constant, ast.UnaryOp)) or (
        isinstance(node, (ast.Tuple, ast.List)) and all(map(_plain, node.elts))
    )


def calls(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Another method of the same kind, a function that is not applied, one side of a pair of functions."""
    if not isinstance(node, ast.Call):
        return
    name, arguments = call_name(node), [code.segment(item) for item in node.args]
    if isinstance(node.func, ast.Attribute):
        of = code.segment(node.func.value)
        for other in METHODS.get(name, ()):
            yield Edit("method", node, f"{of}.{other}({', '.join(arguments)})")
        if name in ("strip", "lstrip", "rstrip", "split") and not arguments:
            yield Edit("method", node, f'{of}.{name}(" ")')
        if name == "replace" and len(arguments) == 2:
            yield Edit("method", node, f"{of}.replace({', '.join(arguments)}, 1)")
        if name == "splitlines":
            yield Edit("method", node, f'{of}.split("\\n")')
        if name in ("sub", "subn") and len(arguments) in (2, 3) and not node.keywords:
            yield Edit("method", node, f"{code.segment(node.func)}({', '.join(arguments)}, count=1)")
        if name in FLAG_CALLS and getattr(node.func.value, "id", "") in ("re", "regex") and not node.keywords:
            for flag in ("IGNORECASE", "DOTALL", "MULTILINE", "ASCII"):
                if len(arguments) <= (1 if name == "compile" else 2) and _matters(flag, text(node.args[0])):
                    yield Edit(
                        "pattern flag", node, f"{code.segment(node.func)}({', '.join(arguments)}, flags=re.{flag})"
                    )
    elif isinstance(node.func, ast.Name):
        if name in CALLS and name not in code.functions:
            yield Edit("call", node, f"{CALLS[name]}({', '.join(arguments)})")
        if name in DROPPED and len(arguments) == 1 or name in code.functions and len(arguments) == 1:
            yield Edit("call", node, f"({arguments[0]})")
        if name in ("min", "max") and len(arguments) == 2:
            for argument in arguments:
                yield Edit("call", node, f"({argument})")


def _matters(flag: str, pattern: str | None) -> bool:
    """False where a flag certainly changes nothing of a pattern."""
    if pattern is None:
        return True
    plain = re.sub(r"\\.", "", pattern)
    looked_for = {"IGNORECASE": "[A-Za-z]", "DOTALL": r"\.", "MULTILINE": r"[$^]", "ASCII": r"\\[dwsb]"}[flag]
    return bool(re.search(looked_for, pattern if flag == "ASCII" else plain))


def amounts(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A number a little less or twice as large; a bound of a slice one less or one more; a text in another case."""
    parent = code.parents.get(node)
    if isinstance(parent, (ast.UnaryOp, ast.MatchValue)) or not isinstance(node, (ast.Constant, ast.UnaryOp)):
        return
    value = number(node)
    if value is not None:
        step = 1 if isinstance(value, int) else 0.01
        for other in (value - step, value + step, value * 2, -value):
            yield Edit("amount", node, repr(round(other, 6)))
    elif (string := text(node)) is not None and len(string) > 1 and call_name(parent or node) not in RE_CALLS:
        for other_text in (string.upper(), string.lower(), string[:-1], string[1:], string.strip()):
            if other_text != string:
                yield Edit("text", node, repr(other_text))


def bounds(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A bound of a slice one more or one less."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load):
        for bound in (node.slice.lower, node.slice.upper):
            if bound is not None and number(bound) is None:
                yield Edit("bound", bound, f"({code.segment(bound)}) - 1")


def patterns(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Parts of a regular expression."""
    found = pattern_of(node)
    if found is None:
        return
    place, pattern = found
    for changed in pattern_mutants(pattern):
        if changed != pattern and parsed(changed) is not None:
            yield Edit("pattern", place, literal(changed))


def returns(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A loop that returns in its first turn; nothing where an empty value is returned."""
    if isinstance(node, ast.Return) and isinstance(node.value, (ast.Call, ast.Name, ast.Subscript)):
        yield Edit("empty", node.value, f"({code.segment(node.value)} or None)")
    if isinstance(node, ast.For) and (function := code.function(node)) is not None:
        last = function.body[-1]
        if isinstance(last, ast.Return) and isinstance(node.body[-1], ast.If) and not node.body[-1].orelse:
            indent = " " * node.body[-1].col_offset
            yield Edit("loop", node.body[-1], f"{code.segment(node.body[-1])}\n{indent}{code.segment(last)}")


def sides(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A function that is applied to one side of a comparison only; equal for contained, both ways round."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return
    left, right = code.segment(node.left), code.segment(node.comparators[0])
    constant = any(isinstance(side, ast.Constant) for side in (node.left, node.comparators[0]))
    if isinstance(node.ops[0], ast.Eq) and not constant:
        yield Edit("sides", node, f"(str({left}) in str({right}))")
        yield Edit("sides", node, f"(str({right}) in str({left}))")
        yield Edit("sides", node, f"(str({left}).lower() == str({right}).lower())")
        yield Edit("sides", node, f"(str({left}).strip() == str({right}).strip())")
    elif isinstance(node.ops[0], (ast.In, ast.NotIn)):
        sign = "==" if isinstance(node.ops[0], ast.In) else "!="
        yield Edit("sides", node, f"({left} {sign} {right})")


FINE_OPERATORS = (relations, operands, steps, entries, calls, amounts, bounds, patterns, returns, sides)
