"""`migrate-agent verify` and `smoke`: the checks again on an example that is already there."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from migrate_tools.errors import RefusedInput, UsageError
from migrate_tools.model import CheckResult, Example, ExampleFile, Recipe, Translation

from migrate_agent.commands.inspect import translate_all
from migrate_agent.console import progress, table
from migrate_agent.engine import Draft, Engine
from migrate_agent.nodes.draft import written
from migrate_agent.nodes.plan import movable
from migrate_agent.nodes.test import stage_example
from migrate_agent.relax_contract import choose, kept
from migrate_agent.report.certificate import certificates, lines_of
from migrate_agent.request import RunRequest, checked_algo_name, existing_rollouts
from migrate_agent.verdict import EXIT_CODES, checks_verdict, launch_verdict, worst

SandboxKind = Literal["auto", "docker", "bubblewrap"]
WITHOUT_RECIPE = frozenset({0, 1, 2, 6})
SMOKE_RUNGS = frozenset({6, 7})
LARGEST = 4 << 20


@dataclass(frozen=True)
class Found:
    """An example on disk and, when it is ours, the report that came with it."""

    example: Example
    document: Mapping[str, Any]
    edited: tuple[str, ...]
    """Files that are no longer what was written."""
    root: Path
    """The Relax root that the example lies below."""


class ParitySize(NamedTuple):
    """How the rewards are compared, where it is not as the example was made."""

    cases: int | None = None
    seconds: float | None = None
    rollouts: tuple[Path, ...] = ()

    def options(self) -> dict[str, Any]:
        """Those that were given, as options of a run.

        Raises:
            UsageError: a log does not exist.
        """
        chosen = {"parity_cases": self.cases, "parity_seconds": self.seconds}
        logs = {"rollouts": existing_rollouts(self.rollouts)}
        return {name: value for name, value in (chosen | logs).items() if value}


def verify(
    example_dir: Path,
    *,
    sandbox: SandboxKind,
    relax_version: str | None,
    contract: Path | None,
    as_json: bool,
    size: ParitySize = ParitySize(),  # noqa: B008
    only: frozenset[int] | None = None,
) -> int:
    """Every rung that can be climbed here, or some alone; returns the exit code of the verdict.

    Args:
        only: these rungs; the verdict then speaks of nothing else.
    """
    found = find_example(example_dir)
    relax = _relax(found, relax_version, contract)
    found = replace(found, document=_resized(found.document, size.options()))
    return _climb(found, only, sandbox=sandbox, relax_version=relax, as_json=as_json)


def smoke(
    example_dir: Path, *, sandbox: SandboxKind, relax_version: str | None, contract: Path | None, as_json: bool
) -> int:
    """The rehearsal of the launch and the GPU step."""
    found = find_example(example_dir)
    relax = _relax(found, relax_version, contract)
    return _climb(found, SMOKE_RUNGS, sandbox=sandbox, relax_version=relax, as_json=as_json)


def find_example(folder: Path) -> Found:
    """The example in `folder` (examples/<algo>, or a root with exactly one such folder below it).

    Raises:
        RefusedInput: there is no example.
    """
    folder = _example_folder(folder.resolve())
    algo, root = checked_algo_name(folder.name), folder.parent.parent
    paths = [path for path in sorted(folder.rglob("*")) if _belongs(path, folder)]
    paths += [path for path in (root / "scripts" / "tools").glob(f"process_{algo}.py") if path.is_file()]
    files = tuple(_file(path, root) for path in paths)
    document = _document(folder / "migration" / "migration.json")
    known = {item["path"]: item["sha256"] for item in document.get("files", [])}
    edited = tuple(
        item.path for item in files if known and hashlib.sha256(item.text.encode()).hexdigest() != known.get(item.path)
    )
    return Found(Example(algo=algo, files=files), document, edited, root)


def _resized(document: Mapping[str, Any], options: dict[str, Any]) -> Mapping[str, Any]:
    return {**document, "options": {**document.get("options", {}), **options}} if document else document


def _relax(found: Found, relax_version: str | None, contract: Path | None) -> str:
    """The flag contract: the user's choice, else the checkout's that the example lies in, else the recorded one."""
    if relax_version or contract:
        return choose(relax_version, contract, None)
    if (found.root / "relax").is_dir():
        return choose(None, None, found.root)
    recorded = str(found.document.get("options", {}).get("relax_version", "latest"))
    return kept(recorded) if recorded.endswith(".json") else recorded


def _climb(
    found: Found, only: frozenset[int] | None, *, sandbox: SandboxKind, relax_version: str, as_json: bool
) -> int:
    from migrate_agent.local_engine import LocalEngine

    algo = found.example.algo
    with progress() as say, tempfile.TemporaryDirectory(prefix="migrate-agent-", ignore_cleanup_errors=True) as place:
        engine = LocalEngine(say, sandbox)
        request = _request(found, sandbox, relax_version)
        recipe, translations, why = _recipe(found, engine, request)
        stage, work = Path(place) / "stage", Path(place) / "work"
        work.mkdir()
        stage_example(found.example, stage)
        kept, moved = movable(recipe, translations)
        possible = WITHOUT_RECIPE if why else frozenset(range(8))
        rungs = possible & (only if only is not None else frozenset(range(7)))
        if not rungs:
            raise UsageError(f"none of the rungs {_listed(only)} can be climbed: {why}", "leave --rung out")
        frozen = {}
        if 3 in rungs:
            for launch in kept.launches:
                answers = engine.freeze(kept, launch, request, work)
                if answers is not None:
                    frozen[launch.name] = answers
        draft = Draft(moved, found.example, _by_rules(found, engine, kept, moved, request) if 3 in rungs else None)
        checks = [
            *engine.check(kept, draft, frozen, request, stage, work, rungs=rungs),
            *(engine.smoke(kept, draft, request, stage, work) if only is None or only >= SMOKE_RUNGS else ()),
        ]
    verdict = worst([checks_verdict(checks), *(launch_verdict(item) for item in moved)])
    if unproven_edits(found.document):
        verdict = worst([verdict, "partial"])
    if as_json:
        print(json.dumps(_as_document(found, verdict, why, checks), indent=1, ensure_ascii=False))
    else:
        print("\n".join(_page(algo, found, verdict, why, checks, only)))
    return EXIT_CODES[verdict]


def unproven_edits(document: Mapping[str, Any]) -> tuple[str, ...]:
    """What a language model changed and no check proves, as the report of the run says."""
    edits = document.get("llm", {}).get("edits", ())
    return tuple(str(edit["unproven"]) for edit in edits if edit.get("unproven"))


def _recipe(found: Found, engine: Any, request: RunRequest) -> tuple[Recipe, tuple[Translation, ...], str]:
    empty = Recipe(name=found.example.algo, root=request.recipe, project_root=request.recipe, sha256="")
    if not found.document:
        return empty, (), "there is no migration/migration.json beside it"
    if not Path(request.recipe).is_dir():
        return empty, (), f"its recipe {request.recipe} is not here"
    try:
        recipe = engine.read(request)
    except RefusedInput as error:
        return empty, (), f"its recipe cannot be read any more: {error.message}"
    if recipe.sha256 != found.document["recipe"]["sha256"]:
        return empty, (), f"its recipe {request.recipe} was changed since"
    return recipe, translate_all(engine, recipe, request), ""


def _by_rules(
    found: Found, engine: Engine, recipe: Recipe, translations: tuple[Translation, ...], request: RunRequest
) -> Example | None:
    """The example as the rules write it, when a user or a model has changed it since; None where they cannot."""
    if not found.edited and not found.document.get("llm", {}).get("edits"):
        return None
    try:
        taken = {launch.name: engine.extract(recipe, launch) for launch in recipe.launches}
        extracted = {name: reward for name, reward in taken.items() if reward is not None}
        return written(engine, recipe, engine.name_hooks(recipe, translations, extracted), extracted, request)
    except RefusedInput:
        return None


def _request(found: Found, sandbox: str, relax_version: str) -> RunRequest:
    options = found.document.get("options", {})
    return RunRequest.model_validate(
        {
            "recipe": found.document.get("recipe", {}).get("path", "/nonexistent"),
            "algo": found.example.algo,
            "destination": "/nonexistent",
            **options,
            "sandbox": sandbox,
            "relax_version": relax_version,
        }
    )


def _example_folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise RefusedInput(f"{folder} is not a folder", "give examples/<algo> below a Relax root")
    if folder.parent.name == "examples":
        return folder
    below = [path.parent for path in sorted(folder.glob("examples/*/run_*.sh"))]
    choices = list(dict.fromkeys(below))
    if len(choices) == 1:
        return choices[0]
    if choices:
        raise UsageError(f"{folder} holds {len(choices)} examples", f"name one: {choices[0]}")
    raise RefusedInput(
        f"{folder} is not an example: no examples/<algo>/run_*.sh", "give examples/<algo> below a Relax root"
    )


def _belongs(path: Path, folder: Path) -> bool:
    inside = path.relative_to(folder).parts
    return (
        path.is_file()
        and not path.is_symlink()
        and inside[0] not in {"migration", "logs"}
        and "__pycache__" not in inside
        and path.stat().st_size <= LARGEST
    )


def _file(path: Path, root: Path) -> ExampleFile:
    text = path.read_text("utf-8", errors="replace")
    name = path.relative_to(root).as_posix()
    return ExampleFile(path=name, text=text, origin="rendered", executable=path.suffix == ".sh")


def _document(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
        loaded["recipe"]["sha256"], loaded["recipe"]["path"], loaded["files"]
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path} is not a migration.json of ours", "delete it, or run the migration again") from None
    return loaded


def _as_document(found: Found, verdict: str, why: str, checks: Sequence[CheckResult]) -> dict[str, Any]:
    return {
        "algo": found.example.algo,
        "verdict": verdict,
        "edited": list(found.edited),
        "without_recipe": why,
        "unproven": list(unproven_edits(found.document)),
        "checks": [check.model_dump(mode="json") for check in checks],
        "certificates": [item.model_dump(mode="json") for item in certificates(checks)],
    }


def _listed(rungs: frozenset[int] | None) -> str:
    return ", ".join(map(str, sorted(rungs or ())))


def _page(
    algo: str, found: Found, verdict: str, why: str, checks: Sequence[CheckResult], only: frozenset[int] | None
) -> Iterable[str]:
    yield f"{algo}: {verdict}"
    if only is not None and not only >= SMOKE_RUNGS:
        yield f"only rung {_listed(only)} was climbed; the verdict speaks of nothing else"
    if found.edited:
        yield f"edited since it was written: {', '.join(found.edited)}"
    if why:
        yield f"checked without its recipe: {why}"
    yield from unproven_edits(found.document)
    yield ""
    yield table(
        ["rung", "check", "result", "evidence"],
        [[str(item.rung), item.name, item.status.replace("_", " "), item.summary] for item in checks],
    )
    if lines := lines_of(certificates(checks)):
        yield ""
        yield "Reward certificate"
        yield from lines
