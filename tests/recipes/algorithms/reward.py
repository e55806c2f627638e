"""Answers right or wrong, and whether they end with a full stop."""

import re

NUMBER = re.compile(r"-?\d+")


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    found = NUMBER.findall(solution_str)
    right = bool(found) and found[-1] == str(ground_truth)
    closed = solution_str.strip().endswith(".")
    return {"score": float(right) + 0.1 * float(closed), "acc": float(right), "closed": float(closed)}
