"""Multi-turn launches: tools become an environment and a rollout of their own (Relax contract, sections 4, 5)."""

from __future__ import annotations

from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.loops import loops_obstacle, place_loops
from migrate_tools.model import MultiTurn
from migrate_tools.verl.loop_release import version_pair

TURNS, AGENT = "actor_rollout_ref.rollout.multi_turn.", "actor_rollout_ref.rollout.agent."
GENERATE = "--custom-generate-function-path"
MAX_TURNS = "max_turns"
"""Key of the configuration that limits the answers of an episode; Relax's own examples with tools name it so."""
TOOL_LOOPS = frozenset({"tool_agent", "single_turn_agent", ""})


ENGINE_NOTE = (
    "verl's SGLang rollout writes the model's turns and the results anew with the chat template; here the tokens stay "
    "as the engine returned them. Rewards of single calls are dropped as in verl; the tools' rewards at the end reach "
    "the scorer where this verl passes them (rollout_reward_scores, 0.6)"
)


OLD_FORMAT = (
    "multi_turn.format {} is a chat format of verl 0.3 and 0.4 and no tool parser of verl {}, which stops at the first "
    "row with tools; the example does what the SGLang rollout of that time did"
)


def obstacle(turns: MultiTurn, verl_version: str = "") -> str:
    """Why the multi-turn side cannot be written, by name; empty when it can.

    `verl_version` counts where the loop's own release is not known. Simulated users:
    verl/experimental/agent_loop/tool_agent_loop.py of 0.6 and 0.7, and the SGLang rollout up to 0.6.
    """
    for note in turns.missing:
        return note.text
    if turns.manager_class:
        return f"the agent loop manager {turns.manager_class} replaces verl's whole rollout"
    if turns.loops:
        return loops_obstacle(turns)
    if turns.runner == "engine" and (odd := next((tool for tool in turns.tools if tool.kind == "function"), None)):
        return f"verl's SGLang rollout knows no function tools: {odd.name}"
    release = turns.loop_release or verl_version
    if turns.interactions and turns.runner == "agent_loop" and not (0, 6) <= version_pair(release) < (0, 8):
        user = turns.interactions[0]
        why = "no agent loop of verl {} asks simulated users: {} ({}) is never asked"
        return why.format(release, user.name, user.class_name)
    for tool in turns.tools:
        if tool.kind == "mcp":
            return f"the tools of {tool.class_name} are asked from MCP servers when training starts"
        if tool.kind == "base_tool" and tool.parameters is None:
            return f"the schema of the tool {tool.name} is made when its class is"
        if tool.kind == "function" and tool.parameters is None:
            return f"the schema of the function tool {tool.name} cannot be read"
    if not turns.tools and not turns.interactions:
        return "multi-turn is on and no tool is named"
    return ""


def _without_agent_name(draft: Draft, turns: MultiTurn) -> str:
    """What it means that no row is known to choose the tool agent loop."""
    if draft.facts.launch.data.known_from == "files":
        return (
            "the rows have no column agent_name, so verl runs them single-turn and never asks the "
            f"{'users' if turns.interactions else 'tools'}; the example does what multi_turn says (to train as verl "
            "does, leave the multi_turn settings out)"
        )
    return (
        "rows choose verl's tool agent loop by their column agent_name, which is not known here; a row without it is "
        f"single-turn in verl and may {'be answered by a user' if turns.interactions else 'use tools'} in Relax"
    )


def error_note(turns: MultiTurn, verl_version: str) -> str:
    """What a call that cannot be run does, and where the rewards of tools go, as this verl has it."""
    version = version_pair(turns.loop_release or verl_version)
    if turns.runner == "engine":
        return "a call of an unknown tool or with broken JSON is dropped; an answer without any other ends the episode"
    if version < (0, 6):
        return (
            "a call that fails, of an unknown tool or with broken JSON ends the episode, and rewards of tools are "
            "dropped, as in verl"
        )
    return (
        "an unknown or failing tool is answered with the error; a call whose JSON is broken is dropped by the parser "
        f"{turns.format}, and an answer without any other call ends the episode, as in verl. Rewards of tools reach "
        "the scorer as extra_info['tool_rewards'] and nothing else"
    )


def place_turns(draft: Draft) -> dict[str, object]:
    """Write the rollout's flags and settings; returns the keys of the example's YAML configuration."""
    turns = draft.facts.launch.multi_turn
    if turns is None:
        return {}
    version = draft.facts.launch.verl.version
    why = obstacle(turns, version)
    if why:
        draft.cap("multi-turn", why)
        return {}
    if turns.own_rollout:
        why = f"the recipe replaces verl's rollout with its own {turns.own_rollout}: what that changes is not migrated"
        draft.cap("own-rollout", why)
    if turns.loops:
        return place_loops(draft, turns)
    algo = draft.algo
    if not draft.flag(GENERATE, f"examples.{algo}.rollout_{algo}.generate", "ROLLOUT", "tools"):
        draft.cap("multi-turn", f"this Relax has no {GENERATE}")
        return {}
    flag = (GENERATE,)
    draft.say(TURNS + "enable", "derived", flag, "tools run in the example's own rollout")
    files = (
        TURNS + "tool_config_path",
        TURNS + "function_tool_path",
        "data.tool_config_path",
        "data.function_tool_path",
    )
    draft.say(files, "derived", (f"file: env_{algo}.py",), "tools are in the example's environment")
    draft.say(
        TURNS + "interaction_config_path", "derived", (f"file: env_{algo}.py",), "the example's environment answers"
    )
    if turns.tools:
        draft.note("tool-errors", error_note(turns, version), TURNS + "enable")
    config: dict[str, object] = {"rollout_interaction_env_path": f"examples.{algo}.env_{algo}"}
    answers = [TURNS + name for name in ("max_assistant_turns", "max_turns")]
    if turns.max_assistant_turns is not None:
        config[MAX_TURNS] = turns.max_assistant_turns
        draft.say(answers, "exact", f"{algo}_config.yaml: {MAX_TURNS}", "answers of an episode")
    else:
        draft.say(answers, "exact", (f"file: env_{algo}.py",), "no limit of answers")
    limits = ("max_user_turns", "max_parallel_calls", "format")
    cuts = ("max_tool_response_length", "tool_response_truncate_side")
    draft.say(
        [TURNS + name for name in (*limits, *cuts)], "exact", (f"file: env_{algo}.py",), "a constant of the environment"
    )
    if turns.runner == "engine":
        draft.note("engine-run", ENGINE_NOTE, TURNS + "enable")
        if version_pair(version) >= (0, 7):
            draft.note("old-format", OLD_FORMAT.format(turns.format, version), TURNS + "format")
    elif turns.default_loop == "tool_agent":
        draft.say(AGENT + "default_agent_loop", "exact", flag, "verl's tool agent loop")
    elif turns.default_loop == "single_turn_agent" and not turns.row_loops:
        draft.note("agent-name", _without_agent_name(draft, turns), TURNS + "enable")
    return config
