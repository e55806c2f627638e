"""Writes the files of a launch with agent loops of the recipe's own: the loops, and what drives them."""

from __future__ import annotations

from typing import Any

from migrate_tools.mapping.environment import turns_environment
from migrate_tools.model import ExampleFile, Launch
from migrate_tools.relax.formatting import format_python, render_template
from migrate_tools.relax.metadata_names import RAW_PROMPT, RESUME_METADATA, ROLLOUT_METADATA
from migrate_tools.relax.reward_module import RELAX_METADATA, added_metadata
from migrate_tools.verl.agent_loops import is_agentic, used_settings
from migrate_tools.verl.extract import Extracted
from migrate_tools.verl.extract_tools import PARTS


def loop_files(launch: Launch, loops: Extracted, *, algo: str, scripts: str) -> list[ExampleFile]:
    """loops_<algo>.py, and rollout_<algo>.py or the agent's command."""
    turns = launch.multi_turn
    assert turns is not None
    agentic = is_agentic(turns)
    columns = tuple(dict.fromkeys((*added_metadata(launch), "agent_name", RAW_PROMPT)))
    limits = lengths(launch)
    config = used_settings(launch.config, loops.code)
    config["actor_rollout_ref"]["rollout"].update(limits)
    values: dict[str, Any] = {
        "licence": "# " + "\n# ".join(loops.header.splitlines()) if loops.header else "",
        "title": f"{'Agent' if agentic else 'Rollout'} of {algo}: the agent loop of {scripts}.",
        "algo": algo,
        "environment": list(turns_environment(launch).items()),
        "loops_module": f"loops_{algo}",
        "parts": PARTS,
        "verl_version": launch.verl.version,
        "arguments": {loop.name: loop.arguments for loop in turns.loops if loop.arguments},
        "default_loop": turns.default_loop or turns.loops[0].name,
        "config": config,
        "prompt_length": limits["prompt_length"],
        "response_length": limits["response_length"],
        "columns": columns,
        "ours": (*RELAX_METADATA, ROLLOUT_METADATA, RESUME_METADATA, "tools"),
        "rollout_metadata": ROLLOUT_METADATA,
    }
    base = f"examples/{algo}"
    name, template = ("agent", "agent.py.j2") if agentic else ("rollout", "loop_rollout.py.j2")
    files = [
        ExampleFile(path=f"{base}/loops_{algo}.py", text=format_python(loops.code), origin="extracted"),
        ExampleFile(
            path=f"{base}/{name}_{algo}.py", text=format_python(render_template(template, **values)), origin="rendered"
        ),
    ]
    if agentic:
        text = render_template("run_agent.sh.j2", **values)
        files.append(ExampleFile(path=f"{base}/run_agent_{algo}.sh", text=text, origin="rendered", executable=True))
    return files


def lengths(launch: Launch) -> dict[str, int]:
    """Tokens of prompts, and of all turns together, as a loop finds them in verl's rollout settings."""
    return {"prompt_length": _length(launch, "prompt", 1024), "response_length": _length(launch, "response", 512)}


def _length(launch: Launch, which: str, default: int) -> int:
    keys = (f"data.max_{which}_length", f"actor_rollout_ref.rollout.{which}_length")
    return int(next((value for key in keys if isinstance(value := launch.get(key), int)), default))
