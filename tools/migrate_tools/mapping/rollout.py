"""Sampling and lengths, for training and for evaluation."""

from __future__ import annotations

from migrate_tools.errors import RefusedInput
from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import ROLLOUT, Facts, number_text

PROMPT, RESPONSE = "data.max_prompt_length", "data.max_response_length"
VAL = ROLLOUT + "val_kwargs."
FORK_VAL_N, FORK_VAL_TEMPERATURE = ROLLOUT + "n_val", ROLLOUT + "val_temperature"
"""deepscaler and Skywork-OR1: samples and temperature of validation; zero stands for greedy."""
TRUNCATION, FILTER = "data.truncation", "data.filter_overlong_prompts"


def lengths(facts: Facts) -> tuple[int, int]:
    """Longest prompt and longest response, in tokens.

    Raises:
        RefusedInput: one is no number, or not above zero.
    """
    prompt = (
        facts.integer(
            ROLLOUT + "prompt_length" if facts.is_set(ROLLOUT + "prompt_length") else PROMPT, PROMPT, default=512
        )
        or 0
    )
    response = (
        facts.integer(
            ROLLOUT + "response_length" if facts.is_set(ROLLOUT + "response_length") else RESPONSE,
            RESPONSE,
            default=512,
        )
        or 0
    )
    if prompt < 1 or response < 1:
        raise RefusedInput(f"{PROMPT}={prompt}, {RESPONSE}={response}: lengths must be above 0", "correct the script")
    return prompt, response


TOP_K_SINCE = (0, 7)
"""verl's agent loop passes top_k to the engine since this version."""


def _looped(facts: Facts) -> bool:
    return facts.text(ROLLOUT + "mode", default="sync") == "async"


def _top_k(facts: Facts, key: str) -> int:
    value = facts.integer(key, default=-1) or -1
    ignored = _looped(facts) and facts.version < TOP_K_SINCE
    return value if value > 0 and not ignored else -1


def train_sampling(facts: Facts) -> tuple[float, float, int]:
    """Temperature, top_p and top_k (-1: all tokens) of training rollouts.

    do_sample is read by the Hugging Face rollout alone (verl/workers/rollout/hf_rollout.py:56 1dda039); the engines
    sample in training whatever it says.
    """
    if facts.text(ROLLOUT + "name") == "hf" and not facts.flag(ROLLOUT + "do_sample", default=True):
        return 0.0, 1.0, -1
    temperature = facts.number(ROLLOUT + "temperature", default=1.0)
    return (
        float(temperature or 0.0),
        facts.number(ROLLOUT + "top_p", default=1.0) or 1.0,
        _top_k(facts, ROLLOUT + "top_k"),
    )


def eval_sampling(facts: Facts) -> tuple[float, float, int, int]:
    """Temperature, top_p, top_k and samples a prompt of validation.

    Trees without val_kwargs validate greedily, forks with val_temperature at that temperature. With do_sample false the
    synchronous rollout of verl <= 0.6 decodes greedily whatever the temperature says; the agent loop
    (rollout.mode=async) reads temperature alone.
    """
    if any(facts.has(key) for key in (FORK_VAL_N, FORK_VAL_TEMPERATURE)):
        return facts.number(FORK_VAL_TEMPERATURE) or 0.0, 1.0, -1, facts.integer(FORK_VAL_N, default=1) or 1
    if not any(facts.has(VAL + name) for name in ("temperature", "do_sample", "n", "top_p", "top_k")):
        return 0.0, 1.0, -1, 1
    samples = facts.integer(VAL + "n", default=1) or 1
    if not _looped(facts) and not facts.flag(VAL + "do_sample"):
        return 0.0, 1.0, -1, samples
    temperature = facts.number(VAL + "temperature", default=0.0) or 0.0
    return temperature, facts.number(VAL + "top_p", default=1.0) or 1.0, _top_k(facts, VAL + "top_k"), samples


