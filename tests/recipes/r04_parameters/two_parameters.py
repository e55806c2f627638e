"""Lacks two of the keywords that the reward manager passes: verl itself fails on the first sample."""


def compute_score(solution_str, ground_truth):
    return float(solution_str.strip() == ground_truth)
