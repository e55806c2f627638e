"""Stored values -> MigrationReport."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from migrate_tools import __version__
from migrate_tools.model import CheckResult, Example, Launch, Note, Recipe, Translation, Verdict

from migrate_agent.ledger import PLAIN, LedgerItem, LedgerLine, differences
from migrate_agent.proof import model_files, unproven
from migrate_agent.questions import decisions
from migrate_agent.report.certificate import certificates
from migrate_agent.report.model import (
    AttemptInfo,
    DecisionInfo,
    FileInfo,
    LaunchInfo,
    LlmEdit,
    LlmInfo,
    MigrationReport,
    Mutants,
    OptionsInfo,
    ParityInfo,
    RecipeInfo,
    RelaxInfo,
    SettingInfo,
    Suggestion,
    VerlInfo,
)
from migrate_agent.request import RunRequest
from migrate_agent.state import Attempt
from migrate_agent.verdict import LAST_CPU_RUNG, decide, holds_back, is_refused, launch_verdict, worst

PARITY_RUNG = 3


@dataclass(frozen=True)
class Facts:
    """What a report is built from."""

    run_id: str
    request: RunRequest
    contract: str
    recipe: Recipe
    translations: tuple[Translation, ...]
    ledger: tuple[LedgerLine, ...]
    example: Example | None
    checks: tuple[CheckResult, ...]
    items: tuple[LedgerItem, ...] = ()
    attempts: Sequence[Attempt] = ()
    first: Example | None = None
    """The example as the engine made it, before any model."""
    llm: Mapping[str, Any] = field(default_factory=dict)
    """Name of the model and what it cost; empty when none was asked."""
    stopped: str = ""
    suggestions: Sequence[Mapping[str, Any]] = ()
    answers: Mapping[str, str] = field(default_factory=dict)

    @property
    def unproven(self) -> tuple[str, ...]:
        """Edits of a model that no check proves."""
        if self.example is None or self.first is None:
            return ()
        return unproven(self.first, self.example, self.checks)


def build_report(facts: Facts) -> MigrationReport:
    """The report; the verdict is decided here and nowhere else."""
    recipe = facts.recipe
    unbalanced = differences(facts.ledger)
    verdict = decide(facts.translations, facts.checks)
    if unbalanced or (verdict != "refused" and facts.unproven):
        verdict = worst([verdict, "partial"])
    launches = {launch.name: launch for launch in recipe.launches}
    written = {item.path for item in facts.example.files} if facts.example else set()
    first = recipe.launches[0] if recipe.launches else None
    return MigrationReport(
        tool_version=__version__,
        run_id=facts.run_id,
        algo=facts.request.algo,
        options=_options(facts.request),
        recipe=RecipeInfo(path=recipe.root, name=recipe.name, commit=recipe.commit, sha256=recipe.sha256),
        verl=VerlInfo(version=first.verl.version, how=first.verl.how) if first else None,
        relax=RelaxInfo(contract=facts.contract),
        verdict=verdict,
        reasons=tuple(reasons(facts, verdict)),
        launches=tuple(_launch(launches[item.launch], item, written) for item in facts.translations),
        settings=tuple(_settings(facts.translations)),
        ledger=facts.ledger,
        left=tuple(item for item in facts.items if item.state not in PLAIN and item.area != "shell"),
        files=tuple(_file(path, text, origin) for path, text, origin in _texts(facts.example)),
        checks=facts.checks,
        parity=parity_info(facts.checks),
        decisions=(*merged_decisions(facts.translations), *user_decisions(facts.answers)),
        llm=llm_info(facts),
        attempts=tuple(AttemptInfo.model_validate(attempt) for attempt in facts.attempts),
        suggestions=tuple(Suggestion.model_validate(item) for item in facts.suggestions),
        skipped=recipe.skipped,
        shell_features=recipe.shell_features,
        notes=recipe.notes,
        secrets=recipe.secrets,
    )


def _options(request: RunRequest) -> OptionsInfo:
    options = request.model_dump(include=set(OptionsInfo.model_fields))
    return OptionsInfo.model_validate({**options, "relax_version": Path(request.relax_version).name})


def reasons(facts: Facts, verdict: Verdict) -> Iterable[str]:
    """Each thing that keeps the verdict from being better, by name."""
    for item in facts.translations:
        for refusal in item.refusals:
            yield f"{item.launch}: {refusal}"
        if is_refused(item):
            continue
        for reason in item.cap_reasons:
            yield f"{item.launch}: {reason}"
        for setting in item.settings:
            if holds_back(setting):
                place = f" ({setting.source.file}:{setting.source.line})" if setting.source else ""
                yield f"{item.launch}: {setting.key} is {setting.status}{place}: {setting.reason}"
    yield from differences(facts.ledger)
    yield from facts.unproven
    for check in facts.checks:
        if check.status == "failed" or (check.status == "not_checkable" and check.rung <= LAST_CPU_RUNG):
            yield f"check {check.name} {check.status.replace('_', ' ')}: {check.summary}"
        if check.rung > LAST_CPU_RUNG and check.status == "skipped" and verdict == "rehearsed":
            yield f"not verified: {check.summary}"


def llm_info(facts: Facts) -> LlmInfo:
    """What a model contributed, file by file."""
    if not facts.llm and not facts.stopped:
        return LlmInfo()
    helped: dict[str, list[int]] = {}
    for item in facts.attempts:
        if item["outcome"] == "improved" and (path := item.get("file")):
            helped.setdefault(path, []).append(item["number"])
    shipped = model_files(facts.example) if facts.example else ()
    edits = tuple(
        LlmEdit(
            path=path,
            attempts=tuple(helped.get(path, ())),
            unproven=next((line for line in facts.unproven if line.startswith(f"{path} ")), ""),
        )
        for path in shipped
    )
    return LlmInfo(
        used=bool(facts.llm) and facts.llm.get("calls") != 0,
        model=facts.llm.get("model"),
        calls=facts.llm.get("calls") or 0,
        tokens=facts.llm.get("tokens") or 0,
        usd=facts.llm.get("usd"),
        estimated=bool(facts.llm.get("estimated")),
        edits=edits,
        stopped=facts.stopped,
    )


def parity_info(checks: Iterable[CheckResult]) -> ParityInfo | None:
    """Sums the figures of rung 3, and the certificate of each launch; None when no parity check ran."""
    checks = tuple(checks)
    ran = [item for item in checks if item.rung == PARITY_RUNG and "cases" in item.evidence]
    if not ran:
        return None
    covered = [item.evidence["line_coverage"] for item in ran if item.evidence.get("line_coverage", {}).get("lines")]
    sides = [item.evidence.get("coverage", {}).get("old", {}).get("branches") for item in ran]
    branches = [share for share in sides if share is not None]
    power = [item.evidence["power"] for item in ran if item.evidence.get("power", {}).get("seeded")]
    return ParityInfo(
        cases=sum(item.evidence["cases"] for item in ran),
        mismatches=sum(item.evidence.get("mismatches", 0) for item in ran),
        line_coverage=round(min(item["hit"] / item["lines"] for item in covered), 4) if covered else None,
        branch_coverage=min(branches, default=None),
        mutants=Mutants(killed=sum(item["caught"] for item in power), total=sum(item["seeded"] for item in power))
        if power
        else None,
        certificates=certificates(checks),
    )


def merged_decisions(translations: Iterable[Translation]) -> tuple[DecisionInfo, ...]:
    """Each decision once, with the launches it holds for."""
    found: dict[str, DecisionInfo] = {}
    for item in translations:
        for decision in item.decisions:
            key = decision.model_dump_json()
            known = found.get(key)
            names = (*known.launches, item.launch) if known else (item.launch,)
            found[key] = DecisionInfo(**decision.model_dump(), launches=names)
    return tuple(found.values())


def user_decisions(answers: Mapping[str, str]) -> tuple[DecisionInfo, ...]:
    """What the user decided at the gate."""
    return tuple(DecisionInfo(**item.model_dump()) for item in decisions(answers))


def reward_line(launch: Launch) -> str:
    """What scores a response, in one line."""
    reward = launch.reward
    if reward.kind == "custom":
        return f"{reward.path}:{reward.function}"
    return {"builtin": "verl's scorer by data_source", "model": "a reward model on GPU", "none": "nothing"}[reward.kind]


def _launch(launch: Launch, item: Translation, written: set[str]) -> LaunchInfo:
    script = run_script(item)
    return LaunchInfo(
        name=launch.name,
        script=launch.script,
        line=launch.line,
        module=launch.module,
        how=launch.how,
        run_script=script if script in written else "",
        verdict=worst([launch_verdict(item)]),
        refusals=item.refusals,
        async_refusal=item.async_refusal,
        reward=reward_line(launch),
        reward_manager=launch.reward.manager,
        data_known_from=launch.data.known_from,
        unset=launch.unset,
        batch=item.batch,
        gpus=item.gpus,
        effective=item.effective,
        notes=_unique([*launch.notes, *item.notes]),
        guide_differences=item.guide_differences,
    )


def run_script(item: Translation) -> str:
    """Path of the generated script of one launch."""
    suffix = f"_{item.variant}" if item.variant else ""
    return f"examples/{item.algo}/run_{item.algo}{suffix}.sh"


def _settings(translations: Iterable[Translation]) -> Iterable[SettingInfo]:
    for item in translations:
        for setting in item.settings:
            yield SettingInfo(launch=item.launch, **setting.model_dump())


def _texts(example: Example | None) -> Iterable[tuple[str, str, str]]:
    for item in example.files if example else ():
        yield item.path, item.text, item.origin


def _file(path: str, text: str, origin: str) -> FileInfo:
    return FileInfo.model_validate(
        {"path": path, "origin": origin, "sha256": hashlib.sha256(text.encode("utf-8")).hexdigest()}
    )


def _unique(notes: Iterable[Note]) -> tuple[Note, ...]:
    return tuple(dict.fromkeys(notes))
