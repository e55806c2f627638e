"""The mean of what the teacher gave, and a little for a right answer at the end."""

import re


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    scores = (extra_info or {}).get("turn_scores") or [0.0]
    found = re.findall(r"(?:nswer: |answer is )(\d+)", solution_str)
    right = bool(found) and found[-1] == ground_truth
    return {"score": sum(scores) / len(scores) + 0.1 * right, "acc": float(right)}
