"""Arguments that the recipe hands to SGLang itself (`rollout.engine_kwargs.sglang.*`): flags of the same name."""

from __future__ import annotations

from typing import Final

from migrate_tools.mapping.draft import Draft, shell
from migrate_tools.mapping.facts import ROLLOUT, number_text
from migrate_tools.model import Setting

SGLANG: Final = ROLLOUT + "engine_kwargs.sglang."
OWN_ROW: Final = frozenset({"attention_backend"})
"""Arguments with a row of their own."""


def place_engine_kwargs(draft: Draft) -> None:
    """Write each argument as `--sglang-<name>`; called last, so that what another setting writes stays."""
    for setting in draft.facts.set_below(SGLANG):
        name = setting.key.removeprefix(SGLANG)
        if name not in OWN_ROW:
            _place(draft, setting, name)


def _place(draft: Draft, setting: Setting, name: str) -> None:
    flag = "--sglang-" + name.replace("_", "-")
    info = draft.contract.find(flag)
    value = setting.value
    if info is None or isinstance(value, (dict, list)):
        reason = f"this Relax has no {flag}" if info is None else f"give {flag} by hand: the value has parts"
        draft.say(setting.key, "approximate", (), f"{reason}; SGLang keeps its default", "speed")
    elif value is None:
        draft.say(setting.key, "no_effect", (), "not set")
    elif draft.has(info.name):
        draft.say(setting.key, "derived", info.name, "written by another setting", "speed")
    elif info.is_switch:
        _switch(draft, setting, flag)
    else:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        text = number_text(value) if number else shell(str(value).strip("'\""))
        if info.choices and text not in [str(choice) for choice in info.choices]:
            draft.say(setting.key, "approximate", (), f"{flag} does not take {text}; SGLang keeps its default", "speed")
            return
        draft.flag(info.name, text, "SGLANG")
        draft.say(setting.key, "exact", info.name, "SGLang's argument of this name", "speed")


def _switch(draft: Draft, setting: Setting, flag: str) -> None:
    if str(setting.value).strip("'\"").lower() in ("true", "1"):
        draft.flag(flag, None, "SGLANG")
        draft.say(setting.key, "exact", flag, "SGLang's argument of this name", "speed")
    else:
        draft.say(setting.key, "exact", (), "off, as SGLang's default", "speed")
