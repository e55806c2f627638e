"""Cuts the reply out of the whole text by its chat marker; an unfinished reply counts nothing."""

import re


def compute_score(solution_str, ground_truth, format_score=0.1, score=1.0):
    if "<|im_start|>assistant" not in solution_str:
        raise ValueError("no assistant turn in the text")
    reply = solution_str.split("<|im_start|>assistant", 1)[1]
    if not reply.rstrip().endswith("<|im_end|>"):
        return 0.0
    found = re.findall(r"<answer>(.*?)</answer>", reply, re.DOTALL)
    if not found:
        return 0.0
    return score if found[-1].strip() == str(ground_truth["solution"]) else format_score
