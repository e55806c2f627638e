"""The command line: options in, exit code out. Every command imports its work when it is called."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from migrate_tools import __version__
from migrate_tools.errors import MigrateError

from migrate_agent.cli_data import convert_data
from migrate_agent.cli_llm import (
    Answers,
    Ask,
    BudgetCalls,
    BudgetSeconds,
    BudgetTokens,
    BudgetUsd,
    Llm,
    LlmMode,
    Repairs,
    Replay,
)

INTERNAL_ERROR = 70
INTERRUPTED = 130

app = typer.Typer(
    name="migrate-agent",
    help="Moves an RL training recipe from verl to Relax and proves that it still means the same.",
    epilog="Exit codes: 0 verified or rehearsed, 1 partial, 2 wrong usage or refused, 3 the machine lacks "
    "something, 4 a budget ran out, 70 a fault of this program.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Mode(StrEnum):
    """Default mode of the generated scripts."""

    sync = "sync"
    async_ = "async"


class BatchPolicy(StrEnum):
    """How verl's batch sizes are carried over."""

    on_policy = "on-policy"
    faithful = "faithful"


class SandboxKind(StrEnum):
    """Where foreign code runs."""

    auto = "auto"
    docker = "docker"
    bubblewrap = "bubblewrap"


class Smoke(StrEnum):
    """Whether a GPU step is tried."""

    auto = "auto"
    off = "off"
    required = "required"


class RelaxVersion(StrEnum):
    """Which built-in flag contract the example is written for."""

    latest = "latest"
    studio = "studio"
    infra = "infra"


