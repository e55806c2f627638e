"""Resolves the interpolations of a composed configuration."""

from __future__ import annotations

import re
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

ABSENT = object()
_NOWHERE = object()

_PATH = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")
_SELECT = re.compile(r"\$\{oc\.select:\s*([A-Za-z_][\w.]*)\s*(?:,\s*([\w.-]*)\s*)?\}")
_WORDS = {"": None, "null": None, "none": None, "true": True, "false": False}
_SIBLING = re.compile(r"\$\{\.([A-Za-z_]\w*)\}")
_SELECT_OR = re.compile(
    r"\$\{oc\.select:\s*(\.?[A-Za-z_][\w.]*)\s*,\s*([\w-]+|\[\]|\{\}|\$\{oc\.select:[^${}]*\})\s*\}"
)
_INTEGER = re.compile(r"0|-?[1-9]\d*")
_WORD = re.compile(r"(?!inf$|nan$)[A-Za-z_][\w-]*", re.IGNORECASE | re.ASCII)


def _literal(text: str) -> Any:
    """The value that OmegaConf's grammar reads in a plain default; ABSENT where that takes the grammar itself."""
    if text in ("[]", "{}"):
        return [] if text == "[]" else {}
    if _INTEGER.fullmatch(text):
        return int(text)
    if not _WORD.fullmatch(text):
        return ABSENT
    return {"null": None, "true": True, "false": False}.get(text.lower(), text)


def _settled(value: Any) -> bool:
    """Whether nothing in a value is left to resolve."""
    if isinstance(value, str):
        return value != "???" and "${" not in value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(_settled(item) for item in inner)


class Resolver:
    """Resolves interpolations of a configuration.

    References and `oc.select` are followed here, because OmegaConf's own grammar takes most of the time of a read;
    every other form goes to OmegaConf. What cannot be resolved stays as text.
    """

    def __init__(self, config: DictConfig, raw: Any) -> None:
        self.config = config
        self.raw = raw
        self.done: dict[str, Any] = {}

    def leaves(self) -> dict[str, Any]:
        """Dotted key -> resolved value."""
        out: dict[str, Any] = {}
        self._collect(self.raw, "", out)
        return out

    def _collect(self, value: Any, key: str, out: dict[str, Any]) -> None:
        if isinstance(value, str) and "${" in value:
            value = self.text(value, key, 0)
        if isinstance(value, dict) and value:
            for name, inner in value.items():
                self._collect(inner, f"{key}.{name}" if key else str(name), out)
        elif key:
            out[key] = self._inside(value, key) if isinstance(value, list | dict) else value

    def _inside(self, value: Any, key: str) -> Any:
        if isinstance(value, str) and "${" in value:
            return self.text(value, key, 0)
        if isinstance(value, list):
            return [self._inside(item, f"{key}[{index}]") for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {name: self._inside(item, f"{key}.{name}") for name, item in value.items()}
        return value

    def text(self, text: str, key: str, depth: int) -> Any:
        """The value of a text with interpolations that stands at `key`."""
        if depth > 20:
            return text
        match = _PATH.fullmatch(text)
        if match:
            found = self._at(match[1], depth)
            return self._by_omegaconf(text, key) if found is ABSENT else found
        match = _SELECT.fullmatch(text)
        if match and (match[2] or "").lower() in _WORDS:
            found = self._at(match[1], depth)
            return _WORDS[(match[2] or "").lower()] if found is ABSENT or found == "???" else found
        found = self._short(text, key, depth)
        return self._by_omegaconf(text, key) if found is ABSENT else found

    def _short(self, text: str, key: str, depth: int) -> Any:
        """A reference to a sibling, or `oc.select` with a default; ABSENT where OmegaConf has to look."""
        if match := _SIBLING.fullmatch(text):
            found = self._seen(f".{match[1]}", key, depth)
            return found if found is not None else ABSENT
        if not (match := _SELECT_OR.fullmatch(text)):
            return ABSENT
        found = self._seen(match[1], key, depth)
        if found is not _NOWHERE:
            return found
        return self._short(match[2], key, depth + 1) if "$" in match[2] else _literal(match[2])

    def _seen(self, path: str, key: str, depth: int) -> Any:
        """The settled value at a path; _NOWHERE when there is none, ABSENT when this cannot be told."""
        if path.startswith("."):
            if "[" in key or "." not in key:
                return ABSENT
            path = key.rpartition(".")[0] + path
        node = self.raw
        for part in path.split("."):
            if not isinstance(node, dict):
                return ABSENT
            if part not in node:
                return _NOWHERE
            node = node[part]
        if isinstance(node, str) and "${" in node:
            node = self.text(node, path, depth + 1)
        return _NOWHERE if node == "???" else node if _settled(node) else ABSENT

    def _at(self, path: str, depth: int) -> Any:
        node = self.raw
        for part in path.split("."):
            if isinstance(node, str) and "${" in node:
                return ABSENT
            if not isinstance(node, dict) or part not in node:
                return ABSENT
            node = node[part]
        if isinstance(node, str) and "${" in node:
            return self.text(node, path, depth + 1)
        return node

    def _by_omegaconf(self, text: str, key: str) -> Any:
        try:
            value = OmegaConf.select(self.config, key, throw_on_missing=False)
            if OmegaConf.is_config(value):
                return OmegaConf.to_container(value, resolve=True)
        except (OmegaConfBaseException, ValueError, TypeError):
            return text
        return text if value is None and "oc." not in text else value
