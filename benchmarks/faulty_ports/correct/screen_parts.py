# Tag and fence are cut with find and rfind; every kind of action has a function in a table.
NUMBER = r"-?\d+(?:\.\d+)?"
LOOSE = re.compile(rf"(?:\[|\()\s*({NUMBER})\s*,\s*({NUMBER})\s*(?:\]|\))")
SAME = {"click": {"tap", "left_click"}, "type": {"input"}, "scroll": {"swipe"}}


def payload(text):
    start = text.find("<answer>")
    end = text.rfind("</answer>")
    body = text[start + len("<answer>") : end].strip() if 0 <= start and start + len("<answer>") <= end else text.strip()
    parts = body.split("```", 2)
    if len(parts) == 3:
        body = parts[1].removeprefix("json").lstrip()
    return body


def action_of(text):
    body = payload(text)
    try:
        value = json.loads(body)
    except ValueError:
        last = None
        for last in LOOSE.finditer(body):
            pass
        if last is None:
            return None, 0
        return {"action": "click", "point": [float(number) for number in last.groups()]}, 0
    if isinstance(value, list):
        value = value[0] if value else None
    return (value, 1) if isinstance(value, dict) else (None, 0)


def pixels(numbers, info):
    if info.get("relative"):
        wide, high = info.get("width", 1000), info.get("height", 1000)
        return [float(number) * (high if index % 2 else wide) / 1000 for index, number in enumerate(numbers)]
    return list(map(float, numbers))


def clicked(value, truth, info, threshold, scale):
    if "bbox" in value:
        box, truth_box = pixels(value["bbox"], info), truth["bbox"]
        left, top, right, bottom = (truth_box[index] for index in range(4))
        wide = min(box[2], right) - max(box[0], left)
        high = min(box[3], bottom) - max(box[1], top)
        if not (wide > 0 and high > 0):
            return 0.0
        both = wide * high
        union = ((box[2] - box[0]) * (box[3] - box[1]) + (right - left) * (bottom - top)) - both
        ratio = both / union
        return ratio if ratio >= threshold else 0.0
    x, y = pixels(value["point"], info)
    left, top, right, bottom = truth["bbox"]
    if left <= x <= right and top <= y <= bottom:
        return 1.0
    away = math.hypot(x - (left + right) / 2, y - (top + bottom) / 2)
    return 0.5 * max(0.0, 1.0 - away / scale)


def typed(value, truth, info, threshold, scale):
    return 1.0 if str(value.get("text", "")).strip().lower() == truth["text"].strip().lower() else 0.0


def scrolled(value, truth, info, threshold, scale):
    return float(truth["direction"] == value.get("direction"))


TARGETS = {"click": clicked, "type": typed, "scroll": scrolled}


def compute_score(data_source, solution_str, ground_truth, extra_info=None, threshold=0.5, scale=200.0):
    value, proper = action_of(solution_str)
    if value is None:
        return {"score": 0.0, "format": 0, "action": 0, "target": 0.0}
    said = str(value.get("action", "")).lower()
    said = next((name for name, others in SAME.items() if said in others), said)
    hit, target = 0, 0.0
    if said == ground_truth["action"]:
        hit = 1
        function = TARGETS.get(said, lambda *_: 1.0)
        try:
            target = function(value, ground_truth, extra_info or {}, threshold, scale)
        except (LookupError, TypeError, ValueError) as problem:
            if isinstance(problem, IndexError):
                raise
    score = 0.1 * proper + 0.2 * hit + 0.7 * target
    return {"target": target, "action": hit, "format": proper, "score": round(score, 4)}
