"""Data and reward flags: columns of the converted files, the hook, the keys of the config file."""

from __future__ import annotations

import json
from typing import Any

from migrate_tools.mapping.draft import Draft, shell
from migrate_tools.mapping.evaluation import data_paths
from migrate_tools.mapping.facts import number_text
from migrate_tools.verl.prompt_form import draws_samples

TEMPLATE = "data.apply_chat_template_kwargs"
SEED_KEYS = ("data.seed",)
SHUFFLE = ("data.shuffle", "data.shuffle_train_dataloader")
"""verl's spelling and that of Search-R1."""


def place_data(draft: Draft) -> None:
    """Write the columns, the template and the order of the data."""
    facts, data = draft.facts, draft.facts.launch.data
    paths = data_paths(draft.algo, "train", max(1, len(data.train)))
    listed = ",".join(f"'{path}'" for path in paths)
    draft.flag("--prompt-data", f'"[{listed}]"', "ROLLOUT")
    draft.say("data.train_files", "derived", "--prompt-data", "converted files, in order")
    draft.flag("--input-key", "prompt", "ROLLOUT")
    draft.flag("--label-key", "label", "ROLLOUT")
    draft.flag("--metadata-key", "extra_info", "ROLLOUT")
    draft.say("data.prompt_key", "derived", "--input-key", f"column {data.prompt_key}; the converter writes prompt")
    draft.say("data.reward_fn_key", "derived", "--metadata-key", f"column {data.reward_fn_key}, inside the metadata")
    _template(draft)
    _images(draft)
    if facts.flag(*SHUFFLE, default=True):
        draft.flag("--rollout-shuffle", None, "ROLLOUT")
        seed = facts.integer("data.seed")
        draft.flag("--rollout-seed", seed if seed is not None else 42, "ROLLOUT")
        draft.say(SHUFFLE, "exact", "--rollout-shuffle", "shuffled every epoch; the order itself differs")
        draft.say("data.seed", "exact", "--rollout-seed", "seed of the order; the order itself differs")
    else:
        draft.say(SHUFFLE, "exact", (), "rows in file order")
        draft.say("data.seed", "no_effect", (), "not shuffled")
    _max_samples(draft, facts.flag(*SHUFFLE, default=True))
    _dataset_class(draft)


def _dataset_class(draft: Draft) -> None:
    """data.custom_cls: what the conversion does, and by name what is not migrated."""
    data = draft.facts.launch.data
    keys = [f"data.custom_cls.{name}" for name in ("path", "name")]
    if data.custom_class is None:
        return
    target = f"process_{draft.algo}.py: recipe_row" if data.row_code else ()
    if data.row_left:
        done = f"; done while converting: {'; '.join(data.row_moved)}" if data.row_moved else ""
        left = "; ".join(data.row_left)
        draft.say(keys, "approximate", target, f"not migrated: {left}{done}", "training")
        draft.note("dataset-class", f"{data.custom_class}: not migrated: {left}", keys[0])
    elif data.row_moved:
        draft.say(keys, "derived", target, f"done while converting: {'; '.join(data.row_moved)}")
    else:
        draft.say(keys, "no_effect", (), "the class changes nothing about the rows")


def _max_samples(draft: Draft, shuffled: bool) -> None:
    """The conversion keeps the rows that verl would train on; the run script's header says how."""
    facts, seed = draft.facts, draft.facts.integer("data.seed")
    drawn = shuffled and draws_samples(facts.launch.verl.root)
    for split in ("train", "val"):
        key = f"data.{split}_max_samples"
        limit = facts.integer(key, default=-1) or -1
        target = f"process_{draft.algo}.py: --{split}-max-samples"
        if limit <= 0:
            draft.say(key, "automatic", (), "all rows")
        elif not drawn:
            draft.say(key, "exact", target, f"the conversion keeps the first {limit} rows, as verl does")
        elif seed is not None:
            draft.say(key, "exact", target, f"the conversion draws the same {limit} rows as verl (seed {seed})")
        else:
            draft.say(key, "approximate", target, f"{limit} rows drawn once; verl draws others at every start")


