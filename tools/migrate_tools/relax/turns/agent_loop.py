"""What an agent loop of verl is written against, without verl: base class, output, configuration, single turn.

This file is copied into the examples that have loops of their own. Behaviour as verl's verl/experimental/agent_loop
(0.5 to 0.9) shows it to a loop over text.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4


class Config(dict):  # type: ignore[type-arg]
    """Settings whose keys are attributes too, at every depth."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__({key: Config(item) if isinstance(item, dict) else item for key, item in values.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class DictConfigWrap:
    """Holds a configuration."""

    def __init__(self, config: Any) -> None:
        self.config = config


class AgentLoopMetrics:
    """Seconds of a trajectory's parts; nothing reads them here."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class TokenOutput(list):  # type: ignore[type-arg]
    """One answer of the engine: the ids, which it also is a list of, their log-probs, and why it ended."""

    def __init__(self, token_ids: list[int], log_probs: list[float] | None = None, stop_reason: str = "") -> None:
        super().__init__(token_ids)
        self.token_ids = list(token_ids)
        self.log_probs = log_probs
        self.stop_reason = stop_reason
        self.routed_experts = None
        self.num_preempted = None
        self.extra_fields: dict[str, Any] = {}


class AgentLoopOutput:
    """What a loop gives back for training."""

    def __init__(
        self,
        *,
        prompt_ids: list[int],
        response_ids: list[int],
        response_mask: list[int],
        response_logprobs: list[float] | None = None,
        reward_score: float | None = None,
        num_turns: int = 0,
        metrics: Any = None,
        extra_fields: dict[str, Any] | None = None,
        multi_modal_data: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        self.prompt_ids, self.response_ids, self.response_mask = prompt_ids, response_ids, response_mask
        self.response_logprobs, self.reward_score, self.num_turns = response_logprobs, reward_score, num_turns
        self.metrics, self.multi_modal_data = metrics, multi_modal_data
        self.extra_fields = extra_fields if extra_fields is not None else {}


AsyncLLMServerManager = LLMServerClient = Any


def register(_: str) -> Callable[[Any], Any]:
    """Loops are found by their names in the example: the class as it is."""
    return lambda item: item


@contextmanager
def simple_timer(name: str, timing: dict[str, Any]) -> Iterator[None]:
    """Adds the seconds of a block to `timing`."""
    began = time.monotonic()
    try:
        yield
    finally:
        timing[name] = timing.get(name, 0.0) + time.monotonic() - began


class AgentLoopBase:
    """Base of every loop; one instance plays one episode."""

    def __init__(
        self,
        trainer_config: Any,
        server_manager: Any,
        tokenizer: Any,
        processor: Any = None,
        dataset_cls: Any = None,
        data_config: Any = None,
        **kwargs: Any,
    ) -> None:
        self.config = trainer_config.config
        self.rollout_config = self.config.actor_rollout_ref.rollout
        self.data_config = data_config.config if data_config is not None else self.config.data
        self.server_manager, self.tokenizer, self.processor = server_manager, tokenizer, None
        self.dataset_cls = dataset_cls
        self.apply_chat_template_kwargs = dict(self.data_config.get("apply_chat_template_kwargs") or {})
        self.mm_processor_kwargs: dict[str, Any] = {}
        self.init_class(config=self.config, tokenizer=tokenizer, processor=None, **kwargs)
        self.system_prompt = self._prefix()
        self.loop = asyncio.get_running_loop()

    @classmethod
    def init_class(cls, config: Any, tokenizer: Any, processor: Any = None, **kwargs: Any) -> None:
        """What a class sets up once (verl before 0.8 calls it; later ones no longer do)."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Plays the episode of one row."""
        raise NotImplementedError

    def _text(self, messages: list[dict[str, Any]], *, prompt: bool, tools: Any = None) -> str:
        options = {**({"tools": tools} if tools else {}), **self.apply_chat_template_kwargs}
        made = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt, **options)
        return str(made)

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _prefix(self) -> list[int]:
        """What the template puts before every conversation."""
        one = self._ids(self._text([{"role": "user", "content": ""}], prompt=False))
        two = self._ids(self._text([{"role": "user", "content": ""}] * 2, prompt=False))
        return one[: len(one) - (len(two) - len(one))]

    async def apply_chat_template(
        self, messages: list[dict[str, Any]], tools: Any = None, remove_system_prompt: bool = False, **_: Any
    ) -> list[int]:
        """Ids of messages up to the next answer, at most prompt_length, the last ones."""
        ids = self._ids(self._text(messages, prompt=True, tools=tools))
        if remove_system_prompt:
            ids = ids[len(self.system_prompt) :]
        return ids[-int(self.rollout_config.prompt_length) :]

    async def process_vision_info(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Images and videos of the messages: this rollout is over text."""
        for message in messages:
            content = message.get("content")
            if isinstance(content, list) and any(part.get("type", "text") != "text" for part in content):
                raise ValueError("the messages hold images or videos, and this rollout is over text")
        return {}

    async def process_multi_modal_info(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """The same under its newer name."""
        return await self.process_vision_info(messages)

    def _get_mm_processor_kwargs(self, audio_data: Any = None) -> dict[str, Any]:
        return {}

    def _assert_mm_supported(self, has_multi_modal: bool) -> None:
        if has_multi_modal:
            raise ValueError("this rollout is over text")

    async def ct_build_initial_tokens(self, messages: list[dict[str, Any]], tools: Any = None, **_: Any) -> list[int]:
        """Ids of the prompt (verl 0.9)."""
        return await self.apply_chat_template(messages, tools)

    async def ct_merge_assistant_token(
        self,
        runtime_token_ids: list[int],
        assistant_token_ids: list[int],
        response_mask: list[int],
        response_logprobs: list[float] | None = None,
        assistant_logprobs: list[float] | None = None,
    ) -> tuple[Any, list[int], list[float] | None]:
        """An answer behind the tokens so far (verl 0.9)."""
        merged = SimpleNamespace(token_ids=[*runtime_token_ids, *assistant_token_ids])
        mask = [*response_mask, *[1] * len(assistant_token_ids)]
        scores = assistant_logprobs or [0.0] * len(assistant_token_ids)
        return merged, mask, None if response_logprobs is None else [*response_logprobs, *scores]

    async def ct_merge_non_assistant_msg(
        self,
        previous_messages: list[dict[str, Any]],
        updated_messages: list[dict[str, Any]],
        runtime_token_ids: list[int],
        response_mask: list[int],
        response_logprobs: list[float] | None = None,
        tools: Any = None,
    ) -> tuple[Any, list[int], list[float] | None]:
        """New messages behind the tokens so far, with what the template puts after an answer (verl 0.9.0)."""
        before = self._text(previous_messages, prompt=False, tools=tools)
        after = self._text(updated_messages, prompt=True, tools=tools)
        end = str(self.tokenizer.eos_token)
        ids = self._ids(before.rpartition(end)[2] * (end in before) + after[len(before) :])
        merged = SimpleNamespace(token_ids=[*runtime_token_ids, *ids])
        mask = [*response_mask, *[0] * len(ids)]
        return merged, mask, None if response_logprobs is None else [*response_logprobs, *[0.0] * len(ids)]

    ct_merge_context_msg = ct_merge_non_assistant_msg
    """The name of it in verl 0.9.1."""


class SingleTurnAgentLoop(AgentLoopBase):
    """One answer to the prompt."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Plays the episode of one row."""
        prompt_ids = await self.apply_chat_template(list(kwargs["raw_prompt"]))
        answer = await self.server_manager.generate(
            request_id=uuid4().hex, prompt_ids=prompt_ids, sampling_params=sampling_params
        )
        length = int(self.rollout_config.response_length)
        return AgentLoopOutput(
            prompt_ids=prompt_ids,
            response_ids=answer.token_ids[:length],
            response_mask=[1] * len(answer.token_ids[:length]),
            num_turns=2,
            extra_fields={"turn_scores": [], "tool_rewards": []},
        )
