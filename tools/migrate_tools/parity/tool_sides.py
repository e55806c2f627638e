"""The old tools and the new environment inside the sandbox, on the same scripted conversations.

`python -m migrate_tools.parity.tool_sides old|new /work/job.json` writes old.json or new.json beside the job: for every
conversation the turns that were answered, each with messages, images and rewards, and why it ended.

The old side runs verl's own `_call_tool` (its text is taken from the recipe's verl and compiled here, since its module
imports torch), verl's own tool-call parser, and the recipe's classes over verl's own base classes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import importlib
import inspect
import io
import itertools
import json
import logging
import os
import sys
import threading
import types
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from migrate_tools.parity import clients, function_tools, moved, stubs
from migrate_tools.parity.engine_side import EngineSide, compiled_method
from migrate_tools.parity.tape import Tape

LOOP_FILE = "verl/experimental/agent_loop/tool_agent_loop.py"
PARSER_FILE = "verl/experimental/agent_loop/tool_parser.py"
TURN_SECONDS = 10.0


def main(argv: list[str]) -> None:
    """One side over all conversations."""
    side, path = argv[1], Path(argv[2])
    job = json.loads(path.read_text(encoding="utf-8"))
    os.environ.update(job["environment"] if side == "old" else job["left_to_user"])
    answer: dict[str, Any] = {}
    worker = threading.Thread(target=lambda: answer.update(_run(side, job)), name="rollout")
    worker.start()
    worker.join()
    (path.parent / f"{side}.json").write_text(json.dumps(answer), encoding="utf-8")


def _run(side: str, job: Mapping[str, Any]) -> dict[str, Any]:
    tape = clients.install(job["tape"]) if job["tape"] is not None else None
    try:
        made = OldSide(job) if side == "old" else NewSide(job)
    except (Exception, stubs.StandInUsed) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    shown = made.shown() if isinstance(made, OldSide) else None
    records = asyncio.run(_all(made, job, tape))
    for item in (item for record in records for turn in record.get("turns", ()) for item in turn):
        item["text"] = str(item["text"]).replace(made.prefix, "") if made.prefix else item["text"]
    return {"records": records, "shown": shown}


async def _all(made: OldSide | NewSide, job: Mapping[str, Any], tape: Tape | None) -> list[dict[str, Any]]:
    records = []
    for item in job["conversations"]:
        metadata = json.loads(json.dumps(job["metadata"][item["row"]])) if job["metadata"] else {}
        if tape is not None:
            tape.begin()
        try:
            records.append(await asyncio.wait_for(made.talk(item, metadata), TURN_SECONDS * (1 + len(item["texts"]))))
        except (Exception, stubs.StandInUsed) as error:
            records.append({"raised": f"{type(error).__name__}: {error}", "turns": made.seen})
        if tape is not None:
            records[-1]["requests"] = tape.seen()
    return records


class OldSide:
    """verl's tool agent loop over the recipe's tools."""

    seen: list[list[dict[str, Any]]]
    """The answered turns of the conversation that is going on."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job, self.seen = job, []
        turns = job["turns"]
        _put_stand_ins()
        stubs.install(job["verl_root"])
        for folder in reversed(job["paths"]):
            sys.path.insert(0, folder)
        for name, folders in job["aliases"].items():
            stubs.alias_package(name, folders)
        schemas = importlib.import_module("verl.tools.schemas")
        self.tools = {}
        for spec in job["tools"]:
            if spec["kind"] == "function":
                continue
            made = load_class(spec)
            schema = spec["parameters"]
            valid = schemas.OpenAIFunctionToolSchema.model_validate(schema) if spec["given"] else None
            tool = made(config=json.loads(json.dumps(spec["config"])), tool_schema=valid)
            self.tools[tool.name] = tool
        functions = function_tools.load(job)
        self.tools |= {tool.name: tool for tool in functions.tools}
        self.prefix = functions.prefix
        self.users = _users(job["users"])
        self.engine = EngineSide(job, self.tools, self.users, schemas) if turns["runner"] == "engine" else None
        if self.engine is not None:
            return
        self.parser = _parser(job["loop_root"], turns["format"])
        self.parser.tokenizer.special = job["special_tokens"]
        loop_file = Path(job["loop_root"]) / LOOP_FILE
        self.call = _method(loop_file, "_call_tool", schemas, functions.names)
        self.ask = _method(loop_file, "_handle_interacting_state", schemas, {}) if self.users else None
        self.loop = SimpleNamespace(
            tools=self.tools,
            max_tool_response_length=turns["max_tool_response_length"],
            tool_response_truncate_side=turns["truncate_side"],
        )

    def shown(self) -> list[Any]:
        """The schemas of the tools as verl gives them to the chat template."""
        if self.engine is not None:
            return [tool.get_openai_tool_schema().model_dump() for tool in self.tools.values()]
        return [tool.tool_schema.model_dump(exclude_unset=True, exclude_none=True) for tool in self.tools.values()]

    async def talk(self, item: Mapping[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
        """The states GENERATING and PROCESSING_TOOLS of verl's loop, with scripted answers."""
        if self.engine is not None:
            return await self.engine.talk(item, metadata, self._plain)
        turns = self.job["turns"]
        seen = self.seen = []
        pictures = _pictures(self.job, item)
        kwargs = metadata.get("tools_kwargs") or {}
        for name, wanted in self.job["tool_images"].items():
            given = {key: pictures if number is None else pictures[number] for key, number in wanted.items()}
            own = (kwargs.get(name) or {}).get("create_kwargs", {})
            kwargs = {**kwargs, name: {"create_kwargs": {**own, **given}}}
        state = SimpleNamespace(
            messages=[dict(message) for message in metadata.get("raw_prompt") or ()], tools_kwargs=kwargs, metrics={},
            request_id=str(next(_NUMBERS)), extra_fields={}, user_turns=0, assistant_turns=0,
            image_data=pictures or None, tool_rewards=[], turn_scores=[], prompt_ids=[], response_mask=[],
            response_logprobs=[],
        )  # fmt: skip
        if chosen := metadata.get("tool_selection"):  # read by 0.8 and later
            state._active_tools = {name: self.tools[name] for name in chosen if name in self.tools}
        await self._begin(state, metadata)
        for text in item["texts"]:
            state.assistant_turns += 1
            if turns["max_assistant_turns"] and state.assistant_turns >= turns["max_assistant_turns"]:
                break
            if turns["max_user_turns"] and state.user_turns >= turns["max_user_turns"]:
                break
            calls = await self._calls(text)
            if self.users:
                said = self.parser.tokenizer.decode(skip_special_tokens=True)
                state.messages.append({"role": "assistant", "content": said})
            if not calls:
                if self.ask is None or await self._user_ends(state, seen):
                    break
                continue
            made = [self._one(call, kwargs, state) for call in calls[: turns["max_parallel_calls"]]]
            results = await asyncio.gather(*made)
            if any(isinstance(result, BaseException) for result in results):
                break
            state.user_turns += 1
            seen.append([_seen(response, reward) for response, reward in results])
            state.messages += [{"role": "tool", "content": response.text or ""} for response, _ in results]
        return {
            "turns": seen,
            "num_turns": state.user_turns + state.assistant_turns + 1,
            "scores": [_number(score) for score in state.turn_scores],
        }

    def _plain(self, text: str) -> str:
        for token in self.job["special_tokens"]:
            text = text.replace(token, "")
        return text

    async def _begin(self, state: Any, metadata: dict[str, Any]) -> None:
        """The start of verl's `run`, for a row with a simulated user."""
        if self.users:
            state.interaction_kwargs = metadata["interaction_kwargs"]
            state.interaction = self.users[state.interaction_kwargs["name"]]
            await state.interaction.start_interaction(state.request_id, **state.interaction_kwargs)

    async def _user_ends(self, state: Any, seen: list[Any]) -> bool:
        """verl's own state INTERACTING; whether it ends the conversation."""
        assert self.ask is not None
        after = await self.ask(_Loop(), state)
        seen.append([{"text": state.messages[-1]["content"], "images": [], "reward": None, "role": "user"}])
        return str(after) == "AgentState.TERMINATED"

    async def _calls(self, text: str) -> list[Any]:
        self.parser.tokenizer.text = text
        schemas = [tool.tool_schema for tool in self.tools.values()]
        takes = len(inspect.signature(self.parser.extract_tool_calls).parameters) > 1
        _, calls = await (self.parser.extract_tool_calls([], schemas) if takes else self.parser.extract_tool_calls([]))
        return list(calls)

    async def _one(self, call: Any, kwargs: Any, state: Any) -> Any:
        wanted = len(inspect.signature(self.call).parameters)
        given = [self.loop, call, kwargs, state][:wanted]
        found = await self.call(*given)
        if isinstance(found, BaseException):
            return found
        if isinstance(found, dict):  # verl 0.5: the message itself
            return SimpleNamespace(text=found["content"], image=None), None
        return found[0], found[1]


class NewSide:
    """The generated environment."""

    seen: list[list[dict[str, Any]]]

    def __init__(self, job: Mapping[str, Any]) -> None:
        for folder in reversed(job["new_paths"]):
            sys.path.insert(0, folder)
        self.job, self.seen = job, []
        self.module = importlib.import_module(job["module"])
        self.prefix = f"{job['tools_module']}."
        self.told = job["told"]
        self.args = job["args"]

    async def talk(self, item: Mapping[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
        """The turns of one conversation until the environment says that it is over."""
        pictures = _pictures(self.job, item)
        media = {"images": pictures} if pictures else None
        sample = SimpleNamespace(metadata=metadata, prompt="", response="", label=None, multimodal_inputs=media)
        env = self.module.build_env(sample=sample, args=Namespace(**self.args))
        env.reset()
        seen = self.seen = []
        before = 0
        try:
            for text in item["texts"]:
                step = env.step(text)
                observation, done, _ = await step if inspect.isawaitable(step) else step
                if not observation.get("messages"):
                    break
                images = list((observation.get("multi_modal_data") or {}).get("image", ()))
                seen.append([_message(message, images) for message in observation["messages"]])
                told = (metadata.get(self.told) or {}).get("tool_rewards", [])
                rewards, before = told[before:], len(told)
                seen[-1][-1]["rewards"] = [_number(reward) for reward in rewards]
                if done:
                    break
            if hasattr(env, "finish"):
                await env.finish()
        finally:
            env.close()
        told = metadata.get(self.told) or {}
        scores = [_number(score) for score in told.get("turn_scores", ())]
        given = told.get("rollout_reward_scores")
        return {"turns": seen, "num_turns": told.get("num_turns"), "scores": scores, "given": given}


def _seen(response: Any, reward: Any) -> dict[str, Any]:
    images = [image for image in response.image or () if image is not None]
    return {"text": response.text or "", "images": [_picture(image) for image in images], "reward": _number(reward)}


def _message(message: Mapping[str, Any], images: list[Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return {"role": message["role"], "text": content, "images": []}
    count = sum(part.get("type") == "image" for part in content)
    text = "".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
    taken = [_picture(images.pop(0)) for _ in range(min(count, len(images)))]
    return {"role": message["role"], "text": text, "images": taken}


def _picture(image: Any) -> list[Any]:
    """Size, mode and hash of the pixels."""
    data = image.tobytes() if hasattr(image, "tobytes") else repr(image).encode()
    return [list(getattr(image, "size", ())), getattr(image, "mode", ""), hashlib.sha256(data).hexdigest()]


def _number(value: Any) -> Any:
    return None if value is None else float(value)


def _pictures(job: Mapping[str, Any], item: Mapping[str, Any]) -> list[Any]:
    """The images of a conversation's row; made-up ones where a recipe with images has none at hand."""
    if job["images"] is None:
        return []
    from PIL import Image

    own = job["images"][item["row"]] if job["images"] else []
    if own:
        return [Image.open(io.BytesIO(base64.b64decode(text))) for text in own]
    sizes = ((336, 252), (640, 90))
    return [Image.linear_gradient("L").resize(size).convert("RGB") for size in sizes]


def _put_stand_ins() -> None:
    """Ray's part in one process, so that a tool starts no cluster; how Qwen-VL recipes open images, without torch."""
    _put_module("qwen_vl_utils", "media_parts.py")
    module = _put_module("ray", "local_ray.py")
    actor = types.ModuleType("ray.actor")
    actor.ActorHandle = object  # type: ignore[attr-defined]
    module.actor = actor  # type: ignore[attr-defined]
    sys.modules["ray.actor"] = actor


def _put_module(name: str, file: str) -> types.ModuleType:
    """One of the files that stand in for a package in the example, under the package's name."""
    return moved.load_file(name, Path(__file__).parents[1] / "relax" / "turns" / file)


def load_class(spec: Mapping[str, Any]) -> Any:
    """The class by its dotted name, or from its file."""
    module, _, leaf = spec["class_name"].rpartition(".")
    try:
        return getattr(importlib.import_module(module), leaf)
    except ImportError:
        return getattr(moved.load(module, Path(spec["file"])), leaf)


_NUMBERS = itertools.count(1)


def _users(specs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Simulated users as verl's interaction registry makes them."""
    return {
        spec["name"]: load_class(spec)(config={**json.loads(json.dumps(spec["config"])), "name": spec["name"]})
        for spec in specs
    }


class _Loop:
    """What verl's agent loop has beside the state, with nothing to tokenise."""

    processor = None
    system_prompt: tuple[int, ...] = ()
    apply_chat_template_kwargs: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.tokenizer = SimpleNamespace(apply_chat_template=lambda *_, **__: [])

    async def apply_chat_template(self, *_: Any, **__: Any) -> list[int]:
        return []


class _Text:
    pad_token = "<|endoftext|>"
    text = ""
    special: Sequence[str] = ()

    def decode(self, *_: Any, skip_special_tokens: bool = False, **__: Any) -> str:
        text = self.text
        for token in self.special if skip_special_tokens else ():
            text = text.replace(token, "")
        return text


def _parser(verl_root: str, name: str) -> Any:
    loop = types.ModuleType("verl.utils.ray_utils")
    loop.get_event_loop = asyncio.get_running_loop  # type: ignore[attr-defined]
    sys.modules["verl.utils.ray_utils"] = loop
    module: Any = moved.load_file("verl_tool_parser", Path(verl_root) / PARSER_FILE)
    return module.ToolParser.get_tool_parser(name, _Text())


def _method(path: Path, name: str, schemas: Any, more: Mapping[str, Any]) -> Callable[..., Any]:
    """A method of verl's agent loop as a function; `more` are names of verl's function tools."""
    space: dict[str, Any] = {
        "json": json,
        "logger": logging.getLogger("verl"),
        "ToolResponse": schemas.ToolResponse if hasattr(schemas, "ToolResponse") else None,
        "AgentState": SimpleNamespace(**{name: f"AgentState.{name}" for name in ("TERMINATED", "GENERATING")}),
        **more,
    }
    return compiled_method(path, name, space)


if __name__ == "__main__":
    main(sys.argv)
