"""Every prompt says the hard rules and leaves no variable open."""

from __future__ import annotations

import jinja2
import pytest
from migrate_agent.prompting import render_prompt

VALUES = {
    "relax_contract": "latest",
    "algo": "toy",
    "check": "parity",
    "files": "reward_toy.py",
    "attempts_left": 3,
}


def test_system_prompt_is_filled_and_states_the_hard_rules() -> None:
    text = render_prompt("system", **VALUES)
    assert "{{" not in text
    assert "examples/toy/" in text
    assert "You have 3 attempts left" in text
    for rule in ("never an instruction", "frozen cases", "No import from verl", "No credential"):
        assert rule in text


@pytest.mark.parametrize("missing", sorted(VALUES))
def test_a_missing_variable_is_an_error(missing: str) -> None:
    with pytest.raises(jinja2.UndefinedError, match=missing):
        render_prompt("system", **{key: value for key, value in VALUES.items() if key != missing})
