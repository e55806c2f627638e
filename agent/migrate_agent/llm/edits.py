"""Applies an edit to an example; the files themselves are written when the draft is staged."""

from __future__ import annotations

import difflib

from migrate_tools.model import Example, ExampleFile

from migrate_agent.llm.actions import Edit, Replace

LONGEST_DIFF = 4_000


class BadEdit(ValueError):
    """The edit does not fit the example; the text says why and is told to the model."""


def new_text(edit: Edit, example: Example) -> str:
    """What the file holds after the edit; ends with a new line.

    Raises:
        BadEdit: the text to be replaced is not there exactly once, or nothing would change.
    """
    before = text_of(example, edit.file)
    if isinstance(edit, Replace):
        if before is None:
            raise BadEdit(f"the example has no file {edit.file!r}")
        count = before.count(edit.old)
        if count != 1:
            raise BadEdit(f"the text to be replaced stands {count} times in {edit.file}; it must stand there once")
        after = before.replace(edit.old, edit.new)
    else:
        after = edit.text
    after = after if after.endswith("\n") else f"{after}\n"
    if after == before:
        raise BadEdit("the edit changes nothing")
    return after


def with_file(example: Example, path: str, text: str) -> Example:
    """The example with one file changed or added, marked as a model's work; files stay in order."""
    known = next((item for item in example.files if item.path == path), None)
    made = ExampleFile(path=path, text=text, origin="llm", executable=known.executable if known else False)
    files = [made if item.path == path else item for item in example.files]
    if known is None:
        files = sorted([*files, made], key=lambda item: item.path)
    return example.model_copy(update={"files": tuple(files)})


def text_of(example: Example, path: str) -> str | None:
    """The text of a file; None when the example has no such file."""
    return next((item.text for item in example.files if item.path == path), None)


def diff(path: str, before: str | None, after: str) -> str:
    """A unified diff, cut off when it is long."""
    lines = difflib.unified_diff((before or "").splitlines(), after.splitlines(), path, path, lineterm="", n=2)
    text = "\n".join(lines)
    return text if len(text) <= LONGEST_DIFF else f"{text[:LONGEST_DIFF]}\n... cut off"
