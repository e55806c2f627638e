"""Seeded porting faults: small changes of a reward module, of the kinds that ports really get wrong.

The catalogue is `SCORER_OPERATORS` and `WIRING_OPERATORS`; what it seeds depends on the module alone, never on time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from migrate_tools.parity.equivalent import rule
from migrate_tools.parity.faults_patterns import PATTERN_OPERATORS
from migrate_tools.parity.faults_wiring import WIRING_OPERATORS, wrapper_names
from migrate_tools.parity.mutation import Code, Edit, Fault, call_name, changed_versions, number, text
from migrate_tools.parity.outcomes import is_list

EACH = 3
"""Faults of one operator at most."""
MOST = 64
"""Faults of one module at most."""
STEPS = frozenset(
    ["strip", "lstrip", "rstrip", "replace", "removeprefix", "removesuffix", "translate", "expandtabs", "normalize"]
)
FOLDS = frozenset(["lower", "upper", "casefold", "swapcase", "title"])
CLEANERS = re.compile(r"norm|clean|strip|tidy|canon|simplif|remove|fix|plain|trim", re.IGNORECASE)
ENDS = {"rfind": "find", "find": "rfind", "rindex": "index", "index": "rindex", "rsplit": "split"}
ENDS |= {"rpartition": "partition", "partition": "rpartition"}
SEARCHES = {"search": "match", "match": "search", "fullmatch": "match"}
CLIP = 16
"""Bounds from here on are limits of length; smaller ones are places in a text."""


def seed_faults(
    source: str | Code,
    *,
    text_labels: bool = False,
    sources: Collection[str] = (),
    each: int = EACH,
    most: int = MOST,
) -> list[Fault]:
    """Changed versions of a module, taken in turn from every operator, with the rule where one calls them equivalent.

    What our own template writes round the scorer is changed only by the operators that are meant for it.

    Args:
        text_labels: every label of the rows is a text.
        sources: the data sources of the rows, when all are known.
        each: faults of one operator at most.
        most: faults at most.
    """
    code = source if isinstance(source, Code) else Code(source, text_labels=text_labels, sources=sources)
    wiring = changed_versions(code, WIRING_OPERATORS, rule, each=each, most=most)
    own = changed_versions(code, SCORER_OPERATORS, rule, skip=wrapper_names(code), each=each, most=most)
    return [*wiring, *own][:most]


def first_for_last(code: Code, node: ast.AST) -> Iterator[Edit]:
    """The other end of a list of matches, or the search from the other end."""
    if isinstance(node, ast.Subscript) and number(node.slice) in (0, -1) and isinstance(node.ctx, ast.Load):
        other = "-1" if number(node.slice) == 0 else "0"
        yield Edit("first for last match", node.slice, other)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and call_name(node) in ENDS:
        changed = f"{code.segment(node.func.value)}.{ENDS[call_name(node)]}"
        yield Edit("first for last match", node.func, changed)


def step_dropped(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A normalisation step is left out."""
    name = call_name(node)
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute):
        of_module = isinstance(node.func.value, ast.Name) and node.func.value.id in ("re", "unicodedata", "string")
        if name in STEPS and not of_module:
            yield Edit("normalisation step dropped", node, code.segment(node.func.value))
        elif name == "sub" and len(node.args) >= (3 if of_module else 2):
            yield Edit("normalisation step dropped", node, code.segment(node.args[2 if of_module else 1]))
    elif name in code.functions and len(node.args) == 1 and not node.keywords and CLEANERS.search(name):
        yield Edit("normalisation step dropped", node, f"({code.segment(node.args[0])})")


