"""The run folder: request, checkpoints, content-addressed bodies, staged tree, log.

Everything a run makes lives here until the last node installs the result, so a run that dies leaves the
destination untouched.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from migrate_tools.errors import MachineError, UsageError
from migrate_tools.model import Frozen

from migrate_agent.request import RunRequest, run_id

Model = TypeVar("Model", bound=Frozen)
REPLAY = "-replay"
"""Ends the name of the folder in which a run is repeated, beside the folder of that run."""
_RUN = re.compile(r"[0-9a-f]{16}")


def home() -> Path:
    """Folder of what is kept between commands: $MIGRATE_AGENT_HOME, by default ~/.local/state/migrate-agent."""
    given = os.environ.get("MIGRATE_AGENT_HOME")
    return Path(given).absolute() if given else Path.home() / ".local" / "state" / "migrate-agent"


def runs_home() -> Path:
    """Folder of all runs, below `home()`."""
    return home() / "runs"


@dataclass(frozen=True)
class RunFolder:
    """One run on disk."""

    root: Path

    @property
    def id(self) -> str:
        """The run id: the folder's name, for a replay that of the repeated run."""
        return self.root.name.removesuffix(REPLAY)

    @property
    def database(self) -> Path:
        """SQLite file of the checkpoints."""
        return self.root / "graph.sqlite"

    @property
    def stage(self) -> Path:
        """The workspace: the example as it would lie below a Relax root."""
        return self.root / "workspace"

    @property
    def work(self) -> Path:
        """Scratch folder for sandboxed jobs."""
        return self.root / "work"

    @property
    def log(self) -> Path:
        """Where the traceback of an unexpected error goes."""
        return self.root / "error.log"

    def put(self, value: Any) -> str:
        """Stores a JSON value under its SHA-256 and returns the digest."""
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(body).hexdigest()
        target = self.root / "objects" / digest
        if not target.exists():
            write_bytes(target, body)
        return digest

    def get(self, digest: str) -> Any:
        """The JSON value stored under `digest`.

        Raises:
            UsageError: it is missing or was changed.
        """
        path = self.root / "objects" / digest
        body = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(body).hexdigest() != digest:
            raise UsageError(f"run {self.id} is damaged: {path} is missing or was changed", "start the run anew")
        return json.loads(body.decode("utf-8", "surrogatepass"))

    def put_model(self, value: Frozen) -> str:
        """Stores one frozen model."""
        return self.put(value.model_dump(mode="json"))

    def put_models(self, values: tuple[Frozen, ...]) -> str:
        """Stores a tuple of frozen models."""
        return self.put([value.model_dump(mode="json") for value in values])

    def model(self, kind: type[Model], digest: str) -> Model:
        """One stored model."""
        return kind.model_validate(self.get(digest))

    def models(self, kind: type[Model], digest: str) -> tuple[Model, ...]:
        """A stored tuple of models."""
        return tuple(kind.model_validate(item) for item in self.get(digest))

    def request(self) -> RunRequest:
        """The request that started this run."""
        return RunRequest.model_validate_json((self.root / "request.json").read_text("utf-8"))

    def keep_request(self, request: RunRequest) -> None:
        """Writes the request that this run goes on with."""
        write_bytes(self.root / "request.json", request.model_dump_json(indent=1).encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second process out of this run.

        Raises:
            UsageError: another process holds it.
        """
        with (self.root / "lock").open("w") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(f"run {self.id} is in progress elsewhere", "wait for it or end it first") from None
            yield


def write_bytes(path: Path, body: bytes) -> None:
    """Writes a file so that a kill leaves the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(body)
    partial.replace(path)


def new_run(request: RunRequest) -> RunFolder:
    """A fresh folder for the request; an earlier run of the same id is replaced.

    Raises:
        MachineError: the folder cannot be made.
        UsageError: the same run is in progress.
    """
    return _fresh(RunFolder(runs_home() / run_id(request)), request)


def replay_run(text: str) -> RunFolder:
    """A fresh folder to repeat the run with this id in; its request names the tape.

    Raises:
        UsageError: there is none, or its recipe or this program changed since.
    """
    run = open_run(text)
    request = run.request()
    if run_id(request) != run.id:
        hint = "a replay needs both as they were"
        raise UsageError(f"the recipe {request.recipe} or migrate-agent changed since run {run.id} was made", hint)
    settings = request.llm.model_copy(update={"replay": str(run.root)})
    return _fresh(RunFolder(runs_home() / f"{run.id}{REPLAY}"), request.model_copy(update={"llm": settings}))


def _fresh(run: RunFolder, request: RunRequest) -> RunFolder:
    try:
        run.root.mkdir(parents=True, exist_ok=True)
        with run.locked():
            _empty(run.root)
            run.keep_request(request)
    except OSError as error:
        raise MachineError(
            f"cannot write the run folder {run.root}: {error.strerror}", "set MIGRATE_AGENT_HOME"
        ) from None
    return run


def open_run(text: str) -> RunFolder:
    """The existing run with this id.

    Raises:
        UsageError: there is none.
    """
    run = RunFolder(runs_home() / text)
    if not _RUN.fullmatch(text) or not (run.root / "request.json").is_file():
        known = sorted(
            path.name
            for path in runs_home().glob("*")
            if _RUN.fullmatch(path.name) and (path / "request.json").is_file()
        )
        raise UsageError(f"there is no run {text!r} in {runs_home()}", f"known: {', '.join(known[-5:]) or 'none'}")
    return run


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name == "lock":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
