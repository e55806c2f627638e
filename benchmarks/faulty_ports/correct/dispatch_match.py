# match statement, walrus, bisecting loops with zip of iterators; arithmetic through a helper that returns a pair.
from itertools import pairwise

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
LETTER = re.compile(r"\(([A-E])\)|^([A-E])[.:)]?\s*$", flags=re.M)


def judged(text, truth, level):
    if not (numbers := NUMBER.findall(text.replace(",", ""))):
        return -1.0, 0.0
    value, target = float(numbers.pop()), float(truth)
    if value == target:
        return 1.0 + 0.1 * (level - 1), 1.0
    return (-0.5 if target != 0 and value + target == 0 else -1.0), 0.0


def compute_score(data_source, solution_str, ground_truth, extra_info=None, strict=False, hint_cost=0.25):
    info = dict(extra_info or {})
    text = solution_str[solution_str.rfind("</think>") + len("</think>") :] if "</think>" in solution_str else solution_str
    text = text.strip()
    match data_source:
        case "quiz" | "exam":
            letters = ["".join(groups) for groups in LETTER.findall(text)]
            wanted = ground_truth["value"]
            return bool(letters) and letters[-1] == wanted.strip().upper()
        case "facts":
            wanted, words = ground_truth["value"], re.findall(r"[a-z]+", text.lower())
            if strict and len(words) > 5:
                return False
            yes = ("yes", "true")
            first = next((word for word in words if word in (*yes, "no", "false")), None)
            return first is not None and (first in yes) == (wanted.lower() in yes)
        case "sorting":
            order = list(ground_truth["order"])
            places = {name: text.find(name) for name in order}
            if min(places.values(), default=0) < 0:
                return 0.0
            return sum(places[one] < places[two] for one, two in pairwise(order)) / (len(order) - 1)
        case str(source) if source.startswith("arith"):
            level = info.get("level", 1)
            score, acc = judged(text, ground_truth["value"], level)
            if info.get("hint"):
                score = score - hint_cost
            return {"acc": acc, "level": level, "score": score}
    raise NotImplementedError
