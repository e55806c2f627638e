"""The order is unusual; a call by position would compare the wrong things."""


def compute_score(ground_truth, solution_str, extra_info=None, data_source=None):
    return 1.0 if solution_str.startswith(ground_truth) else 0.0
