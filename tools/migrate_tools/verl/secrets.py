"""Credentials in a recipe: found by pattern, named by file and line, and never passed on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from migrate_tools.model import Secret, SourceRef

REMOVED = "<secret removed>"

_TOKEN_KINDS: tuple[tuple[str, str], ...] = (
    ("OpenAI-style key", r"\bsk-(?:proj-|ant-|or-v1-)?[A-Za-z0-9_-]{20,}"),
    ("Hugging Face token", r"\bhf_[A-Za-z0-9]{20,}"),
    ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})"),
    ("AWS access key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("Google API key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
)
_NAMED = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]*(?:api_?key|apikey|access_?key|secret(?:_?key)?|(?<![a-z])token|_token|password|passwd))"
    r"(?P<gap>[\"']?\s*[:=]\s*[\"']?)(?P<value>[A-Za-z0-9_\-./+=@!#%^&*]{8,})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<name>bearer)(?P<gap>\s+)(?P<value>[A-Za-z0-9_\-.=+/]{16,})", re.IGNORECASE)
_URL = re.compile(r"(?P<name>[a-z][a-z0-9+]*://[^\s/:@$]+)(?P<gap>:)(?P<value>[^\s/:@$]{6,})(?=@)", re.IGNORECASE)
_LOGIN = re.compile(r"(?P<name>wandb\s+login)(?P<gap>\s+(?:--relogin\s+)?)(?P<value>[0-9a-f]{40})\b")
_KEY_BODY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"(?:.{0,20000}?-----END [A-Z ]*PRIVATE KEY-----|(?:(?:[\s\"']|\\n)*[A-Za-z0-9+/=]{16,})*)",
    re.DOTALL,
)
_TOKENS = tuple((kind, re.compile(pattern)) for kind, pattern in _TOKEN_KINDS)
_PLACEHOLDER = re.compile(
    r"^(?:your|my|the|xx|\.\.\.|<|dummy|empty|none|null|false|true|test|fake|placeholder|change|example)"
    r"|^not[-_ ]?(?:needed|used)"
    r"|(?:your|here|placeholder|xxxx|dummy)",
    re.IGNORECASE,
)


def find_secrets(text: str, file: str) -> list[Secret]:
    """Every credential in a text, by line; `file` is what the result names."""
    found: list[Secret] = []
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > 20_000:
            continue
        found += [Secret(source=SourceRef(file=file, line=number), kind=kind) for kind in _kinds(line)]
    return found


@lru_cache(maxsize=8192)  # the settings of many launches are the same few texts
def redact(text: str) -> str:
    """The text with every credential replaced by a fixed mark; of a private key the whole block."""
    text = _KEY_BODY.sub(REMOVED, text)
    for _, pattern in _TOKENS:
        text = pattern.sub(REMOVED, text)
    for pattern in (_NAMED, _BEARER, _URL, _LOGIN):
        text = pattern.sub(_replace, text)
    return text


def redact_variable(name: str, value: str) -> str:
    """The value of a variable; gone when its name or its form says that it is a credential."""
    shown = redact(f"{name}={value}")
    return shown[len(name) + 1 :] if shown.startswith(f"{name}=") else REMOVED


def redact_value(value: Any) -> Any:
    """A setting's value with credentials removed at any depth."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        return [redact_value(item) for item in value]
    if isinstance(value, dict):
        return {
            key: redact_variable(str(key), item) if isinstance(item, str) else redact_value(item)
            for key, item in value.items()
        }
    return value


def _kinds(line: str) -> Iterable[str]:
    seen = set()
    for kind, pattern in _TOKENS:
        if pattern.search(line):
            seen.add(kind)
            yield kind
    if seen:
        return
    for pattern in (_NAMED, _BEARER, _URL, _LOGIN):
        for match in pattern.finditer(line):
            if _credible(match):
                yield f"value of {match['name'].split('://')[0]}"
                return


def _replace(match: re.Match[str]) -> str:
    return f"{match['name']}{match['gap']}{REMOVED}" if _credible(match) else match[0]


def _credible(match: re.Match[str]) -> bool:
    """A literal that could be a credential: not a placeholder, a word, a path or a variable."""
    value = match["value"]
    name = match["name"].lower()
    if value == REMOVED or _PLACEHOLDER.search(value) or value[0] in "./$":
        return False
    if name.endswith(("password", "passwd", "bearer")) or "://" in name:
        return True
    digits = sum(char.isdigit() for char in value)
    return len(value) >= 16 and digits >= 3 and "/" not in value and "." not in value
