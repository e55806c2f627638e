"""Typed access to one launch: verl values with their defaults, old spellings, and the version they belong to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from migrate_tools.errors import RefusedInput
from migrate_tools.model import Launch, Setting

ACTOR = "actor_rollout_ref.actor."
ROLLOUT = "actor_rollout_ref.rollout."
MODEL = "actor_rollout_ref.model."


def parse_version(text: str) -> tuple[int, int]:
    """Major and minor number of a verl version text; (0, 0) when it carries none."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def number_text(value: Any) -> str:
    """A number as a flag value: integers without a point, floats as Python prints them."""
    if isinstance(value, bool):
        raise TypeError(f"{value!r} is a switch, not a number")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(value)
    return str(value)


class Facts:
    """Reads one launch. Keys are full dotted verl keys; several keys are spellings of one setting, newest first."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.settings: dict[str, Setting] = {item.key: item for item in launch.settings if item.prefix != "~"}
        self.removed = frozenset(item.key for item in launch.settings if item.prefix == "~")
        """Keys that the recipe takes out of verl's configuration: verl has no value for them."""
        self.version = parse_version(launch.verl.version)

    def has(self, key: str) -> bool:
        """Whether the key exists in the composed configuration, even as null."""
        return key in self.launch.config or key in self.settings

    def is_set(self, *keys: str) -> bool:
        """Whether the recipe itself sets one of the keys."""
        return any(key in self.settings for key in keys)

    def set_below(self, prefix: str) -> list[Setting]:
        """Settings of the recipe whose key starts with `prefix`, in order."""
        return [item for item in self.launch.settings if item.prefix != "~" and item.key.startswith(prefix)]

    def _lookup(self, key: str) -> Any:
        if key in self.launch.config:
            value = self.launch.config[key]
        else:
            value = self.settings[key].value if key in self.settings else None
        return None if value == "???" else value

    def get(self, *keys: str, default: Any = None) -> Any:
        """The value in force: what the recipe sets under any spelling, else the first default that is not null."""
        for key in keys:
            if key in self.settings and self._lookup(key) is not None:
                return self._lookup(key)
        for key in keys:
            if (value := self._lookup(key)) is not None:
                return value
        return default

    def where(self, *keys: str) -> str:
        """`key (file:line)` of the spelling that the recipe sets, for messages."""
        for key in keys:
            if key in self.settings:
                source = self.settings[key].source
                return f"{key} ({source.file}:{source.line})" if source and source.line else key
        return keys[0]

    def integer(self, *keys: str, default: int | None = None) -> int | None:
        """The value as a whole number.

        Raises:
            RefusedInput: it is something else, for example a variable that nobody sets.
        """
        value = self.get(*keys)
        if value is None:
            return default
        number = self._number(value, keys)
        if number != int(number):
            raise RefusedInput(f"{self.where(*keys)} is {value}, not a whole number", "give a number in the script")
        return int(number)

    def number(self, *keys: str, default: float | None = None) -> float | None:
        """The value as a number.

        Raises:
            RefusedInput: it is not one.
        """
        value = self.get(*keys)
        return default if value is None else self._number(value, keys)

    def _number(self, value: Any, keys: Sequence[str]) -> float:
        if isinstance(value, bool):
            raise RefusedInput(f"{self.where(*keys)} is {value}, not a number", "give a number in the script")
        try:
            return float(value)
        except (TypeError, ValueError):
            name = re.fullmatch(r"\$\{?(\w+)\}?", str(value))
            hint = f"give it: --set {name[1]}=NUMBER" if name else "set the variable it comes from, or give a number"
            if name and (others := [other for other in self.launch.unset if other != name[1]]):
                hint += f" (the script also leaves {', '.join(others)} to be set from outside)"
            raise RefusedInput(f"{self.where(*keys)} is {value!r}, not a number", hint) from None

    def flag(self, *keys: str, default: bool = False) -> bool:
        """The value as true or false; the words of Hydra and of Python both count. A removed key is false."""
        value = self.get(*keys)
        if value is None:
            return default and not self.removed.intersection(keys)
        if isinstance(value, str):
            return value.strip().lower() in ("true", "1", "yes", "on")
        return bool(value)

    def text(self, *keys: str, default: str = "") -> str:
        """The value as text; numbers and null-likes become text or the default."""
        value = self.get(*keys)
        return default if value is None else str(value).strip().strip("'\"")

    @property
    def megatron(self) -> bool:
        """Whether the actor trains with verl's Megatron engine (its parallel sizes then carry over)."""
        if self.text("model_engine") == "megatron" or self.text(ACTOR + "strategy") == "megatron":
            return True
        return bool(self.set_below(ACTOR + "megatron.")) and not self.set_below(ACTOR + "fsdp_config.")

    @property
    def estimator(self) -> str:
        """verl's advantage estimator by its plain name."""
        return self.text("algorithm.adv_estimator", default="gae").rsplit(".", 1)[-1].lower()

    @property
    def loss_mode(self) -> str:
        """verl's policy loss; "vanilla" is the clipped objective."""
        return self.text(ACTOR + "policy_loss.loss_mode", ACTOR + "loss_mode", default="vanilla").lower()
