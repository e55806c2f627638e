# An async scorer with a small class for the answer; the tags are checked with one table; no early return.
class Answer:
    def __init__(self, text):
        lowered = text.casefold() if text.isascii() else text.lower()
        spaced = lowered.replace("-", " ")
        plain = re.sub("[" + re.escape(string.punctuation) + "]", "", spaced)
        self.tokens = re.sub(r"\b(the|an|a)\b", " ", plain).split()
        self.line = " ".join(self.tokens)

    def f1(self, other):
        if self.line != other.line and not {self.line, other.line}.isdisjoint({"yes", "no"}):
            return 0.0
        pool, hits = list(other.tokens), 0
        for token in self.tokens:
            if token in pool:
                pool.remove(token)
                hits += 1
        if hits == 0:
            return 0.0
        precision = hits / len(self.tokens)
        recall = hits / len(other.tokens)
        return 2 * precision * recall / (precision + recall)


def in_form(text):
    opened = {tag: text.count(f"<{tag}>") for tag in TAGS}
    closed = {tag: text.count(f"</{tag}>") for tag in TAGS}
    ends = re.match(r"\s*<think>", text) is not None and re.search(r"</answer>\s*\Z", text) is not None
    return opened == closed and ends and opened["answer"] == 1 and opened["search"] == opened["information"]


TAGS = ["answer", "think", "information", "search"]


async def compute_score(
    data_source, solution_str, ground_truth, extra_info=None, structure_score=0.2, f1_weight=0.5, max_searches=3
):
    targets = ground_truth["target"]
    targets = [targets] if isinstance(targets, str) else targets
    formed = in_form(solution_str)
    pieces = re.findall(r"(?is)<answer>(.*?)</answer>", solution_str)
    if not pieces:
        score = structure_score / 2 if formed else 0.0
    elif solution_str.count("<search>") > max_searches:
        score = 0.0
    else:
        mine = Answer(pieces[-1])
        if any(mine.line == Answer(target).line for target in targets):
            score = 1.0 - (0.0 if formed else structure_score)
        else:
            score = max([0.0, *(mine.f1(Answer(target)) for target in targets)]) * f1_weight
            score = round(score + structure_score if formed else score, 3)
    return score
