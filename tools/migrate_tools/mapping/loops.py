"""Agent loops of a recipe's own: a generate function over SGLang, or Relax's agentic form (contract, 4 and 10)."""

from __future__ import annotations

from migrate_tools.mapping.draft import Draft, shell
from migrate_tools.mapping.environment import turns_environment
from migrate_tools.model import MultiTurn
from migrate_tools.verl.agent_loops import is_agentic

TURNS, AGENT = "actor_rollout_ref.rollout.multi_turn.", "actor_rollout_ref.rollout.agent."
GENERATE = "--custom-generate-function-path"
AGENTIC = ("--use-agentic-rollout", "--agent-command", "--agent-cwd")
RAW_TEXT_FORMATS = ("gpt-oss",)
"""Formats whose tool results a loop writes as text of the template, which no chat server takes."""


def loops_obstacle(turns: MultiTurn) -> str:
    """Why the loops cannot be written, by name; empty when they can."""
    for loop in turns.loops:
        if loop.obstacle:
            return f"the agent loop {loop.name} ({loop.class_name}) is not translated: {loop.obstacle}"
        if loop.arguments and any(isinstance(value, dict | list) for value in loop.arguments.values()):
            return f"the agent loop {loop.name} ({loop.class_name}) is made with objects of its configuration file"
    if turns.interactions:
        return f"the agent loop {turns.loops[0].name} is used together with simulated users"
    if turns.default_loop == "tool_agent":
        return "rows may choose verl's own tool agent loop beside the recipe's loops"
    if is_agentic(turns) and turns.format in RAW_TEXT_FORMATS:
        return (
            f"the agent loop {turns.loops[0].name} writes results of tools as text of the template ({turns.format}), "
            "which a chat server does not take"
        )
    return ""


def place_loops(draft: Draft, turns: MultiTurn) -> dict[str, object]:
    """Write the rollout's flags and what became of the settings."""
    algo, names = draft.algo, ", ".join(loop.name for loop in turns.loops)
    agentic = is_agentic(turns)
    done = (
        _place_agentic(draft)
        if agentic
        else draft.flag(GENERATE, f"examples.{algo}.rollout_{algo}.generate", "ROLLOUT", "the recipe's agent loop")
    )
    if not done:
        draft.cap("multi-turn", f"this Relax has no {AGENTIC[0] if agentic else GENERATE}")
        return {}
    flags = AGENTIC if agentic else (GENERATE,)
    file = f"file: {'agent' if agentic else 'rollout'}_{algo}.py"
    why = f"the agent loop {names} runs in {'a process of its own' if agentic else 'the rollout'}"
    draft.say((TURNS + "enable", AGENT + "agent_loop_config_path"), "derived", (*flags, file), why)
    draft.say(AGENT + "default_agent_loop", "exact", (file,), "a constant of the file")
    limits = ("max_assistant_turns", "max_user_turns", "max_turns", "max_parallel_calls", "format")
    cuts = ("max_tool_response_length", "tool_response_truncate_side")
    draft.say([TURNS + name for name in (*limits, *cuts)], "exact", (file,), "given to the loop as its configuration")
    for item in draft.facts.set_below(AGENT):
        if item.key not in draft.outcomes and not item.key.endswith("num_workers"):
            draft.say(item.key, "exact", (file,), "given to the loop as its configuration")
    if turns.row_loops and turns.default_loop not in {loop.name for loop in turns.loops}:
        text = f"rows choose among {names} and one answer by their column agent_name"
        draft.note("agent-name", text, TURNS + "enable")
    return {}


def _place_agentic(draft: Draft) -> bool:
    """The flags of the agentic form; Relax applies the chat template in its own server then."""
    algo = draft.algo
    script = f"run_agent_{algo}.sh"
    done = draft.flag(AGENTIC[0], None, "ROLLOUT", "one process of the agent for every sample")
    done = done and draft.flag(AGENTIC[1], shell(f"bash {script}"), "ROLLOUT")
    variables = turns_environment(draft.facts.launch)
    if done and variables:
        pairs = " ".join(shell(f"{name}={value}") for name, value in variables.items())
        draft.flag("--agent-env", pairs, "ROLLOUT", "what the agent reads; the flag counts once, with all pairs")
    return done and draft.flag(AGENTIC[2], '"${SCRIPT_DIR}"', "ROLLOUT")
