"""Importance weights and rejection for the rollout policy, as Relax flags or a hook."""

from __future__ import annotations

from typing import Any, Final

from migrate_tools.mapping.correction_facts import (
    CAP,
    IS_KEYS,
    NORMALISE,
    RS_KEYS,
    THRESHOLD_KEYS,
    VETO_KEYS,
    Correction,
    read_correction,
)
from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import number_text

TIS_HOOK: Final = "--custom-tis-function-path"


def place_correction(draft: Draft, custom: bool) -> dict[str, Any]:
    """Write flags or a hook; with a custom loss, which Relax's own correction does not reach, return its constants."""
    found = read_correction(draft.facts)
    for text in found.problems:
        _unsupported(draft, (*IS_KEYS, *RS_KEYS), text)
    if not found.active:
        keys = (*IS_KEYS, *THRESHOLD_KEYS, *RS_KEYS, *VETO_KEYS, NORMALISE, CAP)
        if not found.problems:
            draft.say(keys, "no_effect", (), "no correction for the rollout policy")
        return {}
    flags: tuple[str, ...] = ("--custom-loss-function-path",)
    constants: dict[str, Any] = {}
    if custom:
        constants = found.constants()
    elif found.plain:
        draft.flag("--use-tis", None, "ALGO")
        draft.flag("--tis-clip", number_text(found.upper), "ALGO")
        draft.flag("--tis-clip-low", number_text(0.0), "ALGO")
        flags = ("--use-tis", "--tis-clip")
    else:
        draft.flag("--use-tis", None, "ALGO")
        if not draft.hook(TIS_HOOK, "rollout_correction", "ALGO", **found.constants()):
            _unsupported(draft, (*IS_KEYS, *RS_KEYS), f"this Relax version has no {TIS_HOOK}")
            return {}
        flags = ("--use-tis", TIS_HOOK)
    _say(draft, found, flags)
    return constants


def _say(draft: Draft, found: Correction, flags: tuple[str, ...]) -> None:
    if found.level == "none":
        draft.say((*IS_KEYS, *THRESHOLD_KEYS, CAP), "no_effect", (), "no importance weights")
    else:
        kind = "capped" if found.lower is None else "0 outside the bounds (IcePop)"
        draft.say((*IS_KEYS, *THRESHOLD_KEYS, CAP), "exact", flags, f"importance weights per {found.level}, {kind}")
    if found.reject or found.veto is not None:
        text = (
            "rejected tokens leave the sum; verl divides by what is left, Relax by all tokens (or samples) of the batch"
        )
        draft.say(RS_KEYS if found.reject else (), "approximate", flags, text, "training")
        draft.say(VETO_KEYS, "approximate", flags, text, "training")
        draft.note("rejection-denominator", text)
    else:
        draft.say((*RS_KEYS, *VETO_KEYS), "no_effect", (), "no rejection")
    if found.normalise and found.level != "none":
        _unsupported(
            draft, (NORMALISE,), "weights normalised over the batch: Relax's hooks see one micro batch at a time"
        )
    else:
        draft.say(NORMALISE, "automatic", (), "weights are not normalised, as in Relax")


def _unsupported(draft: Draft, keys: tuple[str, ...], text: str) -> None:
    draft.say(keys, "unsupported", (), text, "training")
    draft.cap("rollout-correction", text)
