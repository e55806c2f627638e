"""Right or wrong; a changed answer costs a little."""

import re


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    found = re.findall(r"nswer: (\d+)", solution_str)
    right = bool(found) and found[-1] == ground_truth
    changed = (extra_info or {}).get("changed", 0)
    return {"score": float(right) - 0.1 * changed, "acc": float(right)}
