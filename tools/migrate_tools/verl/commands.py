"""What a recorded command line is: a Python module or script with its arguments, and what it trains.

Standard library only: it also runs inside the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from migrate_tools.verl import dialects

OVERRIDE = re.compile(r"^(?:\+\+|\+|~)?[A-Za-z_@][\w./@:$-]*=|^~[A-Za-z_][\w./@-]*$")
PYTHONS = re.compile(r"^(?:python|pypy)[\d.]*$")
LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
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
        return _unwrapped(_python(argv))
    if name in LAUNCHERS:
        return _unwrapped(_launcher(argv))
    if name in dialects.PROGRAMS:
        module = ".".join([name.partition("-")[0], *argv[1:2]])
        return Command(module, True, tuple(argv[2:]), min(2, len(argv)))
    return None


def _unwrapped(command: Command | None) -> Command | None:
    """Of `-m some.launch verl.trainer.main_ppo ...` the module that is started in the end."""
    if command is None or not command.is_module or not command.arguments:
        return command
    inner = command.arguments[0]
    if not re.fullmatch(r"verl(?:\.[a-z_]\w*)+", inner):
        return command
    return Command(inner, True, command.arguments[1:], command.first + 1)


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


_HYDRA_NAMES = frozenset({"--config-name", "-cn", "--config-path", "-cp", "--config-dir", "-cd"})
"""Options of a Hydra program; whether it trains with verl, its configuration tells."""
_NO_RL = "give a recipe that trains by RL; this has no reward to migrate"
_KINDS = (
    ("sft", "supervised fine-tuning", re.compile(r"(?:^|[._])(?:\w*_)?sft(?:_|\.|$)|sft_trainer"),
     f"{_NO_RL} (Relax trains SFT itself: --loss-type sft)"),
    ("eval", "evaluation only", re.compile(r"(?:^|\.)(?:main_eval|evaluate|evaluation|main_evaluation|eval\w*)$"),
     _NO_RL),
    ("generation", "generation only", re.compile(r"main_generation|(?:^|\.)(?:batch_)?(?:generate|infer)\w*$"),
     _NO_RL),
    ("diffusion", "diffusion model training", re.compile(r"diffusion|dance_grpo|flow_grpo|fastvideo"),
     "Relax trains language models; there is nothing to migrate it to"),
    ("tool", "not training", re.compile(r"model_merger|converter|preprocess|prepare|http\.server|vllm\.|sglang\."), ""),
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What a command is for; `reason` is empty for an RL training command of verl."""

    name: str
    reason: str = ""
    advice: str = ""
    """What to do about it, one line; empty where there is nothing special to say."""


def classify(command: Command) -> Kind:
    """Whether a command trains by RL with verl; if not, what it does."""
    module = command.module
    keys = [item.lstrip("+~").split("=", 1)[0] for item in command.overrides]
    dialect = dialects.of_command(module, keys, [item for item in command.arguments if item.startswith("--")])
    if dialect is not None:
        return dialect_kind(*dialect)
    for name, text, pattern, advice in _KINDS:
        if pattern.search(module):
            return Kind(name, f"{text}: {module}", advice)
    if any(key.startswith(("actor_rollout_ref.", "algorithm.")) for key in keys):
        return Kind("rl")
    if re.search(r"(?:^|\.)main_(?:ppo|dapo|grpo|spin|sppo|prime|gkd)|^verl\.trainer\.main_ppo|fully_async", module):
        return Kind("rl")
    if command.is_module and len(keys) >= 3 and any(key.startswith(("trainer.", "data.")) for key in keys):
        return Kind("rl")
    if any(item.partition("=")[0] in _HYDRA_NAMES for item in command.arguments):
        return Kind("hydra", f"not verl training: {module}")
    return Kind("other", f"not verl training: {module}")


def dialect_kind(dialect: dialects.Dialect, shown: str) -> Kind:
    """The kind of a command (or file) of another trainer; `shown` is what gives it away."""
    return Kind("dialect", f"{dialect.name} dialect ({shown}): its settings are not verl's", dialect.advice)
