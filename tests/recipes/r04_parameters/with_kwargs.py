"""Takes the two that it needs and lets the rest go by."""


def compute_score(solution_str, ground_truth, **kwargs):
    return float(solution_str.strip() == ground_truth)
