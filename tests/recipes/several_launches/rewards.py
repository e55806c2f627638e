"""Two scorers that disagree on the same text: the last number counts, or the first."""

import re

NUMBER = re.compile(r"-?\d+")


def last_number(data_source, solution_str, ground_truth, extra_info=None):
    found = NUMBER.findall(solution_str)
    return 1.0 if found and found[-1] == str(ground_truth) else 0.0


def first_number(data_source, solution_str, ground_truth, extra_info=None):
    found = NUMBER.findall(solution_str)
    return 1.0 if found and found[0] == str(ground_truth) else 0.0
