"""The schema that verl infers for a function tool when it registers, read from the function's text.

verl (0.8 and later, verl/tools/function_tool.py) asks transformers' get_json_schema and keeps of every parameter its
type, description and choices. Nothing is run here: what the text alone does not tell has no schema, with the reason.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

PLAIN = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}
HOLDERS = {"list": "array", "List": "array", "tuple": "array", "Tuple": "array", "dict": "object", "Dict": "object"}
BARE = {"list": "object", "tuple": "object", "dict": "object", "Dict": "object", "List": "array"}
"""Without what they hold; transformers 4.57 takes a bare class for an object."""
CHOICES = re.compile(r"\(choices:\s*(.*?)\)\s*$", re.IGNORECASE)
SECTIONS = re.compile(r"Args:|Returns:|Raises:")
ARGUMENT = re.compile(r"\s*(\w+):\s*(.*)")
DECORATOR = "function_tool"


class NoSchema(Exception):
    """The text of the function does not tell its schema; the message says why."""


def function_schema(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> dict[str, Any]:
    """The whole schema of the tool `name`.

    Raises:
        NoSchema: verl would stop at this function, or the text alone does not tell what it makes of it.
    """
    if (given := _given_schema(node)) is not None:
        return given
    arguments = node.args
    if arguments.vararg or arguments.kwarg:
        raise NoSchema("it takes any number of arguments, on which verl stops")
    doc = ast.get_docstring(node)
    if not doc:
        raise NoSchema("it has no docstring, on which verl stops")
    described = _described(doc)
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = {item.arg for item in positional[: len(positional) - len(arguments.defaults)]}
    needed |= {
        item.arg for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default
    }
    properties: dict[str, Any] = {}
    for item in (*positional, *arguments.kwonlyargs):
        if item.annotation is None or item.arg not in described:
            lacks = "type hint" if item.annotation is None else "description in the docstring"
            raise NoSchema(f"its parameter {item.arg} has no {lacks}, on which verl stops")
        properties[item.arg] = _property(item.arg, item.annotation, described[item.arg])
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    required = [name for name in properties if name in needed]
    if required:
        parameters["required"] = required
    description = SECTIONS.split(doc.strip(), maxsplit=1)[0].strip()
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _given_schema(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Any] | None:
    """The schema that the decorator is given; None when there is none."""
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(target).rpartition(".")[2] != DECORATOR:
            raise NoSchema(f"it has the decorator {ast.unparse(target)} too, which may change what verl sees")
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg == "schema":
                try:
                    value = ast.literal_eval(keyword.value)
                except ValueError:
                    raise NoSchema("its schema is made when the module is imported") from None
                return dict(value) if isinstance(value, dict) else None
    return None


def _described(doc: str) -> dict[str, str]:
    """Parameter -> description, of the section Args of a docstring."""
    _, found, rest = doc.partition("\nArgs:\n")
    if not found:
        return {}
    described: dict[str, str] = {}
    name = ""
    for line in re.split(r"Returns:|Raises:", rest, maxsplit=1)[0].splitlines():
        if match := ARGUMENT.match(line):
            name = match[1]
            described[name] = match[2].strip()
        elif name and line.strip():
            described[name] = f"{described[name]} {line.strip()}".strip()
    return described


def _property(name: str, annotation: ast.expr, text: str) -> dict[str, Any]:
    kind, choices = _type(name, annotation)
    if match := CHOICES.search(text):
        try:
            choices = [str(choice).strip() for choice in json.loads(match[1])]
        except json.JSONDecodeError:
            raise NoSchema(f"the choices of its parameter {name} are no JSON, on which verl stops") from None
        text = text[: match.start()].strip()
    made: dict[str, Any] = {"type": kind, "description": text}
    return {**made, "enum": choices} if choices is not None else made


def _type(name: str, annotation: ast.expr) -> tuple[str | list[str], list[Any] | None]:
    """JSON type of a type hint, and the values of a Literal."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    word = ast.unparse(base).rpartition(".")[2]
    inner = _inner(annotation)
    if word == "Literal":
        return _literal(name, inner)
    if word in ("Optional", "Union") or isinstance(annotation, ast.BinOp):
        return _union(name, annotation, inner), None
    if word in PLAIN and not inner:
        return PLAIN[word], None
    if kind := (HOLDERS if inner else BARE).get(word):
        return kind, None
    raise NoSchema(f"nothing here says what verl makes of the type hint {ast.unparse(annotation)} of {name}")


def _inner(annotation: ast.expr) -> list[ast.expr]:
    if not isinstance(annotation, ast.Subscript):
        return []
    return list(annotation.slice.elts) if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]


def _literal(name: str, values: list[ast.expr]) -> tuple[str, list[Any]]:
    found = [item.value for item in values if isinstance(item, ast.Constant)]
    kinds = {PLAIN.get(type(value).__name__, "") for value in found}
    if len(found) != len(values) or len(kinds) != 1 or "" in kinds:
        raise NoSchema(f"the values of the type hint of {name} are of several kinds")
    return kinds.pop(), found


def _union(name: str, annotation: ast.expr, inner: list[ast.expr]) -> str | list[str]:
    """One type, or several sorted ones; that None is allowed too is nowhere kept."""
    parts = inner
    while isinstance(annotation, ast.BinOp):
        parts = [annotation.right, *parts]
        annotation = annotation.left
        if not isinstance(annotation, ast.BinOp):
            parts = [annotation, *parts]
    taken = [item for item in parts if not (isinstance(item, ast.Constant) and item.value is None)]
    kinds = [_type(name, item)[0] for item in taken]
    if len(kinds) == 1:
        return kinds[0]
    return sorted(str(kind) for kind in kinds)
