"""The values that flow: Recipe -> Translation -> Example -> CheckResult.

They are frozen pydantic models, because each crosses a file of the run folder (design.md section 3).
Paths inside them are text; a path "relative to the project" is relative to `Recipe.project_root`.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Status = Literal["exact", "derived", "approximate", "automatic", "no_effect", "unsupported", "unknown"]
CheckStatus = Literal["passed", "failed", "skipped", "not_checkable"]
Verdict = Literal["verified", "rehearsed", "partial", "refused"]
Mode = Literal["sync", "async"]
Risk = Literal["none", "speed", "training"]


class Frozen(BaseModel):
    """Base: immutable, and no field that nobody declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceRef(Frozen):
    """A place in the recipe: `file` relative to the project, `line` counted from 1."""

    file: str
    line: int | None = None


class Note(Frozen):
    """Something a reviewer should know: a short stable `code` ("R21-kl-ignored") and one sentence."""

    code: str
    text: str
    source: SourceRef | None = None


class Conserved(Frozen):
    """Something of the recipe besides a setting, and the one state that it ended in."""

    area: Literal["reward_branch", "import", "column", "environment", "shell"]
    name: str
    state: str
    """reward_branch: kept, always_taken, dropped, inside_dropped. import: kept, copied, unused.
    column: prompt, label, metadata, media, kept.
    environment: read_by_reward, read_by_tools, in_settings, relax_sets_it, verl_only, left_to_user, changes_training.
    shell: not_carried. Any area: lost, which is a fault of this program."""
    reason: str = ""
    source: SourceRef | None = None


class Decision(Frozen):
    """A choice between readings: what was asked, what was chosen, why, and how the user can choose otherwise."""

    question: str
    choice: str
    why: str
    switch: str = ""


# ---------------------------------------------------------------- READ


class VerlRef(Frozen):
    """The verl source that the recipe is read against."""

    version: str
    """A release ("0.9.1") or the version text of a checkout ("0.10.0.dev0")."""
    root: str
    """Folder that holds the package `verl/`."""
    how: str
    """One sentence: how the version was found and where the source came from."""


class Setting(Frozen):
    """One Hydra setting that the recipe itself makes (not a verl default)."""

    key: str
    """Dotted key without the prefix signs."""
    value: Any
    """The value as Hydra types it; this machine's home and temporary names never appear in it."""
    text: str
    """The value as it should appear in a shell script: `$HOME` and variables the user sets are kept."""
    prefix: Literal["", "+", "++", "~"] = ""
    origin: Literal["command_line", "recipe_config"] = "command_line"
    source: SourceRef | None = None
    overridden: tuple[SourceRef, ...] = ()
    """Earlier places that set the same key and lost (Hydra takes the last)."""


class Overlong(Frozen):
    """The overlong penalty of the dapo manager; lengths in tokens."""

    max_resp_len: int
    buffer_len: int
    penalty_factor: float


class RewardSpec(Frozen):
    """What computes the reward of one launch: the scorer and what the reward manager adds to it."""

    kind: Literal["custom", "builtin", "model", "none"]
    """custom: a function of the recipe; builtin: verl's dispatch by data_source; model: a reward model on GPU."""
    path: str | None = None
    """File of the function, relative to the project, or "verl/..." inside the verl source."""
    function: str | None = None
    source: SourceRef | None = None
    """Where the recipe names the function."""
    kwargs: dict[str, Any] = {}
    """reward_kwargs of the custom function."""
    is_async: bool = False
    parameters: tuple[str, ...] = ()
    """Parameter names in order; "*x" and "**x" as written."""
    required: tuple[str, ...] = ()
    """Parameters without a default."""
    manager: str = "naive"
    manager_source: SourceRef | None = None
    manager_kwargs: dict[str, Any] = {}
    overlong: Overlong | None = None
    text: Literal["response", "prompt_and_response"] = "response"
    """What the manager decodes: 0.0.2-0.1 forks pass prompt and response together."""
    skip_special_tokens: bool = True
    num_turns: int | None = None
    """extra_info["num_turns"] that the manager adds for a single-turn sample; None: it adds nothing."""
    traits: tuple[str, ...] = ()
    """Sorted: signal, process, http, random, time, file, print, judge, env:NAME, import:PACKAGE."""
    environment: dict[str, str] = {}
    """Variables that the launch script exports and the scorer reads."""


