"""For random valid recipes: rows claimed to be the same carry the numbers of an independent calculation."""

from __future__ import annotations

import math
import shlex
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from mapping_launches import ACTOR, DEFAULTS, ROLLOUT, make_launch
from migrate_tools.mapping.effective import argv_of
from migrate_tools.mapping.translate import translate
from migrate_tools.model import Recipe, Translation
from migrate_tools.relax.contract import load_contract

OPTIM = ACTOR + "optim."
VAL = ROLLOUT + "val_kwargs."


@st.composite
def recipes(draw: st.DrawFn) -> dict[str, Any]:
    """Settings that verl accepts: sizes divide each other, ratios are in range."""
    mini = draw(st.sampled_from([8, 16, 32, 64, 128]))
    loss = draw(st.booleans())
    moving = draw(st.booleans())
    found: dict[str, Any] = {
        "algorithm.adv_estimator": "grpo",
        "actor_rollout_ref.model.path": draw(st.sampled_from(["Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-3B", "Qwen/Qwen3-8B"])),
        "data.train_batch_size": mini * draw(st.sampled_from([1, 2, 4, 5])),
        ACTOR + "ppo_mini_batch_size": mini,
        ROLLOUT + "n": draw(st.sampled_from([2, 4, 5, 8, 16])),
        ACTOR + "use_kl_loss": loss,
        ACTOR + "kl_loss_coef": draw(st.sampled_from([0.001, 0.02, 0.5])),
        ACTOR + "kl_loss_type": draw(st.sampled_from(["low_var_kl", "kl", "mse"])),
        ACTOR + "clip_ratio_low": draw(st.sampled_from([0.1, 0.2])),
        ACTOR + "clip_ratio_high": draw(st.sampled_from([0.2, 0.28])),
        ACTOR + "entropy_coeff": draw(st.sampled_from([0, 0.001])),
        ACTOR + "loss_agg_mode": draw(st.sampled_from(["token-mean", "seq-mean-token-mean"])),
        ACTOR + "grad_clip": draw(st.sampled_from([0.5, 1.0])),
        "algorithm.norm_adv_by_std_in_grpo": draw(st.booleans()),
        OPTIM + "lr": draw(st.sampled_from([1e-6, 5e-7, 3e-5])),
        OPTIM + "lr_scheduler_type": "cosine" if moving else "constant",
        OPTIM + "min_lr_ratio": draw(st.sampled_from([0.0, 0.1])),
        OPTIM + "weight_decay": draw(st.sampled_from([0.0, 0.01, 0.1])),
        ROLLOUT + "temperature": draw(st.sampled_from([0.6, 1.0])),
        ROLLOUT + "top_p": draw(st.sampled_from([0.9, 1.0])),
        ROLLOUT + "top_k": draw(st.sampled_from([-1, 40])),
        VAL + "temperature": draw(st.sampled_from([0.0, 0.7])),
        VAL + "n": draw(st.integers(1, 8)),
        "data.max_prompt_length": draw(st.sampled_from([256, 1024])),
        "data.max_response_length": draw(st.sampled_from([128, 4096])),
        "data.filter_overlong_prompts": True,
        "trainer.total_epochs": draw(st.integers(1, 5)),
        "trainer.save_freq": draw(st.sampled_from([-1, 3, 10])),
        "trainer.test_freq": draw(st.sampled_from([-1, 5])),
        "trainer.val_before_train": draw(st.booleans()),
        "trainer.nnodes": draw(st.sampled_from([1, 2])),
    }
    if draw(st.booleans()):
        found[OPTIM + "lr_warmup_steps"] = draw(st.integers(0, 20))
    else:
        found[OPTIM + "lr_warmup_steps_ratio"] = draw(st.sampled_from([0.0, 0.03, 0.1]))
    if draw(st.booleans()):
        found["trainer.total_training_steps"] = draw(st.integers(1, 60))
    return found


