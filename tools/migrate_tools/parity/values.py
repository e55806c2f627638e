"""Values of a scorer as JSON that keeps their types, and when two of them count as the same.

Runs inside the sandbox too: standard library only.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

LONGEST_TEXT = 4000
DEEPEST = 8


def encode(value: Any, depth: int = 0) -> Any:
    """`value` as JSON: plain scalars as they are, everything else as {"t": type, "v": ...}.

    Floats that JSON lacks (NaN, infinities) and texts over 4000 characters are wrapped, so that a comparison of two
    encodings is a comparison of the values.
    """
    if value is None or isinstance(value, bool):
        return value
    kind = type(value)
    if kind is int:
        return value if abs(value) < 2**53 else {"t": "int", "v": str(value)[:LONGEST_TEXT]}
    if kind is float:
        return value if math.isfinite(value) else {"t": "float", "v": repr(value)}
    if kind is str:
        return _text(value)
    return _wrapped(value, kind, depth)


def _text(value: str) -> Any:
    safe = value.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(safe) <= LONGEST_TEXT:
        return safe
    digest = hashlib.sha256(safe.encode()).hexdigest()
    return {"t": "str", "v": safe[:200], "length": len(value), "sha256": digest}


def _wrapped(value: Any, kind: type, depth: int) -> Any:
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if depth >= DEEPEST:
        return {"t": name, "v": "..."}
    if isinstance(value, dict):
        return {"t": name, "v": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"t": name, "v": [encode(item, depth + 1) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"t": name, "v": sorted((encode(item, depth + 1) for item in value), key=repr)}
    if hasattr(value, "tolist"):
        return {"t": name, "v": encode(value.tolist(), depth + 1)}
    if isinstance(value, (int, float)):
        return {"t": name, "v": encode(float(value), depth + 1)}
    return {"t": name, "v": _text(_safe_repr(value))}


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__}: repr raised {type(error).__name__}>"


def plain(encoded: Any) -> Any:
    """The encoding without its type names: what two values must share to mean the same.

    Numbers become floats (int, bool and numpy scalars of equal value are one; the declared normalisation), lists,
    tuples and arrays become lists.
    """
    if isinstance(encoded, (bool, int, float)):
        return _number(float(encoded))
    if not isinstance(encoded, dict):
        return encoded
    kind, value = encoded["t"], encoded["v"]
    if "sha256" in encoded:
        return ("text", encoded["sha256"])
    if kind in ("int", "float") and isinstance(value, str):
        return _number(float(value))
    if isinstance(value, list) and kind not in ("list", "tuple", "set", "frozenset") and _is_pairs(value):
        return {"pairs": sorted(([plain(k), plain(v)] for k, v in value), key=repr)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return plain(value) if kind.startswith("numpy.") else (kind, value)


def _is_pairs(value: list[Any]) -> bool:
    return all(isinstance(item, list) and len(item) == 2 for item in value)


def _number(value: float) -> Any:
    if math.isnan(value):
        return "nan"
    return value


def same(first: Any, second: Any) -> bool:
    """True when two encoded values mean the same (NaN equals NaN; 1, 1.0 and True are equal)."""
    return bool(plain(first) == plain(second))


def identical(first: Any, second: Any) -> bool:
    """True when two encoded values agree in type and value: 1, 1.0 and True are three things, and so are 0.0 and -0.0.

    NaN agrees with NaN. The order of the keys of a dict does not matter, that of a list does.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        if first.keys() != second.keys() or first["t"] != second["t"]:
            return False
        if not isinstance(first["v"], list):
            return identical(first["v"], second["v"]) and first.get("sha256") == second.get("sha256")
        ones, others = first["v"], second["v"]
        if first["t"] not in ("list", "tuple") and _is_pairs(ones) and _is_pairs(others):
            ones, others = sorted(ones, key=repr), sorted(others, key=repr)
        return len(ones) == len(others) and all(identical(*pair) for pair in zip(ones, others, strict=True))
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(identical(*pair) for pair in zip(first, second, strict=True))
    if type(first) is not type(second):
        return False
    if isinstance(first, float):
        return first == second and math.copysign(1.0, first) == math.copysign(1.0, second)
    return bool(first == second)


def type_name(encoded: Any) -> str:
    """Name of the type of the value that was encoded."""
    if isinstance(encoded, dict):
        return str(encoded["t"])
    return "None" if encoded is None else type(encoded).__name__


def number(encoded: Any) -> float | None:
    """The float of an encoded scalar, or None when it is not a number."""
    reduced = plain(encoded)
    if reduced == "nan":
        return math.nan
    return reduced if isinstance(reduced, float) else None
