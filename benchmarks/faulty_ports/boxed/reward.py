"""Reward of the boxed recipe: the last boxed expression, put into one form, compared as text."""

import re

UNITS = ("degrees", "degree", "cm", "mm", "meters", "miles", "minutes", "hours", "dollars", "units", "km", "m")
DROPPED = ("\\!", "\\,", "\\;", "\\left", "\\right", "\\displaystyle", "\\$", "$")
RENAMED = (("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("\\cdot", "*"), ("\\times", "*"), ("\\le ", "\\leq "))


def last_boxed(text):
    """What stands in the braces of the last \\boxed or \\fbox; None when there is none or it never ends."""
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if start < 0:
        return None
    opening = text.find("{", start)
    if opening < 0:
        rest = text[start:].split("$")[0]
        return rest.removeprefix("\\boxed ").strip() if rest.startswith("\\boxed ") else None
    depth = 0
    for position in range(opening, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if depth == 0:
                return text[opening + 1 : position]
    return None


def fractions(text):
    """\\frac12, \\frac1{2} and a/b become \\frac{1}{2}."""
    text = re.sub(r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{", text)
    return re.sub(r"^(-?)(\d+)/(\d+)$", r"\1\\frac{\2}{\3}", text)


def without_units(text):
    text = re.sub(r"\\(?:text|mbox|mathrm)\{\s*([^{}]*?)\s*\}\s*$", r" \1", text).rstrip()
    for unit in UNITS:
        if text.endswith(" " + unit):
            return text[: -len(unit)].rstrip()
    return text


def normal(text):
    """One form of an expression; the order of the steps matters."""
    text = text.replace("\n", " ").strip()
    for old, new in RENAMED:
        text = text.replace(old, new)
    for piece in DROPPED:
        text = text.replace(piece, "")
    text = text.replace("^{\\circ}", "").replace("^\\circ", "")
    text = text.replace("\\%", "").replace("%", "")
    text = without_units(text)
    if re.fullmatch(r"[A-Za-z]\s*=.*", text):
        text = text.split("=", 1)[1].lstrip()
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    text = re.sub(r"\\sqrt\s*(\w)", r"\\sqrt{\1}", text)
    text = text.replace(" ", "")
    text = fractions(text)
    if text.startswith("."):
        text = "0" + text
    if text.startswith("-."):
        text = "-0" + text[1:]
    if re.fullmatch(r"-?\d+\.0+", text):
        text = text.split(".")[0]
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    return text.rstrip(".")


def same(left, right):
    return normal(left) == normal(right)


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    found = last_boxed(solution_str[-600:])
    if found is None:
        return {"score": -1.0, "acc": False, "pred": "[none]"}
    correct = same(found, ground_truth)
    return {"score": 1.0 if correct else -1.0, "acc": correct, "pred": found}
