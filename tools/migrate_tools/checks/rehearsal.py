"""Rung 6: the run script itself runs, in both modes, against a stand-in Relax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from migrate_tools.checks.base import MODES, CheckContext, Finding, finding
from migrate_tools.model import CheckResult, MultiTurn, Translation
from migrate_tools.rehearsal.rehearse import RehearsalRun
from migrate_tools.rehearsal.runtime.generate import OWN
from migrate_tools.rehearsal.runtime.training_hooks import NOT_RUN

_FACTS = (
    "tokenizer",
    "turns",
    "drills",
    "agentic",
    "data",
    "rollout",
    "engine",
    "rewards",
    "eval",
    "normalised",
    "filter",
    "training_hooks",
    "reward_kind",
    "loop_lag_seconds",
)


class RehearsalCheck:
    """One result a launch and mode."""

    name = "rehearsal"
    rung = 6

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        results: list[CheckResult] = []
        for translation in context.translations:
            for mode in MODES:
                with finding(f"{self.name}:{translation.launch}:{mode}", self.rung) as found:
                    run = context.rehearsed(translation, mode)
                    if mode == "async" and translation.async_refusal:
                        _judge_refusal(run, found)
                    else:
                        _judge(run, translation, found)
                        launch = context.launch(translation) if context.recipe.launches else None
                        _judge_turns(run.report or {}, launch.multi_turn if launch else None, found)
                    if context.services(translation).folders:
                        found.evidence["empty_folders"] = list(context.services(translation).folders)
                    if context.converted(translation).made_up:
                        found.evidence["rows"] = "made up from the data contract: the recipe has no files at hand"
                found.seconds = max(found.seconds, run.seconds)
                results.append(found.result())
        return tuple(results)


def _judge(run: RehearsalRun, translation: Translation, found: Finding) -> None:
    report: dict[str, Any] = run.report or {}
    found.evidence |= {name: report[name] for name in _FACTS if name in report}
    found.evidence |= {"script": run.script, "returncode": run.returncode}
    if report.get("taped"):
        found.evidence["http"] = "requests of the reward and of tools are answered from a tape"
    if run.warnings:
        found.evidence["warnings"] = run.warnings
    if run.report is None:
        found.problems.append(f"{run.script} {run.mode} ended before the trainer started: {run.cause}")
        return
    found.problems += run.failures
    if run.returncode != 0 and not run.failures:
        found.problems.append(f"{run.script} {run.mode} ended with status {run.returncode}: {run.cause}")
    rollout = report.get("rollout")
    if rollout is None:
        return
    capped = rollout["prompts"] < rollout["prompts_of_a_rollout"]
    found.summary = (
        f"{run.mode}: {rollout['prompts']}{' of ' + str(rollout['prompts_of_a_rollout']) if capped else ''} prompts "
        f"x {rollout['samples_per_prompt']} samples rolled out and rewarded; no invariant broken"
    )
    if turns := report.get("turns"):
        found.summary += f"; {turns['samples_with_results']} samples saw results of tools"
    if agentic := report.get("agentic"):
        found.summary += (
            f"; {agentic['sessions']} processes of the agent, {agentic['requests']} requests; "
            f"{agentic['sessions_with_observations']} processes sent results of tools"
        )
    if drills := report.get("drills"):
        found.summary += (
            f"; drilled: {drills.get('episodes', 0)} episodes at once, {drills.get('aborts', 0)} aborts resumed"
        )
    if report.get("tokenizer") == OWN:
        found.summary += "; with the model's own tokenizer and chat template"
    skipped = [flag for flag, text in report.get("training_hooks", {}).items() if text == NOT_RUN]
    if skipped:
        found.summary += f"; not run, there is no torch here: {', '.join(skipped)}"


def _judge_turns(report: Mapping[str, Any], turns: MultiTurn | None, found: Finding) -> None:
    """A rollout in which nobody used a tool shows nothing about tools: it does not pass."""
    if found.problems:
        return
    agentic, played = report.get("agentic"), report.get("turns")
    if agentic and not agentic["sessions_with_observations"]:
        if called := agentic["sessions_with_calls"]:
            found.problems.append(f"the model called tools in {called} processes, and none sent a result")
            return
        why = f"none of {agentic['sessions']} processes of the agent showed the model a tool or asked it a second time"
    elif played and turns and turns.tools and not played["samples_with_results"]:
        said = "" if report.get("engine", {}).get("call") else f"; nobody here writes calls in the form {turns.format}"
        why = f"none of {played['samples']} samples saw a result of a tool{said}"
    else:
        return
    found.skip("not_checkable", f"{why}: turns were not rehearsed")


def _judge_refusal(run: RehearsalRun, found: Finding) -> None:
    """The script must refuse a mode that the algorithm cannot run, before it starts the trainer."""
    found.evidence |= {"script": run.script, "returncode": run.returncode, "said": run.cause}
    if run.report is not None:
        found.problems.append(f"{run.script} async started the trainer, though the algorithm cannot run async")
    elif run.returncode in (0, None):
        found.problems.append(f"{run.script} async did not refuse: status {run.returncode}")
    elif not run.cause:
        found.problems.append(f"{run.script} async refuses without saying why")
    found.summary = f"async is refused: {run.cause}"
