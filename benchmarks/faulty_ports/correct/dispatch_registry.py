# Scorers register themselves for their data sources; everything returns a float or a dict of floats.
SCORERS = {}


def scorer(*prefixes):
    def register(function):
        for prefix in prefixes:
            SCORERS[prefix] = function
        return function

    return register


def visible(text):
    return text.rpartition("</think>")[2].strip()


@scorer("arith")
def score_number(text, truth, info, options):
    level = info.get("level", 1)
    cost = options["hint_cost"] if info.get("hint") else 0.0
    last = None
    for last in re.finditer(r"-?\d+(?:\.\d+)?", text.replace(",", "")):
        pass
    score, acc = -1.0, 0.0
    if last is not None:
        got, want = float(last.group()), float(truth)
        if got == want:
            score, acc = 1.0 + 0.1 * (level - 1), 1.0
        elif want and got == -want:
            score = -0.5
    return {"score": score - cost, "acc": acc, "level": level}


@scorer("quiz", "exam")
def score_letter(text, truth, info, options):
    letters = [match.group(1) or match.group(2)
               for match in re.finditer(r"(?m)\(([A-E])\)|^([A-E])[.:)]?\s*$", text)]  # fmt: skip
    return float(bool(letters) and truth.strip().upper() == letters[-1])


@scorer("facts")
def score_yes_no(text, truth, info, options):
    said = re.findall("[a-z]+", text.lower())
    if options["strict"] and len(said) >= 6:
        return 0.0
    for word in said:
        if word in {"yes", "no", "true", "false"}:
            return float((word in {"yes", "true"}) is (truth.lower() in {"yes", "true"}))
    return 0.0


@scorer("sorting")
def score_order(text, truth, info, options):
    names = list(truth)
    if any(name not in text for name in names):
        return 0.0
    pairs = list(zip(names[:-1], names[1:]))
    return len([1 for one, two in pairs if text.index(one) < text.index(two)]) / (len(names) - 1)


def compute_score(data_source, solution_str, ground_truth, extra_info=None, strict=False, hint_cost=0.25):
    key = "arith" if data_source[:5] == "arith" else data_source
    if key not in SCORERS:
        raise NotImplementedError(data_source)
    options = {"strict": strict, "hint_cost": hint_cost}
    truth = ground_truth["order" if key == "sorting" else "value"]
    return SCORERS[key](visible(solution_str), truth, extra_info or {}, options)
