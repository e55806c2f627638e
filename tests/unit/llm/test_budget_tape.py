"""Limits before each call; a tape that gives the same answers, survives a kill, and says when it does not fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from llm_server import failed, llm_server, said
from migrate_agent.llm.budget import Budget, Price, price_of
from migrate_agent.llm.capability import Capability, recall, remember
from migrate_agent.llm.errors import BudgetSpent, EndpointError, TapeMismatch
from migrate_agent.llm.scan import clean
from migrate_agent.llm.talk import Message, Usage
from migrate_agent.llm_settings import TAPE, Endpoint, Limits, LlmSettings, endpoint_of, open_model
from migrate_tools.errors import MachineError, UsageError
from shapes import EDIT, QUESTION, RIGHT, Edit

PRICE = Price(input=10.0, output=100.0)
AUTO = LlmSettings(mode="auto")


def environment(url: str) -> dict[str, str]:
    return {"OPENAI_BASE_URL": url, "MIGRATE_AGENT_MODEL": "stand-in"}


def asked(number: int) -> tuple[Message, ...]:
    return (*QUESTION, Message(role="user", content=f"question {number}"))


@pytest.mark.parametrize(
    ("limits", "calls", "name"),
    [
        (Limits(calls=2), 2, "calls"),
        (Limits(tokens=121), 2, "tokens"),
        (Limits(tokens=120), 1, "tokens"),
        (Limits(usd=0.0031), 2, "usd"),
        (Limits(seconds=0.0), 0, "seconds"),
    ],
)
def test_a_limit_stops_before_the_next_call(model: Any, limits: Limits, calls: int, name: str) -> None:
    asker, server = model(said(RIGHT), limits=limits, price=PRICE)
    for number in range(calls):
        asker.ask(asked(number), Edit, purpose="t")
    with pytest.raises(BudgetSpent, match=f"{name} for the model is spent") as caught:
        asker.ask(asked(calls), Edit, purpose="t")
    assert len(server.requests) == calls
    assert caught.value.exit_code == 4
    assert f"--budget-{name}" in caught.value.hint


def test_the_round_of_feedback_is_under_the_budget_too(model: Any) -> None:
    asker, server = model(said("no"), limits=Limits(calls=1))
    with pytest.raises(BudgetSpent):
        asker.ask(QUESTION, Edit, purpose="t")
    assert len(server.requests) == 1


def test_cost_comes_from_the_table() -> None:
    budget = Budget(Limits(), PRICE)
    budget.add(Usage(prompt_tokens=1000, completion_tokens=100), 1.0)
    assert budget.facts()["usd"] == pytest.approx(0.02)


def test_an_unknown_price_is_never_zero_and_does_not_stop_by_usd(model: Any) -> None:
    asker, _ = model(said(RIGHT), limits=Limits(usd=0.000001))
    asker.ask(asked(1), Edit, purpose="t")
    asker.ask(asked(2), Edit, purpose="t")
    assert asker.budget.facts()["usd"] is None


def test_prices_hold_for_a_host_and_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert price_of(Endpoint(model="gpt-4.1-mini")) == Price(input=0.4, output=1.6)
    assert price_of(Endpoint(model="gpt-4.1-mini-2025-04-14")) == Price(input=0.4, output=1.6)
    assert price_of(Endpoint(model="gpt-4.1-mini-turbo")) is None
    assert price_of(Endpoint(model="gpt-4.1-mini", base_url="http://127.0.0.1:1/v1")) is None
    own = tmp_path / "prices.json"
    own.write_text('{"hosts": {"127.0.0.1": {"mine": {"input": 1, "output": 2}}}}')
    monkeypatch.setenv("MIGRATE_AGENT_PRICES", str(own))
    assert price_of(Endpoint(model="mine", base_url="http://127.0.0.1:1/v1")) == Price(input=1, output=2)
    own.write_text("{}")
    with pytest.raises(UsageError, match="MIGRATE_AGENT_PRICES"):
        price_of(Endpoint(model="mine"))


def test_a_replay_needs_no_server_and_gives_the_same_answers(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with llm_server(said("nonsense"), said(RIGHT), failed(401, "no")) as server:
        live = open_model(AUTO, first, environment=environment(server.url))
        assert live is not None
        assert live.ask(QUESTION, Edit, purpose="t") == EDIT
        with pytest.raises(EndpointError) as recorded:
            live.ask(asked(1), Edit, purpose="t")
    replay = open_model(AUTO.model_copy(update={"replay": str(first)}), second, environment={})
    assert replay is not None
    assert replay.ask(QUESTION, Edit, purpose="t") == EDIT
    with pytest.raises(EndpointError) as repeated:
        replay.ask(asked(1), Edit, purpose="t")
    assert repeated.value.line() == recorded.value.line()
    assert replay.budget.facts() == live.budget.facts()
    assert (second / TAPE).read_bytes() == (first / TAPE).read_bytes()
    with pytest.raises(TapeMismatch, match="holds no answer to this question"):
        replay.ask(asked(2), Edit, purpose="t")


def test_a_replay_stops_where_the_budget_stopped(tmp_path: Path) -> None:
    settings = LlmSettings(mode="auto", limits=Limits(calls=1))
    with llm_server(said(RIGHT)) as server:
        live = open_model(settings, tmp_path, environment=environment(server.url))
        assert live is not None
        live.ask(asked(1), Edit, purpose="t")
    replay = open_model(settings.model_copy(update={"replay": str(tmp_path)}), tmp_path, environment={})
    assert replay is not None
    replay.ask(asked(1), Edit, purpose="t")
    with pytest.raises(BudgetSpent):
        replay.ask(asked(2), Edit, purpose="t")


def test_a_run_that_goes_on_does_not_pay_twice(tmp_path: Path) -> None:
    with llm_server(said(RIGHT)) as server:
        first = open_model(AUTO, tmp_path, environment=environment(server.url))
        assert first is not None
        first.ask(asked(1), Edit, purpose="t")
        with (tmp_path / TAPE).open("ab") as stream:
            stream.write(b'{"number": 2, "purp')
        again = open_model(AUTO, tmp_path, environment=environment(server.url))
        assert again is not None
        assert again.budget.facts() == first.budget.facts()
        assert again.ask(asked(1), Edit, purpose="t") == EDIT
        again.ask(asked(2), Edit, purpose="t")
        assert len(server.requests) == 2
        assert again.budget.spent.calls == 2
    lines = (tmp_path / TAPE).read_text().splitlines()
    assert [json.loads(line).get("number") for line in lines] == [None, 1, 2]


def test_a_run_that_goes_on_keeps_its_model(tmp_path: Path) -> None:
    with llm_server(said(RIGHT)) as server:
        open_model(AUTO, tmp_path, environment=environment(server.url))
        other = environment(server.url) | {"MIGRATE_AGENT_MODEL": "another"}
        with pytest.raises(UsageError, match="started with the model stand-in"):
            open_model(AUTO, tmp_path, environment=other)


def test_a_run_that_goes_on_without_its_model_says_so(tmp_path: Path) -> None:
    with llm_server(said(RIGHT)) as server:
        open_model(AUTO, tmp_path, environment=environment(server.url))
    with pytest.raises(MachineError, match="MIGRATE_AGENT_MODEL names none now"):
        open_model(AUTO, tmp_path, environment={})
    assert open_model(LlmSettings(mode="off"), tmp_path, environment={}) is None


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from migrate_agent.llm_settings import LlmSettings, open_model
from shapes import QUESTION, Edit
open_model(LlmSettings(mode="auto"), Path(sys.argv[1])).ask(QUESTION, Edit, purpose="t")
"""


