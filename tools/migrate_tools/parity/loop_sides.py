"""An agent loop of the recipe's own inside the sandbox: over verl's base, or as the example's generate function.

`python -m migrate_tools.parity.loop_sides old|new /work/job.json` writes old.json or new.json beside the job. A
scripted server answers both sides alike; tokens are compared as the pieces of text that they stand for, since each side
has a stand-in tokenizer of its own.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import itertools
import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from migrate_tools.parity import clients, loop_base, stubs
from migrate_tools.parity.tape import Tape
from migrate_tools.parity.tool_sides import load_class
from migrate_tools.rehearsal.runtime.agentic import Agents, ChatServer
from migrate_tools.rehearsal.runtime.generate import GenerateState, sampling_params
from migrate_tools.rehearsal.runtime.sample import Sample
from migrate_tools.rehearsal.runtime.tokenizer import Tokenizer

SECONDS = 60.0
"""Of one conversation."""
MOST = 100
"""Requests of one conversation; a loop that asks for more does not end."""
LATER = "I do not know."
"""What the server says when the script is over."""
MEANT = {"max_tokens": "max_new_tokens", "max_completion_tokens": "max_new_tokens"}
DROPPED = ("logprobs", "prompt_logprobs", "n")
LENGTH = "max_new_tokens"
PLAIN = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}


class NeverEnds(Exception):
    """The loop asks again and again."""


class Server:
    """Says the texts of a script, one a request, and keeps what it was asked."""

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str], most: int) -> None:
        self.tokenizer, self.texts, self.most = tokenizer, list(texts), most
        self.requests: list[dict[str, Any]] = []

    def say(self, prompt_ids: Sequence[int], changed: Mapping[str, Any]) -> tuple[list[int], str]:
        """Ids of the next answer, and why it ended.

        Raises:
            NeverEnds: this is the request after the last that is allowed.
        """
        number = len(self.requests)
        if number >= MOST:
            raise NeverEnds
        self.requests.append({"prompt": pieces(self.tokenizer, prompt_ids), "changed": dict(changed)})
        text = self.texts[number] if number < len(self.texts) else LATER
        ids = [*self.tokenizer.sampled(text), self.tokenizer.eos_token_id]
        return (ids, "stop") if len(ids) <= self.most else (ids[: self.most], "length")


def pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text of every token."""
    return [tokenizer.decode([number]) for number in ids]


