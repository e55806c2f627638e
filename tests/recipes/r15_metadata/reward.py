"""Dispatches on data_source, which is only a top-level column; the truth is a dict for some sources, text for one."""


def exact(text, truth):
    return 1.0 if text.strip() == truth else 0.0


def any_of(text, truth):
    return 1.0 if any(target in text for target in truth["target"]) else 0.0


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if data_source == "exact":
        return exact(solution_str, ground_truth["target"][0])
    if data_source == "exact_text":
        return exact(solution_str, ground_truth)
    if data_source == "any_of":
        return any_of(solution_str, ground_truth)
    raise NotImplementedError(data_source)
