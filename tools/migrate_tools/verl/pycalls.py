"""What the library calls and methods that launchers use give, on known values."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import Any

from migrate_tools.verl.pyvalues import Item, Space, Text, Unknown, join, plain
from migrate_tools.verl.symbolic import Piece

_PATHS = ("os.path.join", "Path", "pathlib.Path", "str", "os.path.abspath", "os.path.expanduser", "os.fspath")
_TEXT_METHODS = ("split", "strip", "lower", "upper", "format", "removesuffix")


def function(name: str, node: ast.Call, given: list[Any], keywords: dict[str, Any]) -> Any:
    """The value of a library function's call; Unknown for every other."""
    first = plain(given[0]) if given else None
    if name in ("os.environ.get", "os.getenv") and isinstance(first, str):
        return _environment(first, node, given, keywords)
    if name in ("os.path.dirname", "os.path.basename") and isinstance(first, str):
        path = PurePosixPath(first)
        return str(path.parent) if name.endswith("dirname") else path.name
    if name in _PATHS and given:
        parts = [part for item in given for part in (item, "/")][:-1]
        return join(parts, node.lineno, ast.unparse(node))
    if name in ("int", "float", "bool") and len(given) == 1 and isinstance(first, str | int | float):
        try:
            return {"int": int, "float": float, "bool": bool}[name](first)
        except ValueError:
            return Unknown(ast.unparse(node), node.lineno)
    if name in ("list", "tuple") and len(given) == 1 and isinstance(first, list | tuple):
        return list(first)
    if name == "dict" and not given:
        return {key: Item(plain(value), node.lineno) for key, value in keywords.items()}
    return Unknown(ast.unparse(node), node.lineno)


def _environment(name: str, node: ast.Call, given: list[Any], keywords: dict[str, Any]) -> Text:
    default = given[1] if len(given) > 1 else keywords.get("default")
    inner = join([default], node.lineno, "") if default is not None else None
    pieces = None if inner is None else inner.pieces if isinstance(inner, Text) else (Piece("literal", inner),)
    return Text((Piece("variable", name, node.lineno, pieces),))


def method(owner: Any, node: ast.Call, given: list[Any], keywords: dict[str, Any]) -> tuple[Any] | None:
    """The value of `owner.name(...)` in a tuple; None when this is no method that is known."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    first = plain(given[0]) if given else None
    if isinstance(owner, list):
        return _of_list(owner, name, node, given)
    if isinstance(owner, dict):
        return _of_dict(owner, name, given, keywords)
    if not isinstance(owner, str | Text):
        return None
    if name in ("resolve", "absolute", "expanduser", "as_posix"):
        return (owner,)
    if isinstance(owner, str) and name == "join" and isinstance(first, list | tuple):
        parts = [part for item in first for part in (item, owner)][:-1]
        return (join(parts, node.lineno, ast.unparse(node)),)
    known = not keywords and all(isinstance(plain(item), str | int) for item in given)
    if isinstance(owner, str) and name in _TEXT_METHODS and known:
        return (getattr(owner, name)(*(plain(item) for item in given)),)
    return None


def _of_list(owner: list[Any], name: str, node: ast.Call, given: list[Any]) -> tuple[Any] | None:
    if name == "copy":
        return (list(owner),)
    if name == "append":
        owner.append(given[0] if given else None)
    elif name == "insert":
        index = plain(given[0]) if given else 0
        owner.insert(index if isinstance(index, int) else 0, given[-1] if given else None)
    elif name == "extend":
        value = plain(given[0]) if given else []
        unknown = Unknown("*" + ", ".join(ast.unparse(item) for item in node.args), node.lineno)
        owner += value if isinstance(value, list | tuple) else [unknown]
    else:
        return None
    return (None,)


def _of_dict(owner: dict[Any, Any], name: str, given: list[Any], keywords: dict[str, Any]) -> tuple[Any] | None:
    first = plain(given[0]) if given else None
    if name == "items":
        return ([[key, value] for key, value in owner.items()],)
    if name in ("keys", "values"):
        return (list(owner) if name == "keys" else list(owner.values()),)
    if name == "copy":
        return (dict(owner),)
    if name == "get":
        return (owner.get(first, given[1] if len(given) > 1 else None),)
    if name == "update":
        owner.update(first if isinstance(first, dict) else keywords)
        return (None,)
    return None


def add_argument(arguments: Space, node: ast.Call, given: list[Any], keywords: dict[str, Any]) -> None:
    """The value of one argparse option when nobody gives it; a required one is a variable of its name."""
    names = [plain(item) for item in given if isinstance(plain(item), str)]
    if not names:
        return
    long = next((name for name in names if name.startswith("--")), names[0])
    dest = plain(keywords.get("dest")) or long.lstrip("-").replace("-", "_")
    action = plain(keywords.get("action"))
    if action in ("store_true", "store_false"):
        arguments.values[dest] = plain(keywords.get("default", action == "store_false"))
    elif "default" in keywords:
        arguments.values[dest] = plain(keywords["default"])
    elif plain(keywords.get("nargs")) in ("*", "...") and not long.startswith("-"):
        arguments.values[dest] = []
    elif plain(keywords.get("required")) is True or not long.startswith("-"):
        arguments.values[dest] = Text((Piece("variable", str(dest).upper(), node.lineno),))
    else:
        arguments.values[dest] = None
