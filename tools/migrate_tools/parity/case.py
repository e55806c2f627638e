"""One input of the parity check, and the two texts that the two sides see for it.

Runs inside the sandbox too: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from migrate_tools.parity import forms, texts

ANSWER_KEYS = ("answer", "solution", "target", "ground_truth")


class Decoding(Protocol):
    """How the manager makes its text (a RewardSpec has both)."""

    @property
    def text(self) -> str: ...
    @property
    def skip_special_tokens(self) -> bool: ...


@dataclass(frozen=True)
class Case:
    """One model output for one row."""

    row: int
    """Index over all rows of the frozen files."""
    family: str
    raw: str
    """What the model wrote, special tokens inside the text included, without the end token."""
    old: str
    """What verl's manager passes to the scorer."""
    new: str
    """What Relax has in Sample.response."""
    length: int
    """Tokens of the response."""
    told: str = ""
    """What a rollout of several turns tells the reward beside the text, as JSON (`told.py`)."""

    def line(self) -> str:
        """The case as one line of JSON."""
        return json.dumps(asdict(self))


def make_case(
    row: int,
    family: str,
    raw: str,
    prompt: Any,
    decoding: Decoding,
    markers: texts.Family,
    *,
    length: int | None = None,
    ended: bool = True,
    told: str = "",
) -> Case:
    """A case from what the model wrote; its length is estimated when none is given."""
    tokens = length or max(1, len(raw) // 4) + ended
    return Case(row, family, raw, *both_texts(raw, prompt, decoding, markers, ended), tokens, told)


def new_inputs(case: Mapping[str, Any]) -> dict[str, Any]:
    """What the new side may know of a case."""
    return {key: case[key] for key in ("row", "new", "length", "told")}


def both_texts(raw: str, prompt: Any, decoding: Decoding, markers: texts.Family, ended: bool = True) -> tuple[str, str]:
    """What verl's scorer and what Relax's hook get for one model output."""
    new = raw + (markers.end if ended else "")
    old = new
    if decoding.text == "prompt_and_response":
        old = texts.flat_prompt(prompt, markers) + old
    if decoding.skip_special_tokens:
        old = texts.without_special(old, markers)
    return old, new


def prompt_of(row: Mapping[str, Any], key: str, form: str) -> Any:
    """The prompt that verl makes its text from: the first message alone where it applies no template."""
    messages = row.get(key)
    if form == "templated" and messages is not None and not isinstance(messages, str) and len(messages):
        return str(messages[0]["content"])
    return messages


def ground_truth(row: Mapping[str, Any]) -> Any:
    """reward_model.ground_truth of a row, or None."""
    model = row.get("reward_model")
    return model.get("ground_truth") if isinstance(model, Mapping) else None


def answers_of(row: Mapping[str, Any]) -> list[str]:
    """Texts that may be the right answer of a row: at least one."""
    found = forms.leaves(ground_truth(row))
    extra = row.get("extra_info")
    if isinstance(extra, Mapping):
        for key in ANSWER_KEYS:
            if isinstance(extra.get(key), str):
                found += forms.leaves(extra[key], 3)
    return list(dict.fromkeys(found)) or ["42"]
