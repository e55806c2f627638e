"""Always a dict; nothing in the script says which entry is trained on."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    hit = 1.0 if solution_str.strip().endswith(ground_truth) else 0.0
    return {"score": hit - 0.1 * ("sorry" in solution_str), "acc": hit}