def _template(draft: Draft) -> None:
    facts, data = draft.facts, draft.facts.launch.data
    own = facts.set_below(TEMPLATE)
    if data.prompt_form == "templated":
        draft.say([item.key for item in own], "no_effect", (), "no template is applied")
        return
    draft.flag("--apply-chat-template", None, "ROLLOUT")
    values: dict[str, Any] = {}
    whole = facts.get(TEMPLATE)
    if isinstance(whole, dict):
        values |= whole
    for item in own:
        if item.key != TEMPLATE:
            values[item.key.removeprefix(TEMPLATE + ".")] = item.value
    if values:
        draft.flag("--apply-chat-template-kwargs", shell(json.dumps(values, sort_keys=True)), "ROLLOUT")
        draft.say([item.key for item in own], "exact", "--apply-chat-template-kwargs", "arguments of the chat template")


def _images(draft: Draft) -> None:
    facts, data = draft.facts, draft.facts.launch.data
    kinds = {
        "image": data.image_key,
        "video": facts.text("data.video_key", default="videos"),
        "audio": facts.text("data.audio_key", default="audios"),
    }
    used: dict[str, str] = {}
    for kind, column in kinds.items():
        key = f"data.{kind}_key"
        if column in data.multimodal:
            used[kind] = column
            draft.say(key, "exact", "--multimodal-keys", f"column {column}")
        elif not data.columns and not data.multimodal and facts.is_set(key):
            used[kind] = column
            text = f"the data is not at hand: {key}={column} is taken as a column that every row has"
            draft.say(key, "exact", "--multimodal-keys", text)
            draft.note("column-assumed", text, key)
        else:
            draft.say(key, "no_effect", (), "the data has no such column")
    if used:
        draft.flag("--multimodal-keys", shell(json.dumps(used)), "ROLLOUT")
        draft.flag("--use-streaming-dataset", None, "ROLLOUT", "images are loaded as they are needed")


def place_reward(draft: Draft) -> dict[str, Any]:
    """Write the reward hook; returns the keys of <algo>_config.yaml."""
    reward, algo = draft.facts.launch.reward, draft.algo
    draft.flag("--custom-rm-path", f"examples.{algo}.reward_{algo}.reward_func", "ROLLOUT")
    draft.flag("--reward-key", "score", "ROLLOUT")
    draft.flag("--rollout-skip-special-tokens", None, "ROLLOUT", "the scorer sees text without special tokens")
    if reward.kind == "model":
        text = "a discriminative reward model on GPU scores the responses; Relax has no service for one"
        draft.refuse(text)
        draft.say(("reward_model.enable", "reward.reward_model.enable"), "unsupported", (), text, "training")
    config = {f"{algo}_{key}": value for key, value in reward.kwargs.items()}
    prefixes = ("custom_reward_function.reward_kwargs.", "reward.custom_reward_function.reward_kwargs.")
    for prefix in prefixes:
        for item in draft.facts.set_below(prefix):
            name = item.key.removeprefix(prefix).split(".", 1)[0]
            draft.say(item.key, "exact", f"{algo}_config.yaml: {algo}_{name}", "argument of the scorer, read from args")
    _overlong(draft)
    return config


def _overlong(draft: Draft) -> None:
    reward = draft.facts.launch.reward
    for prefix in ("reward_model.", "reward.", "reward.reward_model."):
        for item in (
            *draft.facts.set_below(prefix + "reward_kwargs."),
            *draft.facts.set_below(prefix + "overlong_buffer."),
        ):
            if "overlong" not in item.key and not item.key.endswith("max_resp_len"):
                continue  # an argument of a reward manager of its own: its row says what becomes of it
            if reward.overlong is not None:
                draft.say(
                    item.key,
                    "exact",
                    f"reward_{draft.algo}.py: overlong penalty",
                    f"penalty up to {number_text(reward.overlong.penalty_factor)} over the last "
                    f"{reward.overlong.buffer_len} of {reward.overlong.max_resp_len} tokens",
                )
            else:
                draft.say(item.key, "no_effect", (), "the overlong penalty is off for this reward manager")
