# Loops and generators; patterns are compiled where they are used; the method is chosen from a dict of functions.
def tidy_number(raw: str) -> str:
    kept = "".join(letter for letter in raw if letter not in ",$ ")
    if kept[:1] == "+":
        kept = kept[1:]
    head, point, decimals = kept.partition(".")
    if not point:
        return kept
    while kept and kept[-1] == "0":
        kept = kept[:-1]
    while kept and kept[-1] == ".":
        kept = kept[:-1]
    return kept


def marked_amount(text: str):
    last = None
    for last in re.finditer(r"(?i)total\s*:\s*([-+]?\s*\$?\s*\d[\d,]*(?:\.\d+)?)\s*(%)?", text):
        pass
    if last is None:
        return None
    return tidy_number(last[1]) + ("%" if last[2] else "")


def any_amount(text: str):
    matches = [match[0] for match in re.finditer(r"[+-]?\d[\d,]*(\.\d+)?", text)]
    if matches:
        return tidy_number(matches.pop())
    return None


def close(one, other, slack):
    if one != other:
        try:
            return abs(float(one) - float(other)) <= slack
        except ValueError:
            return False
    return True


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **settings):
    details = extra_info if extra_info else {}
    method = "flexible" if details.get("style") == "free" else settings.get("method", "strict")
    reader = {"strict": marked_amount, "flexible": any_amount}.get(method)
    if reader is None:
        raise ValueError(method)
    amount = reader(solution_str[max(0, len(solution_str) - 240) :])
    if amount is None:
        return 0.0
    slack = settings.get("tolerance", 0.0)
    label = tidy_number(str(ground_truth).strip())
    if close(amount, label, slack):
        return 1
    forgotten = details.get("unit") == "%" and amount[-1:] != "%"
    if forgotten and close(f"{amount}%", label, slack):
        return 0.5
    return settings.get("format_score", 0.0)
