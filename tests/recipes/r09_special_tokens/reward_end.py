"""Demands the end-of-turn marker, which verl removes before it scores: always 0 there."""

import re


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return 1.0 if re.search(r"<\|im_end\|>\s*$", solution_str) else 0.0
