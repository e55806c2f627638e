"""Which verdict a set of facts earns (design: verified > rehearsed > partial > refused)."""

from __future__ import annotations

from collections.abc import Iterable

from migrate_tools.model import CheckResult, Translated, Translation, Verdict

ORDER: tuple[Verdict, ...] = ("refused", "partial", "rehearsed", "verified")
EXIT_CODES: dict[Verdict, int] = {"verified": 0, "rehearsed": 0, "partial": 1, "refused": 2}
LAST_CPU_RUNG = 6
GPU_RUNG = 7


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The lowest of several verdicts; "verified" for none."""
    return min(verdicts, key=ORDER.index, default="verified")


def is_refused(translation: Translation) -> bool:
    """Whether nothing is written for this launch."""
    return bool(translation.refusals) or translation.verdict_cap == "refused"


def holds_back(item: Translated) -> bool:
    """Whether a setting keeps its launch from a better verdict than "partial"."""
    return item.status == "unknown" or (item.status == "unsupported" and item.risk == "training")


def launch_verdict(translation: Translation) -> Verdict:
    """The best verdict that one launch's translation allows."""
    if is_refused(translation):
        return "refused"
    held = any(holds_back(item) for item in translation.settings)
    return worst([translation.verdict_cap, "partial" if held else "verified"])


def checks_verdict(checks: Iterable[CheckResult]) -> Verdict:
    """The best verdict that the ladder allows.

    A failed rung, or one of rungs 0 to 6 that could not be checked, gives "partial"; without a passed GPU step
    it is "rehearsed". A skipped rung is one that has nothing to check in this example.
    """
    results = list(checks)
    for result in results:
        if result.status == "failed" or (result.status == "not_checkable" and result.rung <= LAST_CPU_RUNG):
            return "partial"
    if not any(result.rung <= LAST_CPU_RUNG and result.status == "passed" for result in results):
        return "partial"
    gpu = [result for result in results if result.rung == GPU_RUNG]
    return "verified" if gpu and all(result.status == "passed" for result in gpu) else "rehearsed"


def decide(translations: Iterable[Translation], checks: Iterable[CheckResult]) -> Verdict:
    """The verdict of the whole run.

    "refused" only when every launch is refused; when some are, the written rest is "partial".
    """
    each = [launch_verdict(translation) for translation in translations]
    if not each or all(verdict == "refused" for verdict in each):
        return "refused"
    kept: list[Verdict] = ["partial" if verdict == "refused" else verdict for verdict in each]
    return worst([*kept, checks_verdict(checks)])