def test_a_kill_in_the_middle_of_a_call_costs_nothing_and_changes_nothing(tmp_path: Path) -> None:
    with llm_server(said(RIGHT, wait=30.0), said(RIGHT)) as server:
        command = [sys.executable, "-c", CHILD, str(tmp_path), str(Path(__file__).parent)]
        child = subprocess.Popen(command, env={**os.environ, **environment(server.url)})
        try:
            deadline = time.monotonic() + 60
            while not server.requests and time.monotonic() < deadline and child.poll() is None:
                time.sleep(0.02)
            assert len(server.requests) == 1
        finally:
            child.kill()
            child.wait()
        again = open_model(AUTO, tmp_path, environment=environment(server.url))
        assert again is not None
        assert again.budget.spent.calls == 0
        assert again.ask(QUESTION, Edit, purpose="t") == EDIT
    assert len((tmp_path / TAPE).read_text().splitlines()) == 2


def test_an_error_is_asked_anew_when_a_run_goes_on(tmp_path: Path) -> None:
    with llm_server(failed(401, "no"), said(RIGHT)) as server:
        first = open_model(AUTO, tmp_path, environment=environment(server.url))
        assert first is not None
        with pytest.raises(EndpointError):
            first.ask(QUESTION, Edit, purpose="t")
        again = open_model(AUTO, tmp_path, environment=environment(server.url))
        assert again is not None
        assert again.ask(QUESTION, Edit, purpose="t") == EDIT


def test_a_damaged_tape_is_one_line(tmp_path: Path) -> None:
    (tmp_path / TAPE).write_text("{}\n")
    with pytest.raises(UsageError, match="cannot be read"):
        open_model(AUTO.model_copy(update={"replay": str(tmp_path)}), tmp_path, environment={})


