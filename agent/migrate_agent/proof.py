"""Which edits of a model no check proves. They keep the verdict at "partial", however green the checks are.

The ladder compares rewards, tools and data with the old side. It does not compare what a flag, a number of the
configuration or a training hook means: where a model changed those, only a person can say that training is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrate_tools.model import CheckResult, Example

PARITY, TOOLS, DATA = 3, 4, 5


def unproven(first: Example, example: Example, checks: Sequence[CheckResult]) -> tuple[str, ...]:
    """One line for each file of a model that nothing proves.

    Args:
        first: the example as the engine drafted it.
    """
    return tuple(f"{path} was changed by a language model: {why}" for path, why in _reasons(first, example, checks))


def model_files(example: Example) -> tuple[str, ...]:
    """Paths of the files that a model wrote or changed."""
    return tuple(item.path for item in example.files if item.origin == "llm")


def _reasons(first: Example, example: Example, checks: Sequence[CheckResult]) -> Iterator[tuple[str, str]]:
    drafted = {item.path: item.text for item in first.files}
    for item in example.files:
        if item.origin != "llm":
            continue
        from migrate_agent.llm.guard import is_cosmetic

        before = drafted.get(item.path)
        if before is not None and is_cosmetic(item.path, before, item.text):
            continue
        if why := _lacking(item.path, before is None, example.algo, checks):
            yield item.path, why


def _lacking(path: str, is_new: bool, algo: str, checks: Sequence[CheckResult]) -> str:
    """Why the checks do not prove a changed file; empty when they do."""
    name = path.rpartition("/")[2]
    if name.startswith("reward_") and name.endswith(".py"):
        return _parity(checks)
    if name in (f"env_{algo}.py", f"tools_{algo}.py", f"rollout_{algo}.py"):
        return _tools(checks, "the old and the new tools were not compared")
    if name == f"process_{algo}.py":
        made_up = any(item.evidence.get("made_up") for item in checks if item.rung == DATA)
        return "its rows are made up" if made_up else _all_pass(checks, DATA, "its rows were not compared")
    if is_new and name.endswith(".py"):
        return _parity(checks) or _tools(checks, "the tools were not compared", skipped=True)
    return "no check compares with verl what it says"


def _parity(checks: Sequence[CheckResult]) -> str:
    if why := _all_pass(checks, PARITY, "the old and the new reward were not compared"):
        return why
    from migrate_tools.parity.power import SEARCHED

    for item in checks:
        if item.rung == PARITY and item.evidence.get("plumbing_only"):
            return "its reward asks a server, whose answers are made up here"
        power, edited = item.evidence.get("power") or {}, item.evidence.get("edited")
        if power and power.get("verdict") != "strong":
            return "how much the cases see was not measured"  # a weak comparison has failed already
        if edited and not edited["shown"] and edited["tried"] < SEARCHED:
            return f"only {edited['tried']} inputs were tried to tell it from the rules' module"
    return ""


def _tools(checks: Sequence[CheckResult], why: str, *, skipped: bool = False) -> str:
    if lacking := _all_pass(checks, TOOLS, why, skipped=skipped):
        return lacking
    taped = any(item.rung == TOOLS and item.evidence.get("plumbing_only") for item in checks)
    return "its tools ask a server, whose answers are made up here" if taped else ""


def _all_pass(checks: Sequence[CheckResult], rung: int, why: str, *, skipped: bool = False) -> str:
    fine = {"passed", "skipped"} if skipped else {"passed"}
    found = [item.status for item in checks if item.rung == rung]
    return "" if found and all(status in fine for status in found) else why
