"""Classical mutants of a module: one operator, constant, condition, return or slice changed; what they show is how
closely the cases look at each line, not whether a port is right."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrate_tools.parity.equivalent import rule
from migrate_tools.parity.faults_patterns import RE_CALLS
from migrate_tools.parity.faults_wiring import wrapper_names
from migrate_tools.parity.mutation import Code, Edit, Fault, call_name, changed_versions, number, text

EACH = 12
MOST = 48
COMPARISONS: dict[type, str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
ARITHMETIC: dict[type, str] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Mod: "*", ast.Pow: "*"}


def seed_mutants(source: str | Code, *, each: int = EACH, most: int = MOST) -> list[Fault]:
    """Mutants of the scorer in a fixed order, taken in turn from every operator."""
    code = source if isinstance(source, Code) else Code(source)
    return changed_versions(code, OPERATORS, rule, skip=wrapper_names(code), each=each, most=most)


def comparison(code: Code, node: ast.AST) -> Iterator[Edit]:
    """The boundary moves, or the condition is turned round."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        left, right = code.operand(node.left), code.operand(node.comparators[0])
        yield Edit("comparison", node, f"({left} {COMPARISONS[type(node.ops[0])]} {right})")


def boolean(code: Code, node: ast.AST) -> Iterator[Edit]:
    """and for or, a `not` that is lost, True for False."""
    if isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield Edit("boolean", node, f"({word.join(f'({code.segment(value)})' for value in node.values)})")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield Edit("boolean", node, f"bool({code.segment(node.operand)})")
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield Edit("boolean", node, str(not node.value))


def constant(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A number that is one more; a text that is another."""
    if isinstance(code.parents.get(node), (ast.UnaryOp, ast.MatchValue)) or not isinstance(node, ast.Constant):
        return
    value = number(node)
    if value is not None:
        yield Edit("constant", node, repr(value + 1 if isinstance(value, int) else round(value + 0.5, 6)))
    elif text(node) is not None and call_name(code.parents.get(node) or node) not in RE_CALLS:
        yield Edit("constant", node, repr(f"{text(node)}~"))


def arithmetic(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Plus for minus, times for divided by."""
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in ARITHMETIC:
        sign = ARITHMETIC[type(node.op)]
        if isinstance(node, ast.BinOp):
            yield Edit("arithmetic", node, f"({code.operand(node.left)} {sign} {code.operand(node.right)})")
        else:
            yield Edit("arithmetic", node, f"{code.segment(node.target)} {sign}= {code.segment(node.value)}")


def returned(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Nothing is returned."""
    if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield Edit("return", node.value, "None")


def sliced(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A bound of a slice is left out."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load):
        for bound in (node.slice.lower, node.slice.upper):
            if bound is not None:
                yield Edit("slice", bound, "")


def condition(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A branch is always taken, or never."""
    if isinstance(node, (ast.If, ast.IfExp)):
        yield Edit("condition", node.test, "True")
        yield Edit("condition", node.test, "False")


def statement(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A statement that changes a value in place is left out."""
    filled = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
    if filled or isinstance(node, (ast.AugAssign, ast.Continue, ast.Break)):
        yield Edit("statement", node, "pass")


OPERATORS = (comparison, boolean, constant, arithmetic, returned, sliced, condition, statement)
