"""What a recorded command line is: a Python module or script with its arguments, and what it trains.

Standard library only: it also runs inside the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

OVERRIDE = re.compile(r"^(?:\+\+|\+|~)?[A-Za-z_@][\w./@:$-]*=|^~[A-Za-z_][\w./@-]*$")
PYTHONS = re.compile(r"^(?:python|pypy)[\d.]*$")
LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "trl")
_LAUNCHER_SWITCHES = frozenset(
    {
        "--standalone",
        "--no_python",
        "--no-python",
        "--multi_gpu",
        "--use_deepspeed",
        "--use_fsdp",
        "-u",
        "-m",
        "--module",
    }
)
_PYTHON_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})


@dataclass(frozen=True)
class Command:
    """A Python program and its arguments."""

    program: str
    """Dotted module, or the path of a script as written."""
    is_module: bool
    arguments: tuple[str, ...]
    first: int
    """Index of the first argument in the recorded argv."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """The arguments in Hydra's override form."""
        return tuple(item for item in self.arguments if OVERRIDE.match(item))

    @property
    def module(self) -> str:
        """The dotted module name; of a script path the dotted form of the path."""
        if self.is_module:
            return self.program
        return self.program.removesuffix(".py").lstrip("./").replace("/", ".")


def parse(argv: Sequence[str]) -> Command | None:
    """The Python program that an argv starts; None when it starts none."""
    if not argv:
        return None
    name = argv[0].rsplit("/", 1)[-1]
    if PYTHONS.match(name):
        return _python(argv)
    if name in LAUNCHERS:
        return _launcher(argv)
    return None


def _python(argv: Sequence[str]) -> Command | None:
    index = 1
    while index < len(argv):
        word = argv[index]
        if word == "-m" and index + 1 < len(argv):
            inner = argv[index + 1]
            if inner in ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"):
                return _launcher(["torchrun", *argv[index + 2 :]], index + 1)
            return Command(inner, True, tuple(argv[index + 2 :]), index + 2)
        if word in ("-c", "-"):
            return None
        if word in _PYTHON_WITH_VALUE:
            index += 2
        elif word.startswith("-"):
            index += 1
        else:
            return Command(word, False, tuple(argv[index + 1 :]), index + 1)
    return None


def _launcher(argv: Sequence[str], shift: int = 0) -> Command | None:
    """torchrun, accelerate launch, deepspeed: the first word that can only be the program."""
    index = 1
    if argv[0].endswith("trl"):
        return Command(f"trl.{argv[1]}" if len(argv) > 1 else "trl", True, tuple(argv[2:]), 2 + shift)
    while index < len(argv):
        word = argv[index]
        if word in ("-m", "--module") and index + 1 < len(argv):
            return Command(argv[index + 1], True, tuple(argv[index + 2 :]), index + 2 + shift)
        if word.endswith(".py"):
            return Command(word, False, tuple(argv[index + 1 :]), index + 1 + shift)
        if word.startswith("-") and "=" not in word and word not in _LAUNCHER_SWITCHES:
            index += 2 if index + 1 < len(argv) and not argv[index + 1].startswith("-") else 1
            if argv[index - 1].endswith(".py"):
                index -= 1
        else:
            index += 1
    return None


_DIALECTS = (
    ("verl-tool", re.compile(r"^verl_tool\.")),
    ("VAGEN", re.compile(r"^vagen\.")),
    ("rllm", re.compile(r"^(?:rllm|examples\..*rllm)")),
    ("OpenRLHF", re.compile(r"^openrlhf\.")),
    ("TRL", re.compile(r"^trl\b")),
    ("ROLL", re.compile(r"^roll\.")),
    ("slime", re.compile(r"^slime\.")),
    ("AReaL", re.compile(r"^areal\.")),
)
_KINDS = (
    ("sft", "supervised fine-tuning", re.compile(r"(?:^|[._])(?:\w*_)?sft(?:_|\.|$)|sft_trainer")),
    ("eval", "evaluation only", re.compile(r"(?:^|\.)(?:main_eval|evaluate|evaluation|main_evaluation|eval\w*)$")),
    ("generation", "generation only", re.compile(r"main_generation|(?:^|\.)(?:batch_)?(?:generate|infer)\w*$")),
    ("diffusion", "diffusion model training", re.compile(r"diffusion|dance_grpo|flow_grpo|fastvideo")),
    ("tool", "not training", re.compile(r"model_merger|converter|preprocess|prepare|http\.server|vllm\.|sglang\.")),
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What a command is for; `reason` is empty for an RL training command of verl."""

    name: str
    reason: str = ""


def classify(command: Command) -> Kind:
    """Whether a command trains by RL with verl; if not, what it does."""
    module = command.module
    for name, pattern in _DIALECTS:
        if pattern.search(module):
            return Kind("dialect", f"{name} dialect ({module}): its settings are not verl's")
    keys = [item.lstrip("+~").split("=", 1)[0] for item in command.overrides]
    worker = next((key for key in keys if key.startswith("worker.")), None)
    if worker or (module == "verl.trainer.main" and "config" in keys):
        return Kind("dialect", f"EasyR1 dialect ({worker or 'config='}): its settings are not verl's")
    for name, text, pattern in _KINDS:
        if pattern.search(module):
            return Kind(name, f"{text}: {module}")
    if any(key.startswith(("actor_rollout_ref.", "algorithm.")) for key in keys):
        return Kind("rl")
    if re.search(r"(?:^|\.)main_(?:ppo|dapo|grpo|spin|sppo|prime|gkd)|^verl\.trainer\.main_ppo|fully_async", module):
        return Kind("rl")
    if command.is_module and len(keys) >= 3 and any(key.startswith(("trainer.", "data.")) for key in keys):
        return Kind("rl")
    return Kind("other", f"not verl training: {module}")