class DataFile(Frozen):
    """One training or validation file of a launch."""

    text: str
    """As written, with shell variables kept."""
    path: str | None = None
    """Local absolute path when the file is at hand, else None."""
    rows: int | None = None


class SourceCount(Frozen):
    """How many rows of a split carry a data_source; `rows` is None when it comes from a preparation script."""

    name: str
    split: Literal["train", "val"]
    rows: int | None = None
    file: str = ""


class DataSpec(Frozen):
    """The data of one launch, from its files or from the contract that its preparation script and reward name."""

    train: tuple[DataFile, ...] = ()
    val: tuple[DataFile, ...] = ()
    known_from: Literal["files", "prep_script", "known_dataset", "reward", "nothing"] = "nothing"
    columns: dict[str, str] = {}
    """Column -> Arrow type as text."""
    prompt_key: str = "prompt"
    reward_fn_key: str = "data_source"
    image_key: str = "images"
    prompt_form: Literal["chat", "string", "templated", "unknown"] = "unknown"
    """chat: list of messages; string: plain text; templated: verl takes the (first message's) text as it is."""
    multimodal: tuple[str, ...] = ()
    """Columns that hold images, videos or audio."""
    media_kinds: dict[str, str] = {}
    """Column -> "image", "video" or "audio", as the recipe names them."""
    sources: tuple[SourceCount, ...] = ()
    truth: Literal["string", "number", "list", "dict", "none", "mixed", "unknown"] = "unknown"
    extra_info_keys: tuple[str, ...] = ()
    prep_script: str | None = None
    custom_class: str | None = None
    """ "file.py:Class" of data.custom_cls."""
    row_code: str = ""
    """Module with `recipe_row(row)`: what that class does to a row and the conversion can do once."""
    row_moved: tuple[str, ...] = ()
    """What recipe_row does, a line each."""
    row_left: tuple[str, ...] = ()
    """What else the class does, which is not migrated."""
    tool_images: dict[str, dict[str, int | None]] = {}
    """Tool -> argument of its create -> number of the row's image that it gets (None: all), from that class."""
    example_rows: tuple[dict[str, Any], ...] = ()
    """A few JSON-able rows made up from the contract when no file is at hand (marked so in the report)."""


class ToolSpec(Frozen):
    """One tool that the model may call."""

    name: str
    kind: Literal["base_tool", "function", "mcp"]
    """base_tool: a class; function: a decorated function; mcp: found by asking servers when training starts."""
    class_name: str
    """Dotted class as the recipe writes it, or the function."""
    file: str | None = None
    """Its file, relative to the project, or "verl/..." inside a verl source; None when it is not at hand."""
    verl_version: str | None = None
    """The verl release the class is taken from when the recipe's own verl no longer has it."""
    parents: tuple[str, ...] = ()
    """Base classes, nearest first."""
    generation: Literal["response", "text", "direct", "function", "unknown"] = "unknown"
    """What execute takes and gives. response: (ToolResponse, reward, metrics); text: (text, reward, metrics) or text;
    direct: the tool's arguments are its own parameters instead of one `parameters`."""
    own_create: bool = False
    """Whether a class of the recipe defines create (else the base's, which keeps nothing)."""
    reads_episode: bool = False
    """Whether it reads the state of the episode (verl's agent_data)."""
    parameters: dict[str, Any] | None = None
    """The whole function schema, as the chat template gets it; None when only the running class knows it."""
    config: dict[str, Any] = {}
    traits: tuple[str, ...] = ()
    """As RewardSpec.traits, of the file that holds the class."""
    source: SourceRef | None = None
    """Where the recipe registers it."""


class InteractionSpec(Frozen):
    """A simulated user: verl's BaseInteraction."""

    name: str
    class_name: str
    file: str | None = None
    config: dict[str, Any] = {}
    traits: tuple[str, ...] = ()
    source: SourceRef | None = None


class AgentLoopSpec(Frozen):
    """An agent loop of the recipe, by the name that rows or the configuration select."""

    name: str
    class_name: str
    file: str | None = None
    parents: tuple[str, ...] = ()
    arguments: dict[str, Any] = {}
    """Keywords that its configuration file gives to the class."""
    fields: tuple[str, ...] = ()
    """Columns of the row that it reads by name, beside those that every converted row has."""
    obstacle: str = ""
    """Why it cannot become a part of the example, by name; empty when nothing is in the way."""
    traits: tuple[str, ...] = ()
    source: SourceRef | None = None