def changed(params: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Sampling parameters that the loop set itself, under SGLang's names; the length apart, which the engine bounds."""
    meant = {MEANT.get(key, key): value for key, value in params.items() if key not in DROPPED}
    return {key: value for key, value in meant.items() if key != LENGTH and before.get(key) != value}


class OldLoop:
    """The recipe's loop over verl's own base class."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        stubs.install(job["verl_root"])
        root = Path(job["verl_root"])
        self.job, self.verl = job, loop_base.install(root)
        self.names = loop_base.given_names(root)
        for folder in reversed(job["paths"]):
            sys.path.insert(0, folder)
        for name, folders in job["aliases"].items():
            stubs.alias_package(name, folders)
        stubs.loading.append("loops")
        self.loops = {spec["name"]: load_class(spec) for spec in job["loops"]}
        if "single_turn_agent" not in self.loops:
            single = importlib.import_module(f"{loop_base.PACKAGE}.single_turn_agent_loop")
            self.loops["single_turn_agent"] = single.SingleTurnAgentLoop
        stubs.loading.clear()

    async def play(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """One conversation."""
        tokenizer = Tokenizer(media=False)
        server = _Manager(tokenizer, item["texts"], self.job["response_length"])
        row = json.loads(json.dumps(self.job["rows"][item["row"]]))
        name = row.pop("agent_name", None) or self.job["default_loop"]
        loop = self.loops[name](**self._given(tokenizer, server), **self.job["arguments"].get(name, {}))
        params = {**PLAIN, "repetition_penalty": 1.0, "logprobs": False}
        first = next(iter(inspect.signature(loop.run).parameters))
        made = loop.run(row["raw_prompt"], params) if first == "messages" else loop.run(params, **row)
        output = await made
        if self.job["is_agent"]:
            texts = ["".join(request["prompt"]) for request in server.requests]
            told = {**_plain(getattr(output, "extra_fields", {})), "num_turns": output.num_turns}
            return agent_record([messages_of(text) for text in texts], told, getattr(output, "reward_score", None))
        return {
            "requests": server.requests,
            "prompt": pieces(tokenizer, output.prompt_ids),
            "response": pieces(tokenizer, output.response_ids[: self.job["response_length"]]),
            "mask": list(output.response_mask)[: self.job["response_length"]],
            "told": {**_plain(getattr(output, "extra_fields", {})), "num_turns": output.num_turns},
            "reward": getattr(output, "reward_score", None),
        }

    def _given(self, tokenizer: Tokenizer, server: _Manager) -> dict[str, Any]:
        from omegaconf import OmegaConf

        config = OmegaConf.create(self.job["config"])
        space = vars(self.verl)
        wrap = space.get("DictConfigWrap") or space["_DummyConfig"]
        values: dict[str, Any] = {
            "trainer_config": wrap(config=config), "server_manager": server, "tokenizer": tokenizer, "processor": None,
            "dataset_cls": None, "dataset_config": config.data, "data_config": wrap(config.data),
            "hf_model_type": self.job["model_type"],
            "tools": space["ToolListWrap"]([]) if "ToolListWrap" in space else None,
        }  # fmt: skip
        return {name: values[name] for name in self.names if name in values}


class _Manager(Server):
    """verl's server manager."""

    async def generate(self, request_id: Any = None, *, prompt_ids: Any, sampling_params: Any, **_: Any) -> Any:
        ids, finish = self.say(prompt_ids, changed(sampling_params, {**PLAIN, "repetition_penalty": 1.0}))
        answer = getattr(sys.modules["verl.workers.rollout.replica"], "TokenOutput", None)
        if answer is None:  # verl 0.5
            return ids
        fields = {"token_ids": ids, "log_probs": [-0.5] * len(ids), "stop_reason": finish}
        return answer(**{key: value for key, value in fields.items() if key in answer.model_fields})


class NewLoop:
    """The example's generate function over the stand-in Relax."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        for folder in reversed(job["paths"]):
            sys.path.insert(0, folder)
        self.job = job
        self.module: Any = importlib.import_module(job["module"])
        names = ["multimodal_keys", "rollout_max_context_len", "rollout_stop", "rollout_stop_token_ids", "reward_key"]
        self.args = Namespace(
            **dict.fromkeys(names), rollout_temperature=PLAIN["temperature"], rollout_top_p=PLAIN["top_p"],
            rollout_top_k=PLAIN["top_k"], rollout_max_response_len=job["response_length"],
            rollout_skip_special_tokens=False, sglang_router_ip="127.0.0.1", sglang_router_port=0,
        )  # fmt: skip

    async def play(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """One conversation."""
        tokenizer = GenerateState(self.args).tokenizer
        server = Server(tokenizer, item["texts"], self.job["response_length"])
        before = {**sampling_params(self.args), "repetition_penalty": 1.0}

        async def post(_: str, payload: dict[str, Any], *__: Any, **___: Any) -> dict[str, Any]:
            ids, finish = server.say(payload["input_ids"], changed(payload["sampling_params"], before))
            return {
                "text": tokenizer.decode(ids),
                "meta_info": {
                    "finish_reason": {"type": finish},
                    "output_token_logprobs": [(-0.5, number, None) for number in ids],
                    "prompt_tokens": len(payload["input_ids"]),
                    "completion_tokens": len(ids),
                    "cached_tokens": 0,
                    "weight_version": "0",
                },
            }

        self.module.post = post
        row = json.loads(json.dumps(self.job["rows"][item["row"]]))
        sample = Sample(prompt=row["prompt"], label=row["label"], metadata=row["extra_info"] or {})
        sample = await self.module.generate(self.args, sample, sampling_params(self.args))
        if sample.remove_sample:
            return {"requests": server.requests, "raised": "the loop failed; its sample is not trained on"}
        count = sample.response_length
        return {
            "requests": server.requests,
            "prompt": pieces(tokenizer, sample.tokens[: len(sample.tokens) - count]),
            "response": pieces(tokenizer, sample.tokens[len(sample.tokens) - count :]),
            "mask": list(sample.loss_mask or ()),
            "told": sample.metadata.get(self.job["told"]),
            "reward": sample.reward,
        }


class NewAgent:
    """The example's agent in a process of its own, against the stand-in chat server."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job = job
        self.args = Namespace(agent_command=job["command"], agent_cwd=job["folder"], agent_env=None)

    async def play(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """One conversation."""
        row = json.loads(json.dumps(self.job["rows"][item["row"]]))
        sample = Sample(prompt=row["prompt"], label=row["label"], metadata=row["extra_info"] or {})
        texts = itertools.chain(item["texts"], itertools.repeat(LATER, MOST))
        with ChatServer(Tokenizer(media=False), None) as server:
            agents = Agents(self.args, server, lambda *_: (("said", text) for text in texts))
            sample = await agents.generate(self.args, sample, {})
        [session] = server.sessions.values()
        if server.problems:
            return {"requests": [], "raised": "; ".join(server.problems)}
        shown = [[["tool schema", str(tools)]] * bool(tools) + pairs(messages) for messages, tools in session.asked]
        return agent_record(shown, sample.metadata.get(self.job["told"]), sample.reward)


def pairs(messages: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Role and text of messages; a blank one stands for an empty one, which no chat server takes."""
    return [[str(item["role"]), text if (text := str(item["content"] or "")).strip() else ""] for item in messages]


_TURN = re.compile(r"<\|im_start\|>([^\n]*)\n(.*?)<\|im_end\|>", re.DOTALL)


def messages_of(text: str) -> list[list[str]]:
    """Role and text of the messages that the stand-in tokenizer's template wrote, the open answer apart."""
    return [[found[1], found[2]] for found in _TURN.finditer(text)]


def agent_record(requests: list[list[list[str]]], told: Any, reward: Any) -> dict[str, Any]:
    """What is compared of an agent: the conversation at every request, in words; Relax keeps the tokens itself."""
    grown = [*requests[0], *requests[-1]][len(requests[0]) * 2 :] if requests else []
    mask = [int(role == "assistant") for role, _ in grown]
    return {"requests": requests, "mask": mask, "told": told, "reward": reward}


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that JSON knows; the others stay in the worker on both sides."""
    found: dict[str, Any] = {}
    for key, value in dict(fields or {}).items():
        try:
            found[str(key)] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            continue
    return found


async def _all(made: OldLoop | NewLoop | NewAgent, job: Mapping[str, Any], tape: Tape | None) -> list[dict[str, Any]]:
    records = []
    for item in job["conversations"]:
        if tape is not None:
            tape.begin()
        try:
            records.append(await asyncio.wait_for(made.play(item), SECONDS))
        except (Exception, stubs.StandInUsed) as error:
            records.append({"raised": f"{type(error).__name__}: {error}"[:400]})
        if tape is not None:
            records[-1]["asked"] = tape.seen()
    return records


def main(argv: Sequence[str]) -> None:
    """One side over all conversations."""
    side, path = argv[1], Path(argv[2])
    job = json.loads(path.read_text(encoding="utf-8"))
    os.environ.update(job["environment"] if side == "old" else job["left_to_user"])
    tape = clients.install(job["tape"]) if job["tape"] is not None else None
    try:
        new = NewAgent if job["new"].get("command") else NewLoop
        made = OldLoop(job["old"]) if side == "old" else new(job["new"])
    except (Exception, stubs.StandInUsed) as error:
        answer: dict[str, Any] = {"error": f"{type(error).__name__}: {error}"[:600]}
    else:
        answer = {"records": asyncio.run(_all(made, job, tape))}
    (path.parent / f"{side}.json").write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv)