def case_kept(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Upper and lower case are told apart."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and call_name(node) in FOLDS:
        yield Edit("case folding dropped", node, code.segment(node.func.value))


def clip_changed(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Another length, or one character more or less."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice) or node.slice.step is not None:
        return
    for bound in (node.slice.lower, node.slice.upper):
        size = number(bound)
        if bound is None or size == 0:
            continue
        if size is None:
            yield Edit("off by one in a slice", bound, f"{code.segment(bound)} + 1")
        elif abs(size) < CLIP:
            yield Edit("off by one in a slice", bound, str(size + 1))
        else:
            yield Edit("clip length", bound, str(int(size * 1.25)))
            yield Edit("clip length", node, code.segment(node.value))


def number_type(code: Code, node: ast.AST) -> Iterator[Edit]:
    """int for float, float for int, rounding and whole division."""
    name = call_name(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        first = code.segment(node.args[0])
        if name == "float" and text(node.args[0]) is None:
            yield Edit("int for float", node, f"int(float({first}))")
        elif name == "int" and len(node.args) == 1:
            yield Edit("float for int", node, f"float({first})")
        elif name == "round":
            digits = number(node.args[1]) if len(node.args) > 1 else 0
            if isinstance(digits, int):
                yield Edit("rounding", node, f"round({first}, {max(digits - 2, 0)})")
            yield Edit("rounding", node, f"({first})")
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
        sign = "//" if isinstance(node.op, ast.Div) else "/"
        yield Edit("rounding", node, f"({code.operand(node.left)} {sign} {code.operand(node.right)})")


def exceptions(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A handler that does not catch any more, and one that rewards what it caught."""
    if not isinstance(node, ast.ExceptHandler):
        return
    header = "except" if node.type is None else f"except {code.segment(node.type)}"
    whole = code.segment(node)
    yield Edit("exception let through", node, whole.replace(header, "except ()", 1))
    for item in node.body:
        value = item.value if isinstance(item, ast.Return) else None
        if isinstance(value, ast.Constant) and value.value in (False, None, 0, -1):
            other = {"False": "True", "None": "''"}.get(str(value.value), "1.0")
            yield Edit("exception swallowed otherwise", value, other)


def strictness(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Search for match, a part for the whole, one condition less."""
    name = call_name(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and name in SEARCHES:
        yield Edit("strictness", node.func, f"{code.segment(node.func.value)}.{SEARCHES[name]}")
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        sides = (node.left, node.comparators[0])
        if not any(_numeric(side) for side in sides):
            left, right = map(code.segment, sides)
            shown = any(isinstance(side, (ast.List, ast.ListComp)) for side in sides)
            lists = shown or all(is_list(code, side) for side in sides)
            part = f"all(item in {left} for item in {right})" if lists else f"str({right}) in str({left})"
            yield Edit("strictness", node, f"({part})")
            yield from _one_side(code, node)
    elif isinstance(node, ast.BoolOp):
        kept = f" {'and' if isinstance(node.op, ast.And) else 'or'} ".join(map(code.operand, node.values[:-1]))
        yield Edit("condition lost", node, f"({kept})")


def _numeric(node: ast.AST) -> bool:
    """True for what is no text that could be a part of another: constants, numbers, truths, characters, slices."""
    if isinstance(node, (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Compare, ast.BoolOp)):
        return True
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, str)
    return call_name(node) in ("len", "float", "int", "count", "abs", "sum")


def _one_side(code: Code, node: ast.Compare) -> Iterator[Edit]:
    left, right = node.left, node.comparators[0]
    if call_name(left) and call_name(left) == call_name(right):
        for side in (left, right):
            assert isinstance(side, ast.Call)
            of = side.func.value if isinstance(side.func, ast.Attribute) and not side.args else None
            if of is not None or len(side.args) == 1:
                yield Edit("one side not normalised", side, f"({code.segment(of if of is not None else side.args[0])})")


def keyword_lost(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A keyword argument is not passed."""
    if not isinstance(node, ast.Call) or call_name(node) in ("dict", "field", "dataclass"):
        return
    for keyword in node.keywords:
        if keyword.arg and keyword.arg != "flags":
            others = [*map(code.segment, node.args), *(code.segment(item) for item in node.keywords if item != keyword)]
            yield Edit("keyword argument lost", node, f"{code.segment(node.func)}({', '.join(others)})")


def keys_and_defaults(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A key of another name, another value where it is missing."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and text(node.slice) is not None:
        yield Edit("other key", node.slice, repr(f"{text(node.slice)}_"))
    elif call_name(node) == "get" and isinstance(node, ast.Call) and node.args and text(node.args[0]) is not None:
        yield Edit("other key", node.args[0], repr(f"{text(node.args[0])}_"))
        if len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
            other = _another(node.args[1])
            yield Edit("other default", node.args[1], other)


def _another(value: ast.Constant) -> str:
    """A constant of the same kind with another meaning."""
    if isinstance(value.value, bool) or value.value is None:
        return "True" if not value.value else "False"
    plain = number(value)
    return repr(plain + 1) if plain is not None else repr(f"{value.value!s}~")


def lists(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Only the first of several labels."""
    loops = isinstance(node, (ast.For, ast.comprehension))
    if loops and isinstance(node.iter, (ast.Name, ast.Attribute, ast.Subscript)):  # type: ignore[attr-defined]
        yield Edit("only the first of a list", node.iter, f"list({code.segment(node.iter)})[:1]")  # type: ignore[attr-defined]


def tables(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A table of constants with an entry less."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)) and len(node.elts) > 1:
        plain = all(isinstance(item, (ast.Constant, ast.Tuple)) for item in node.elts)
        inner = isinstance(code.parents.get(node), (ast.Tuple, ast.Return, ast.IfExp))  # values that belong together
        for kept in (node.elts[:-1], node.elts[1:]) if plain and not inner and not _stored(node) else ():
            inside = ", ".join(map(code.segment, kept))
            around: dict[type, tuple[str, str]] = {ast.List: ("[", "]"), ast.Set: ("{", "}")}
            opening, closing = around.get(type(node), ("(", ",)"))
            yield Edit("entry lost", node, f"{opening}{inside}{closing}")
    elif isinstance(node, ast.Dict) and len(node.keys) > 1 and "score" not in map(text, node.keys):
        pairs = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
        if all(isinstance(item, ast.Constant) for pair in pairs for item in pair):
            kept_pairs = [": ".join(map(code.segment, pair)) for pair in pairs[:-1]]
            yield Edit("entry lost", node, "{" + ", ".join(kept_pairs) + "}")


def _stored(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def result_shape(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A dict result that loses its other keys or takes another key's value for the score."""
    if not isinstance(node, ast.Dict) or not isinstance(code.parents.get(node), ast.Return):
        return
    values = {text(key): value for key, value in zip(node.keys, node.values, strict=True) if text(key)}
    if "score" not in values:
        return
    yield Edit("number for dict", node, code.segment(values["score"]))
    others = [value for key, value in values.items() if key != "score" and text(value) is None]
    if others and ast.dump(others[0]) != ast.dump(values["score"]):
        yield Edit("other value for the score", values["score"], code.segment(others[0]))


def groups(code: Code, node: ast.AST) -> Iterator[Edit]:
    """Another group of a match, two groups that change places."""
    if call_name(node) == "group" and isinstance(node, ast.Call) and len(node.args) == 1:
        place = number(node.args[0])
        if isinstance(place, int):
            yield Edit("other group of the match", node.args[0], str(place - 1 if place else 1))
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and len(node.targets[0].elts) == 2:
        one, two = map(code.segment, node.targets[0].elts)
        if isinstance(node.value, (ast.Subscript, ast.Call, ast.Name)):
            yield Edit("values unpacked in another order", node.targets[0], f"{two}, {one}")


def term_lost(code: Code, node: ast.AST) -> Iterator[Edit]:
    """A bonus or a penalty is not added."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)) and not _counts(node):
        penalty = re.search("overlong|penalty", code.segment(node))
        yield Edit("overlong penalty lost" if penalty else "bonus or penalty lost", node, "pass")


def _counts(node: ast.AugAssign) -> bool:
    """True for a counter or a position that moves on by one."""
    return number(node.value) == 1 and isinstance(node.target, ast.Name)


SCORER_OPERATORS = (
    first_for_last,
    step_dropped,
    case_kept,
    clip_changed,
    number_type,
    exceptions,
    strictness,
    keyword_lost,
    keys_and_defaults,
    lists,
    tables,
    result_shape,
    groups,
    term_lost,
    *PATTERN_OPERATORS,
)
"""What is done to the scorer; each may seed more than one kind."""
