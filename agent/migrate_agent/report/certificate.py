"""The certificate of a reward: what rung 3 found, in figures and as a page, the same for a run and for `verify`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from migrate_tools.model import CheckResult, CheckStatus, Frozen

PARITY_RUNG = 3
SHOWN = 12


class Coverage(Frozen):
    """Shares of a function's lines and branches that the cases reach; None where there are none to count."""

    lines: float | None = None
    branches: float | None = None


class Fault(Frozen):
    """A seeded fault that no case showed."""

    operator: str
    line: int


class Power(Frozen):
    """Seeded porting faults: how many there were, how many the cases caught, which they did not."""

    seeded: int
    caught: int
    equivalent: int = 0
    """Judged by rule to change nothing; not among the seeded."""
    not_run: int = 0
    unshown: int = 0
    """Survivors of which a long search found no input that shows them: they may change nothing."""
    survivors: tuple[Fault, ...] = ()
    why: str = ""
    """Why nothing was measured, or empty."""


class RealRows(Frozen):
    """Cases on the recipe's own rows, and how many of them differ."""

    n: int
    differences: int
    wilson95: float | None = None
    """Upper end of Wilson's 95 % interval for the share that differs."""
    rows: int = 0
    logged: int = 0
    """Of the cases, those with a response that the recipe had logged."""


class ToleranceUsed(Frozen):
    """A declared difference that cases needed."""

    id: str
    text: str
    cases: int


class Certificate(Frozen):
    """The comparison of the old and the new reward of one launch."""

    launch: str
    status: CheckStatus
    summary: str
    cases: int = 0
    compared: int = 0
    mismatches: int = 0
    families: dict[str, int] = {}
    accepted_share: float | None = None
    rejected_share: float | None = None
    coverage_old: Coverage = Coverage()
    coverage_new: Coverage = Coverage()
    power: Power | None = None
    mutants: Power | None = None
    """Classical changes of covered lines; a figure, not a condition."""
    real_rows: RealRows | None = None
    tolerances: tuple[ToleranceUsed, ...] = ()
    groups: int = 0
    """Groups of responses whose advantages were compared after normalisation."""
    manager: str = ""
    """What the reward manager was checked against."""
    plumbing_only: bool = False
    """Requests and the reading of answers were compared, with taped answers; not what a judge would say."""
    side_effects: tuple[str, ...] = ()
    """Calls by which the reward makes files or folders; what it writes was not compared."""


def certificates(checks: Iterable[CheckResult]) -> tuple[Certificate, ...]:
    """One for every result of rung 3."""
    return tuple(_certificate(check) for check in checks if check.rung == PARITY_RUNG)


def _certificate(check: CheckResult) -> Certificate:
    launch, evidence = check.name.partition(":")[2], check.evidence
    base = Certificate(launch=launch, status=check.status, summary=check.summary)
    if "compared" not in evidence:
        return base
    coverage = evidence.get("coverage") or {}
    real = evidence.get("real_rows")
    return base.model_copy(
        update={
            "cases": evidence["cases"],
            "compared": evidence["compared"],
            "mismatches": evidence["mismatches"],
            "families": dict(evidence["families"]),
            "accepted_share": evidence.get("accepted_share"),
            "rejected_share": evidence.get("rejected_share"),
            "coverage_old": Coverage(**coverage.get("old", {})),
            "coverage_new": Coverage(**coverage.get("new", {})),
            "power": _power(evidence.get("power"), "seeded", "caught"),
            "mutants": _power(evidence.get("mutants"), "total", "killed"),
            "real_rows": RealRows(**real) if real else None,
            "tolerances": tuple(ToleranceUsed(**item) for item in evidence.get("tolerances", ())),
            "groups": (evidence.get("after") or {}).get("groups", 0),
            "manager": _manager(evidence.get("manager")),
            "plumbing_only": bool(evidence.get("plumbing_only")),
            "side_effects": tuple(evidence.get("writes", ())),
        }
    )


