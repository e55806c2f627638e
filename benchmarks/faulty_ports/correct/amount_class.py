"""A port as a person might write it: a class, no thread, settings read from args, one pass over special tokens."""

import re
from dataclasses import dataclass

SPECIAL = re.compile(r"<\|(?:im_end|im_start|endoftext|object_ref_start|object_ref_end|box_start|box_end|quad_start|"
                     r"quad_end|vision_start|vision_end|vision_pad|image_pad|video_pad)\|>")  # fmt: skip
HIDDEN = {"data_source", "ability", "_timing", "reward_error", "request_id", "rollout_traces", "rollout_turns"}


@dataclass(frozen=True)
class AmountReward:
    format_score: float = 0.1
    tolerance: float = 0.01
    tail: int = 240

    marked = re.compile(r"\bTotal\s*:\s*([-+]?\s*\$?\s*\d[\d,]*(?:\.\d+)?)\s*(%)?|Total\s*:\s*([-+]?\s*\$?\s*\d[\d,]*"
                        r"(?:\.\d+)?)\s*(%)?", re.I)  # fmt: skip
    loose = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")

    @staticmethod
    def plain(text: str) -> str:
        text = text.translate(str.maketrans("", "", ",$ "))
        text = text[1:] if text.startswith("+") else text
        return text.rstrip("0").rstrip(".") if "." in text else text

    def read(self, response: str, free: bool) -> str | None:
        end = response[-self.tail :]
        if free:
            numbers = self.loose.findall(end)
            return self.plain(numbers[-1]) if numbers else None
        groups = [match.groups(default="") for match in self.marked.finditer(end)]
        if not groups:
            return None
        first, percent, second, other_percent = groups[-1]
        return self.plain(first or second) + (percent or other_percent)

    def equal(self, left: str, right: str) -> bool:
        if left == right:
            return True
        try:
            return abs(float(right) - float(left)) <= self.tolerance
        except ValueError:
            return False

    def __call__(self, response: str, label, details: dict) -> float:
        got = self.read(response, details.get("style") == "free")
        if got is None:
            return 0.0
        want = self.plain(str(label).strip())
        if self.equal(got, want):
            return 1.0
        if details.get("unit") == "%" and not got.endswith("%") and self.equal(got + "%", want):
            return 0.5
        return self.format_score


async def reward_func(args, sample, **kwargs):
    """A number for every Sample, in the order given; a scorer that fails is worth 0."""
    if isinstance(sample, list):
        return [await reward_func(args, item) for item in sample]
    scorer = AmountReward(
        format_score=getattr(args, "amount_format_score", 0.1), tolerance=getattr(args, "amount_tolerance", 0.01)
    )
    details = {key: value for key, value in (sample.metadata or {}).items() if key not in HIDDEN}
    try:
        score = scorer(SPECIAL.sub("", sample.response or ""), sample.label, details)
    except Exception:
        score = 0.0
    return {"score": score, "acc": score}
