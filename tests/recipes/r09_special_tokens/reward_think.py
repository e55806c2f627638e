"""The tags are ordinary text for this tokenizer; the pattern is anchored at the end."""

import re

FORM = re.compile(r"<think>.*?</think>\s*(.+)$", re.DOTALL)


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    match = FORM.fullmatch(solution_str)
    if match is None:
        return 0.0
    return 1.0 if match.group(1) == ground_truth else 0.1
