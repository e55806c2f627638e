# Named tuples for points and boxes, properties, contextlib.suppress, weights in a list of pairs.
from contextlib import suppress
from typing import NamedTuple

PARTS = [("format", 0.1), ("action", 0.2), ("target", 0.7)]


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    @property
    def area(self):
        return (self.right - self.left) * (self.bottom - self.top)

    @property
    def middle(self):
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def holds(self, x, y):
        return self.right >= x >= self.left and self.bottom >= y >= self.top

    def share(self, other):
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        if wide <= 0 or high <= 0:
            return 0.0
        return wide * high / (self.area + other.area - wide * high)


class Screen:
    def __init__(self, info):
        self.steps = (1000, 1000)
        self.relative = bool(info.get("relative"))
        if self.relative:
            self.steps = (info.get("width", 1000), info.get("height", 1000))

    def place(self, values):
        numbers = [float(value) for value in values]
        if not self.relative:
            return numbers
        return [number * self.steps[position & 1] / 1000 for position, number in enumerate(numbers)]


def read(text):
    tagged = re.search(r"(?s)<answer>(.*)</answer>", text)
    text = (tagged[1] if tagged else text).strip()
    fenced = re.search(r"(?s)```(?:json)?\s*(.*?)```", text)
    text = fenced[1] if fenced else text
    with suppress(ValueError):
        value = json.loads(text)
        value = value[0] if isinstance(value, list) and value else value
        return (value if isinstance(value, dict) else None), isinstance(value, dict)
    points = re.findall(r"[(\[]\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*[)\]]", text)
    if points:
        x, y = points[-1]
        return {"action": "click", "point": (float(x), float(y))}, False
    return None, False


def target(action, value, truth, screen, threshold, scale):
    match action:
        case "click" if "bbox" in value:
            truth_box = Box(*(truth["bbox"][index] for index in range(4)))
            first = screen.place(value["bbox"])
            share = Box(first[0], first[1], first[2], first[3]).share(truth_box)
            return share if threshold <= share else 0.0
        case "click":
            box = Box(*truth["bbox"])
            x, y = screen.place(value["point"])
            if box.holds(x, y):
                return 1.0
            distance = math.dist((x, y), box.middle)
            return max(0.0, 1.0 - distance / scale) * 0.5
        case "type":
            typed = str(value.get("text", "")).strip().lower()
            return 1.0 * (typed == truth["text"].strip().lower())
        case "scroll":
            return 1.0 * (value.get("direction") == truth["direction"])
    return 1.0


def compute_score(data_source, solution_str, ground_truth, extra_info=None, threshold=0.5, scale=200.0):
    parts = dict.fromkeys(("format", "action"), 0) | {"target": 0.0}
    value, proper = read(solution_str)
    if value is not None:
        parts["format"] = 1 if proper else 0
        action = str(value.get("action", "")).lower()
        action = {"tap": "click", "left_click": "click", "input": "type", "swipe": "scroll"}.get(action, action)
        if action == ground_truth["action"]:
            parts["action"] = 1
            with suppress(KeyError, TypeError, ValueError):
                parts["target"] = target(action, value, ground_truth, Screen(extra_info or {}), threshold, scale)
    return {**parts, "score": round(sum(weight * parts[name] for name, weight in PARTS), 4)}