def translated(changes: dict[str, Any], policy: str, rows: int | None) -> Translation:
    launch = make_launch(changes, rows=rows)
    recipe = Recipe(name="r", root="/nowhere", project_root="/nowhere", sha256="0" * 64, launches=(launch,))
    return translate(recipe, launch, algo="a", batch_policy=policy, contract=load_contract())  # type: ignore[arg-type]


def steps_of(changes: dict[str, Any], rows: int | None) -> int | None:
    limits = [changes.get("trainer.total_training_steps")]
    if rows is not None:
        limits.append(rows // changes["data.train_batch_size"] * changes["trainer.total_epochs"])
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def rate_of(changes: dict[str, Any], step: int, total: int | None) -> float:
    """verl's learning rate at a step, written down once more."""
    peak, warm = changes[OPTIM + "lr"], changes.get(OPTIM + "lr_warmup_steps") or 0
    if OPTIM + "lr_warmup_steps_ratio" in changes:
        warm = int(changes[OPTIM + "lr_warmup_steps_ratio"] * (total or 0))
    if step < warm:
        return float(peak * step / warm)
    if changes[OPTIM + "lr_scheduler_type"] == "constant":
        return float(peak)
    least = changes[OPTIM + "min_lr_ratio"]
    share = (step - warm) / max(1, (total or 0) - warm)
    return float(peak * max(least, least + (1 - least) * (1 + math.cos(math.pi * share)) / 2))


def expected(changes: dict[str, Any], rows: int | None) -> dict[str, Any]:
    """Numbers that both sides must have where the table says so, from the settings alone."""
    config = {**DEFAULTS, **changes}
    prompts, mini, group = (
        changes["data.train_batch_size"],
        changes[ACTOR + "ppo_mini_batch_size"],
        changes[ROLLOUT + "n"],
    )
    total = steps_of(changes, rows)
    save, test = config["trainer.save_freq"], config["trainer.test_freq"]
    kinds = {"kl": "k1", "mse": "k2", "low_var_kl": "low_var_kl"}
    kl = [["loss", config[ACTOR + "kl_loss_coef"], kinds[config[ACTOR + "kl_loss_type"]]]]
    greedy = config[VAL + "temperature"] == 0.0
    found: dict[str, Any] = {
        "samples a step": {"prompts": prompts, "samples": prompts * group},
        "samples an update": mini * group,
        "updates a step": prompts // mini,
        "KL": kl if config[ACTOR + "use_kl_loss"] else [],
        "clipping": [config[ACTOR + "clip_ratio_low"], config[ACTOR + "clip_ratio_high"]],
        "entropy bonus": config[ACTOR + "entropy_coeff"],
        "loss aggregation": config[ACTOR + "loss_agg_mode"],
        "gradient clipping": config[ACTOR + "grad_clip"],
        "learning rate": config[OPTIM + "lr"],
        "Adam": [0.9, 0.999, config[OPTIM + "weight_decay"]],
        "training sampling": {
            "temperature": config[ROLLOUT + "temperature"],
            "top_p": config[ROLLOUT + "top_p"],
            "top_k": config[ROLLOUT + "top_k"],
        },
        "lengths": {"prompt": config["data.max_prompt_length"], "response": config["data.max_response_length"]},
        "checkpoints": {"prompts": save * prompts, "kept": "all"} if save > 0 else "never",
        "GPUs": config["trainer.nnodes"] * 8,
    }
    if total is not None:
        found["length of training"] = {"updates": total * (prompts // mini)}
        found["prompts seen"] = {"prompts": total * prompts}
    if test > 0:
        before = config["trainer.val_before_train"]
        found["evaluation"] = {"prompts": test * prompts, "before": before, "besides": "at the end"}
        found["evaluation sampling"] = {
            "temperature": config[VAL + "temperature"],
            "top_p": 1.0,
            "top_k": -1 if greedy else config[VAL + "top_k"],
            "n": config[VAL + "n"],
        }
    return found


@settings(max_examples=80, deadline=None, derandomize=True)
@given(changes=recipes(), policy=st.sampled_from(["on-policy", "faithful"]), rows=st.sampled_from([None, 700, 5000]))
def test_rows_that_are_the_same_have_the_numbers_of_the_settings(
    changes: dict[str, Any], policy: str, rows: int | None
) -> None:
    item = translated(changes, policy, rows)
    assert item.refusals == ()
    table = {row.name: row for row in item.effective}
    wanted = expected(changes, rows)
    for name, number in wanted.items():
        row = table[name]
        assert row.verl_value == number, (name, row.verl_value, number)
        if row.same:
            assert row.relax_value == number, (name, row.relax_value, number)
    assert not [row for row in item.effective if not row.explained], item.cap_reasons
    if "evaluation" in wanted:
        cadence = table["evaluation"].relax_value
        assert {**cadence, "besides": "at the end"} == wanted["evaluation"]
    by_policy = {"samples a step", "updates a step", "learning rate advances", "evaluation"}
    for name in set(wanted) - by_policy:
        if name != "length of training" or steps_of(changes, rows) is not None:
            assert table[name].same, (name, table[name])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(changes=recipes(), policy=st.sampled_from(["on-policy", "faithful"]), rows=st.sampled_from([700, 5000]))
def test_the_learning_rate_is_that_of_verl_at_the_start_of_its_steps(
    changes: dict[str, Any], policy: str, rows: int
) -> None:
    total = steps_of(changes, rows)
    assert total is not None
    item = translated(changes, policy, rows)
    row = next(row for row in item.effective if row.name == "learning rate over the run")
    peak = changes[OPTIM + "lr"]
    for step, ours, theirs in zip(
        row.verl_value["steps"], row.verl_value["rates"], row.relax_value["rates"], strict=True
    ):
        assert abs(ours - rate_of(changes, step, total)) <= 1e-6 * peak, step
        assert abs(theirs - rate_of(changes, step, total)) <= 1e-6 * peak, step
    assert row.same


NUMERIC = (
    "--rollout-batch-size",
    "--n-samples-per-prompt",
    "--global-batch-size",
    "--lr",
    "--weight-decay",
    "--clip-grad",
    "--eps-clip",
    "--eps-clip-high",
    "--entropy-coef",
    "--rollout-temperature",
    "--rollout-max-prompt-len",
    "--rollout-max-response-len",
    "--adam-beta1",
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    changes=recipes(),
    policy=st.sampled_from(["on-policy", "faithful"]),
    name=st.sampled_from(NUMERIC),
    factor=st.sampled_from([2, 3]),
)
def test_a_number_that_changes_is_noticed_in_any_recipe(
    changes: dict[str, Any], policy: str, name: str, factor: int
) -> None:
    from migrate_tools.mapping.draft import Draft
    from migrate_tools.mapping.effective import effective_rows
    from migrate_tools.mapping.facts import Facts

    item = translated(changes, policy, None)
    flags = []
    for flag in item.flags:
        if flag.name == name:
            number = float(flag.value or 0)
            altered = number * factor if number else 0.5
            whole = (flag.value or "").isdigit()
            flag = flag.model_copy(update={"value": str(int(altered)) if whole else str(altered)})
        flags.append(flag)
    assert flags != list(item.flags)
    draft = Draft(Facts(make_launch(changes)), load_contract(), "a")
    rows = effective_rows(draft, flags, item.settings)
    before = {row.name: row for row in item.effective}
    assert [row for row in rows if not row.same and before[row.name].relax_value != row.relax_value], name
    doubtful = {row.name for row in rows if not row.explained} - {"dual clip"}
    assert doubtful, name


def test_the_command_line_of_the_table_is_that_of_the_script() -> None:
    item = translated({"data.train_batch_size": 8, ACTOR + "ppo_mini_batch_size": 8, ROLLOUT + "n": 2,
                       "algorithm.adv_estimator": "grpo"}, "on-policy", None)  # fmt: skip
    words = argv_of(item.flags)
    assert words.count("--rollout-batch-size") == 1
    assert all(shlex.split(flag.value)[0] in words for flag in item.flags if flag.value and flag.group != "ASYNC")
