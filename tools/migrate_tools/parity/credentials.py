"""Who asks, as a request says it: headers that hold a key, a client's key, a user with a password.

A port that loses them is refused by the real server, though the tape answers anybody. Runs inside the sandbox: standard
library only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key"})


def credentials(*given: Any) -> str:
    """A hash over what the headers, keys and pairs of a request and its client say about who asks; empty for nobody."""
    found: list[str] = []
    for item in given:
        if isinstance(item, Mapping):
            pairs = [(str(name).lower(), str(value)) for name, value in item.items()]
            found += [f"{name}: {value}" for name, value in pairs if name in HEADERS]
        elif item:
            found.append(str(item))
    return hashlib.sha256("\n".join(sorted(set(found))).encode()).hexdigest()[:16] if found else ""
