"""Takes settings whose names are also flags of the trainer."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None, lr=1.0, bonus=0.0):
    if solution_str.strip() == ground_truth:
        return 1.0 + bonus
    return lr if ground_truth in solution_str else 0.0
