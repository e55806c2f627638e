"""`migrate-agent run`: the whole way from a recipe folder to an installed, checked example."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from migrate_tools.errors import BudgetError, MachineError, RefusedInput, UsageError
from migrate_tools.model import CheckResult, Example, ExampleFile, Mode

from migrate_agent.console import progress, table
from migrate_agent.engine import Engine, Progress
from migrate_agent.evidence import copy_rollouts, parity_files
from migrate_agent.graph import run_graph, unasked
from migrate_agent.ledger import SETTINGS
from migrate_agent.llm_settings import TAPE, Limits, LlmSettings, open_model
from migrate_agent.nodes import Context
from migrate_agent.questions import Decide, Question, checked
from migrate_agent.relax_contract import choose
from migrate_agent.request import RunRequest, algo_name, checked_algo_name, existing_rollouts, shell_variable
from migrate_agent.runs import RunFolder, new_run, open_run, replay_run, write_bytes
from migrate_agent.state import RunState
from migrate_agent.trace import open_trace
from migrate_agent.verdict import EXIT_CODES


@dataclass(frozen=True)
class Options:
    """Command-line options before they are made absolute and checked."""

    recipe: Path | None
    name: str | None = None
    launches: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    relax_root: Path | None = None
    out: Path | None = None
    verl_root: Path | None = None
    verl_version: str | None = None
    mode_default: Mode = "sync"
    batch_policy: Literal["on-policy", "faithful"] = "on-policy"
    sandbox: Literal["auto", "docker", "bubblewrap"] = "auto"
    smoke: Literal["auto", "off", "required"] = "auto"
    relax_version: Literal["latest", "studio", "infra"] | None = None
    contract: Path | None = None
    parity_cases: int | None = None
    parity_seconds: float | None = None
    rollouts: tuple[Path, ...] = ()
    model_configs: tuple[str, ...] = ()
    repairs: int = 3
    ask: bool = False
    llm: Literal["auto", "off"] = "auto"
    budgets: Mapping[str, float | None] = field(default_factory=dict)
    """Limits that were given, by the names of `Limits`."""


@dataclass(frozen=True)
class How:
    """What is done with a run, beside what it makes."""

    resume: str | None = None
    replay: str | None = None
    dry_run: bool = False
    force: bool = False
    as_json: bool = False
    answers: tuple[str, ...] = ()
    """Decisions given with --answer, as KEY=CHOICE."""


def run(options: Options, how: How) -> int:
    """Runs, resumes or repeats; returns the exit code.

    Raises:
        MigrateError: what stops the run, with its own exit code; the destination is then untouched.
    """
    from migrate_agent.local_engine import LocalEngine

    answers = parsed_answers(how.answers)
    folder = run_folder(options, how)
    request = folder.request()
    if how.replay is not None and options.out is not None:
        request = request.model_copy(update={"destination": str(options.out.resolve())})
    with progress() as say, folder.locked():
        engine = LocalEngine(say, request.sandbox)
        if request.relax_version.endswith(".json"):
            say(f"flag contract: {engine.contract_name(request)}")
        if request.smoke == "required" and (obstacle := engine.smoke_obstacle()):
            raise MachineError(f"--smoke required, but {obstacle}", "run it where there is one, or use --smoke auto")
        state = execute(folder, request, engine, say, resume=how.resume is not None, decide=decider(answers))
        result = folder.get(state["result"])
        refused = state["verdict"] == "refused"
        if not how.dry_run and not refused:
            say(f"install into {request.destination}")
            install(folder, state, request, result, force=how.force)
    document = json.loads(result["json"])
    print(result["json"], end="") if how.as_json else print(summary(document, request, dry_run=how.dry_run))
    if refused:
        for reason in document["reasons"]:
            print(f"migrate-agent: refused: {reason}", file=sys.stderr)
    if state.get("out_of_budget"):
        message, _, hint = state["stopped"].partition(" -- ")
        raise BudgetError(message, hint.replace("RUN_ID", folder.id))
    if why := engine.no_sandbox():
        raise MachineError(f"nothing of the recipe could be run: {why.message}", why.hint)
    return EXIT_CODES[document["verdict"]]


def run_folder(options: Options, how: How) -> RunFolder:
    """The folder of the new, the resumed or the repeated run.

    Raises:
        MigrateError: there is no such run, or the options contradict each other.
    """
    if how.resume and how.replay:
        raise UsageError("--resume and --replay exclude each other", "give one of them")
    if how.replay is not None:
        if options.recipe is not None:
            raise UsageError("--replay takes the recipe and the options of that run", "leave the recipe out")
        return replay_run(how.replay)
    if how.resume is None:
        return new_run(make_request(options))
    folder = open_run(how.resume)
    request = folder.request()
    mode = "off" if options.llm == "off" else request.llm.mode
    settings = request.llm.model_copy(update={"mode": mode, "limits": limits(options, request.llm.limits)})
    if settings != request.llm:
        folder.keep_request(request.model_copy(update={"llm": settings}))
    return folder


def limits(options: Options, base: Limits) -> Limits:
    """The limits with those that were given on the command line."""
    return base.model_copy(update={name: value for name, value in options.budgets.items() if value is not None})


def make_request(options: Options) -> RunRequest:
    """The options as a request with absolute paths.

    Raises:
        RefusedInput: the recipe is not a folder.
        UsageError: options that contradict each other.
    """
    recipe = recipe_folder(options.recipe)
    if options.relax_root and options.out:
        raise UsageError("--relax-root and --out exclude each other", "give one of them")
    if options.verl_root and options.verl_version:
        raise UsageError("--verl-root and --verl-version exclude each other", "give one of them")
    if options.relax_root and not (options.relax_root / "relax").is_dir():
        raise UsageError(
            f"{options.relax_root} is not a Relax checkout: it has no folder relax/", "use --out for a new folder"
        )
    algo = checked_algo_name(options.name) if options.name else algo_name(recipe.name)
    destination = options.relax_root or options.out or Path(f"relax-{algo}")
    if destination.exists() and not destination.is_dir():
        raise UsageError(f"{destination} is not a folder", "choose another --out")
    return RunRequest(
        recipe=str(recipe),
        algo=algo,
        launches=options.launches,
        variables=dict(shell_variable(text) for text in options.variables),
        destination=str(destination.resolve()),
        relax_root=str(options.relax_root.resolve()) if options.relax_root else None,
        verl_root=str(options.verl_root.resolve()) if options.verl_root else None,
        verl_version=options.verl_version,
        mode_default=options.mode_default,
        batch_policy=options.batch_policy,
        sandbox=options.sandbox,
        smoke=options.smoke,
        relax_version=choose(options.relax_version, options.contract, options.relax_root),
        parity_cases=options.parity_cases,
        parity_seconds=options.parity_seconds,
        rollouts=existing_rollouts(options.rollouts),
        model_configs=read_model_configs(options.model_configs),
        repairs=options.repairs,
        ask=options.ask,
        llm=LlmSettings(mode=options.llm, limits=limits(options, Limits())),
    )


def read_model_configs(options: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The files of --model-config [NAME=]FILE by model name; without a name a file holds for every model.

    Raises:
        UsageError: a file cannot be read or is no config.json, or a model is named twice.
    """
    from migrate_tools.mapping.hf_config import load_config

    found: dict[str, dict[str, Any]] = {}
    for text in options:
        name, separator, file = text.partition("=")
        if not separator or Path(text).exists():
            name, file = "", text
        if name in found:
            raise UsageError(f"--model-config is given twice for {name or 'every model'}", "give NAME=FILE for each")
        found[name] = load_config(Path(file))
    return found


