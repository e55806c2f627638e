"""Decisions that change training and that a user may want to take: asked at the gate of a run with --ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from migrate_tools.errors import UsageError
from migrate_tools.model import Decision, Frozen, Translation

from migrate_agent.verdict import holds_back, is_refused

BATCH_POLICY = "batch-policy"
WRITE, LEAVE_OUT = "write", "leave-out"
KL_NOTES = frozenset({"R21-kl-in-reward", "kl-adaptive", "kl-type", "kl-estimator-rule"})
SHOWN = 4


class Question(Frozen):
    """One decision: the choices, the first of which is what happens without an answer."""

    key: str
    text: str
    choices: tuple[str, ...]


Decide = Callable[[Sequence[Question]], Mapping[str, str]]
"""Answers every question with one of its choices, or raises a MigrateError."""


def questions(translations: Sequence[Translation], answers: Mapping[str, str]) -> tuple[Question, ...]:
    """What is not answered yet, in a fixed order."""
    kept = [item for item in translations if not is_refused(item)]
    found = [*_batch(kept), *(question for item in kept for question in _launch(item))]
    return tuple(question for question in found if question.key not in answers)


def checked(asked: Sequence[Question], answers: Mapping[str, str]) -> dict[str, str]:
    """The answers to these questions.

    Raises:
        UsageError: one has no answer, or none of its choices.
    """
    for question in asked:
        if answers.get(question.key) not in question.choices:
            raise UsageError(
                f"{question.key}: {question.text} ({' or '.join(question.choices)}?)",
                f"--resume RUN_ID --answer {question.key}={question.choices[0]}",
            )
    return {question.key: answers[question.key] for question in asked}


def left_out(launch: str, answers: Mapping[str, str]) -> bool:
    """Whether the user does not want this launch."""
    return LEAVE_OUT in (answers.get(f"kl:{launch}"), answers.get(f"unsupported:{launch}"))


def decisions(answers: Mapping[str, str]) -> tuple[Decision, ...]:
    """What the user decided, for the report."""
    return tuple(
        Decision(question=key, choice=choice, why="chosen by the user (--ask)")
        for key, choice in sorted(answers.items())
    )


def _batch(translations: Sequence[Translation]) -> list[Question]:
    """Asked only where the two policies differ: then the choice is among the decisions of a launch."""
    for item in translations:
        for decision in item.decisions:
            if decision.question == "batch policy":
                other = "faithful" if decision.choice == "on-policy" else "on-policy"
                text = f"batches are carried over {decision.choice}: {decision.why}"
                return [Question(key=BATCH_POLICY, text=text, choices=(decision.choice, other))]
    return []


def _launch(item: Translation) -> list[Question]:
    kl = [note.text for note in item.notes if note.code in KL_NOTES]
    rest = [reason for reason in item.cap_reasons if reason not in kl]
    rest += [f"{setting.key}: {setting.reason}" for setting in item.settings if holds_back(setting)]
    found = []
    for name, reasons in (("kl", kl), ("unsupported", rest)):
        if reasons:
            more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
            text = f"{item.launch} will train differently: {'; '.join(reasons[:SHOWN])}{more}"
            found.append(Question(key=f"{name}:{item.launch}", text=text, choices=(WRITE, LEAVE_OUT)))
    return found
