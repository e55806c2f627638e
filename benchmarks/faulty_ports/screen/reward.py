"""Reward of the screen recipe: an action on a screenshot as JSON, scored in parts."""

import json
import math
import re

WEIGHTS = {"format": 0.1, "action": 0.2, "target": 0.7}
POINT = re.compile(r"[\[(]\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*[\])]")
ALIASES = {"tap": "click", "left_click": "click", "input": "type", "swipe": "scroll"}


def answer_part(text):
    match = re.search(r"<answer>(.*)</answer>", text, re.DOTALL)
    return match.group(1).strip() if match else text.strip()


def parse(text):
    """The action as a dict, and whether it was proper JSON; loose text still gives a point."""
    body = answer_part(text)
    fence = re.search(r"```(?:json)?\s*(.*?)```", body, re.DOTALL)
    if fence:
        body = fence.group(1)
    try:
        value = json.loads(body)
    except ValueError:
        points = POINT.findall(body)
        if not points:
            return None, False
        return {"action": "click", "point": [float(points[-1][0]), float(points[-1][1])]}, False
    if isinstance(value, list) and value:
        value = value[0]
    return (value, True) if isinstance(value, dict) else (None, False)


def inside(point, box):
    x, y = point
    left, top, right, bottom = box
    return left <= x <= right and top <= y <= bottom


def closeness(point, box, scale):
    """1 in the box, else falling with the distance to its middle, 0 from `scale` on."""
    if inside(point, box):
        return 1.0
    middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    distance = math.hypot(point[0] - middle[0], point[1] - middle[1])
    return max(0.0, 1.0 - distance / scale) * 0.5


def iou(first, second):
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    area = (first[2] - first[0]) * (first[3] - first[1]) + (second[2] - second[0]) * (second[3] - second[1])
    return shared / (area - shared)


def to_pixels(values, info):
    """Coordinates given in thousandths, as pixels."""
    if not info.get("relative"):
        return [float(value) for value in values]
    sizes = (info.get("width", 1000), info.get("height", 1000))
    return [float(value) * sizes[index % 2] / 1000 for index, value in enumerate(values)]


def target_score(action, value, truth, info, threshold, scale):
    if action == "click":
        if "bbox" in value:
            found = iou(to_pixels(value["bbox"], info), truth["bbox"])
            return found if found >= threshold else 0.0
        return closeness(to_pixels(value["point"], info), truth["bbox"], scale)
    if action == "type":
        return float(str(value.get("text", "")).strip().lower() == truth["text"].strip().lower())
    if action == "scroll":
        return 1.0 if value.get("direction") == truth["direction"] else 0.0
    return 1.0


def compute_score(data_source, solution_str, ground_truth, extra_info=None, threshold=0.5, scale=200.0):
    info = extra_info or {}
    value, proper = parse(solution_str)
    if value is None:
        return {"score": 0.0, "format": 0, "action": 0, "target": 0.0}
    parts = {"format": int(proper), "action": 0, "target": 0.0}
    action = str(value.get("action", "")).lower()
    action = ALIASES.get(action, action)
    if action == ground_truth["action"]:
        parts["action"] = 1
        try:
            parts["target"] = target_score(action, value, ground_truth, info, threshold, scale)
        except (KeyError, TypeError, ValueError):
            parts["target"] = 0.0
    score = sum(WEIGHTS[name] * parts[name] for name in WEIGHTS)
    return {"score": round(score, 4), **parts}
