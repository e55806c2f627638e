"""The limits of a multi-turn launch: one is a key of the configuration, the others are constants."""

from __future__ import annotations

from mapping_launches import ROLLOUT, Make, flag_values
from migrate_tools.model import AgentLoopSpec, InteractionSpec, MultiTurn, ToolSpec

TOOL = ToolSpec(name="count", kind="base_tool", class_name="a.Count", file="a.py", parameters={"type": "function"})
TURNS = ROLLOUT + "multi_turn."


def test_the_limit_of_answers_is_max_turns_of_the_configuration(make: Make) -> None:
    turns = MultiTurn(tools=(TOOL,), max_assistant_turns=7, max_user_turns=3)
    limits = {TURNS + "enable": True, TURNS + "max_assistant_turns": 7, TURNS + "max_user_turns": 3}
    made = make(limits, multi_turn=turns)
    assert made.config_yaml == {"max_turns": 7, "rollout_interaction_env_path": "examples.gsm8k.env_gsm8k"}
    relax = {item.key: (item.status, item.relax) for item in made.settings}
    assert relax[TURNS + "max_assistant_turns"] == ("exact", ("gsm8k_config.yaml: max_turns",))
    assert relax[TURNS + "max_user_turns"] == ("exact", ("file: env_gsm8k.py",))


def test_without_a_limit_the_configuration_names_none(make: Make) -> None:
    made = make({TURNS + "enable": True}, multi_turn=MultiTurn(tools=(TOOL,)))
    assert made.config_yaml == {"rollout_interaction_env_path": "examples.gsm8k.env_gsm8k"}


def test_a_development_tree_with_the_older_loop_still_asks_its_users(make: Make) -> None:
    user = InteractionSpec(name="teacher", class_name="a.TeacherInteraction", file="a.py")
    settings = {TURNS + "enable": True, TURNS + "interaction_config_path": "users.yaml"}
    for release, reached in (("0.7.1", True), ("", False)):
        turns = MultiTurn(interactions=(user,), loop_release=release)
        made = make(settings, version="0.8.0.dev", multi_turn=turns)
        assert ("rollout_interaction_env_path" in made.config_yaml) is reached


def test_an_agent_gets_all_its_variables_in_one_flag(make: Make) -> None:
    """Relax keeps only the last --agent-env of several, and colocated training is on policy."""
    loop = AgentLoopSpec(
        name="graph", class_name="a.Graph", file="a.py", traits=("import:langgraph", "env:TOOL_HOST", "env:TOOL_PORT")
    )
    made = make(
        {ROLLOUT + "agent.default_agent_loop": "graph"},
        multi_turn=MultiTurn(loops=(loop,), default_loop="graph"),
        environment={"TOOL_HOST": "http://tools a", "TOOL_PORT": "80", "UNREAD": "1"},
    )
    assert [flag.value for flag in made.flags if flag.name == "--agent-env"] == [
        "'TOOL_HOST=http://tools a' TOOL_PORT=80"
    ]
    assert flag_values(made, "SYNC")["--max-staleness"] == "0"
    assert "--colocate" in flag_values(made, "SYNC")


def test_a_chat_template_of_the_recipe_belongs_into_the_model_folder(make: Make) -> None:
    key = "actor_rollout_ref.model.custom_chat_template"
    (found,) = (item for item in make({key: "{{ messages }}"}).settings if item.key == key)
    assert (found.status, found.risk, found.relax) == ("approximate", "training", ("file: chat_template.jinja",))
    assert "copy chat_template.jinja into it before training" in found.reason
    (unset,) = (item for item in make({key: None}).settings if item.key == key)
    assert unset.status == "no_effect"


def test_a_rollout_of_the_recipe_in_the_place_of_verls_is_named(make: Make) -> None:
    turns = MultiTurn(tools=(TOOL,), own_rollout="a/sglang_rollout.py (verl/x.py)")
    made = make({TURNS + "enable": True}, multi_turn=turns)
    why = "the recipe replaces verl's rollout with its own a/sglang_rollout.py (verl/x.py)"
    assert f"{why}: what that changes is not migrated" in made.cap_reasons


def test_a_chat_format_that_this_verl_does_not_know_is_named(make: Make) -> None:
    turns = MultiTurn(tools=(TOOL,), runner="engine", format="qwen")
    said = [note.text for note in make({TURNS + "format": "qwen"}, version="0.8.0.dev", multi_turn=turns).notes]
    assert any(text.startswith("multi_turn.format qwen is a chat format of verl 0.3 and 0.4") for text in said)
    older = make({TURNS + "format": "qwen"}, version="0.4.1", multi_turn=turns)
    assert not any("chat format" in note.text for note in older.notes)
