"""Rung 4: old tools and new environment give the same observations."""

from __future__ import annotations

from migrate_tools.checks.base import CheckContext, finding
from migrate_tools.model import CheckResult


class ToolsCheck:
    """Only multi-turn examples have an environment."""

    name = "tools"
    rung = 4

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        environment = f"examples/{context.example.algo}/env_{context.example.algo}.py"
        with finding(self.name, self.rung) as found:
            if any(item.path == environment for item in context.example.files):
                found.skip("not_checkable", "tool conversations are not compared")
            else:
                found.skip("skipped", "single-turn: there are no tools to compare")
        return (found.result(),)
