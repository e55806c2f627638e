"""Reward of the lookup recipe: short answers after searching, with credit for keeping to the tags."""

import re
import string
from collections import Counter

TAGS = ("think", "search", "information", "answer")


def tidy(text):
    """Lower case, no punctuation, no articles, single spaces."""
    text = text.lower()
    text = text.replace("-", " ")
    text = "".join(letter for letter in text if letter not in string.punctuation)
    text = re.sub(r"\b(a|an|the)\b", " ", text)
    return " ".join(text.split())


def exact(prediction, targets):
    if isinstance(targets, str):
        targets = [targets]
    wanted = tidy(prediction)
    for target in targets:
        if tidy(target) == wanted:
            return 1
    return 0


def overlap(prediction, targets):
    """The best token F1 over all targets; yes and no only count when they are the whole answer."""
    if isinstance(targets, str):
        targets = [targets]
    best = 0.0
    mine = tidy(prediction).split()
    for target in targets:
        theirs = tidy(target).split()
        if mine != theirs and ({"yes", "no"} & {" ".join(mine), " ".join(theirs)}):
            continue
        shared = sum((Counter(mine) & Counter(theirs)).values())
        if shared == 0:
            continue
        precision = shared / len(mine)
        recall = shared / len(theirs)
        best = max(best, 2 * precision * recall / (precision + recall))
    return best


def well_formed(text):
    """Every tag is closed, thinking comes first, there is one answer and it is the end of the text."""
    for tag in TAGS:
        if text.count(f"<{tag}>") != text.count(f"</{tag}>"):
            return False
    if not text.lstrip().startswith("<think>"):
        return False
    if text.count("<answer>") != 1:
        return False
    if not text.rstrip().endswith("</answer>"):
        return False
    return text.count("<search>") == text.count("<information>")


def last_answer(text):
    found = list(re.finditer(r"<answer>(.*?)</answer>", text, re.DOTALL | re.IGNORECASE))
    if not found:
        return None
    return found[-1].group(1).strip()


def compute_score(
    data_source, solution_str, ground_truth, extra_info=None, structure_score=0.2, f1_weight=0.5, max_searches=3
):
    targets = ground_truth["target"]
    structured = well_formed(solution_str)
    answer = last_answer(solution_str)
    if answer is None:
        return structure_score / 2 if structured else 0.0
    if solution_str.count("<search>") > max_searches:
        return 0.0
    if exact(answer, targets):
        return 1.0 if structured else 1.0 - structure_score
    score = f1_weight * overlap(answer, targets)
    if structured:
        score += structure_score
    return round(score, 3)
