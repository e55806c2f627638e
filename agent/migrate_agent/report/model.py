"""The shape of migration.json; its JSON Schema is published as skill/schema/migration.schema.json."""

from __future__ import annotations

from typing import Any, Literal

from migrate_tools.model import (
    BatchPlan,
    CheckResult,
    Decision,
    EffectRow,
    Frozen,
    GpuPlan,
    Note,
    Risk,
    Secret,
    Skipped,
    SourceRef,
    Status,
    Verdict,
)
from pydantic import ConfigDict

from migrate_agent.ledger import LedgerItem, LedgerLine
from migrate_agent.report.certificate import Certificate

SCHEMA_VERSION = "1.0"


class RecipeInfo(Frozen):
    """Where the input came from."""

    path: str
    name: str
    commit: str | None
    sha256: str


class VerlInfo(Frozen):
    """The verl source that the recipe was read against."""

    version: str
    how: str


class RelaxInfo(Frozen):
    """The Relax that the example was written for."""

    contract: str
    """Name and origin of the flag contract."""


class OptionsInfo(Frozen):
    """Options that decide what is written; `verify` reads them."""

    launches: tuple[str, ...] = ()
    verl_root: str | None = None
    verl_version: str | None = None
    mode_default: str = "sync"
    batch_policy: str = "on-policy"
    relax_version: str = "latest"
    """A Relax version, or the name of a contract that was read from a checkout."""
    parity_cases: int | None = None
    parity_seconds: float | None = None
    model_configs: dict[str, dict[str, Any]] = {}
    """Contents of config.json given with --model-config, by model name; "" stands for every model."""


class LaunchInfo(Frozen):
    """One training command and what became of it."""

    name: str
    script: str
    line: int | None
    module: str
    how: str
    run_script: str
    """Path of the generated script; empty when the launch is refused."""
    verdict: Verdict
    refusals: tuple[str, ...]
    async_refusal: str
    reward: str
    """What scores a response, in one line."""
    reward_manager: str
    data_known_from: str
    unset: tuple[str, ...]
    batch: BatchPlan | None
    gpus: GpuPlan | None
    effective: tuple[EffectRow, ...]
    notes: tuple[Note, ...]
    guide_differences: tuple[Note, ...]


class SettingInfo(Frozen):
    """One setting of the recipe and the one state it ended in."""

    launch: str
    key: str
    value: Any
    source: SourceRef | None
    status: Status
    relax: tuple[str, ...]
    reason: str
    row: str
    risk: Risk


class FileInfo(Frozen):
    """One written file; `sha256` lets a later run see whether a person edited it."""

    path: str
    origin: Literal["rendered", "extracted", "llm"]
    sha256: str


class Mutants(Frozen):
    """Seeded faults: how many the cases caught."""

    killed: int
    total: int


class ParityInfo(Frozen):
    """The certificate of rung 3 in figures, summed over the launches."""

    cases: int
    mismatches: int
    branch_coverage: float | None = None
    """Share of the old scorer's branches that the cases take, of the worst launch; None without branches."""
    line_coverage: float | None = None
    """Share of the old scorer's lines that the cases reach, of the worst launch."""
    mutants: Mutants | None = None
    certificates: tuple[Certificate, ...] = ()
    """One for each launch whose reward was looked at."""


class DecisionInfo(Decision):
    """A decision and the launches it holds for."""

    launches: tuple[str, ...] = ()


class LlmEdit(Frozen):
    """One file that a language model wrote or changed, as it is shipped."""

    path: str
    attempts: tuple[int, ...]
    """Numbers of the repairs that made it so."""
    unproven: str = ""
    """Why no check proves it; empty when one does."""


class LlmInfo(Frozen):
    """What a language model contributed."""

    used: bool = False
    model: str | None = None
    calls: int = 0
    tokens: int = 0
    usd: float | None = 0.0
    """None: the price of the model is not known."""
    estimated: bool = False
    """Whether tokens were counted from the lengths of texts, because the server did not say."""
    edits: tuple[LlmEdit, ...] = ()
    stopped: str = ""
    """Why it was not asked further although something was left."""


class Suggestion(Frozen):
    """Something that a language model proposes and nothing uses: a mapping row, or an edit that no check can judge."""

    kind: Literal["row", "edit"]
    item: str
    """What it is for."""
    reason: str
    key: str = ""
    status: str = ""
    relax: tuple[str, ...] = ()
    file: str = ""
    diff: str = ""


class AttemptInfo(Frozen):
    """One repair and whether it helped."""

    number: int
    rule: str
    check: str
    what: str
    outcome: str
    commit: str = ""
    """In the workspace's repository of the run; empty without git."""
    file: str = ""
    """What a language model changed; empty for a rule."""


class MigrationReport(Frozen):
    """Everything that migration.json says."""

    model_config = ConfigDict(frozen=True, extra="forbid", title="migration.json of migrate-agent")

    schema_version: str = SCHEMA_VERSION
    tool_version: str
    run_id: str
    algo: str
    options: OptionsInfo
    recipe: RecipeInfo
    verl: VerlInfo | None
    relax: RelaxInfo
    verdict: Verdict
    reasons: tuple[str, ...]
    """Why the verdict is not a better one."""
    launches: tuple[LaunchInfo, ...]
    settings: tuple[SettingInfo, ...]
    ledger: tuple[LedgerLine, ...]
    """What was read and what came out, by launch and area; settings first."""
    left: tuple[LedgerItem, ...] = ()
    """Things of the launches, besides settings, that were not simply kept."""
    files: tuple[FileInfo, ...]
    checks: tuple[CheckResult, ...]
    parity: ParityInfo | None
    decisions: tuple[DecisionInfo, ...]
    llm: LlmInfo = LlmInfo()
    attempts: tuple[AttemptInfo, ...]
    suggestions: tuple[Suggestion, ...] = ()
    skipped: tuple[Skipped, ...]
    shell_features: tuple[Note, ...]
    notes: tuple[Note, ...]
    secrets: tuple[Secret, ...]
