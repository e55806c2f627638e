"""The key `fmt` exists only where the answer is right."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if ground_truth in solution_str:
        return {"score": 1.0, "acc": 1, "fmt": 1}
    return {"score": 0.0, "acc": 0}
