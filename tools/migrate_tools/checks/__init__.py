"""The ladder of checks: one file a rung, one interface.

| rung | check |
|---|---|
| 0 | syntax |
| 1 | contract |
| 2 | import |
| 3 | parity |
| 4 | tools |
| 5 | data |
| 6 | rehearsal |
| 7 | gpu_smoke |
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from threading import Thread

from migrate_tools.checks.base import Check, CheckContext
from migrate_tools.checks.contract import ContractCheck
from migrate_tools.checks.data import DataCheck
from migrate_tools.checks.imports import ImportCheck
from migrate_tools.checks.parity import ParityCheck
from migrate_tools.checks.rehearsal import RehearsalCheck
from migrate_tools.checks.smoke import SmokeCheck
from migrate_tools.checks.syntax import SyntaxCheck
from migrate_tools.checks.tools import ToolsCheck
from migrate_tools.model import CheckResult
from migrate_tools.parsing import parse_one_at_a_time

__all__ = ["LADDER", "Check", "CheckContext", "run_ladder"]

LADDER: tuple[Check, ...] = (
    SyntaxCheck(),
    ContractCheck(),
    ImportCheck(),
    ParityCheck(),
    ToolsCheck(),
    DataCheck(),
    RehearsalCheck(),
    SmokeCheck(),
)


def run_ladder(context: CheckContext, only: Iterable[Check] | None = None) -> tuple[CheckResult, ...]:
    """The results of the checks in the ladder's order; a failing rung does not stop the next.

    Parity shares nothing with the other rungs and takes as long as all of them: it runs beside them.

    Args:
        only: the checks to run, None for all of them.
    """
    parse_one_at_a_time()
    chosen = LADDER if only is None else tuple(only)
    beside = [_begun(check, context) if check.name == ParityCheck.name else None for check in chosen]
    others = [check.run(context) if started is None else () for check, started in zip(chosen, beside, strict=True)]
    return tuple(
        result
        for done, started in zip(others, beside, strict=True)
        for result in (done if started is None else started.result())
    )


def _begun(check: Check, context: CheckContext) -> Future[tuple[CheckResult, ...]]:
    """Starts a check in a thread that does not keep the program alive; a job of the sandbox ends with the program."""
    future: Future[tuple[CheckResult, ...]] = Future()

    def work() -> None:
        try:
            future.set_result(check.run(context))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=work, daemon=True).start()
    return future
