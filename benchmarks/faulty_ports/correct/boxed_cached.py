# Labels are put into the one form once (cached); positions of braces are collected first; early returns.
from functools import lru_cache
from itertools import accumulate

RENAME = {"\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\cdot": "*", "\\times": "*", "\\le ": "\\leq "}
DROP = ["\\!", "\\,", "\\;", "\\left", "\\right", "\\displaystyle", "\\$", "$", "^{\\circ}", "^\\circ", "\\%", "%"]
ENDINGS = tuple(f" {unit}" for unit in "degrees degree cm mm meters miles minutes hours dollars units km m".split())
TEXT = re.compile(r"\\(text|mbox|mathrm)\{\s*([^{}]*?)\s*\}\s*$")


@lru_cache(maxsize=4096)
def canonical(text):
    text = text.replace("\n", " ").strip()
    for old in RENAME:
        text = text.replace(old, RENAME[old])
    for piece in DROP:
        text = "".join(text.split(piece))
    text = TEXT.sub(lambda match: " " + match.group(2), text).rstrip()
    ending = next((item for item in ENDINGS if text.endswith(item)), None)
    if ending:
        text = text.removesuffix(ending[1:]).rstrip()
    named = re.fullmatch(r"[A-Za-z]\s*=(.*)", text)
    if named:
        text = named.group(1).lstrip()
    text = re.sub(r"(\d),(?=\d{3}\b)", r"\1", text)
    text = re.sub(r"\\sqrt\s*(?P<one>\w)", r"\\sqrt{\g<one>}", text)
    text = "".join(text.split(" "))
    text = re.sub(r"\\frac\s*(\d)\s*(\d)", lambda match: "\\frac{%s}{%s}" % match.groups(), text)
    text = re.sub(r"\\frac\s*(\d)\s*(?=\{)", lambda match: "\\frac{%s}" % match.group(1), text)
    text = re.sub(r"^(-?)(\d+)/(\d+)$", lambda match: "%s\\frac{%s}{%s}" % match.groups(), text)
    text = re.sub(r"\A(-?)\.", r"\g<1>0.", text)
    text = re.sub(r"\A(-?\d+)\.0+\Z", r"\1", text)
    if text[:1] + text[-1:] == "{}":
        text = text[1:-1]
    while text.endswith("."):
        text = text[:-1]
    return text


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    tail = solution_str[-600:]
    failed = {"score": -1.0, "acc": False, "pred": "[none]"}
    start = max(tail.rfind(command) for command in ("\\fbox", "\\boxed"))
    if start == -1:
        return failed
    tail = tail[start:]
    if "{" not in tail:
        if not tail.startswith("\\boxed "):
            return failed
        pred = tail[7:].split("$")[0].strip()
    else:
        tail = tail[tail.index("{") :]
        depths = list(accumulate((letter == "{") - (letter == "}") for letter in tail))
        if 0 not in depths:
            return failed
        pred = tail[1 : depths.index(0)]
    right = canonical(pred) == canonical(ground_truth)
    return {"pred": pred, "acc": right, "score": 1.0 if right else -1.0}
