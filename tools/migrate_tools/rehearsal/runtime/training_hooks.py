"""Hooks of the trainer, called as Relax calls them in a Megatron worker (Relax recipe contract, section 7).

They compute with torch. Where there is none only their signature is looked at, and that is said.
"""

from __future__ import annotations

import importlib.util
import inspect
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, Final

from migrate_tools.rehearsal.runtime.hooks import describe, load_function
from migrate_tools.rehearsal.runtime.sample import Sample

SAMPLES_AT_MOST = 16
WORDS = 48
"""Size of the made-up vocabulary of the logits."""
NOT_RUN: Final = "its signature fits; not run: there is no torch here"
SHAPES: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "custom_pg_loss_reducer_function_path": (4, ()),
    "custom_tis_function_path": (
        1,
        ("pg_loss", "train_log_probs", "rollout_log_probs", "loss_masks", "total_lengths", "response_lengths"),
    ),
    "custom_loss_function_path": (4, ()),
}
"""Argument -> positional arguments and keywords of the call; TIS gets args as a keyword too."""


def check_training_hooks(
    args: Namespace, samples: Sequence[Sample], processed: Sequence[Any], fail: Callable[[str], None]
) -> dict[str, str]:
    """Call each hook of the trainer that the command line names; returns flag -> what happened."""
    done: dict[str, str] = {}
    for dest, (positional, keywords) in SHAPES.items():
        path = getattr(args, dest, None)
        used = dest != "custom_loss_function_path" or args.loss_type == "custom_loss"
        if not path or not used:
            continue
        flag = "--" + dest.replace("_", "-")
        try:
            function = load_function(path)
            names = {"args": None, **dict.fromkeys(keywords)} if keywords else {}
            inspect.signature(function).bind(*([None] * (0 if keywords else positional)), **names)
            done[flag] = _call(dest, function, args, samples, processed)
        except Exception as error:
            fail(f"{flag} {path}: {describe(error)}")
    return done


def _call(dest: str, function: Any, args: Namespace, samples: Sequence[Sample], processed: Sequence[Any]) -> str:
    if importlib.util.find_spec("torch") is None:
        return NOT_RUN
    batch = _batch(args, samples[:SAMPLES_AT_MOST], processed[:SAMPLES_AT_MOST])
    tokens = sum(batch["response_lengths"])
    if dest == "custom_pg_loss_reducer_function_path":
        _reduce(function, args, batch)
    elif dest == "custom_tis_function_path":
        _correct(function, args, batch)
    else:
        _loss(function, args, batch)
    return f"called with {tokens} response tokens of {len(batch['response_lengths'])} samples"


def _batch(args: Namespace, samples: Sequence[Sample], processed: Sequence[Any]) -> dict[str, Any]:
    """A micro batch as the trainer hands it over; old log-probs are moved a little from the rollout's."""
    import torch

    torch.manual_seed(0)
    lengths = [sample.response_length for sample in samples]
    logged = [sample.rollout_log_probs or [-1.0] * sample.response_length for sample in samples]
    rollout = [torch.tensor(values, dtype=torch.float32) for values in logged]
    advantages = [
        torch.tensor(value if isinstance(value, list) else [float(value)] * length, dtype=torch.float32)
        for value, length in zip(processed, lengths, strict=True)
    ]
    return {
        "unconcat_tokens": [torch.tensor(sample.tokens) % WORDS for sample in samples],
        "total_lengths": [len(sample.tokens) for sample in samples],
        "response_lengths": lengths,
        "loss_masks": [
            torch.tensor(sample.loss_mask if sample.loss_mask is not None else [1] * sample.response_length)
            for sample in samples
        ],
        "rollout_log_probs": rollout,
        "log_probs": [values - 0.05 * torch.rand(values.shape) for values in rollout],
        "ref_log_probs": [values - 0.1 * torch.rand(values.shape) for values in rollout],
        "advantages": advantages,
    }


def _scalar(value: Any, what: str) -> None:
    import torch

    if not isinstance(value, torch.Tensor) or value.ndim:
        raise TypeError(f"{what} is no scalar tensor")
    if not bool(torch.isfinite(value.detach())):
        raise ValueError(f"{what} is {float(value.detach())}")


def _reduce(function: Any, args: Namespace, batch: dict[str, Any]) -> None:
    import torch

    reducer = function(
        batch["total_lengths"], batch["response_lengths"], batch["loss_masks"], args.calculate_per_token_loss
    )
    values = torch.randn(sum(batch["response_lengths"]), requires_grad=True)
    result = reducer(values)
    _scalar(result, "the reduced loss")
    result.backward()


def _correct(function: Any, args: Namespace, batch: dict[str, Any]) -> None:
    import torch

    loss = torch.randn(sum(batch["response_lengths"]), requires_grad=True)
    weighed, masks, metrics = function(
        args=args,
        pg_loss=loss,
        train_log_probs=batch["log_probs"],
        rollout_log_probs=batch["rollout_log_probs"],
        loss_masks=batch["loss_masks"],
        total_lengths=batch["total_lengths"],
        response_lengths=batch["response_lengths"],
    )
    if weighed.shape != loss.shape or not bool(torch.isfinite(weighed.detach()).all()):
        raise ValueError(f"the weighed loss has shape {tuple(weighed.shape)} or values that are not finite")
    if [mask.shape for mask in masks] != [mask.shape for mask in batch["loss_masks"]]:
        raise ValueError("the masks have other shapes than those that went in")
    for name, values in metrics.items():
        if values.shape != loss.shape:
            raise ValueError(f"the metric {name} is not one value a token, which Relax averages with the masks")


def _loss(function: Any, args: Namespace, batch: dict[str, Any]) -> None:
    import torch

    logits = torch.randn(1, sum(batch["total_lengths"]), WORDS, requires_grad=True)

    def sum_of_sample_mean(values: Any) -> Any:
        parts = zip(values.split(batch["response_lengths"]), batch["loss_masks"], strict=True)
        if args.calculate_per_token_loss:
            return sum((part * mask).sum() for part, mask in parts)
        return sum((part * mask).sum() / mask.sum().clamp(min=1) for part, mask in parts)

    loss, metrics = function(args, batch, logits, sum_of_sample_mean)
    _scalar(loss, "the loss")
    for name, value in metrics.items():
        _scalar(value, f"the metric {name}")
    loss.backward()
    if logits.grad is None or not bool(torch.isfinite(logits.grad).all()):
        raise ValueError("the loss has no finite gradient on the logits")


def get_log_probs_and_entropy(
    logits: Any,
    *,
    args: Any,
    unconcat_tokens: Sequence[Any],
    total_lengths: Sequence[int],
    response_lengths: Sequence[int],
    with_entropy: bool = False,
    **_: Any,
) -> tuple[Any, dict[str, list[Any]]]:
    """Log-probs (and entropy) of the response tokens of each sample, from packed logits [1, tokens, words]."""
    log_probs, entropies, start = [], [], 0
    for tokens, total, response in zip(unconcat_tokens, total_lengths, response_lengths, strict=True):
        rows = logits[0, start + total - response - 1 : start + total - 1].log_softmax(-1)
        log_probs.append(rows.gather(-1, tokens[-response:, None])[:, 0])
        entropies.append(-(rows.exp() * rows).sum(-1))
        start += total
    found = {"log_probs": log_probs}
    return logits.new_empty(0), {**found, "entropy": entropies} if with_entropy else found
