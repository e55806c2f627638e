"""HTTP to the engine, GenerateState and the default generate (Relax recipe contract, section 4)."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any, ClassVar

from jinja2.exceptions import TemplateError

from migrate_tools.rehearsal.runtime.bpe import FILES, BpeTokenizer, UnknownTokenizer
from migrate_tools.rehearsal.runtime.sample import Sample
from migrate_tools.rehearsal.runtime.tokenizer import Processor, Tokenizer

OWN = "the model's own"
STANDS_IN = "stand-in"
"""Which tokenizer a rehearsal has."""


async def post(url: str, payload: dict[str, Any], max_retries: int = 6, headers: dict[str, str] | None = None) -> Any:
    """POST a JSON body and return the JSON reply."""
    return await asyncio.to_thread(_post, url, payload, headers or {})


def _post(url: str, payload: dict[str, Any], headers: dict[str, str]) -> Any:
    request = urllib.request.Request(
        url, json.dumps(payload).encode(), {"Content-Type": "application/json", **headers}, method="POST"
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as reply:
        return json.loads(reply.read())


class SingletonMeta(type):
    """One instance a class, whatever the arguments."""

    _instances: ClassVar[dict[type, Any]] = {}

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls not in cls._instances:
            cls._instances[cls] = super().__call__(*args, **kwargs)
        return cls._instances[cls]


class GenerateState(metaclass=SingletonMeta):
    """What a generate function shares: tokenizer, sampling parameters, the concurrency limit."""

    def __init__(self, args: Any) -> None:
        self.args = args
        media = bool(getattr(args, "multimodal_keys", None))
        self.tokenizer, self.tokenizer_is = model_tokenizer(getattr(args, "hf_checkpoint", None), media=media)
        self.processor = Processor(self.tokenizer) if media else None
        self.aborted = False
        self.semaphore = asyncio.Semaphore(64)
        self.sampling_params = sampling_params(args)


def model_tokenizer(folder: str | None, *, media: bool) -> tuple[Tokenizer, str]:
    """The tokenizer of a model's folder, or the stand-in; and which it is, in words.

    Args:
        media: whether the model reads images, which takes a processor as well: the stand-in has one.
    """
    if not folder or not (Path(folder) / FILES[0]).is_file():
        return Tokenizer(media=media), STANDS_IN
    if media:
        return Tokenizer(media=True), f"{STANDS_IN}: the processor of a model that reads images is not read"
    try:
        return BpeTokenizer(Path(folder)), OWN
    except (UnknownTokenizer, KeyError, ValueError, OSError, TemplateError) as error:
        return Tokenizer(media=False), f"{STANDS_IN}: {error}"


def sampling_params(args: Any) -> dict[str, Any]:
    """The parameters of a training rollout; `max_new_tokens` is per request."""
    return {
        "temperature": args.rollout_temperature,
        "top_p": args.rollout_top_p,
        "top_k": args.rollout_top_k,
        "max_new_tokens": args.rollout_max_response_len,
        "stop": args.rollout_stop,
        "stop_token_ids": args.rollout_stop_token_ids,
        "skip_special_tokens": args.rollout_skip_special_tokens,
        "no_stop_trim": True,
        "spaces_between_special_tokens": False,
    }


async def generate(args: Any, sample: Sample, sampling_params: dict[str, Any]) -> Sample:
    """The default generate: one request; prompt and response ids go to `tokens`, the text to `response`."""
    state = GenerateState(args)
    prompt_ids = state.tokenizer.encode(sample.prompt)
    url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
    reply = await post(url, {"input_ids": prompt_ids, "sampling_params": dict(sampling_params), "return_logprob": True})
    tokens = reply["meta_info"].get("output_token_logprobs") or []
    ids = [item[1] for item in tokens]
    sample.tokens = prompt_ids + ids
    sample.rollout_tokens = list(sample.tokens)
    sample.response = reply["text"]
    sample.response_length = len(ids)
    sample.rollout_log_probs = [item[0] for item in tokens]
    sample.update_from_meta_info(args, reply["meta_info"])
    return sample
