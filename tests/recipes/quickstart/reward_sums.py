"""Reward of the quickstart recipe: the last number in the answer line, and a little for the form."""

import re

ANSWER = re.compile(r"[Aa]nswer:\s*\$?(-?[0-9][0-9,]*(?:\.[0-9]+)?)")


def last_answer(text):
    found = ANSWER.findall(text)
    if not found:
        return None
    return found[-1].replace(",", "")


def same_number(left, right):
    try:
        return abs(float(left) - float(right)) < 1e-6
    except ValueError:
        return left == right


def compute_score(data_source, solution_str, ground_truth, extra_info=None, form_reward=0.1):
    """1 for the right number, `form_reward` for a wrong number in the right form, else 0."""
    answer = last_answer(solution_str[-300:])
    if answer is None:
        return {"score": 0.0, "acc": 0.0, "pred": ""}
    right = same_number(answer, ground_truth)
    return {"score": 1.0 if right else form_reward, "acc": float(right), "pred": answer}
