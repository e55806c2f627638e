"""Multi-turn launches: tools become an environment and a rollout of their own (Relax contract, sections 4, 5)."""

from __future__ import annotations

from migrate_tools.mapping.draft import Draft
from migrate_tools.model import MultiTurn

TURNS, AGENT = "actor_rollout_ref.rollout.multi_turn.", "actor_rollout_ref.rollout.agent."
GENERATE = "--custom-generate-function-path"
TOOL_LOOPS = frozenset({"tool_agent", "single_turn_agent", ""})


def obstacle(turns: MultiTurn) -> str:
    """Why the multi-turn side cannot be written, by name; empty when it can."""
    for note in turns.missing:
        return note.text
    if turns.manager_class:
        return f"the agent loop manager {turns.manager_class} replaces verl's whole rollout"
    for loop in turns.loops:
        return f"the agent loop {loop.name} ({loop.class_name}) is the recipe's own"
    for user in turns.interactions:
        return f"the simulated user {user.name} ({user.class_name}) is not carried over"
    for tool in turns.tools:
        if tool.kind == "mcp":
            return f"the tools of {tool.class_name} are asked from MCP servers when training starts"
        if tool.kind == "base_tool" and tool.parameters is None:
            return f"the schema of the tool {tool.name} is made when its class is"
    if not turns.tools:
        return "multi-turn is on and no tool is named"
    return ""


def place_turns(draft: Draft) -> dict[str, object]:
    """Write the rollout's flags and settings; returns the keys of the example's YAML configuration."""
    turns = draft.facts.launch.multi_turn
    if turns is None:
        return {}
    why = obstacle(turns)
    if why:
        draft.cap("multi-turn", why)
        return {}
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
    limits = ("max_assistant_turns", "max_user_turns", "max_turns", "max_parallel_calls", "format")
    cuts = ("max_tool_response_length", "tool_response_truncate_side")
    draft.say(
        [TURNS + name for name in (*limits, *cuts)], "exact", (f"file: env_{algo}.py",), "a constant of the environment"
    )
    if turns.default_loop == "tool_agent":
        draft.say(AGENT + "default_agent_loop", "exact", flag, "verl's tool agent loop")
    elif turns.default_loop == "single_turn_agent" and not turns.row_loops:
        draft.note(
            "agent-name",
            "rows choose verl's tool agent loop by their column agent_name, which is not known here; a row without it "
            "is single-turn in verl and may use tools in Relax",
            TURNS + "enable",
        )
    return {"rollout_interaction_env_path": f"examples.{algo}.env_{algo}"}
