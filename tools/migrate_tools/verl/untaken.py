"""Branches of a script that did not run and hold settings."""

from __future__ import annotations

import re

from migrate_tools.verl.shelltree import Node, Script, last_line_of, line_of, walk


def untaken_settings(script: Script, ran: set[int]) -> list[tuple[str, int, int]]:
    """Branches that did not run and hold settings: the condition's text, its line, and how many."""
    found = []
    for node in walk(script.tree):
        if node.get("Type") == "IfClause":
            label = script.between(node["Cond"][0]["Pos"]["Offset"], node["Cond"][-1]["End"]["Offset"])
            found += _untaken(node.get("Then"), f"if {label}", line_of(node), ran)
            rest = node.get("Else")
            if rest and not rest.get("Cond"):
                found += _untaken(rest.get("Then"), f"not ({label})", line_of(rest), ran)
        elif node.get("Type") == "CaseClause":
            subject = script.text(node["Word"])
            for item in node.get("Items") or []:
                label = " | ".join(script.text(p) for p in item["Patterns"])
                found += _untaken(item.get("Stmts"), f"{subject} is {label}", line_of(item), ran)
    return found


def _untaken(statements: list[Node] | None, label: str, line: int, ran: set[int]) -> list[tuple[str, int, int]]:
    if not statements or set(range(line_of(statements[0]), last_line_of(statements[-1]) + 1)) & ran:
        return []
    count = sum(
        1
        for node in walk(statements)
        if (node.get("Type") == "Lit" and re.match(r"[+~]{0,2}[a-z_][\w.]*\.[\w.]+=", node.get("Value", "")))
    )
    return [(" ".join(label.split()), line, count)] if count else []