Recipe = Annotated[Path, typer.Argument(help="Folder of the verl recipe.", show_default=False)]
ExampleDir = Annotated[Path, typer.Argument(help="examples/<algo> below a Relax root.", show_default=False)]
Launches = Annotated[list[str] | None, typer.Option("--launch", help="Only this launch script; repeatable.")]
Variables = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A variable that scripts expect from outside; repeatable."),
]
VerlRoot = Annotated[Path | None, typer.Option(help="A verl checkout to read the recipe against.")]
VerlVersion = Annotated[str | None, typer.Option(help="A verl release, fetched as a wheel when needed.")]
Sandbox = Annotated[SandboxKind, typer.Option("--sandbox", help="Where code of the recipe runs.")]
RelaxName = Annotated[
    RelaxVersion | None,
    typer.Option("--relax-version", help="Built-in flag contract; default: the checkout's, else latest."),
]
ContractFile = Annotated[
    Path | None, typer.Option("--contract", help="Flag contract saved by `migrate-agent contract`.", show_default=False)
]
Policy = Annotated[BatchPolicy, typer.Option("--batch-policy", help="How batch sizes are carried over.")]
ModelConfig = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]FILE",
        help="config.json of the model (or its folder), when it is not on this machine; repeatable.",
    ),
]
ParityCases = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Cases of the reward comparison, about; default 600.", show_default=False),
]
ParitySeconds = Annotated[
    float | None,
    typer.Option(
        min=1,
        metavar="S",
        help="Seconds for each run of the old reward; default 20. Seeded faults have six times as long. What it cuts "
        "off is said.",
        show_default=False,
    ),
]
Rollouts = Annotated[
    list[Path] | None,
    typer.Option(
        "--rollouts",
        metavar="FILE",
        help="Responses that verl logged (rollout_data_dir, validation_data_dir), file or folder; repeatable.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]


@app.callback()
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Moves an RL training recipe from verl to Relax and proves that it still means the same."""


@app.command()
def run(
    recipe: Annotated[Path | None, typer.Argument(help="Folder of the verl recipe.", show_default=False)] = None,
    name: Annotated[str | None, typer.Option(help="Name of the example; else made from the folder.")] = None,
    launch: Launches = None,
    variables: Variables = None,
    relax_root: Annotated[Path | None, typer.Option(help="Relax checkout to write into.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write into; default ./relax-<name>.")] = None,
    verl_root: VerlRoot = None,
    verl_version: VerlVersion = None,
    mode_default: Annotated[Mode, typer.Option(help="Mode of the scripts when none is given.")] = Mode.sync,
    batch_policy: Policy = BatchPolicy.on_policy,
    sandbox: Sandbox = SandboxKind.auto,
    llm: LlmMode = Llm.auto,
    repairs: Repairs = 3,
    ask: Ask = False,
    answer: Answers = None,
    budget_usd: BudgetUsd = None,
    budget_tokens: BudgetTokens = None,
    budget_seconds: BudgetSeconds = None,
    budget_calls: BudgetCalls = None,
    smoke: Annotated[
        Smoke, typer.Option(help="One GPU step: auto: where there is a GPU; required: stop without one.")
    ] = Smoke.auto,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do everything, write nothing.")] = False,
    as_json: Json = False,
    resume: Annotated[str | None, typer.Option(metavar="RUN_ID", help="Go on with a run that was cut off.")] = None,
    replay: Replay = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that a person edited.")] = False,
    relax_version: RelaxName = None,
    contract_file: ContractFile = None,
    parity_cases: ParityCases = None,
    parity_seconds: ParitySeconds = None,
    rollouts: Rollouts = None,
    model_config: ModelConfig = None,
) -> int:
    """Migrate a recipe, check the result, write it and report."""
    from migrate_agent.commands import run as command

    options = command.Options(
        recipe=recipe,
        name=name,
        launches=tuple(launch or ()),
        variables=tuple(variables or ()),
        relax_root=relax_root,
        out=out,
        verl_root=verl_root,
        verl_version=verl_version,
        mode_default=mode_default.value,
        batch_policy=batch_policy.value,
        sandbox=sandbox.value,
        smoke=smoke.value,
        relax_version=relax_version.value if relax_version else None,
        contract=contract_file,
        parity_cases=parity_cases,
        parity_seconds=parity_seconds,
        rollouts=tuple(rollouts or ()),
        model_configs=tuple(model_config or ()),
        llm=llm.value,
        repairs=repairs,
        ask=ask,
        budgets={"usd": budget_usd, "tokens": budget_tokens, "seconds": budget_seconds, "calls": budget_calls},
    )
    how = command.How(
        resume=resume, replay=replay, dry_run=dry_run, force=force, as_json=as_json, answers=tuple(answer or ())
    )
    return command.run(options, how)


@app.command()
def inspect(
    recipe: Recipe,
    launch: Launches = None,
    variables: Variables = None,
    verl_root: VerlRoot = None,
    verl_version: VerlVersion = None,
    batch_policy: Policy = BatchPolicy.on_policy,
    sandbox: Sandbox = SandboxKind.auto,
    relax_version: RelaxName = None,
    contract_file: ContractFile = None,
    model_config: ModelConfig = None,
    as_json: Json = False,
) -> int:
    """Show what is in a recipe and what would happen to it; writes nothing."""
    from migrate_agent.commands import inspect as command
    from migrate_agent.commands.run import Options

    options = Options(
        recipe=recipe,
        launches=tuple(launch or ()),
        variables=tuple(variables or ()),
        verl_root=verl_root,
        verl_version=verl_version,
        batch_policy=batch_policy.value,
        sandbox=sandbox.value,
        relax_version=relax_version.value if relax_version else None,
        contract=contract_file,
        model_configs=tuple(model_config or ()),
    )
    return command.inspect(options, as_json=as_json)


@app.command()
def verify(
    example_dir: ExampleDir,
    sandbox: Sandbox = SandboxKind.auto,
    relax_version: RelaxName = None,
    contract_file: ContractFile = None,
    parity_cases: ParityCases = None,
    parity_seconds: ParitySeconds = None,
    rollouts: Rollouts = None,
    rung: Annotated[
        list[int] | None,
        typer.Option(help="Climb this rung alone (0 to 6; may be given several times).", min=0, max=6),
    ] = None,
    as_json: Json = False,
) -> int:
    """Climb the ladder of checks again on an example that is already there."""
    from migrate_agent.commands import verify as command

    version = relax_version.value if relax_version else None
    return command.verify(
        example_dir,
        sandbox=sandbox.value,
        relax_version=version,
        contract=contract_file,
        as_json=as_json,
        size=command.ParitySize(parity_cases, parity_seconds, tuple(rollouts or ())),
        only=frozenset(rung) if rung else None,
    )


app.command("convert-data")(convert_data)


@app.command()
def smoke(
    example_dir: ExampleDir,
    sandbox: Sandbox = SandboxKind.auto,
    relax_version: RelaxName = None,
    contract_file: ContractFile = None,
    as_json: Json = False,
) -> int:
    """Rehearse the launch of an example, then one GPU step where there is a GPU."""
    from migrate_agent.commands import verify as command

    version = relax_version.value if relax_version else None
    return command.smoke(
        example_dir, sandbox=sandbox.value, relax_version=version, contract=contract_file, as_json=as_json
    )


@app.command()
def contract(
    relax_root: Annotated[Path, typer.Argument(help="A Relax checkout.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="JSON file to save the contract in, for --contract.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> int:
    """Read flags, hooks, model scripts and Sample fields of a Relax checkout; compare with the built-in contract."""
    from migrate_agent.commands import contract as command

    return command.contract(relax_root, out=out, as_json=as_json)


@app.command()
def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Build the sandbox image and fetch the verl wheel.")] = False,
    as_json: Json = False,
) -> int:
    """Say what this machine has: sandbox, verl source, tools, GPU, model."""
    from migrate_agent.commands import doctor as command

    return command.doctor(fix=fix, as_json=as_json)


@app.command()
def mcp() -> int:
    """Serve inspect, plan, run, verify and the tables to another agent (Model Context Protocol, stdio)."""
    from migrate_agent.commands import mcp as command

    return command.mcp()


def run_cli(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code; every error becomes one line on stderr."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    if "--version" in arguments[:1]:
        print(f"migrate-agent {__version__}")
        return 0
    try:
        result: Any = typer.main.get_command(app).main(args=arguments, prog_name="migrate-agent", standalone_mode=False)
    except MigrateError as error:
        return _complain(error.line(), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted -- the same command with --resume RUN_ID goes on", INTERRUPTED)
    except BrokenPipeError:
        return INTERRUPTED
    except Exception as error:
        if hasattr(error, "format_message"):
            return _complain(f"{error.format_message()} -- see migrate-agent --help", 2)
        if debug:
            raise
        return _complain(_logged(error), INTERNAL_ERROR)
    return result if isinstance(result, int) else 0


def main() -> None:
    """Console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run_cli(sys.argv[1:]))


def _complain(line: str, code: int) -> int:
    print(f"migrate-agent: error: {' '.join(line.split())}", file=sys.stderr)
    return code


def _logged(error: Exception) -> str:
    path = Path(getattr(error, "migrate_agent_log", Path(tempfile.gettempdir()) / f"migrate-agent-{os.getpid()}.log"))
    path.write_text("".join(traceback.format_exception(error)), "utf-8", errors="backslashreplace")
    return f"a fault of this program: {type(error).__name__}: {error} -- the traceback is in {path}; please report it"


if __name__ == "__main__":
    main()