class MultiTurn(Frozen):
    """The multi-turn side of one launch; every limit as verl's own configuration has it."""

    tools: tuple[ToolSpec, ...] = ()
    interactions: tuple[InteractionSpec, ...] = ()
    loops: tuple[AgentLoopSpec, ...] = ()
    """Agent loops of the recipe; verl's own ("single_turn_agent", "tool_agent") are not listed."""
    runner: Literal["agent_loop", "engine"] = "agent_loop"
    """What runs tools and users. engine: verl's SGLang rollout (up to 0.6, in the mode sync), which makes a tool once
    an episode and asks it for a reward at the end; agent_loop: verl's tool agent loop."""
    loop_release: str = ""
    """The verl release whose tool agent loop the launch's verl has; empty: that of its version."""
    default_loop: str = ""
    """Loop of rows without an agent_name; "" before verl had agent loops (0.3 and 0.4: the engine runs the tools)."""
    row_loops: bool = False
    """Whether the rows have a column agent_name."""
    manager_class: str = ""
    """An agent loop manager of the recipe's own."""
    format: str = "hermes"
    """How a tool call is written in the model's text (verl's tool parser)."""
    max_assistant_turns: int | None = None
    max_user_turns: int | None = None
    max_parallel_calls: int = 1
    max_tool_response_length: int = 256
    """Characters."""
    truncate_side: str = "middle"
    own_rollout: str = ""
    """A file of the recipe that is copied over verl's own rollout, and which; what it changes is not read."""
    missing: tuple[Note, ...] = ()
    """Files and classes that are named and not at hand."""

    @property
    def needs_prompt(self) -> bool:
        """Whether something reads the messages of the conversation, the prompt's included."""
        return bool(self.interactions or self.loops) or any(tool.reads_episode for tool in self.tools)


