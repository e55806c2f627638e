"""States of exported variables."""

from __future__ import annotations

import pytest
from mapping_launches import make_launch
from migrate_tools.mapping.environment import environment_items, rows, turns_environment
from migrate_tools.model import MultiTurn, ToolSpec
from migrate_tools.verl.secrets import REMOVED


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("VLLM_ATTENTION_BACKEND", "verl_only"),
        ("HCCL_CONNECT_TIMEOUT", "verl_only"),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "relax_sets_it"),
        ("CUDA_VISIBLE_DEVICES", "left_to_user"),
        ("NVTE_FLASH_ATTN", "changes_training"),
        ("VERL_USE_EXTERNAL_MODULES", "changes_training"),
        ("VERL_LOGGING_LEVEL", "verl_only"),
        ("MY_SETTING", "left_to_user"),
    ],
)
def test_states(name: str, state: str) -> None:
    launch = make_launch({}).model_copy(update={"environment": {name: "1"}})
    (item,) = environment_items(launch)
    assert (item.name, item.state) == (name, state)
    assert item.reason


def test_a_variable_of_the_reward_is_a_setting_of_it() -> None:
    launch = make_launch({})
    reward = launch.reward.model_copy(update={"environment": {"NCCL_DEBUG": "1"}})
    (item,) = environment_items(launch.model_copy(update={"reward": reward, "environment": {"NCCL_DEBUG": "1"}}))
    assert item.state == "read_by_reward"


def test_a_variable_of_a_tool_is_a_default_of_the_environment() -> None:
    tool = ToolSpec(name="t", kind="base_tool", class_name="a.T", traits=("env:SERVER", "env:KEY_TOKEN"))
    variables = {"SERVER": "http://x:1", "KEY_TOKEN": REMOVED, "OTHER": "1"}
    launch = make_launch({}, multi_turn=MultiTurn(tools=(tool,))).model_copy(update={"environment": variables})
    assert turns_environment(launch) == {"SERVER": "http://x:1"}
    states = {item.name: item.state for item in environment_items(launch)}
    assert (states["SERVER"], states["KEY_TOKEN"]) == ("read_by_tools", "left_to_user")


def test_no_row_is_hidden_by_an_earlier_one() -> None:
    seen: set[str] = set()
    for row in rows():
        assert not set(row.names) <= seen, row.names
        seen |= set(row.names)
