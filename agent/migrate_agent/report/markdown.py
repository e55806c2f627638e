"""MIGRATION.md: what a reviewer reads in two minutes, made from the report alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from migrate_tools.model import CheckResult, EffectRow, Note, SourceRef

from migrate_agent.ledger import AREAS, SETTINGS
from migrate_agent.report.certificate import lines_of
from migrate_agent.report.model import LaunchInfo, MigrationReport, SettingInfo

MEANING = {
    "verified": "every check passes, a real training step on a GPU included.",
    "rehearsed": "every check that needs no GPU passes; no training step was run.",
    "partial": "the files are written, but something named below is missing, unknown or failing.",
    "refused": "nothing was written.",
}
QUIET = {"exact", "derived", "automatic", "no_effect"}
CELL = 160
ORIGINS = {"rendered": "rendered", "extracted": "extracted", "llm": "changed by a language model"}
INFORMATION = frozenset({"branch-not-taken", "data-not-at-hand"})
"""Notes that ask nothing of the reader."""


def render_markdown(report: MigrationReport) -> str:
    """The whole page; ends with one newline."""
    parts = [
        _head(report),
        _human(report),
        _launches(report.launches),
        _effective(report.launches),
        _guide(report.launches),
        _checks(report.checks),
        _certificates(report),
        _settings(report),
        _rest(report),
        _decisions(report),
        _left_behind(report),
        _attempts(report),
        _model(report),
        _suggestions(report),
        _files(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(report: MigrationReport) -> str:
    verl = f"verl {report.verl.version} ({report.verl.how})" if report.verl else "no verl version"
    lines = [
        f"# {report.algo}: from verl to Relax",
        "",
        f"**Verdict: {report.verdict}**: {MEANING[report.verdict]}",
        "",
        f"Recipe `{report.recipe.name}`, {verl}; Relax contract {report.relax.contract}; "
        f"run `{report.run_id}`; {_used(report)}.",
    ]
    if report.reasons:
        lines += ["", "Why not better:", "", *(f"- {_text(reason)}" for reason in report.reasons)]
    return "\n".join(lines)


def _human(report: MigrationReport) -> str:
    items: list[str] = []
    for launch in report.launches:
        items += [f"{_text(note.text)}{_where(note.source)}" for note in launch.notes if note.code not in INFORMATION]
        if launch.async_refusal and not launch.refusals:
            items.append(f"`{launch.name}` has no async mode: {_text(launch.async_refusal)}")
        if launch.unset:
            items.append(f"`{launch.script}` reads variables that nobody sets: {', '.join(launch.unset)}")
    items += [f"{_text(note.text)}{_where(note.source)}" for note in report.notes]
    items += [
        f"a {secret.kind} stands in the recipe{_where(secret.source)}: it was not copied; set it in the environment"
        for secret in report.secrets
    ]
    lines = [f"- {item}" for item in dict.fromkeys(items)] or ["Nothing was found."]
    seen = {note.text: _where(note.source) for launch in report.launches for note in launch.notes if _is_extra(note)}
    if seen:
        lines += ["", "Also seen:", "", *(f"- {_text(text)}{where}" for text, where in seen.items())]
    return _section("What needs a human", lines)


def _is_extra(note: Note) -> bool:
    return note.code in INFORMATION


def _launches(launches: Sequence[LaunchInfo]) -> str:
    rows = [
        [
            f"`{item.script}`",
            f"`{item.run_script}`" if item.run_script else "not written",
            item.verdict if item.verdict in {"refused", "partial"} else "translated",
            f"{item.reward} (manager {item.reward_manager})",
            item.data_known_from,
        ]
        for item in launches
    ]
    return _section("Launches", _table(["verl script", "Relax script", "state", "reward", "data known from"], rows))


def _effective(launches: Sequence[LaunchInfo]) -> str:
    groups: dict[tuple[EffectRow, ...], list[str]] = {}
    for item in launches:
        if item.effective:
            groups.setdefault(item.effective, []).append(item.name)
    lines: list[str] = []
    for rows, names in groups.items():
        if len(launches) > 1:
            lines += ["", f"For {', '.join(f'`{name}`' for name in names)}:", ""]
        cells = [[row.name, row.verl, row.relax, "yes" if row.same else "**no**", row.why] for row in rows]
        lines += _table(["", "verl", "Relax", "same", "why"], cells)
    return _section("What will be trained", lines) if lines else ""


def _guide(launches: Iterable[LaunchInfo]) -> str:
    notes = dict.fromkeys(note for item in launches for note in item.guide_differences)
    return _section("Where this differs from the migration guide", _notes(notes)) if notes else ""


def _checks(checks: Sequence[CheckResult]) -> str:
    rows = [[str(item.rung), item.name, item.status.replace("_", " "), item.summary] for item in checks]
    lines = _table(["rung", "check", "result", "evidence"], rows)
    for item in checks:
        if item.status == "failed":
            lines += ["", f"`{item.name}` found:", "", *(f"- {line}" for line in _evidence(item.evidence))]
    return _section("Checks", lines) if checks else ""


def _certificates(report: MigrationReport) -> str:
    lines = lines_of(report.parity.certificates) if report.parity else []
    return _section("Reward certificate", lines) if lines else ""


def _settings(report: MigrationReport) -> str:
    ledger = [line for line in report.ledger if line.area == SETTINGS]
    statuses = list(ledger[0].counts) if ledger else []
    rows = [[f"`{line.launch}`", str(line.read), *(str(line.counts[status]) for status in statuses)] for line in ledger]
    lines = _table(["launch", "read", *(status.replace("_", " ") for status in statuses)], rows)
    loud: dict[tuple[str, ...], list[str]] = {}
    for item in report.settings:
        if item.status not in QUIET and item.row != "launch-refused":
            loud.setdefault(_setting_cells(item), []).append(f"{item.launch}{_where(item.source)}")
    if loud:
        lines += ["", "Not carried over exactly:", ""]
        lines += _table(
            ["key", "value", "state", "Relax", "reason", "where"],
            [[*cells, _shortened(places)] for cells, places in loud.items()],
        )
    return _section("Settings", lines)


def _rest(report: MigrationReport) -> str:
    """Reward branches, imports, columns, environment, side effects: counts, then what was not simply kept."""
    lines = [line for line in report.ledger if line.area != SETTINGS]
    if not lines:
        return ""
    rows = [
        [
            f"`{line.launch}`" if line.launch else "all",
            line.area,
            str(line.read),
            ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in line.counts.items()),
        ]
        for line in lines
    ]
    table = _table(["launch", "what", "read", "became"], rows)
    loud: dict[tuple[str, ...], list[str]] = {}
    for item in report.left:
        cells = (AREAS[item.area], f"`{item.name}`", item.state.replace("_", " "), item.reason)
        loud.setdefault(cells, []).append(f"{item.launch}{_where(item.source)}")
    if loud:
        table += ["", "Not simply kept:", ""]
        table += _table(
            ["what", "name", "state", "reason", "where"],
            [[*cells, _shortened(places)] for cells, places in loud.items()],
        )
    return _section("Reward code, data, environment and scripts", table)


def _setting_cells(item: SettingInfo) -> tuple[str, ...]:
    return f"`{item.key}`", f"`{item.value}`", item.status, " ".join(item.relax), item.reason


def _shortened(places: Sequence[str]) -> str:
    shown = ", ".join(places[:2])
    return shown if len(places) <= 2 else f"{shown} and {len(places) - 2} more"


def _decisions(report: MigrationReport) -> str:
    rows = [[item.question, item.choice, item.why, item.switch] for item in report.decisions]
    return _section("Decisions", _table(["question", "choice", "why", "to choose otherwise"], rows)) if rows else ""


def _left_behind(report: MigrationReport) -> str:
    items = [f"- `{item.file}`: {_text(item.reason)}" for item in report.skipped]
    items += _notes(dict.fromkeys(report.shell_features))
    return _section("Left behind", items) if items else ""


def _attempts(report: MigrationReport) -> str:
    rows = [[str(item.number), item.rule, item.check, item.what, item.outcome] for item in report.attempts]
    return _section("Repairs", _table(["", "rule", "because of", "change", "outcome"], rows)) if rows else ""


def _used(report: MigrationReport) -> str:
    if not report.llm.used:
        return "no language model was used"
    count = len(report.llm.edits)
    files = f"{count} file{'s' if count != 1 else ''}" if count else "nothing that is shipped"
    return f"a language model ({_text(report.llm.model or '?')}) changed {files}"


def _model(report: MigrationReport) -> str:
    """What a model contributed, and what no check says about it."""
    info = report.llm
    if not info.used and not info.stopped:
        return ""
    about = "about " if info.estimated else ""
    price = "unknown price" if info.usd is None else f"{about}{info.usd:.4f} USD"
    lines = [f"{_text(info.model or '?')}: {info.calls} calls, {about}{info.tokens} tokens, {price}."]
    if info.stopped:
        lines += ["", f"It was not asked further: {_text(info.stopped)}"]
    if info.edits:
        rows = [
            [
                f"`{item.path}`",
                ", ".join(map(str, item.attempts)),
                _text(item.unproven.partition(": ")[2]) or "the checks compare it with verl",
            ]
            for item in info.edits
        ]
        lines += ["", *_table(["file that it changed", "repairs", "proof"], rows)]
    return _section("Language model", lines)


def _suggestions(report: MigrationReport) -> str:
    """Proposals of a model; nothing of this list is used."""
    rows = [item for item in report.suggestions if item.kind == "row"]
    edits = [item for item in report.suggestions if item.kind == "edit"]
    if not rows and not edits:
        return ""
    lines = ["Proposed by the language model, looked at by nobody, and used nowhere."]
    if rows:
        cells = [[f"`{item.key}`", item.status.replace("_", " "), " ".join(item.relax), item.reason] for item in rows]
        lines += ["", *_table(["verl key", "state", "Relax", "reason"], cells)]
    for item in edits:
        fence = "`" * (max((len(run) for run in re.findall("`+", item.diff)), default=2) + 1)
        fence = fence if len(fence) > 2 else "```"
        lines += [
            "",
            f"`{item.file}`, for {_text(item.item)}: {_text(item.reason)}",
            "",
            f"{fence}diff",
            item.diff,
            fence,
        ]
    return _section("Suggestions", lines)


def _files(report: MigrationReport) -> str:
    return (
        _section("Files", [f"- `{item.path}` ({ORIGINS[item.origin]})" for item in report.files])
        if report.files
        else ""
    )


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"## {title}", "", *lines]).rstrip()


def _notes(notes: Iterable[Note]) -> list[str]:
    return [f"- {_text(note.text)}{_where(note.source)}" for note in notes]


def _where(source: SourceRef | None) -> str:
    if source is None:
        return ""
    return f" ({source.file}:{source.line})" if source.line else f" ({source.file})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body]


def _cell(text: str) -> str:
    flat = _text(text).replace("|", "\\|")
    return flat if len(flat) <= CELL * 3 else flat[: CELL * 3] + " ..."


def _text(text: str) -> str:
    """One line, with markup that a recipe might carry made harmless."""
    return " ".join(str(text).split()).replace("<", "&lt;") if "`" not in str(text) else " ".join(str(text).split())


def _evidence(value: Any, limit: int = 12) -> list[str]:
    lines = list(_flatten("", value))
    more = [f"and {len(lines) - limit} more in migration.json"] if len(lines) > limit else []
    return [line if len(line) <= CELL * 2 else line[: CELL * 2] + " ..." for line in lines[:limit]] + more


def _flatten(prefix: str, value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flatten(f"{prefix}{key}: ", item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _flatten(prefix, item)
    else:
        yield _text(f"{prefix}{value}")
