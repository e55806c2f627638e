"""Whether a verl applies the chat template to a prompt, read from its own data set class.

The 0.0.2-0.1 forks differ: some apply it, some take the content of the first message as it is. Later verl always
applies it, also over text that carries chat markers already.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from migrate_tools.model import DataSpec, Note

_DATASET = Path("verl/utils/dataset/rl_dataset.py")


@cache
def applies_template(verl_root: str) -> bool:
    """Whether the data set class calls `apply_chat_template`; True when there is no such file to read."""
    try:
        tree = ast.parse((Path(verl_root) / _DATASET).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return True
    return any(isinstance(node, ast.Attribute) and node.attr == "apply_chat_template" for node in ast.walk(tree))


@cache
def draws_samples(verl_root: str) -> bool:
    """Whether data.train_max_samples draws rows at random when the data is shuffled; else it takes the first ones."""
    try:
        return "rng.choice" in (Path(verl_root) / _DATASET).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return True


def with_prompt_form(data: DataSpec, verl_root: str) -> tuple[DataSpec, tuple[Note, ...]]:
    """The data with `prompt_form` "templated" exactly where verl takes the text as it is."""
    if not applies_template(verl_root):
        text = "this verl takes the first message's content as the prompt, without a chat template; so does the example"
        return data.model_copy(update={"prompt_form": "templated"}), (Note(code="prompt-raw", text=text),)
    if data.prompt_form != "templated":
        return data, ()
    text = "the prompts carry chat markers, and this verl applies the chat template on top of them; so does the example"
    kind = data.columns.get(data.prompt_key, "")
    form = "string" if kind in ("string", "large_string") else "chat"
    return data.model_copy(update={"prompt_form": form}), (Note(code="prompt-templated-twice", text=text),)
