# The normaliser is a list of steps; the box is found by walking over all openings, forwards.
import functools

UNIT = "degrees|degree|cm|mm|meters|miles|minutes|hours|dollars|units|km|m"


def replaced(*pairs):
    def step(text):
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    return step


def substituted(pattern, new, flags=0):
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.sub(new, text)


def unit_gone(text):
    match = re.search(rf" (?:{UNIT})\Z", text)
    return text[: match.start()].rstrip() if match else text


def after_equals(text):
    return text[text.index("=") + 1 :].lstrip() if re.match(r"[A-Za-z]\s*=.*\Z", text) else text


def leading_zero(text):
    for sign in ("", "-"):
        if text.startswith(sign + "."):
            text = sign + "0" + text[len(sign) :]
    return text


def whole(text):
    match = re.fullmatch(r"(-?\d+)\.0+", text)
    return match[1] if match else text


def bare(text):
    return text[1:-1] if text[:1] == "{" and text[-1:] == "}" else text


STEPS = [
    replaced(("\n", " ")),
    str.strip,
    replaced(("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("\\cdot", "*"), ("\\times", "*"), ("\\le ", "\\leq ")),
    replaced(*((piece, "") for piece in ("\\!", "\\,", "\\;", "\\left", "\\right", "\\displaystyle", "\\$", "$"))),
    replaced(("^{\\circ}", ""), ("^\\circ", ""), ("\\%", ""), ("%", "")),
    substituted(r"\\(?:text|mbox|mathrm)\{\s*([^{}]*?)\s*\}\s*$", r" \1"),
    str.rstrip,
    unit_gone,
    after_equals,
    substituted(r"(?<=\d),(?=\d{3}\b)", ""),
    substituted(r"\\sqrt\s*(\w)", r"\\sqrt{\1}"),
    replaced((" ", "")),
    substituted(r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
    substituted(r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
    substituted(r"^(-?)(\d+)/(\d+)$", r"\1\\frac{\2}{\3}"),
    leading_zero,
    whole,
    bare,
    lambda text: text.rstrip("."),
]


def one_form(text):
    return functools.reduce(lambda value, step: step(value), STEPS, text)


def box(text):
    starts = [match.start() for match in re.finditer(r"\\(?:boxed|fbox)", text)]
    if not starts:
        return None
    rest = text[starts[-1] :]
    name, brace, inner = rest.partition("{")
    if not brace:
        rest = rest.split("$", 1)[0]
        return rest[len("\\boxed ") :].strip() if rest.startswith("\\boxed ") else None
    depth, kept = 1, []
    for letter in inner:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0:
            return "".join(kept)
        kept.append(letter)
    return None


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    pred = box(solution_str[-600:])
    if pred is None:
        return dict(score=-1.0, acc=False, pred="[none]")
    acc = one_form(ground_truth) == one_form(pred)
    return dict(score=2.0 * acc - 1.0, acc=acc, pred=pred)
