"""The old side of launches whose tools verl's SGLang rollout ran: that rollout's own method, over scripted answers.

The text of `_async_rollout_a_request` and `_handle_pending_state` is taken from the release and compiled here, since
its module imports torch and SGLang. SGLang's tool parser is our own on both sides and not part of the comparison.
"""

from __future__ import annotations

import ast
import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from copy import deepcopy
from enum import Enum
from json import JSONDecodeError
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from migrate_tools.relax.turns.engine_calls import engine_calls, has_call

ROLLOUT_FILE = "verl/workers/rollout/sglang_rollout/sglang_rollout.py"
STATES_FILE = "verl/workers/rollout/schemas.py"
STATES = ("FinishReasonTypeEnum", "AsyncRolloutRequestStateEnum")
NO_LIMIT = 10**9


class ScriptEnded(Exception):
    """The rollout asks for one answer more than the script has."""


class EngineSide:
    """verl's SGLang rollout over the recipe's tools and simulated users."""

    def __init__(self, job: Mapping[str, Any], tools: dict[str, Any], users: dict[str, Any], schemas: Any) -> None:
        self.job, self.tools, self.users = job, tools, users
        root = Path(job["loop_root"])
        space = _space(root, schemas)
        self.states = space[STATES[1]]
        path = root / ROLLOUT_FILE
        self.run = compiled_method(path, "_async_rollout_a_request", space)
        self.begin = compiled_method(path, "_handle_pending_state", space)

    async def talk(
        self, item: Mapping[str, Any], metadata: dict[str, Any], plain: Callable[[str], str]
    ) -> dict[str, Any]:
        """The turns of one conversation, and the rewards that verl leaves beside the sample."""
        request = _Request(metadata, self.tools, self.states.PENDING)
        said = iter(item["texts"])

        async def answer(*_: Any, **__: Any) -> dict[str, Any]:
            text = next(said, None)
            if text is None:
                raise ScriptEnded
            return {"text": plain(text), "meta_info": {"finish_reason": {"type": "stop"}}}

        async def pending(state: Any) -> Any:
            return await self.begin(rollout, state)

        turns = self.job["turns"]
        limits = {
            key: turns[key] if turns[key] is not None else NO_LIMIT for key in ("max_assistant_turns", "max_user_turns")
        }
        rollout = SimpleNamespace(
            _tp_rank=0,
            sampling_params={},
            config=SimpleNamespace(
                multi_turn=SimpleNamespace(**limits), max_model_len=NO_LIMIT, response_length=NO_LIMIT,
                skip_tokenizer_init=False, calculate_log_probs=False,
            ),
            processing_class=None,
            interaction_map=self.users,
            interaction=next(iter(self.users.values()), None),
            _tool_map=self.tools,
            _function_call_parser=_Parser(self.tools, self.job["lines"]) if self.tools else None,
            _handle_engine_call=answer,
            _handle_pending_state=pending,
        )  # fmt: skip
        try:
            done = await self.run(rollout, request)
        except ScriptEnded:
            return {"turns": SEEN[request.number], "num_turns": None, "scores": [], "given": None}
        return {"turns": done.seen, "num_turns": None, "scores": [], "given": _plain(done.rewards)}


SEEN: dict[int, list[Any]] = {}
"""What the model saw in each episode; verl's method works on a copy of the request."""


