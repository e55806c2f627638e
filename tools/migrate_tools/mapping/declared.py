"""Which configuration keys a verl source tree declares, and at which line: read from its YAML, nothing is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

CONFIG = Path("verl/trainer/config")
ENTRIES = (
    "_generated_ppo_trainer.yaml",
    "ppo_trainer.yaml",
    "_generated_ppo_megatron_trainer.yaml",
    "ppo_megatron_trainer.yaml",
    "_generated_ppo_veomni_trainer.yaml",
    "_generated_ppo_torchtitan_trainer.yaml",
    "sft_trainer.yaml",
    "sft_trainer_engine.yaml",
    "generation.yaml",
    "evaluation.yaml",
)
"""Entry files of the tree, PPO first: the first that declares a key is its place. The `_generated_` ones are verl's own
flattened copies of the composed configuration (since 0.5)."""
EXPERIMENTAL = Path("verl/experimental")
GROUP = re.compile(r"(?P<group>[\w/]+)(?:@(?P<package>[\w.]+))?\Z")


def leaf_lines(text: str) -> dict[str, int]:
    """Dotted key -> line for everything that a YAML text declares, mappings included."""
    found: dict[str, int] = {}

    def walk(node: yaml.Node, prefix: str) -> None:
        if not isinstance(node, yaml.MappingNode):
            return
        for name, value in node.value:
            if isinstance(name, yaml.ScalarNode):
                key = f"{prefix}{name.value}"
                found.setdefault(key, name.start_mark.line + 1)
                walk(value, key + ".")

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None:
        walk(root, "")
    return found


def declared(tree: Path) -> dict[str, tuple[str, int]]:
    """Dotted key -> (file below the tree, line) for a verl source tree."""
    found: dict[str, tuple[str, int]] = {}
    paths = [tree / CONFIG / name for name in ENTRIES]
    paths += sorted((tree / EXPERIMENTAL).glob("*/config/*.yaml"))
    for path in paths:
        if path.is_file():
            for key, line in _with_groups(path):
                found.setdefault(key, (str(path.relative_to(tree)), line))
    return found


def _with_groups(path: Path) -> Iterator[tuple[str, int]]:
    """Keys that the file declares itself, then those of the groups that its defaults list puts at a package.

    A key of a group is placed at the line of the entry file that names the group.
    """
    text = path.read_text("utf-8")
    own = leaf_lines(text)
    yield from ((key, line) for key, line in own.items() if key.split(".")[0] not in ("defaults", "hydra"))
    data = yaml.safe_load(text)
    for entry in data.get("defaults", ()) if isinstance(data, dict) else ():
        if not isinstance(entry, dict):
            continue
        for group, option in entry.items():
            match = GROUP.match(str(group))
            file = path.parent / (match["group"] if match else "") / f"{option}.yaml"
            if match and match["package"] and file.is_file():
                line = text[: text.index(str(group))].count("\n") + 1
                yield from ((f"{match['package']}.{key}", line) for key in leaf_lines(file.read_text("utf-8")))
