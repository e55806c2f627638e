"""math_verify limits its time with the alarm signal, which only the main thread may set."""

from math_verify import parse, verify


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    try:
        gold = parse("$" + ground_truth + "$")
        answer = parse(solution_str)
        return 1.0 if verify(gold, answer) else 0.0
    except Exception:
        return 0.0
