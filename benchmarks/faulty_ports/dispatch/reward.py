"""Reward of the dispatch recipe: one scorer for each data source, results of several types, long answers punished."""

import re


def after_think(text):
    return text.split("</think>")[-1].strip()


def arithmetic(text, truth, extra_info):
    """The last number; harder questions count more, a wrong sign counts a little."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", after_think(text).replace(",", ""))
    level = extra_info.get("level", 1)
    if not numbers:
        return {"score": -1.0, "acc": 0.0, "level": level}
    got, want = float(numbers[-1]), float(truth)
    if got == want:
        return {"score": 1.0 + 0.1 * (level - 1), "acc": 1.0, "level": level}
    if want != 0 and got == -want:
        return {"score": -0.5, "acc": 0.0, "level": level}
    return {"score": -1.0, "acc": 0.0, "level": level}


def choice(text, truth):
    """The letter that is named last: (B), B. or a bare B on a line of its own."""
    text = after_think(text)
    found = re.findall(r"\(([A-E])\)|^([A-E])[.:)]?\s*$", text, re.MULTILINE)
    letters = [bracketed or bare for bracketed, bare in found]
    return int(bool(letters) and letters[-1] == truth.strip().upper())


def yes_no(text, truth, strict):
    words = re.findall(r"[a-z]+", after_think(text).lower())
    if not words:
        return False
    if strict and len(words) > 5:
        return False
    decided = [word for word in words if word in ("yes", "no", "true", "false")]
    positive = {"yes", "true"}
    return bool(decided) and (decided[0] in positive) == (truth.lower() in positive)


def ordering(text, truth):
    """Share of neighbours that stand in the right order; truth is a list of names."""
    wanted = list(truth)
    text = after_think(text)
    places = [text.find(name) for name in wanted]
    if -1 in places:
        return 0.0
    right = sum(left < right for left, right in zip(places, places[1:]))
    return right / (len(wanted) - 1)


def compute_score(data_source, solution_str, ground_truth, extra_info=None, strict=False, hint_cost=0.25):
    extra_info = extra_info or {}
    if data_source.startswith("arith"):
        result = arithmetic(solution_str, ground_truth["value"], extra_info)
        if extra_info.get("hint"):
            result["score"] -= hint_cost
        return result
    if data_source in ("quiz", "exam"):
        return choice(solution_str, ground_truth["value"])
    if data_source == "facts":
        return yes_no(solution_str, ground_truth["value"], strict)
    if data_source == "sorting":
        return ordering(solution_str, ground_truth["order"])
    raise NotImplementedError(f"no scorer for {data_source!r}")
