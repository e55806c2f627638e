"""Prompts are Markdown files in prompts/ with variables; a variable without a value is an error."""

from __future__ import annotations

from migrate_tools.resources import resource_dir


def render_prompt(name: str, **values: object) -> str:
    """The prompt `prompts/<name>.md` with its variables filled in.

    Raises:
        FileNotFoundError: there is no such prompt.
        jinja2.UndefinedError: a variable has no value.
    """
    import jinja2

    text = (resource_dir("prompts") / f"{name}.md").read_text("utf-8")
    template = jinja2.Template(text, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return str(template.render(**values))