def recipe_folder(path: Path | None) -> Path:
    """The absolute path of a recipe folder.

    Raises:
        UsageError: none was given.
        RefusedInput: it is missing or not a folder.
    """
    if path is None:
        raise UsageError("no recipe was given", "migrate-agent run FOLDER, or --resume RUN_ID")
    if not path.exists():
        raise RefusedInput(f"{path} does not exist", "give the folder of a verl recipe")
    if not path.is_dir():
        raise RefusedInput(
            f"{path} is not a folder", f"give its folder, and --launch {path.name} for this script alone"
        )
    return path.resolve()


def parsed_answers(texts: Sequence[str]) -> dict[str, str]:
    """The decisions of --answer KEY=CHOICE.

    Raises:
        UsageError: one has no such form.
    """
    pairs = [text.rpartition("=") for text in texts]
    for text, (key, _, choice) in zip(texts, pairs, strict=True):
        if not key or not choice:
            raise UsageError(f"--answer {text!r} has not the form KEY=CHOICE", "for example batch-policy=faithful")
    return {key: choice for key, _, choice in pairs}


def decider(answers: Mapping[str, str]) -> Decide:
    """Answers from the command line, then from the terminal where there is one."""

    def decide(asked: Sequence[Question]) -> Mapping[str, str]:
        given = {question.key: answers[question.key] for question in asked if question.key in answers}
        if sys.stdin is not None and sys.stdin.isatty():
            import typer

            for question in asked:
                if question.key not in given:
                    typer.echo(f"{question.key}: {question.text}", err=True)
                    given[question.key] = typer.prompt(
                        "/".join(question.choices), default=question.choices[0], err=True
                    )
        return checked(asked, given)

    return decide


