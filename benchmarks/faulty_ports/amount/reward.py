"""Reward of the amount recipe: the number after the marker `Total:`, looked for near the end of the answer."""

import re

TAIL = 240
MARKED = re.compile(r"Total\s*:\s*([-+]?\s*\$?\s*\d[\d,]*(?:\.\d+)?)\s*(%)?", re.IGNORECASE)
LOOSE = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def to_plain(text):
    """The number as bare digits: no currency, no thousands, no sign that says nothing."""
    text = text.replace(",", "").replace("$", "").replace(" ", "")
    text = text.removeprefix("+")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text


def extract_amount(answer, method):
    tail = answer[-TAIL:] if len(answer) > TAIL else answer
    if method == "strict":
        found = MARKED.findall(tail)
        if not found:
            return None
        number, percent = found[-1]
        return to_plain(number) + percent
    if method == "flexible":
        numbers = LOOSE.findall(tail)
        return to_plain(numbers[-1]) if numbers else None
    raise ValueError(f"no such method: {method}")


def agrees(got, want, tolerance):
    if got == want:
        return True
    try:
        difference = abs(float(got) - float(want))
    except ValueError:
        return False
    return difference <= tolerance


def compute_score(
    data_source, solution_str, ground_truth, extra_info=None, method="strict", format_score=0.0, tolerance=0.0
):
    info = extra_info or {}
    if info.get("style") == "free":
        method = "flexible"
    got = extract_amount(solution_str, method)
    if got is None:
        return 0
    want = to_plain(str(ground_truth).strip())
    if agrees(got, want, tolerance):
        return 1.0
    if info.get("unit") == "%" and not got.endswith("%") and agrees(got + "%", want, tolerance):
        return 0.5
    return format_score
