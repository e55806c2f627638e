"""The composed configuration of a launch together with where the recipe set its keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from migrate_tools.model import Setting, SourceRef


class ConfigView:
    """Looks up dotted keys; a key may also sit inside a mapping that is the value of a shorter key."""

    def __init__(self, config: Mapping[str, Any], settings: Sequence[Setting]) -> None:
        self.config = config
        self._settings = {item.key: item for item in settings if item.prefix != "~"}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, `default` when it is absent or null."""
        value = self._find(key)
        return default if value is None else value

    def has(self, key: str) -> bool:
        """Whether the key exists, null or not."""
        return key in self.config or self._find(key) is not None

    def is_set(self, key: str) -> bool:
        """Whether the recipe itself sets the key."""
        return key in self._settings

    def source(self, key: str) -> SourceRef | None:
        """Where the recipe sets the key (or the mapping around it)."""
        while key:
            if key in self._settings:
                return self._settings[key].source
            key = key.rpartition(".")[0]
        return None

    def first(self, keys: Iterable[str]) -> str | None:
        """The key that counts among several generations: one that the recipe sets, else one with a default."""
        found = [key for key in keys if self.get(key) is not None]
        return next((key for key in found if self.is_set(key)), found[0] if found else None)

    def section(self, prefix: str) -> dict[str, Any]:
        """Everything below a key; deeper keys stay dotted."""
        found: dict[str, Any] = {}
        whole = self.config.get(prefix)
        if isinstance(whole, Mapping):
            found.update({str(key): value for key, value in whole.items()})
        for key, value in self.config.items():
            if key.startswith(f"{prefix}."):
                found[key[len(prefix) + 1 :]] = value
        return found

    def _find(self, key: str) -> Any:
        if key in self.config:
            return self.config[key]
        head, _, tail = key.rpartition(".")
        while head:
            value = self.config.get(head)
            if isinstance(value, Mapping):
                for part in tail.split("."):
                    value = value.get(part) if isinstance(value, Mapping) else None
                return value
            head, _, last = head.rpartition(".")
            tail = f"{last}.{tail}"
        return None
