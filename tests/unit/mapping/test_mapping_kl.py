"""KL placement by version and by estimator."""

from __future__ import annotations

import pytest
from mapping_launches import ACTOR, Make, flag_values, outcome

IN_REWARD, COEF = "algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef"
IN_LOSS, LOSS_COEF, TYPE = ACTOR + "use_kl_loss", ACTOR + "kl_loss_coef", ACTOR + "kl_loss_type"
ESTIMATOR = "algorithm.adv_estimator"


def test_r21a_both_set_but_only_the_loss_is_active(make: Make) -> None:
    item = make({IN_LOSS: True, LOSS_COEF: 0.001, COEF: 0.001})
    values = flag_values(item)
    assert values["--use-kl-loss"] is None
    assert (values["--kl-loss-coef"], values["--kl-coef"]) == ("0.001", "0.0")
    assert outcome(item, COEF)[0] == "no_effect"
    assert item.verdict_cap == "verified"


def test_r21b_old_tree_puts_it_into_the_reward(make: Make) -> None:
    item = make({COEF: 0.001}, drop=(IN_REWARD,), version="0.1")
    values = flag_values(item)
    assert "--use-kl-loss" not in values
    assert outcome(item, COEF) == ("unsupported", "training")
    assert any("does not apply --kl-coef" in note.text for note in item.notes)
    assert item.verdict_cap == "partial"
    row = next(row for row in item.effective if row.name == "KL")
    assert (row.verl, row.same) == ("in the reward, 0.001 x k1", False)
    assert "ignores" in row.relax


def test_r21c_new_version_has_no_kl_then(make: Make) -> None:
    item = make({IN_LOSS: False, LOSS_COEF: 0.001})
    values = flag_values(item)
    assert "--use-kl-loss" not in values
    assert (values["--kl-loss-coef"], values["--kl-coef"]) == ("0.0", "0.0")
    assert outcome(item, LOSS_COEF)[0] == "no_effect"


def test_r21c_old_version_has_it_in_the_reward(make: Make) -> None:
    item = make({IN_LOSS: False, LOSS_COEF: 0.001}, drop=(IN_REWARD,), version="0.2")
    assert any(note.code == "R21-kl-by-version" for note in item.notes)
    assert next(row for row in item.effective if row.name == "KL").verl.startswith("in the reward, 0.001")


def test_kl_loss_with_coefficient_zero_is_no_kl(make: Make) -> None:
    item = make({IN_LOSS: True, LOSS_COEF: 0.0})
    assert "--use-kl-loss" not in flag_values(item)
    assert "reference" not in (item.gpus.async_split if item.gpus else {})


def test_both_places_at_once_keep_the_loss(make: Make) -> None:
    item = make({IN_LOSS: True, IN_REWARD: True})
    values = flag_values(item)
    assert (values["--kl-loss-coef"], values["--kl-coef"]) == ("0.001", "0.0")
    assert outcome(item, IN_REWARD) == ("unsupported", "training")


@pytest.mark.parametrize(
    ("kind", "flag", "status"),
    [
        ("kl", "k1", "exact"),
        ("mse", "k2", "exact"),
        ("low_var_kl", "low_var_kl", "exact"),
        ("k3", "low_var_kl", "exact"),
        ("k3+", "k2", "approximate"),
        ("abs", "k1", "exact"),
    ],
)
def test_kl_types(make: Make, kind: str, flag: str, status: str) -> None:
    item = make({IN_LOSS: True, TYPE: kind})
    assert flag_values(item)["--kl-loss-type"] == flag
    assert outcome(item, TYPE)[0] == status


def test_abs_is_computed_by_the_loss_hook(make: Make) -> None:
    item = make({IN_LOSS: True, TYPE: "abs"})
    assert flag_values(item)["--loss-type"] == "custom_loss"
    assert item.hooks[0].constants["OWN_KL"] == "abs"


def test_reinforce_plus_plus_with_kl_in_the_loss_only(make: Make) -> None:
    item = make({ESTIMATOR: "reinforce_plus_plus", IN_LOSS: True, LOSS_COEF: 0.002, TYPE: "mse"})
    values = flag_values(item)
    assert (values["--kl-coef"], values["--kl-loss-coef"], values["--kl-loss-type"]) == ("0.0", "0.002", "k2")
    assert outcome(item, IN_LOSS) == ("exact", "none")
    assert item.verdict_cap == "verified"


def test_reinforce_plus_plus_with_kl_in_both_places(make: Make) -> None:
    item = make(
        {ESTIMATOR: "reinforce_plus_plus", IN_LOSS: True, IN_REWARD: True, "algorithm.kl_penalty": "low_var_kl"}
    )
    values = flag_values(item)
    assert (values["--kl-coef"], values["--kl-loss-coef"], values["--kl-loss-type"]) == ("0.001", "0.0", "k1")
    assert outcome(item, IN_LOSS) == outcome(item, "algorithm.kl_penalty") == ("unsupported", "training")


def test_reinforce_plus_plus_with_its_own_kl_is_exact(make: Make) -> None:
    item = make({ESTIMATOR: "reinforce_plus_plus", IN_REWARD: True, COEF: 0.01})
    assert flag_values(item)["--kl-coef"] == "0.01"
    assert outcome(item, IN_REWARD) == ("exact", "none")


def test_baseline_takes_any_kl_loss(make: Make) -> None:
    item = make({ESTIMATOR: "reinforce_plus_plus_baseline", IN_LOSS: True, TYPE: "low_var_kl"})
    assert flag_values(item)["--kl-loss-type"] == "low_var_kl"
    assert outcome(item, TYPE)[0] == "exact"


def test_adaptive_coefficient_is_named(make: Make) -> None:
    item = make({ESTIMATOR: "reinforce_plus_plus", IN_REWARD: True, "algorithm.kl_ctrl.type": "adaptive"})
    assert outcome(item, "algorithm.kl_ctrl.type") == ("unsupported", "training")
