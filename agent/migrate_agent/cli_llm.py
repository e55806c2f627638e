"""Options that say whether and how far a model is asked."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Llm(StrEnum):
    """Whether a language model may be asked."""

    auto = "auto"
    off = "off"


LlmMode = Annotated[
    Llm,
    typer.Option(
        "--llm",
        help="auto: ask MIGRATE_AGENT_MODEL, where it is set, at OPENAI_BASE_URL with OPENAI_API_KEY; off: never.",
    ),
]
BudgetUsd = Annotated[
    float | None,
    typer.Option(
        min=0, metavar="USD", help="Most that the model may cost, where its price is known.", show_default=False
    ),
]
BudgetTokens = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="Tokens of questions and answers; default 500000.", show_default=False),
]
BudgetSeconds = Annotated[
    float | None,
    typer.Option(min=0, metavar="S", help="Seconds of waiting for the model; default 1800.", show_default=False),
]
BudgetCalls = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Questions to the model; default 100.", show_default=False)
]
Repairs = Annotated[
    int, typer.Option("--repairs", min=0, metavar="N", help="Attempts of the model at one thing that is left.")
]
Ask = Annotated[
    bool, typer.Option("--ask", help="Stop for decisions that change training: batch policy, KL, unsupported parts.")
]
Answers = Annotated[
    list[str] | None,
    typer.Option(
        "--answer", metavar="KEY=CHOICE", help="A decision of a run with --ask; repeatable.", show_default=False
    ),
]
Replay = Annotated[
    str | None,
    typer.Option(
        metavar="RUN_ID",
        help="Repeat a run from its tape, with its recipe and options; no model is asked and no key needed.",
        show_default=False,
    ),
]