def place_rollout(draft: Draft) -> None:
    """Write lengths and training sampling."""
    facts = draft.facts
    prompt, response = lengths(facts)
    draft.flag("--rollout-max-prompt-len", prompt, "ROLLOUT", "tokens")
    draft.flag("--rollout-max-response-len", response, "ROLLOUT", "tokens")
    draft.say((PROMPT, ROLLOUT + "prompt_length"), "exact", "--rollout-max-prompt-len", "tokens")
    draft.say((RESPONSE, ROLLOUT + "response_length"), "exact", "--rollout-max-response-len", "tokens")
    _overlong_prompts(draft)
    _engine_length(draft, prompt + response)
    temperature, top_p, top_k = train_sampling(facts)
    draft.flag("--rollout-temperature", number_text(temperature), "ROLLOUT")
    draft.flag("--rollout-top-p", number_text(top_p), "ROLLOUT")
    draft.flag("--rollout-top-k", top_k, "ROLLOUT")
    for name in ("temperature", "top_p", "top_k"):
        draft.say(ROLLOUT + name, "exact", "--rollout-" + name.replace("_", "-"), "sampling of training rollouts")
    if top_k == -1 and (facts.integer(ROLLOUT + "top_k") or -1) > 0:
        draft.say(ROLLOUT + "top_k", "no_effect", (), "the agent loop of this version passes no top_k to the engine")
    if facts.text(ROLLOUT + "name") == "hf":
        reason = "no sampling: temperature 0" if temperature == 0.0 else "temperature decides"
        draft.say(ROLLOUT + "do_sample", "derived", "--rollout-temperature", reason)
    else:
        draft.say(ROLLOUT + "do_sample", "no_effect", (), "verl's engines sample in training whatever it says")


def _overlong_prompts(draft: Draft) -> None:
    facts = draft.facts
    mode = facts.text(TRUNCATION, default="error")
    flag = "--rollout-max-prompt-len"
    if facts.flag(FILTER):
        draft.say(FILTER, "exact", flag, "Relax drops longer prompts when it loads the data")
        draft.say(TRUNCATION, "no_effect", (), "longer prompts are dropped before it could act")
        return
    if mode == "error":
        text = "verl stops at a longer prompt, Relax drops it: the same for data without one"
        draft.say((FILTER, TRUNCATION), "approximate", flag, text)
    else:
        text = f"verl cuts longer prompts ({mode}) and trains on them, Relax drops them"
        draft.say((FILTER, TRUNCATION), "approximate", flag, text, "training")
        draft.note("prompt-truncation", text)


def _engine_length(draft: Draft, needed: int) -> None:
    key = ROLLOUT + "max_model_len"
    keys = (key, ROLLOUT + "engine_kwargs.vllm.max_model_len", ROLLOUT + "engine_kwargs.vllm.max-model-len")
    limit = draft.facts.integer(*keys) if draft.facts.is_set(*keys) else None
    if limit is None:
        return
    draft.flag("--sglang-context-length", limit, "SGLANG", "tokens")
    if limit >= needed:
        draft.say(keys, "exact", "--sglang-context-length", "room of the engine for prompt and response")
    else:
        draft.say(
            keys,
            "approximate",
            "--sglang-context-length",
            f"{limit} tokens are fewer than prompt and response together ({needed}): long prompts get short "
            "responses on both sides",
        )


def place_eval_sampling(draft: Draft) -> None:
    """Write evaluation sampling and lengths; called only when there is an evaluation."""
    facts = draft.facts
    prompt, response = lengths(facts)
    temperature, top_p, top_k, samples = eval_sampling(facts)
    draft.flag("--n-samples-per-eval-prompt", samples, "EVAL")
    draft.flag("--eval-temperature", number_text(temperature), "EVAL")
    draft.flag("--eval-top-p", number_text(top_p), "EVAL")
    draft.flag("--eval-top-k", top_k, "EVAL")
    draft.flag("--eval-max-prompt-len", prompt, "EVAL", "tokens")
    draft.flag("--eval-max-response-len", response, "EVAL", "tokens")
    draft.say((VAL + "n", FORK_VAL_N), "exact", "--n-samples-per-eval-prompt", "samples a prompt in evaluation")
    draft.say(FORK_VAL_TEMPERATURE, "exact", "--eval-temperature", "sampling of evaluation")
    used = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    for name, value in used.items():
        flag = "--eval-" + name.replace("_", "-")
        written = facts.number(VAL + name)
        same = written is None or float(written) == float(value) or (name == "top_k" and written <= 0)
        reason = "sampling of evaluation" if same else "verl ignores it here: greedy decoding, or a loop without top_k"
        draft.say(VAL + name, "exact" if same else "no_effect", flag if same else (), reason)
    if facts.flag(VAL + "do_sample"):
        draft.say(VAL + "do_sample", "automatic", (), "temperature decides")
    else:
        draft.say(VAL + "do_sample", "derived", "--eval-temperature", f"temperature {temperature} in evaluation")
