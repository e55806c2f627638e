"""Trainers that look like verl or stand beside it, how each is recognised, and what to do with its recipes.

Standard library only: classification also runs inside the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

REWRITE = "rewrite its settings in verl's keys and give that recipe, or port it by hand"


@dataclass(frozen=True)
class Dialect:
    """A trainer whose recipes are not verl's."""

    name: str
    advice: str
    """What the user can do; one line."""
    module: re.Pattern[str] | None = None
    """The dotted module (or script path in dotted form) of its commands."""
    key: re.Pattern[str] | None = None
    """An override key that only this trainer has."""
    option: re.Pattern[str] | None = None
    """A command line option that only this trainer has; used for programs that are plain script paths."""
    source: re.Pattern[str] | None = None
    """Text of a Python launcher of its own."""
    sections: frozenset[str] = frozenset()
    """Top-level sections that a configuration file of this trainer has, all of them."""


def _text(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


DIALECTS = (
    Dialect(
        "EasyR1",
        "EasyR1 counts and names differently (data.rollout_batch_size is verl's data.train_batch_size, "
        "worker.actor.global_batch_size its ppo_mini_batch_size, worker.rollout.n its rollout.n; the reward takes a "
        f"batch and returns `overall`; format_prompt wraps the prompt): {REWRITE}",
        module=re.compile(r"^verl\.trainer\.main$"),
        key=re.compile(r"^worker\."),
        sections=frozenset({"worker", "data", "trainer"}),
    ),
    Dialect(
        "verl-tool",
        "its rollouts go through a tool server of its own, which is not translated: port the tools to verl's "
        "tool_config_path or write Relax's generate function by hand, then give the recipe with verl.trainer.main_ppo",
        module=re.compile(r"^verl_tool\."),
        source=_text(r"^\s*(?:from|import)\s+verl_tool\b"),
    ),
    Dialect(
        "VAGEN",
        "its data are environments and its reward comes from them, in an agent loop of its own: write the "
        "environment for Relax by hand (examples/deepeyes of Relax shows how); a text-only reward in verl's form "
        "can be given as a verl recipe",
        module=re.compile(r"^vagen\."),
        key=re.compile(r"^rollout_manager\."),
        source=_text(r"^\s*(?:from|import)\s+vagen\b"),
    ),
    Dialect(
        "RAGEN",
        "its rollouts are environment episodes of its own: write the environment for Relax by hand",
        module=re.compile(r"^ragen\."),
        key=re.compile(r"^(?:es_manager|agent_proxy|ctx_manager)\."),
        source=_text(r"^\s*(?:from|import)\s+ragen\b"),
    ),
    Dialect(
        "rllm",
        "its agents and environments run the rollouts and give the reward: write them for Relax by hand; a reward "
        "function alone can be given in a verl recipe (custom_reward_function.path)",
        module=re.compile(r"^rllm\."),
        key=re.compile(r"^rllm\."),
        source=_text(r"^\s*from\s+rllm\.(?:trainer|workflows|agents|environments)\b"),
    ),
    Dialect(
        "Agent-R1",
        "its rollouts call tools in a loop of its own, which is not translated: port the tools by hand, or give a "
        "recipe that starts verl.trainer.main_ppo",
        module=re.compile(r"^agent_r1\."),
        key=re.compile(r"^tool\.(?:env|tools|max_turns)$"),
    ),
    Dialect(
        "OpenRLHF",
        f"its flags are not verl's (--rollout_batch_size counts prompts, --train_batch_size samples): {REWRITE}",
        module=re.compile(r"^openrlhf\."),
        source=_text(r"^\s*(?:from|import)\s+openrlhf\b"),
    ),
    Dialect(
        "TRL",
        f"its trainer is configured in Python (GRPOConfig): {REWRITE}",
        module=re.compile(r"^trl\b"),
        source=_text(r"^\s*from\s+trl\b[^\n]*(?:GRPO|PPO|RLOO|SFT|DPO)(?:Trainer|Config)|^\s*from\s+trl\s+import\s*\("),
    ),
    Dialect(
        "Relax",
        "it is written for Relax already: check it with `migrate-agent verify EXAMPLE_DIR`",
        module=re.compile(r"^relax\."),
        source=_text(r"^\s*(?:from|import)\s+relax\.(?:engine|entrypoints|utils)\b"),
    ),
    Dialect(
        "slime",
        "its flags are those that Relax has too, in most cases: copy the script's arguments and check them with "
        "`migrate-agent verify EXAMPLE_DIR`",
        module=re.compile(r"^slime\."),
        option=re.compile(r"^--(?:rollout-batch-size|n-samples-per-prompt|advantage-estimator|custom-rm-path)(?:=|$)"),
        source=_text(r"^\s*(?:from|import)\s+slime\b"),
    ),
    Dialect("AReaL", f"its settings are not verl's: {REWRITE}", module=re.compile(r"^(?:areal|realhf)\."),
            source=_text(r"^\s*(?:from|import)\s+(?:areal|realhf)\b")),
    Dialect("ROLL", f"its settings are not verl's: {REWRITE}",
            module=re.compile(r"^roll\.|start_(?:rlvr|agentic)_pipeline$"),
            source=_text(r"^\s*(?:from|import)\s+roll\.pipeline\b")),
    Dialect("NeMo-RL", f"its settings are not verl's: {REWRITE}", module=re.compile(r"^nemo_rl\."),
            key=re.compile(r"^(?:grpo\.num_(?:prompts_per_step|generations_per_prompt)|policy\.model_name)$"),
            source=_text(r"^\s*(?:from|import)\s+nemo_rl\b"), sections=frozenset({"grpo", "policy"})),
    Dialect("ms-swift", f"its flags are not verl's: {REWRITE}", module=re.compile(r"^swift\."),
            source=_text(r"^\s*from\s+swift\.llm\b")),
    Dialect("LLaMA-Factory", f"it has no verl settings: {REWRITE}", module=re.compile(r"^llamafactory\b"),
            source=_text(r"^\s*from\s+llamafactory\b")),
)  # fmt: skip
"""In the order in which they are asked; the first that recognises a command names it."""

PROGRAMS = {"swift": "ms-swift", "llamafactory-cli": "LLaMA-Factory", "trl": "TRL", "openrlhf": "OpenRLHF"}
"""Programs that are no Python command and train with one of these."""


def of_command(module: str, keys: Sequence[str], options: Sequence[str]) -> tuple[Dialect, str] | None:
    """The dialect of a command and what shows it; None when it may be verl's.

    `keys` are its override keys without prefix signs, `options` its other arguments.
    """
    for dialect in DIALECTS:
        if dialect.module and dialect.module.search(module) and not _verls_own(module, keys):
            return dialect, module
        if dialect.key and (key := next((item for item in keys if dialect.key.search(item)), None)):
            return dialect, key
        if dialect.option and not keys:
            shown = [item for item in options if dialect.option.search(item)]
            if len(shown) >= 2:
                return dialect, shown[0].partition("=")[0]
    return None


def _verls_own(module: str, keys: Sequence[str]) -> bool:
    """verl.trainer.main is EasyR1's entry; a command of verl's keys is still verl's."""
    return module == "verl.trainer.main" and any(key.startswith("actor_rollout_ref.") for key in keys)


def of_source(text: str) -> Dialect | None:
    """The dialect whose trainer a Python file imports."""
    return next((item for item in DIALECTS if item.source and item.source.search(text)), None)


def of_sections(names: Iterable[str]) -> Dialect | None:
    """The dialect whose configuration has these top-level sections."""
    found = set(names)
    return next((item for item in DIALECTS if item.sections and item.sections <= found), None)
