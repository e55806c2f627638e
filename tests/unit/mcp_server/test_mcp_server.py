"""The tools as another agent calls them, in memory and over stdio; commands are real processes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from migrate_agent.cli import run_cli
from migrate_agent.mcp_server.job import run_command
from migrate_tools import __version__

pytest.importorskip("mcp")
from mcp import Client, StdioServerParameters  # noqa: E402
from migrate_agent.mcp_server.server import build_server  # noqa: E402

TOOLS = {"inspect", "plan", "run", "verify", "flags", "mapping"}


def using(action: Callable[[Any], Awaitable[Any]], server: Any = None) -> Any:
    async def go() -> Any:
        async with Client(server or build_server()) as client:
            return await action(client)

    return asyncio.run(go())


def value(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    loaded: dict[str, Any] = json.loads(result.content[0].text)
    return loaded


def call(name: str, **arguments: Any) -> Any:
    return using(lambda client: client.call_tool(name, arguments))


def test_every_tool_and_argument_is_described() -> None:
    listed = using(lambda client: client.list_tools())
    assert {tool.name for tool in listed.tools} == TOOLS
    for tool in listed.tools:
        assert tool.description
        assert all("description" in item for item in tool.input_schema["properties"].values()), tool.name
        assert "context" not in tool.input_schema["properties"]


def test_a_flag_is_looked_up_by_name_alias_and_word() -> None:
    assert value(call("flags", text="--global-batch-size"))["flag"]["type"] == "int"
    assert value(call("flags", text="global-batch-size"))["flag"]["name"] == "--global-batch-size"
    unknown = value(call("flags", text="--global-batch-sise"))
    assert unknown["spelling_known"] is False
    assert unknown["nearest"] == "--global-batch-size"
    some = value(call("flags", text="staleness"))
    assert "--max-staleness" in {item["name"] for item in some["flags"]}


def test_a_row_is_looked_up_by_key_and_by_piece() -> None:
    row = value(call("mapping", text="data.train_batch_size"))["row"]
    assert "--rollout-batch-size" in row["relax"]
    assert row["table"] == "keys_batch.yaml"
    assert row["verl_source"]["data.train_batch_size"]
    pieces = value(call("mapping", text="kl_loss"))
    assert pieces["row"] is None
    assert pieces["found"] >= len(pieces["rows"]) > 1


def test_the_skill_can_be_read() -> None:
    async def read(client: Any) -> str:
        listed = await client.list_resources()
        assert "skill://SKILL.md" in {str(item.uri) for item in listed.resources}
        page = await client.read_resource("skill://SKILL.md")
        return str(page.contents[0].text)

    assert "name: verl-to-relax-migration" in using(read)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("inspect", {"recipe": "{tmp}/none"}, "does not exist"),
        ("inspect", {"recipe": "--help"}, "does not exist"),
        ("verify", {"example_dir": "{tmp}"}, "is not an example"),
        ("run", {"recipe": "{tmp}"}, "neither out nor relax_root"),
        ("run", {"recipe": "{tmp}", "out": "{tmp}/a", "relax_root": "{tmp}/b"}, "exclude each other"),
    ],
)
def test_an_error_is_one_line(name: str, arguments: dict[str, str], said: str, tmp_path: Path) -> None:
    result = call(name, **{key: text.replace("{tmp}", str(tmp_path)) for key, text in arguments.items()})
    assert result.is_error
    (part,) = result.content
    assert said in part.text
    assert "\n" not in part.text
    assert "Traceback" not in part.text


FAKE = """
import json, sys
print("migrate-agent: reading", file=sys.stderr)
print("x" * 200_000, file=sys.stderr)
print("migrate-agent: error: it went wrong -- do this", file=sys.stderr)
print(json.dumps({"argv": sys.argv[1:]}))
sys.exit(3)
"""


def test_a_command_reports_progress_answer_and_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[str] = []

    async def report(text: str) -> None:
        seen.append(text)

    program = tmp_path / "python"
    (tmp_path / "fake.py").write_text(FAKE)
    program.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" "{tmp_path / "fake.py"}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    done = asyncio.run(run_command(["verify", "--json"], report))
    assert (done.code, done.error) == (3, "it went wrong -- do this")
    assert done.document == {"argv": ["verify", "--json"]}
    assert seen[0] == "reading"


def test_a_cancelled_command_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\necho started >&2\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))

    async def go() -> None:
        started = asyncio.Event()

        async def report(text: str) -> None:
            started.set()

        task = asyncio.create_task(run_command(["run"], report))
        await asyncio.wait_for(started.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_it_serves_over_stdio(tmp_path: Path) -> None:
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "migrate_agent.cli", "mcp"], env={**os.environ}
    )

    async def ask(client: Any) -> tuple[str, Any]:
        return client.server_info.version, await client.call_tool("flags", {"text": "--lr"})

    version, result = using(ask, parameters)
    assert version == __version__
    assert value(result)["flag"]["name"] == "--lr"


def test_without_the_package_it_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "migrate_agent.mcp_server.server")
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert run_cli(["mcp"]) == 3
    assert "pip install 'migrate-agent[mcp]'" in capsys.readouterr().err
