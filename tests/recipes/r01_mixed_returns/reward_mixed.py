"""One source is scored by a number, the other by a dict."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    hit = ground_truth in solution_str
    if data_source == "src_a":
        return 0.5 if hit else 0.0
    return {"score": 1.0 if hit else 0.0, "acc": int(hit), "fmt": int(solution_str.startswith("Answer"))}
