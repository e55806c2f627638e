"""Settings of one launch: every override of its command line and of the recipe's YAML, each exactly once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from migrate_tools.model import Note, Setting, SourceRef
from migrate_tools.verl.align import Placed
from migrate_tools.verl.commands_of import MARKER, UNKNOWN
from migrate_tools.verl.hydra_primary import YamlSetting
from migrate_tools.verl.hydra_read import Composed, Parsed
from migrate_tools.verl.key_facts import key_versions
from migrate_tools.verl.launch import strip_roots
from migrate_tools.verl.secrets import redact, redact_value, redact_variable

VOLATILE = re.compile(r"2001\D?02\D?03|010203|981173106|0203\D?0405")
"""The made-up time that scripts see (2001-02-03 04:05:06 UTC) in the forms that file names use."""


def clean_text(text: str) -> str:
    """A text with the sandbox's names and markers turned back and credentials removed."""
    text = MARKER.sub(lambda match: f"${match[1]}", strip_roots(text)).replace(UNKNOWN, "")
    return redact(text)


def clean_value(value: Any) -> Any:
    """A value with the sandbox's names turned back and credentials removed, at any depth."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list | tuple):
        return [clean_value(item) for item in value]
    if isinstance(value, dict):
        return redact_value({_plain(key): clean_value(item) for key, item in value.items()})
    return value


def _plain(key: Any) -> Any:
    return clean_text(key) if isinstance(key, str) else key


def command_line_settings(
    parsed: Sequence[Parsed], places: Sequence[Placed | None], composed: Composed, file: str, line: int | None
) -> list[Setting]:
    """One setting a key; the last place wins and the earlier ones are kept as `overridden`."""
    by_key: dict[str, Setting] = {}
    for item, place in zip(parsed, places, strict=True):
        source = SourceRef(file=place.file, line=place.line) if place else SourceRef(file=file, line=line)
        value = redact_variable_value(item.key, clean_value(_typed(item, composed)))
        earlier = by_key.pop(item.key, None)
        lost = (*earlier.overridden, earlier.source) if earlier and earlier.source else ()
        by_key[item.key] = Setting(
            key=clean_text(item.key), value=value, text=redact_variable(item.key, _text(item, place)),
            prefix=item.prefix, source=source, overridden=tuple(ref for ref in lost if ref),  # type: ignore[arg-type]
        )  # fmt: skip
    return list(by_key.values())


def redact_variable_value(name: str, value: Any) -> Any:
    """A value whose key says that it is a credential."""
    return redact_variable(name, value) if isinstance(value, str) else value


def _typed(item: Parsed, composed: Composed) -> Any:
    if item.prefix == "~":
        return None
    if isinstance(item.value, str) and "${" in item.value and item.key in composed.config:
        return composed.config[item.key]
    return plain(item.value)


def plain(value: Any) -> Any:
    """Hydra's parsed values as Python ones (quoted strings lose their quotes)."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if hasattr(value, "text") and hasattr(value, "quote"):
        return value.text
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def _text(item: Parsed, place: Placed | None) -> str:
    raw = item.text.partition("=")[2]
    if place is not None and place.text is not None:
        match = re.match(r"^[^=]*=(.*)$", place.text, re.DOTALL)
        raw = match[1] if match else raw
    return clean_text(raw)


def with_yaml(settings: Sequence[Setting], own: Sequence[YamlSetting], config: Mapping[str, Any]) -> list[Setting]:
    """Add the settings of the recipe's YAML; one that the command line sets again is kept there as overridden."""
    by_key = {setting.key: setting for setting in settings}
    extra = []
    for item in own:
        winner = by_key.get(item.key)
        if winner is not None:
            by_key[item.key] = winner.model_copy(update={"overridden": (item.source, *winner.overridden)})
            continue
        value = redact_variable_value(item.key, clean_value(config.get(item.key, item.value)))
        text = "null" if value is None else value if isinstance(value, str) else _shown(value)
        extra.append(
            Setting(
                key=item.key,
                value=value,
                text=redact_variable(item.key, text),
                origin="recipe_config",
                source=item.source,
            )
        )
    return [*extra, *by_key.values()]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join("null" if item is None else str(item) for item in value) + "]"
    return str(value)


def _needed(key: str, config: Mapping[str, Any]) -> bool:
    """Whether a value without a default matters: those of a reward model only when there is one."""
    for head in ("reward.reward_model.", "reward_model."):
        if key.startswith(head):
            return config.get(f"{head}enable") is True
    return True


def known_in(key: str, prefix: str) -> str:
    """Which releases declare a key that this one does not, as the end of a remark; empty when none is known to."""
    versions = key_versions(key)
    if prefix == "+" or not versions:
        return ""
    if not versions[0].isdigit():
        return f"; only a {versions.replace(', ', ' or a ')} declares it"
    return f"; declared by verl {versions}"


def setting_notes(
    settings: Sequence[Setting], parsed: Sequence[Parsed], composed: Composed, version: str
) -> list[Note]:
    """What a reviewer should know about single settings: placeholders, mandatory values, keys of other versions."""
    places = {setting.key: setting.source for setting in settings}
    notes = []
    for index, item in enumerate(parsed):
        if item.placeholder:
            text = f"{item.key}={clean_text(str(item.value))} is no value that Hydra accepts: a placeholder to fill in?"
            notes.append(Note(code="placeholder", text=text, source=places.get(item.key)))
        elif isinstance(item.value, str) and re.search(r"<[^<>]+>|/path/to|YOUR_|your_", item.value):
            text = f"{item.key}={clean_text(item.value)} looks like a placeholder: give the real value"
            notes.append(Note(code="placeholder", text=text, source=places.get(item.key)))
        if UNKNOWN in item.text:
            text = f"a part of {item.key} is made by code that was not run; that part is missing here: give the value"
            notes.append(Note(code="value-unknown", text=text, source=places.get(item.key)))
        if index in composed.misfits:
            known = known_in(item.key, item.prefix)
            text = f"{clean_text(composed.misfits[index])} (read against verl {version}{known}); the setting is kept"
            notes.append(Note(code="version-skew", text=text, source=places.get(item.key)))
    for setting in settings:
        if VOLATILE.search(setting.text):
            text = f"{setting.key} is made from the time of the run; the date in it is a made-up one"
            notes.append(Note(code="volatile-value", text=text, source=setting.source))
    for key, value in composed.config.items():
        if value == "???" and _needed(key, composed.config):
            notes.append(Note(code="mandatory-value", text=f"{key} has no default in verl {version} and is not set"))
    return notes