def execute(
    folder: RunFolder,
    request: RunRequest,
    engine: Engine,
    say: Progress,
    *,
    resume: bool,
    decide: Decide = unasked,
) -> RunState:
    """Runs the graph and keeps the seconds of each node in timings.json beside the checkpoints."""
    seconds: dict[str, float] = {}

    def observe(node: str, took: float | None) -> None:
        if took is None:
            say(f"run {folder.id}: {node}")
        else:
            seconds[node] = round(seconds.get(node, 0.0) + took, 4)

    trace = open_trace(folder.root, folder.id, say)
    try:
        model = open_model(request.llm, folder.root, say=say, note=trace)
        trace("run", {"id": folder.id, "resumed": resume, "model": model.model if model else None})
        context = Context(folder, request, engine, say, model, trace)
        state = run_graph(context, observe, resume=resume, decide=decide)
        trace("verdict", {"verdict": state["verdict"], "spent": model.budget.facts() if model else None})
        return state
    except (BudgetError, UsageError) as error:
        raise type(error)(error.message, error.hint.replace("RUN_ID", folder.id)) from None
    except Exception as error:
        error.migrate_agent_log = folder.log  # type: ignore[attr-defined]
        raise
    finally:
        trace.close()
        write_bytes(folder.root / "timings.json", json.dumps(seconds).encode())


def install(folder: RunFolder, state: RunState, request: RunRequest, result: Mapping[str, str], *, force: bool) -> None:
    """Writes the example and its migration/ folder into the destination, all or nothing."""
    from migrate_tools.relax.install import write_example
    from migrate_tools.verl.secrets import redact

    destination = Path(request.destination)
    evidence = parity_files(
        folder.work,
        [folder.get(digest) for digest in state.get("oracle", {}).values()],
        folder.models(CheckResult, state["checks"]) if "checks" in state else (),
        redact,
    )
    evidence = {**evidence, **tape_evidence(folder.root)}
    plain = folder.model(Example, state["example"])
    example = with_report(plain, result, evidence, destination)
    base = destination / "examples" / example.algo / "migration"
    report = base / "migration.json"
    before = report.read_text("utf-8") if report.is_file() else ""
    write_example(example, destination, force=force)
    if report.read_text("utf-8") != before:  # an equal run keeps its samples, as it keeps its report
        copy_rollouts(folder.work, base)


def tape_evidence(run: Path) -> dict[str, str]:
    """The tape as a file of the report; none where no model was asked."""
    path = run / TAPE
    text = path.read_text("utf-8") if path.is_file() else ""
    return {TAPE: text} if text.count("\n") > 1 else {}


def with_report(example: Example, result: Mapping[str, str], evidence: Mapping[str, str], destination: Path) -> Example:
    """The example together with its report and evidence files.

    Those that an equal run left are kept: they differ only in what was measured (seconds, and how many cases and
    seeded faults there was time for), and running again gives the same bytes.
    """
    base = destination / "examples" / example.algo / "migration"
    texts = {"migration.json": result["json"], "MIGRATION.md": result["page"], **evidence}
    before = {name: (base / name).read_text("utf-8") for name in texts if (base / name).is_file()}
    if len(before) == len(texts) and unmeasured(before["migration.json"]) == unmeasured(texts["migration.json"]):
        texts = before
    files = tuple(
        ExampleFile(path=f"examples/{example.algo}/migration/{name}", text=text, origin="rendered")
        for name, text in texts.items()
    )
    return example.model_copy(update={"files": (*example.files, *files)})


def unmeasured(text: str) -> Any:
    """A migration.json without what was measured in its checks; the text itself when it cannot be read."""
    try:
        document = json.loads(text)
        document["checks"] = [(check["name"], check["rung"], check["status"]) for check in document["checks"]]
        del document["parity"]
    except (ValueError, KeyError, TypeError):
        return text
    return document


def summary(document: Mapping[str, Any], request: RunRequest, *, dry_run: bool) -> str:
    """What a person reads on stdout."""
    algo, verdict = document["algo"], document["verdict"]
    lines = [f"{algo}: {verdict}"]
    lines += [f"  {reason}" for reason in document["reasons"]]
    rows = [
        [str(check["rung"]), check["name"], check["status"].replace("_", " "), check["summary"]]
        for check in document["checks"]
    ]
    if rows:
        lines += ["", table(["rung", "check", "result", "evidence"], rows)]
    counts: dict[str, int] = {}
    for line in [line for line in document["ledger"] if line["area"] == SETTINGS]:
        for status, count in line["counts"].items():
            counts[status] = counts.get(status, 0) + count
    lines += [
        "",
        "settings: " + ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items() if count),
    ]
    if verdict == "refused":
        lines.append("nothing was written")
    elif dry_run:
        lines.append(f"dry run: nothing was written; {len(document['files'])} files would go to {request.destination}")
    else:
        base = Path(request.destination) / "examples" / algo
        lines += [f"written: {base}", f"read:    {base / 'migration' / 'MIGRATION.md'}"]
    lines.append(f"run:     {document['run_id']}")
    return "\n".join(lines)
