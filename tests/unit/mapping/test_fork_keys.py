"""Settings under the names that forks and other releases of verl give them."""

from __future__ import annotations

import pytest
from mapping_launches import BASE, ROLLOUT, Make, flag_values, make_launch, outcome
from migrate_tools.mapping.facts import Facts
from migrate_tools.mapping.rollout import eval_sampling
from migrate_tools.mapping.translate import translate
from migrate_tools.model import Note, Recipe
from migrate_tools.relax.contract import FlagContract

SGLANG = ROLLOUT + "engine_kwargs.sglang."
EVAL = {"trainer.test_freq": 5}


def test_search_r1_shuffles_under_a_key_of_its_own(make: Make) -> None:
    item = make({"data.shuffle_train_dataloader": False}, drop=("data.shuffle",))
    assert "--rollout-shuffle" not in flag_values(item)
    assert outcome(item, "data.shuffle_train_dataloader") == ("exact", "none")


def test_agent_r1_counts_samples_in_the_mini_batch(make: Make) -> None:
    item = make({ROLLOUT + "n": 1, ROLLOUT + "n_repeat": 4})
    flags = flag_values(item)
    assert (flags["--n-samples-per-prompt"], flags["--global-batch-size"]) == ("4", "128")


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({ROLLOUT + "n_val": 16, ROLLOUT + "val_temperature": 0.6}, (0.6, 1.0, -1, 16)),
        ({ROLLOUT + "n_val": 8}, (0.0, 1.0, -1, 8)),
        ({ROLLOUT + "val_temperature": 0.3}, (0.3, 1.0, -1, 1)),
    ],
)
def test_deepscaler_validates_under_keys_of_its_own(settings: dict[str, float], wanted: tuple[float, ...]) -> None:
    assert eval_sampling(Facts(make_launch({**BASE, **settings}))) == wanted


def test_validation_keys_of_a_fork_become_flags(make: Make) -> None:
    item = make({**EVAL, ROLLOUT + "n_val": 16, ROLLOUT + "val_temperature": 0.6})
    flags = flag_values(item)
    assert (flags["--n-samples-per-eval-prompt"], flags["--eval-temperature"]) == ("16", "0.6")
    assert outcome(item, ROLLOUT + "n_val") == ("exact", "none")
    assert outcome(make({ROLLOUT + "n_val": 16}), ROLLOUT + "n_val") == ("no_effect", "none")


def test_arguments_of_sglang_keep_their_name(make: Make) -> None:
    item = make(
        {
            SGLANG + "chunked_prefill_size": 4096,
            SGLANG + "disable_radix_cache": True,
            SGLANG + "disable_cuda_graph": False,
            SGLANG + "no_such_thing": 1,
            SGLANG + "max_running_requests": 7,
            ROLLOUT + "max_num_seqs": 64,
        }
    )
    flags = flag_values(item)
    assert flags["--sglang-chunked-prefill-size"] == "4096"
    assert flags["--sglang-disable-radix-cache"] is None
    assert "--sglang-disable-cuda-graph" not in flags
    assert flags["--sglang-max-running-requests"] == "64"
    assert outcome(item, SGLANG + "chunked_prefill_size") == ("exact", "speed")
    assert outcome(item, SGLANG + "max_running_requests") == ("derived", "speed")
    assert outcome(item, SGLANG + "no_such_thing") == ("approximate", "speed")


def test_a_mapping_is_as_good_as_its_leaves(make: Make) -> None:
    key = "actor_rollout_ref.model.override_config"
    assert outcome(make({key: {"attn_implementation": "sdpa"}}), key) == ("no_effect", "speed")
    assert outcome(make({key: {"attn_implementation": "sdpa", "rope_theta": 1e6}}), key) == ("approximate", "training")


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("trainer.rejection_sample", True, ("unsupported", "training")),
        ("trainer.rejection_sample", False, ("no_effect", "none")),
        ("data.filter_accuracy", True, ("unsupported", "training")),
        ("reward_model.reward_kwargs.metric_weights.accuracy", 1, ("unsupported", "training")),
        ("trainer.v1.trainer_mode", "sync", ("exact", "none")),
        ("trainer.v1.trainer_mode", "separate_async", ("approximate", "training")),
        ("reward_model.use_pbrs", False, ("unknown", "training")),
        ("critic.grad_clip", 0.5, ("no_effect", "none")),
    ],
)
def test_rows_of_recipes_and_forks(make: Make, key: str, value: object, wanted: tuple[str, str]) -> None:
    assert outcome(make({key: value}), key) == wanted


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("critic.grad_clip", 0.5, ("approximate", "training")),
        ("critic.grad_clip", 1.0, ("automatic", "none")),
        ("critic.shuffle", True, ("approximate", "none")),
        ("critic.fsdp.param_offload", True, ("automatic", "speed")),
        ("critic.unheard_of", 1, ("unknown", "training")),
    ],
)
def test_rows_of_the_critic(make: Make, key: str, value: object, wanted: tuple[str, str]) -> None:
    assert outcome(make({"algorithm.adv_estimator": "gae", key: value}), key) == wanted


def test_without_a_composed_configuration_the_verdict_is_partial_at_best(contract: FlagContract) -> None:
    for notes, cap in (((), "verified"), ((Note(code="config-not-composed", text="no such group"),), "partial")):
        launch = make_launch(BASE).model_copy(update={"notes": notes})
        recipe = Recipe(name="r", root="/n", project_root="/n", sha256="0", launches=(launch,))
        assert translate(recipe, launch, algo="a", contract=contract).verdict_cap == cap


def test_distillation_is_refused_by_name(make: Make) -> None:
    item = make({"distillation.enabled": True, "distillation.nnodes": 1})
    assert any("distillation.enabled" in text for text in item.refusals)
    assert outcome(item, "distillation.enabled") == ("unsupported", "training")
    assert outcome(item, "distillation.nnodes") == ("no_effect", "none")
    assert not make({"distillation.enabled": False}).refusals
