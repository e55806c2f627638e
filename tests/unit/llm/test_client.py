"""One layer of retries, bounded waits, and what is sent."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest
from llm_server import Answer, failed, llm_server, said
from migrate_agent.llm.client import OpenAiWire
from migrate_agent.llm.errors import EndpointError
from migrate_agent.llm.talk import Call, Message
from migrate_agent.llm_settings import Endpoint, Limits
from shapes import EDIT, QUESTION, RIGHT, Edit

CALL = Call(model="stand-in", messages=(Message(role="user", content="hi"),), mode="text", max_tokens=10)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_passing_error_is_tried_again_and_counts_once(model: Any, pauses: list[float], status: int) -> None:
    asker, server = model(failed(status, "busy"), failed(status, "busy"), said(RIGHT))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert len(server.requests) == 3
    assert asker.budget.spent.calls == 1
    assert [round(pause) for pause in pauses] == [1, 2]


def test_a_lasting_error_is_tried_four_times_and_no_more(model: Any, pauses: list[float]) -> None:
    asker, server = model(failed(503, "overloaded"))
    with pytest.raises(EndpointError, match=r"overloaded \(4 tries\)"):
        asker.ask(QUESTION, Edit, purpose="t")
    assert len(server.requests) == 4
    assert len(pauses) == 3


def test_retry_after_is_obeyed_in_seconds_and_as_a_date(model: Any, pauses: list[float]) -> None:
    later = formatdate(time.time() + 30, usegmt=True)
    asker, _ = model(
        failed(429, "slow down", headers={"Retry-After": "7"}),
        failed(429, "slow down", headers={"Retry-After": later}),
        said(RIGHT),
    )
    asker.ask(QUESTION, Edit, purpose="t")
    assert pauses[0] == 7
    assert 20 < pauses[1] <= 30


def test_no_wait_is_longer_than_the_budget_of_seconds(pauses: list[float]) -> None:
    with llm_server(failed(429, "slow down", headers={"Retry-After": "3600"})) as server:
        endpoint = Endpoint(model="stand-in", base_url=server.url)
        wire = OpenAiWire(endpoint, seconds_left=lambda: 60.0, sleep=pauses.append)
        with pytest.raises(EndpointError, match="3600 s of waiting"):
            wire.send(CALL)
    assert pauses == []


def test_no_wait_is_longer_than_five_minutes(model: Any, pauses: list[float]) -> None:
    asker, server = model(failed(429, "slow down", headers={"Retry-After": "301"}), limits=Limits(seconds=None))
    with pytest.raises(EndpointError, match="301 s of waiting"):
        asker.ask(QUESTION, Edit, purpose="t")
    assert len(server.requests) == 1
    assert pauses == []


def test_a_closed_connection_is_tried_again(model: Any) -> None:
    asker, server = model(Answer(close=True), said(RIGHT))
    assert asker.ask(QUESTION, Edit, purpose="t") == EDIT
    assert len(server.requests) == 2


def test_a_server_that_hangs_ends_in_a_named_error(pauses: list[float]) -> None:
    with llm_server(said(RIGHT, wait=0.6)) as server:
        endpoint = Endpoint(model="stand-in", base_url=server.url, timeout=0.1)
        wire = OpenAiWire(endpoint, sleep=pauses.append)
        with pytest.raises(EndpointError, match=r"did not answer within 0.1 s .*\(2 tries\)"):
            wire.send(CALL)
        assert len(server.requests) == 2


def test_nothing_listens(pauses: list[float]) -> None:
    with llm_server() as server:
        url = server.url
    with pytest.raises(EndpointError, match="cannot be reached"):
        OpenAiWire(Endpoint(model="m", base_url=url), sleep=pauses.append).send(CALL)


def test_the_key_is_sent_and_never_said() -> None:
    key = "sk-test-4f8a0c21b7d94e6fa1"
    with llm_server(failed(401, f"Incorrect API key provided: {key}")) as server:
        wire = OpenAiWire(Endpoint(model="m", base_url=server.url, key=key))
        with pytest.raises(EndpointError) as caught:
            wire.send(CALL)
    assert server.keys == [f"Bearer {key}"]
    assert key not in caught.value.line()


def test_a_password_in_the_address_is_never_said() -> None:
    endpoint = Endpoint(model="m", base_url="http://user:hunter2hunter2@127.0.0.1:9/v1")
    assert endpoint.place == "127.0.0.1:9"


def test_models_are_listed_where_the_server_lists_them() -> None:
    with llm_server() as server:
        wire = OpenAiWire(Endpoint(model="m", base_url=server.url))
        assert wire.models() == ("stand-in",)
        server.models = None
        assert wire.models() is None
