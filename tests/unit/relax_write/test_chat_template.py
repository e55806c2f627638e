"""A chat template of the recipe's own lies in the example, ready for the model folder."""

from __future__ import annotations

from migrate_tools.relax.chat_template import template_files
from writer_inputs import make_launch, make_translation

KEY = "actor_rollout_ref.model.custom_chat_template"


def test_every_template_is_written_once() -> None:
    texts = {"run_a": "{{ messages }}", "run_b": "{{ messages }}", "run_c": "{{ tools }}", "run_d": None}
    launches = {name: make_launch(name=name, config={KEY: text}) for name, text in texts.items()}
    translations = [make_translation().model_copy(update={"launch": name, "variant": ""}) for name in texts]
    files = template_files(translations, launches)
    base = f"examples/{translations[0].algo}"
    assert [(file.path, file.text, file.origin) for file in files] == [
        (f"{base}/chat_template.jinja", "{{ messages }}", "extracted"),
        (f"{base}/chat_template_run_c.jinja", "{{ tools }}", "extracted"),
    ]