SECRETS = {
    "sk-proj-abcdefghijklmnopqrstuvwx": 'KEY = "{}"',
    "hf_abcdefghijklmnopqrstuvwx": "login({})",
    "AKIAABCDEFGHIJKLMNOP": "{}",
    "s3cr3tP4ssw0rd99": "postgres://me:{}@db/x",
    "MIIEowIBAAKCAQEA7bq2": "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    "MIIEvQIBADANBgkqhkiG9w0B": 'key = "-----BEGIN PRIVATE KEY-----\\n{}"',
    "9f8e7d6c5b4a39281706": 'WANDB_API_KEY="{}"',
}


@pytest.mark.parametrize(("secret", "around"), SECRETS.items())
def test_no_credential_is_sent_recorded_or_given_on(tmp_path: Path, secret: str, around: str) -> None:
    text = around.format(secret)
    messages = (Message(role="system", content=f"a\n{text}\nb"), Message(role="user", content=f"{text} ?"))
    with llm_server(said(RIGHT)) as server:
        asker = open_model(AUTO, tmp_path, environment=environment(server.url))
        assert asker is not None
        asker.ask(messages, Edit, purpose="t")
        (request,) = server.requests
    assert secret not in json.dumps(request)
    assert "<secret removed>" in json.dumps(request)
    assert secret not in (tmp_path / TAPE).read_text()


def test_the_values_of_our_own_variables_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"CORP_AUTH": "plain-looking-value", "HOME_KEYS": "/home/me/keys/all", "SHORT_TOKEN": "abc"}
    text = "say plain-looking-value to /home/me/keys/all with abc"
    assert clean(text, values) == "say <secret removed> to /home/me/keys/all with abc"


@pytest.mark.parametrize(
    ("given", "model"),
    [
        ({}, None),
        ({"OPENAI_API_KEY": "k"}, None),
        ({"OPENAI_BASE_URL": "http://h/v1"}, None),
        ({"OPENAI_API_KEY": "k", "MIGRATE_AGENT_MODEL": "m"}, "m"),
        ({"OPENAI_BASE_URL": "http://h/v1", "MIGRATE_AGENT_MODEL": " m "}, "m"),
    ],
)
def test_an_endpoint_is_asked_only_when_a_model_is_named(given: dict[str, str], model: str | None) -> None:
    found = endpoint_of(given)
    assert (found.model if found else None) == model


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"MIGRATE_AGENT_MODEL": "m"}, "neither OPENAI_API_KEY nor OPENAI_BASE_URL"),
        ({"MIGRATE_AGENT_MODEL": "m", "OPENAI_BASE_URL": "localhost:8000"}, "is no http address"),
        ({"MIGRATE_AGENT_MODEL": "m", "OPENAI_API_KEY": "k", "MIGRATE_AGENT_TIMEOUT": "soon"}, "no number of seconds"),
    ],
)
def test_half_an_endpoint_is_an_error(given: dict[str, str], what: str) -> None:
    with pytest.raises(MachineError, match=what):
        endpoint_of(given)


def test_a_slow_model_may_take_longer() -> None:
    given = {"MIGRATE_AGENT_MODEL": "m", "OPENAI_API_KEY": "k"}
    found = [endpoint_of(given), endpoint_of(given | {"MIGRATE_AGENT_TIMEOUT": "600"})]
    assert [item.timeout for item in found if item] == [120, 600]


def test_off_means_none(tmp_path: Path) -> None:
    given = environment("http://127.0.0.1:1/v1")
    assert open_model(LlmSettings(mode="off"), tmp_path, environment=given) is None
    assert open_model(AUTO, tmp_path, environment={}) is None


def test_off_imports_no_client_and_none_of_our_llm_modules(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from migrate_agent.llm_settings import LlmSettings, open_model\n"
        "import migrate_agent.graph, migrate_agent.local_engine, migrate_agent.commands.run\n"
        "given = {'OPENAI_API_KEY': 'k', 'MIGRATE_AGENT_MODEL': 'm'}\n"
        "assert open_model(LlmSettings(mode='off'), Path(sys.argv[1]), environment=given) is None\n"
        "bad = [n for n in sys.modules if n.split('.')[0] == 'openai' or n.startswith('migrate_agent.llm.')]\n"
        "print(bad)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_capability_is_kept_for_a_model_on_an_endpoint() -> None:
    here, there = Endpoint(model="m", base_url="http://a/v1"), Endpoint(model="m", base_url="http://b/v1")
    remember(here, Capability(mode="text", usage=False))
    assert recall(here) == Capability(mode="text", usage=False)
    assert recall(there) == Capability()
