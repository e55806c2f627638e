"""What the rehearsal asks of multi-turn samples, and how its engine follows a conversation."""

from __future__ import annotations

import pytest
from migrate_tools.rehearsal.runtime.convert import turn_problems
from migrate_tools.rehearsal.runtime.engine import Script
from migrate_tools.rehearsal.runtime.sample import Sample
from migrate_tools.rehearsal.runtime.tokenizer import Tokenizer

NO_MASK = "a multi-turn rollout sets no loss mask, so that results of tools would be trained on"
SAID = {(5, 6), (9,)}


def sample(ids: list[int], mask: list[int] | None, logprobs: list[float]) -> Sample:
    return Sample(
        tokens=[1, 2, *ids], response_length=len(ids), loss_mask=mask, rollout_log_probs=logprobs, metadata={}
    )


@pytest.mark.parametrize(
    ("ids", "mask", "logprobs", "problems"),
    [
        ([5, 6, 7, 9], [1, 1, 0, 1], [-1.0, -1.0, 0.0, -1.0], []),
        ([5, 6, 7, 9], None, [0.0] * 4, [NO_MASK]),
        ([5, 8, 7], [1, 1, 0], [-1.0, -1.0, 0.0], ["trained tokens are not those that the engine returned"]),
        ([5, 6, 7], [1, 1, 1], [-1.0] * 3, ["trained tokens are not those that the engine returned"]),
        ([5, 6, 7], [1, 1, 0], [-1.0, -1.0, -0.3], ["tokens of a tool's result have a log-prob"]),
        ([5, 6], [2, 2], [0.0, 0.0], ["the loss mask holds 2"]),
    ],
)  # fmt: skip
def test_turn_problems(ids: list[int], mask: list[int] | None, logprobs: list[float], problems: list[str]) -> None:
    assert list(turn_problems(sample(ids, mask, logprobs), SAID)) == problems


def test_the_engine_calls_tools_and_remembers_the_conversation() -> None:
    tokenizer = Tokenizer()
    script = Script(tokenizer, ["CALL a", "CALL b"])
    prompt = tokenizer.encode("What is 1 + 1?")
    script.expect(prompt, "2")
    first, finish, kind = script.reply(prompt, 100)
    assert (kind, finish) == ("call", "stop")
    assert tokenizer.decode(first) == "I will use a tool.\nCALL a<|im_end|>"
    later, _, kind = script.reply([*prompt, *first, *tokenizer.encode("result")], 100)
    assert (kind, "2" in tokenizer.decode(later)) == ("right", True)
    third, _, kind = script.reply([*prompt, *first, *later], 3)
    assert (kind, len(third)) == ("call", 3)
    assert script.said == {tuple(first), tuple(later), tuple(third)}


def test_without_calls_an_unknown_prompt_is_a_conversation_of_its_own() -> None:
    tokenizer = Tokenizer()
    script = Script(tokenizer)
    script.expect(tokenizer.encode("a"), "1")
    assert script.reply(tokenizer.encode("ab"), 50)[2] == "right"
    assert script.reply(tokenizer.encode("a"), 50)[2] == "right"