def _power(found: Mapping[str, Any] | None, seeded: str, caught: str) -> Power | None:
    if not found:
        return None
    return Power(
        seeded=found.get(seeded, 0),
        caught=found.get(caught, 0),
        equivalent=found.get("equivalent", 0),
        not_run=found.get("not_run", 0),
        unshown=found.get("unshown", 0),
        survivors=tuple(Fault(operator=item["operator"], line=item["line"]) for item in found.get("survivors", ())),
        why=str(found.get("why", "")),
    )


def _manager(found: Mapping[str, Any] | None) -> str:
    if not found:
        return ""
    if found["why"]:
        return f"{found['class']} could not be run here: {found['why']}"
    return f"{found['class']}, run on {found['cases']} of the cases with the same results"


def lines_of(items: Sequence[Certificate]) -> list[str]:
    """The certificates as Markdown lists; empty when there is none."""
    lines: list[str] = []
    for item in items:
        lines += ["", f"`{item.launch}`: {item.status.replace('_', ' ')}", ""] if len(items) > 1 else []
        lines += [f"- {text}" for text in _facts(item)]
    return lines[1:] if len(items) > 1 else lines


def _facts(item: Certificate) -> Iterable[str]:
    if not item.compared:
        yield item.summary
        return
    if item.plumbing_only:
        yield "plumbing only: requests and the reading of taped answers were compared, not what a judge would say"
    if item.side_effects:
        yield f"the reward makes files or folders ({', '.join(item.side_effects)}); what it writes was not compared"
    yield (
        f"{item.compared} of {item.cases} cases compared, {item.mismatches} differ; the old reward accepts "
        f"{_share(item.accepted_share)} and rejects {_share(item.rejected_share)}"
    )
    yield "families: " + ", ".join(f"{name} {count}" for name, count in item.families.items())
    yield (
        f"coverage: old {_covered(item.coverage_old)}; new {_covered(item.coverage_new)}"
        f"{' (worker processes are not seen)' if item.coverage_new.lines is None else ''}"
    )
    yield from _strength("power", "seeded porting faults", item.power)
    yield from _strength("mutants", "changes of covered lines", item.mutants)
    if item.real_rows is not None and item.real_rows.n:
        real = item.real_rows
        logged = f", {real.logged} of them with logged responses" if real.logged else ", responses made for them"
        yield (
            f"real rows: {real.n - real.differences} of {real.n} cases agree on {real.rows} rows of the recipe"
            f"{logged}; at 95 % at most {real.wilson95:.2%} differ"
        )
    else:
        yield "real rows: none, the recipe's data is not at hand"
    if item.groups:
        yield f"after the reward: advantages of {item.groups} groups agree"
    if item.manager:
        yield f"reward manager: {item.manager}"
    for used in item.tolerances:
        yield f"tolerance {used.id}: {used.cases} cases; {used.text}"


def _strength(name: str, what: str, power: Power | None) -> Iterable[str]:
    if power is None:
        yield f"{name}: not measured"
        return
    if power.why:
        yield f"{name}: not measured, {power.why}"
        return
    spared = [f"{power.equivalent} judged equivalent by rule"] if power.equivalent else []
    spared += [f"{power.not_run} not run in time"] if power.not_run else []
    spared += [f"no input found that shows {power.unshown}"] if power.unshown else []
    extra = f" ({', '.join(spared)})" if spared else ""
    yield f"{name}: {power.caught} of {power.seeded} {what} caught{extra}"
    if power.survivors:
        shown = ", ".join(f"{fault.operator} (line {fault.line})" for fault in power.survivors[:SHOWN])
        more = f" and {len(power.survivors) - SHOWN} more" if len(power.survivors) > SHOWN else ""
        yield f"not seen: {shown}{more}"


def _share(value: float | None) -> str:
    return "an unknown share" if value is None else f"{value:.0%}"


def _covered(coverage: Coverage) -> str:
    parts = [f"{value:.0%} of {name}" for name, value in (("lines", coverage.lines), ("branches", coverage.branches))
             if value is not None]  # fmt: skip
    return ", ".join(parts) or "not counted"