class Launch(Frozen):
    """One training command: what it says, and what it means under the verl version it was written for."""

    name: str
    """Script stem, made unique within the recipe; used for run_<algo>_<variant>.sh."""
    script: str
    line: int | None = None
    module: str
    """Dotted entry module, e.g. "verl.trainer.main_ppo"."""
    argv: tuple[str, ...] = ()
    how: Literal["executed", "static"] = "executed"
    """executed: recorded in the sandbox; static: read from the syntax tree only."""
    environment: dict[str, str] = {}
    """Variables that the script exports to the command (secrets removed)."""
    unset: tuple[str, ...] = ()
    """Shell variables that the script reads and nobody sets."""
    settings: tuple[Setting, ...] = ()
    config: dict[str, Any] = {}
    """Every leaf of the composed configuration, defaults included, as dotted keys."""
    verl: VerlRef
    reward: RewardSpec
    data: DataSpec
    multi_turn: MultiTurn | None = None
    """Tools, interactions and agent loops; None for a single-turn launch."""
    notes: tuple[Note, ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        """The composed value of a dotted key, verl's default included."""
        return self.config.get(key, default)


class Skipped(Frozen):
    """A script or command of the recipe that is not an RL training launch, and why."""

    file: str
    reason: str


class Secret(Frozen):
    """A credential found in the recipe: where and what kind, never its text."""

    source: SourceRef
    kind: str


class Recipe(Frozen):
    """Everything that was read from a recipe folder."""

    name: str
    root: str
    project_root: str
    """The enclosing checkout (or the recipe itself): what the scripts see as their working folder."""
    commit: str | None = None
    sha256: str
    """Over the names and contents of the files that were read."""
    launches: tuple[Launch, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    secrets: tuple[Secret, ...] = ()
    shell_features: tuple[Note, ...] = ()
    """Side effects and constructs of the scripts that do not carry over (rm, sed -i, ray start ...)."""
    notes: tuple[Note, ...] = ()


# ---------------------------------------------------------------- MEAN


class Translated(Frozen):
    """What became of one setting. Every Setting of a launch has exactly one."""

    key: str
    value: Any
    source: SourceRef | None
    status: Status
    relax: tuple[str, ...] = ()
    """Flags (or "file: name", "hook: path") it became."""
    reason: str = ""
    row: str = ""
    """Id of the mapping row that decided."""
    risk: Risk = "none"


class Flag(Frozen):
    """One flag of the generated script."""

    name: str
    """With dashes, as in the contract: "--rollout-batch-size"."""
    value: str | None = None
    """Shell-ready text (quotes and ${VARIABLES} included); None for a switch."""
    group: Literal["CKPT", "ROLLOUT", "EVAL", "PERF", "ALGO", "OPTIMIZER", "SGLANG", "LOG", "MISC", "SYNC", "ASYNC"]
    """Array of the script; SYNC and ASYNC go to one mode only."""
    comment: str = ""


class Hook(Frozen):
    """One generated hook: a function of the hook library with the recipe's numbers in place of its constants."""

    flag: str
    """The flag that names it: "--custom-reward-post-process-path"."""
    function: str
    constants: dict[str, Any] = {}


class EffectRow(Frozen):
    """One line of the effective-training table."""

    name: str
    verl: str
    relax: str
    same: bool
    why: str = ""
    verl_value: Any = None
    """What verl's cell says, for programs: numbers, words, lists or a mapping of them."""
    relax_value: Any = None
    """Relax's cell likewise; where the two are equal, `same` holds."""
    risk: Risk = "none"
    """What a difference changes."""
    explained: bool = True
    """Whether something that was translated accounts for the difference."""

    def __hash__(self) -> int:
        return hash((self.name, self.verl, self.relax, self.same, self.why))


class BatchPlan(Frozen):
    """Batch algebra (contract.md 8, flag_rules.md 4). Prompts and samples are kept apart."""

    policy: Literal["on-policy", "faithful"]
    rollout_batch_size: int
    """Prompts a rollout."""
    n_samples_per_prompt: int
    global_batch_size: int
    """Samples an update."""
    updates_per_rollout: int
    rollouts_per_verl_step: int
    """Cadences counted in verl steps are multiplied by this (T/M under on-policy, 1 under faithful)."""


class GpuPlan(Frozen):
    """GPUs per role and parallel sizes."""

    total: int
    per_node: int
    nodes: int
    tensor_parallel: int
    pipeline_parallel: int
    context_parallel: int
    expert_parallel: int
    gpus_per_engine: int
    async_split: dict[str, int]
    """actor, rollout, reference, actor_fwd, advantages; empty when async is not possible."""


class Translation(Frozen):
    """One launch in Relax's terms."""

    launch: str
    algo: str
    variant: str = ""
    """Suffix of run_<algo>_<variant>.sh; empty for the only launch."""
    verdict_cap: Verdict = "verified"
    """The best verdict still possible: "refused" when Relax cannot express the algorithm at all."""
    refusals: tuple[str, ...] = ()
    cap_reasons: tuple[str, ...] = ()
    """Why the verdict is capped at "partial" by something that no single setting says (a default of verl, say)."""
    async_refusal: str = ""
    """Why this algorithm cannot run fully async; empty when it can."""
    flags: tuple[Flag, ...] = ()
    settings: tuple[Translated, ...] = ()
    batch: BatchPlan | None = None
    gpus: GpuPlan | None = None
    model_script: str = ""
    """Name of scripts/models/<name>.sh, or empty when MODEL_ARGS are generated."""
    model_args: tuple[str, ...] = ()
    model_dir_name: str = ""
    """Folder below MODEL_DIR."""
    effective: tuple[EffectRow, ...] = ()
    decisions: tuple[Decision, ...] = ()
    notes: tuple[Note, ...] = ()
    guide_differences: tuple[Note, ...] = ()
    """Where the seed guide says one thing and this Relax does another."""
    hooks: tuple[Hook, ...] = ()
    """Functions of hooks_<algo>.py; their flags name them."""
    config_yaml: dict[str, Any] = {}
    """Keys of <algo>_config.yaml (prefixed, so that none overrides a Relax argument)."""


# ---------------------------------------------------------------- WRITE and CHECK


class ExampleFile(Frozen):
    """One generated file; `path` is relative to the Relax root."""

    path: str
    text: str
    origin: Literal["rendered", "extracted", "llm"]
    executable: bool = False


class Example(Frozen):
    """Everything that is written for one recipe."""

    algo: str
    files: tuple[ExampleFile, ...]

    def file(self, path: str) -> ExampleFile:
        """The file at `path`.

        Raises:
            KeyError: there is none.
        """
        for item in self.files:
            if item.path == path:
                return item
        raise KeyError(path)


class CheckResult(Frozen):
    """One rung of the ladder (design.md section 6)."""

    name: str
    rung: int
    status: CheckStatus
    seconds: float = 0.0
    summary: str = ""
    """One sentence a reviewer reads."""
    evidence: dict[str, Any] = {}
