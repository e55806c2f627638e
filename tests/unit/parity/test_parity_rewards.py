"""Kinds of rewards and managers: what is compared, what is declared, what cannot be checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from migrate_tools.model import Overlong
from parity_wrapper import WRAPPER

pytestmark = [pytest.mark.jail, pytest.mark.usefixtures("undirected")]

SIMPLE = """
    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        return 1.0 if str(ground_truth) in solution_str else 0.0
"""
ROW = {
    "data_source": "demo",
    "prompt": [{"role": "user", "content": "Question?"}],
    "reward_model": {"style": "rule", "ground_truth": "72"},
    "extra_info": {"index": 0, "split": "train"},
}


def records(frozen: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Cases with the old side's records."""
    return list(zip(frozen.cases(), frozen.outcomes(), strict=True))


def own(frozen: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Cases and old records of the recipe's own rows."""
    return [pair for pair in records(frozen) if pair[0]["row"] < frozen.meta["row_count"]]


def test_random_reward_is_not_checkable(bench: Callable[..., Any]) -> None:
    scorer = "import random\n\ndef compute_score(**_):\n    return random.random()\n"
    result = bench(scorer).check(cases=60)
    assert result.status == "not_checkable"
    assert result.summary.startswith("the old reward is not deterministic: ")


def test_partly_random_reward_leaves_those_cases_out(bench: Callable[..., Any]) -> None:
    scorer = """
        import random

        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return random.random() if "boxed" in solution_str else float(ground_truth in solution_str)
    """
    made = bench(scorer)
    result = made.check(cases=120)
    assert result.status == "passed", result.summary
    assert result.evidence["nondeterministic"] == sum("boxed" in case["raw"] for case in made.freeze().cases()) > 5


def test_exceptions_become_a_declared_difference(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            if not solution_str.strip():
                raise ValueError("empty")
            return 1.0 if ground_truth in solution_str else 0.0
    """
    result = bench(scorer).check(cases=120)
    assert result.status == "passed", result.summary
    declared = result.evidence["declared"]
    assert declared["the old reward raises ValueError; the new one returns the floor"] >= 3
    assert declared["the old reward raises TypeError; the new one returns the floor"] >= 3  # made rows without a text


def test_a_port_that_hides_an_exception_fails(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return float(len(solution_str) and 1 / len(solution_str.strip()))
    """
    port = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return float(len(solution_str) and 1 / max(len(solution_str.strip()), 1))
    """
    result = bench(scorer, port).check(cases=120)
    assert result.status == "failed"
    assert "the old reward raises ZeroDivisionError" in result.evidence["first_mismatches"][0]["why"]


def test_a_reward_that_never_runs_in_verl_is_not_checkable(bench: Callable[..., Any]) -> None:
    result = bench("def compute_score(solution_str, ground_truth):\n    return 1.0\n").check(cases=60)
    assert result.status == "not_checkable"
    assert "so it does not run in verl either: TypeError" in result.summary


def test_endless_loop_times_out_on_both_sides(bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from migrate_tools.parity import oracle

    monkeypatch.setattr(oracle, "CASE_SECONDS", 0.6)
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            while solution_str == "####":
                pass
            return float(ground_truth in solution_str)
    """
    made = bench(scorer)
    result = made.check(cases=60)
    assert result.status == "passed", result.summary
    hanging = sum(case["raw"] == "####" for case in made.freeze().cases())
    assert result.evidence["timed_out_on_both"] == hanging >= 1
    assert f"{hanging} timed out on both sides" in result.summary


def test_a_child_that_sleeps_does_not_hold_the_run(bench: Callable[..., Any]) -> None:
    scorer = """
        import subprocess

        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            if solution_str == "null":
                subprocess.Popen(["sleep", "3600"], start_new_session=True)
            return float(ground_truth in solution_str)
    """
    result = bench(scorer).check(cases=60)
    assert result.status == "passed", result.summary
    assert result.seconds < 30


def test_a_forked_copy_of_the_scorer_reports_nothing(bench: Callable[..., Any]) -> None:
    scorer = """
        import os

        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            if os.fork() == 0:
                return 5.0
            os.wait()
            return float(ground_truth in solution_str)
    """
    frozen = bench(scorer).freeze(cases=60)
    assert frozen.reason == ""
    assert {record["score"] for _, record in own(frozen)} == {0.0, 1.0}


def test_a_scorer_that_ends_its_process(bench: Callable[..., Any]) -> None:
    scorer = """
        import os

        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            if solution_str == "nan":
                os._exit(3)
            return float(ground_truth in solution_str)
    """
    frozen = bench(scorer).freeze(cases=60)
    assert {record["kind"] for case, record in own(frozen) if case["old"] == "nan"} == {"died"}
    assert {record["kind"] for case, record in own(frozen) if case["old"] != "nan"} == {"value"}


def test_math_verify_in_a_thread_is_an_all_zero_failure(bench: Callable[..., Any]) -> None:
    pytest.importorskip("math_verify")
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            try:
                from math_verify import parse, verify
                return float(verify(parse(f"${ground_truth}$"), parse(solution_str)))
            except Exception:
                return 0.0
    """
    rows = [{**ROW, "reward_model": {"style": "rule", "ground_truth": "\\frac{1}{2}"}}]
    result = bench(scorer, rows=rows).check(cases=60)
    assert result.status == "failed"
    assert result.summary == "the new reward is 0 on every case, the old one is not"


def test_special_tokens_are_removed_before_the_old_scorer(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return 1.0 if solution_str.endswith(ground_truth) else 0.0
    """
    made = bench(scorer)
    frozen = made.freeze(cases=120)
    exact = [record["score"] for case, record in records(frozen) if case["raw"] == "72" and case["row"] == 0]
    assert exact == [1.0]
    assert made.check(cases=120).status == "passed"

    from migrate_tools.parity import compare

    kept = (made.stage / "examples/demo/reward_demo.py").read_text(encoding="utf-8")
    (made.stage / "examples/demo/reward_demo.py").write_text(kept.replace("'<|im_end|>', ", ""), encoding="utf-8")
    failed = compare.run_parity(made, made.launch, frozen)
    assert failed.status == "failed"
    assert failed.evidence["first_mismatches"][0]["response"].endswith("<|im_end|>")


def test_old_forks_see_prompt_and_markers(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            answer = solution_str.split("<|im_start|>assistant", 1)[1]
            return float(ground_truth in answer and answer.endswith("<|im_end|>"))
    """
    made = bench(scorer, text="prompt_and_response", skip_special_tokens=False, rows=[ROW])
    frozen = made.freeze(cases=60)
    case, record = next(item for item in records(frozen) if item[0]["raw"] == "72")
    assert case["old"] == ("<|im_start|>user\nQuestion?<|im_end|>\n<|im_start|>assistant\n72<|im_end|>")
    assert record["score"] == 1.0


def test_num_turns_reaches_the_old_scorer_only_where_the_manager_gives_it(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return float(extra_info.get("num_turns", -1))
    """
    made = bench(scorer, num_turns=2)
    frozen = made.freeze(cases=60)
    assert {record["score"] for record in frozen.outcomes()} == {2.0}
    assert made.check(cases=60).status == "failed"  # the port above forgets num_turns


def test_num_turns_is_not_added_by_the_dapo_manager(bench: Callable[..., Any]) -> None:
    scorer = "def compute_score(extra_info=None, **_):\n    return float(extra_info.get('num_turns', -1))\n"
    frozen = bench(scorer, manager="dapo", num_turns=2).freeze(cases=60)
    assert {record["score"] for _, record in own(frozen)} == {-1.0}


def test_overlong_penalty_of_the_dapo_manager(bench: Callable[..., Any]) -> None:
    """Lengths 19..41 with max 40, buffer 20, factor 1: 31 tokens cost 11/20."""
    overlong = Overlong(max_resp_len=40, buffer_len=20, penalty_factor=1.0)
    made = bench(SIMPLE, manager="dapo", overlong=overlong, rows=[ROW])
    frozen = made.freeze(cases=240)
    by_length = {
        case["length"]: record["score"]
        for case, record in records(frozen)
        if case["family"] == "length" and case["raw"] == "#### 72"
    }
    assert by_length == {1: 1.0, 19: 1.0, 20: 1.0, 21: 0.95, 30: 0.5, 39: 1 - 19 / 20, 40: 0.0, 41: 1 - 21 / 20}

    assert made.check().status == "failed"  # a port without the penalty
    penalty = "max(sample.response_length - 20, 0) / 20 * 1.0"
    made.port(SIMPLE, WRAPPER.replace('float(reward["score"])', f'float(reward["score"]) + min(-({penalty}), 0.0)'))
    assert made.check().status == "passed"


def test_async_scorers_are_awaited(bench: Callable[..., Any]) -> None:
    scorer = """
        import asyncio

        async def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            await asyncio.sleep(0)
            return 1.0 if ground_truth in solution_str else 0.0
    """
    made = bench(scorer, is_async=True)
    made.port(scorer, WRAPPER.replace("await asyncio.to_thread(\n            compute_score, ", "await compute_score("))
    result = made.check(cases=120)
    assert result.status == "passed", result.summary
    assert result.evidence["notes"] == {}


@pytest.mark.parametrize(
    "form",
    [
        "class Score:\n    async def __call__(self, **k):\n        return await inner(**k)\ncompute_score = Score()\n",
        "def compute_score(**kw):\n    return inner(**kw)\n",
    ],
    ids=["callable instance", "plain function that returns a coroutine"],
)
def test_hidden_coroutines_are_awaited_and_noted(bench: Callable[..., Any], form: str) -> None:
    scorer = (
        f"async def inner(ground_truth, solution_str, **_):\n    return float(ground_truth in solution_str)\n{form}"
    )
    frozen = bench(scorer).freeze(cases=60)
    first = frozen.outcomes()[0]
    assert first["kind"] == "value"
    assert first["notes"] == ["a plain function returned an awaitable: verl itself would not await it"]


def test_batch_manager_calls_with_lists(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_sources, solution_strs, ground_truths, extra_infos, bonus=0.0):
            return [float(t in s) + bonus for s, t in zip(solution_strs, ground_truths)]
    """
    port = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return float(ground_truth in solution_str) + 0.5
    """
    result = bench(scorer, port, manager="batch", kwargs={"bonus": 0.5}).check(cases=120)
    assert result.status == "passed", result.summary
    assert result.evidence["batch"] == {"calls": 8, "problems": []}


def test_batch_function_that_returns_too_few_values(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_sources, solution_strs, ground_truths, extra_infos):
            return [float(str(t) in s) for s, t in zip(solution_strs, ground_truths)][: max(1, len(solution_strs) - 1)]
    """
    result = bench(scorer, SIMPLE, manager="batch").check(cases=120)
    assert result.status == "failed"
    assert "the batch function returned 7 values for 8 rows" in result.summary


def test_batch_function_whose_scores_depend_on_neighbours(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_sources, solution_strs, ground_truths, extra_infos):
            scores = [float(str(t) in s) for s, t in zip(solution_strs, ground_truths)]
            return [score - (sum(scores) / len(scores) if len(scores) > 1 else 0) for score in scores]
    """
    result = bench(scorer, SIMPLE, manager="batch").check(cases=120)
    assert result.status == "failed"
    assert result.summary.startswith("the old batch function does not score row by row: ")


def test_errors_are_zero_under_the_prime_manager(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            if "boxed" in solution_str:
                raise RuntimeError("no")
            return (ground_truth in solution_str, "second")
    """
    frozen = bench(scorer, manager="prime").freeze(cases=120)
    scores = {("boxed" in case["raw"]): set() for case, _ in records(frozen)}
    for case, record in records(frozen):
        scores["boxed" in case["raw"]].add(record["score"])
    assert scores == {True: {0.0}, False: {0.0, 1.0}}


def test_dict_rewards_are_compared_key_by_key(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            right = ground_truth in solution_str
            return {"score": 1.0 if right else -1.0, "acc": right, "pred": solution_str[:5]}
    """
    assert bench(scorer).check(cases=120).status == "passed"


def test_a_changed_key_of_a_dict_reward_fails(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            right = ground_truth in solution_str
            return {"score": 1.0 if right else -1.0, "fmt": float("boxed" in solution_str)}
    """
    result = bench(scorer, scorer.replace('"boxed"', '"answer"')).check(cases=120)
    assert result.status == "failed"
    assert "key 'fmt': 1.0 became 0.0" in {item["why"] for item in result.evidence["first_mismatches"]}


def test_dict_ground_truths(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return float(any(target in solution_str for target in ground_truth["target"]))
    """
    rows = [{**ROW, "reward_model": {"style": "rule", "ground_truth": {"target": ["Paris", "the capital"]}}}]
    result = bench(scorer, rows=rows).check(cases=120)
    assert result.status == "passed", result.summary
    assert result.evidence["accepted"] >= 0.25


def test_numpy_arrays_where_the_version_gives_them(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            kind = type(ground_truth["target"]).__name__
            return {"ndarray": 2.0, "list": 1.0}[kind] if "Paris" in solution_str else 0.0
    """
    rows = [{**ROW, "reward_model": {"style": "rule", "ground_truth": {"target": ["Paris", "x"]}}}]
    made = bench(scorer, rows=rows, version="0.1")
    assert {record["score"] for _, record in own(made.freeze(cases=60))} == {0.0, 2.0}
    assert made.check(cases=60).status == "failed"  # Relax gives lists


def test_rows_without_extra_info(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return 1.0 if extra_info == {} and ground_truth in solution_str else 0.0
    """
    row = {key: value for key, value in ROW.items() if key != "extra_info"}
    result = bench(scorer, rows=[row]).check(cases=60)
    assert result.status == "passed", result.summary
    assert result.evidence["accepted"] > 0


def test_dispatch_on_two_sources(bench: Callable[..., Any]) -> None:
    scorer = """
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            if data_source == "src_a":
                return 0.5 if ground_truth in solution_str else 0.0
            return {"score": 1.0 if ground_truth in solution_str else 0.0, "acc": 1, "fmt": 0}
    """
    rows = [{**ROW, "data_source": source} for source in ("src_a", "src_b")]
    made = bench(scorer, rows=rows)
    assert made.check(cases=120).status == "passed"

    from migrate_tools.parity import compare, oracle

    made.port(scorer.replace('"src_a"', '"src_A"'))
    result = compare.run_parity(made, made.launch, oracle.load(made.work / "parity" / "run" / "oracle"))
    assert result.status == "failed"
    assert {item["row"] for item in result.evidence["first_mismatches"] if item["row"] < len(rows)} == {0}


def test_missing_package_is_named(bench: Callable[..., Any]) -> None:
    scorer = "import rouge_scorer_of_nobody\n\ndef compute_score(**_):\n    return rouge_scorer_of_nobody.score()\n"
    result = bench(scorer).check(cases=60)
    assert result.status == "not_checkable"
    assert result.summary == (
        "the old reward needs rouge_scorer_of_nobody, not installed here: pip install rouge-scorer-of-nobody"
    )


def test_use_of_a_heavy_package_is_not_hidden_by_a_broad_except(bench: Callable[..., Any]) -> None:
    scorer = """
        import flash_attn

        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            try:
                return float(flash_attn.tensor([1.0]).sum())
            except:
                return 0.0
    """
    frozen = bench(scorer).freeze(cases=60)
    assert frozen.reason == "the old reward needs flash_attn, not installed here: pip install flash-attn"


def test_unknown_manager_is_not_checkable(bench: Callable[..., Any]) -> None:
    result = bench(SIMPLE, manager="MyManager").check(cases=60)
    assert result.status == "not_checkable"
    assert "MyManager" in result.summary


def test_integer_results_are_the_declared_normalisation(bench: Callable[..., Any]) -> None:
    scorer = SIMPLE.replace("1.0", "1").replace("0.0", "0")
    result = bench(scorer).check(cases=60)
    assert result.status == "passed", result.summary


def test_a_port_that_returns_something_else_than_a_float_fails(bench: Callable[..., Any]) -> None:
    wrapper = WRAPPER.replace('reward["score"] = float(reward["score"])', 'reward["score"] = int(reward["score"])')
    result = bench(SIMPLE, wrapper=wrapper).check(cases=60)
    assert result.status == "failed"
    assert "the reward is a int, not a Python float" in result.summary
