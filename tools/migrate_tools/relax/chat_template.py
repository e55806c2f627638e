"""A chat template of the recipe's own: verl puts it into the tokenizer, Relax reads the one in the model folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migrate_tools.mapping.model_area import CHAT_TEMPLATE, TEMPLATE_FILE
from migrate_tools.model import ExampleFile, Launch, Translation
from migrate_tools.relax.reward_module import identifier
from migrate_tools.verl.secrets import redact


def template_files(translations: Sequence[Translation], launches: Mapping[str, Launch]) -> list[ExampleFile]:
    """One file for every different template, the first under the name that transformers looks for."""
    files: dict[str, ExampleFile] = {}
    for item in translations:
        text = launches[item.launch].get(CHAT_TEMPLATE)
        if not isinstance(text, str) or not text or text in files:
            continue
        base, _, end = TEMPLATE_FILE.partition(".")
        name = f"{base}_{identifier(item.variant or item.launch)}.{end}" if files else TEMPLATE_FILE
        path = f"examples/{item.algo}/{name}"
        files[text] = ExampleFile(path=path, text=redact(text), origin="extracted")
    return list(files.values())
