"""Seeded faults that only a case which lasts longer than a case may could show: said so, and not run."""

from __future__ import annotations

import ast

from migrate_tools.parity.mutation import Code, Fault, call_name, number
from migrate_tools.parity.value_before import never_given

WAITS = frozenset({"result", "join", "get", "wait", "communicate", "run", "acquire", "check_output", "check_call"})
"""Calls whose `timeout` is how long they wait, in seconds."""


def beyond_a_case(code: Code, fault: Fault, seconds: float) -> str:
    """Why no case of `seconds` at most can show a fault; empty when one might.

    Known of one kind: a limit of the scorer's own is lost that is a number at least as long as that.
    """
    node = fault.node
    if fault.operator != "keyword argument lost" or not isinstance(node, ast.Call) or call_name(node) not in WAITS:
        return ""
    kept = ast.parse(fault.after, mode="eval").body
    names = {word.arg for word in kept.keywords} if isinstance(kept, ast.Call) else set()
    lost = next((word for word in node.keywords if word.arg not in names), None)
    if lost is None or lost.arg != "timeout":
        return ""
    limit = number(lost.value)
    limit = number(never_given(code, lost.value)) if limit is None else limit
    if limit is None or limit < seconds:
        return ""
    return f"it shows after {limit:g} s, and a case ends after {seconds:g} s"
