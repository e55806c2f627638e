"""A batch function that loses the last row."""


def compute_score(data_sources, solution_strs, ground_truths, extra_infos):
    return [1.0 if truth in text else 0.0 for text, truth in zip(solution_strs[:-1], ground_truths)]
