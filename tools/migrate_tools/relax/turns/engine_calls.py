"""Tool calls as SGLang's parser for Qwen reads them. Copied into the examples whose tools verl's SGLang rollout ran.

Behaviour as SGLang 0.4.6 (verl 0.4 and 0.5) and 0.5.5 (verl 0.6): a call of a tool that nobody knows is dropped; where
a call is no JSON, 0.4.6 drops all calls of the answer and 0.5.5 that one. verl drops arguments that are no object.
"""

from __future__ import annotations

import json
import re
from typing import Any


def has_call(text: str, *, lines: bool) -> bool:
    """Whether an answer holds a call; `lines` as below."""
    return ("<tool_call>\n" if lines else "<tool_call>") in text


def engine_calls(text: str, names: Any, *, lines: bool) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """The text before the first call, and the calls (name, arguments) that verl runs.

    Args:
        names: the tools of the launch.
        lines: the markers stand on lines of their own (SGLang 0.5); a broken call does not take the others with it.
    """
    before = text[: text.find("<tool_call>")].strip()
    pattern = r"<tool_call>\n(.*?)\n</tool_call>" if lines else r"<tool_call>(.*?)</tool_call>"
    found: list[tuple[str, dict[str, Any]]] = []
    for body in re.findall(pattern, text, re.DOTALL):
        try:
            made = json.loads(body)
            acts = made if isinstance(made, list) else [made]
            calls = [(act.get("name"), act.get("parameters") or act.get("arguments", {})) for act in acts]
        except json.JSONDecodeError:
            if lines:
                continue
            return before, []
        except AttributeError:
            return before, []
        found += [(name, given) for name, given in calls if name in names and isinstance(given, dict)]
    return before, found
