"""Right or wrong, and a little for using few turns."""

import re


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    found = re.findall(r"nswer: (\d+)", solution_str)
    right = bool(found) and found[-1] == ground_truth
    turns = (extra_info or {}).get("num_turns", 2)
    return {"score": float(right) - 0.01 * max(0, turns - 2), "acc": float(right)}