class _Request:
    """What verl keeps of one episode, without tokens."""

    def __init__(self, metadata: dict[str, Any], tools: Mapping[str, Any], state: Any) -> None:
        self.request_id = str(uuid4())
        self.number = len(SEEN)
        self.state = state
        self.messages = [SimpleNamespace(**message) for message in metadata.get("raw_prompt") or ()]
        self.tools_kwargs = {
            name: own or {} for name, own in (metadata.get("tools_kwargs") or {}).items() if name in tools
        }
        self.interaction_kwargs = metadata.get("interaction_kwargs") or {}
        schemas = [SimpleNamespace(function=SimpleNamespace(name=name)) for name in self.tools_kwargs]
        self.tool_schemas = schemas if tools else None
        self.multi_modal_data = None
        self.input_ids = _Ids()
        self.rewards: Any = None
        SEEN[self.number] = []

    def __deepcopy__(self, memo: Any) -> _Request:
        return self

    @property
    def seen(self) -> list[Any]:
        return SEEN[self.number]

    def get_generation_prompt_ids(self, *_: Any) -> list[int]:
        return []

    def add_assistant_message(self, *words: Any, content: str = "", tool_calls: Any = None, **_: Any) -> None:
        text = words[1] if len(words) > 1 else content
        self.messages.append(SimpleNamespace(role="assistant", content=text, tool_calls=tool_calls))

    def add_tool_response_messages(self, _: Any, contents: list[Any]) -> None:
        texts = [getattr(item, "text", item) or "" for item in contents]
        if not any(texts) and not isinstance(contents[0] if contents else "", str):
            return
        self.messages += [SimpleNamespace(role="tool", content=text) for text in texts]
        self.seen.append([{"text": text, "images": [], "reward": None} for text in texts])

    def add_user_message(self, _: Any, content: str) -> None:
        self.messages.append(SimpleNamespace(role="user", content=content))
        self.seen.append([{"text": content, "images": [], "reward": None, "role": "user"}])

    def update_metrics(self, *_: Any) -> None:
        return

    def finalize(self, _: Any, rewards: Any, *__: Any) -> None:
        self.rewards = rewards


class _Ids:
    """The ids of a conversation that never gets too long."""

    def __len__(self) -> int:
        return 0

    def size(self, *_: Any) -> int:
        return 0


class _Parser:
    """SGLang's parser of tool calls."""

    def __init__(self, tools: Mapping[str, Any], lines: bool) -> None:
        self.tools, self.lines = tools, lines

    def has_tool_call(self, text: str) -> bool:
        return has_call(text, lines=self.lines)

    def parse_non_stream(self, text: str) -> tuple[str, list[Any]]:
        before, calls = engine_calls(text, self.tools, lines=self.lines)
        return before, [
            SimpleNamespace(name=name, parameters=json.dumps(given), tool_index=number)
            for number, (name, given) in enumerate(calls)
        ]


def _plain(rewards: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, list) else float(value) for name, value in rewards.items()}


def _space(root: Path, schemas: Any) -> dict[str, Any]:
    """The names that the methods use."""
    space: dict[str, Any] = {
        "asyncio": asyncio, "deepcopy": deepcopy, "uuid4": uuid4, "JSONDecodeError": JSONDecodeError, "Enum": Enum,
        "logger": logging.getLogger("verl"), "json": json, "BaseTool": object,
    }  # fmt: skip
    names = ("OpenAIFunctionParsedSchema", "OpenAIFunctionCallSchema", "OpenAIFunctionToolCall")
    space |= {name: getattr(schemas, name) for name in names}
    tree = ast.parse((root / STATES_FILE).read_text(encoding="utf-8"))
    nodes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in STATES]
    exec(compile(ast.Module(list(nodes), []), STATES_FILE, "exec"), space)
    return space


def compiled_method(path: Path, name: str, space: dict[str, Any]) -> Callable[..., Any]:
    """A method of a file of verl as a function, without importing its module and without annotations."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    node = next(item for item in ast.walk(tree) if isinstance(item, kinds) and item.name == name)
    for item in ast.walk(node):
        if isinstance(item, kinds):
            item.decorator_list, item.returns = [], None
            for argument in (*item.args.posonlyargs, *item.args.args, *item.args.kwonlyargs):
                argument.annotation = None
    exec(compile(ast.Module([node], []), str(path), "exec"), space)
    function: Callable[..., Any] = space[name]
    return function
