# Generator expressions, any() and max(), another way to intersect bags of words, translate for punctuation.
GONE = str.maketrans({mark: None for mark in string.punctuation if mark != "-"} | {"-": " "})
ARTICLE = re.compile(r"\b(?:an|a|the)\b")
ANSWER = re.compile(r"<answer>((?:.|\n)*?)</answer>", re.I)


def words(text):
    return ARTICLE.sub(" ", text.lower().translate(GONE)).split()


def token_f1(ours, theirs):
    special = {"yes", "no"}
    if ours != theirs and (" ".join(ours) in special or " ".join(theirs) in special):
        return 0.0
    common = sum(min(ours.count(word), theirs.count(word)) for word in set(ours))
    if not common:
        return 0.0
    precision, recall = common / len(ours), common / len(theirs)
    return 2 * precision * recall / (precision + recall)


def good_form(text):
    balanced = all(
        text.count("<" + tag + ">") == text.count("</" + tag + ">")
        for tag in ("answer", "information", "search", "think")
    )
    return (
        balanced
        and text.strip().startswith("<think>")
        and text.strip().endswith("</answer>")
        and text.count("<answer>") == 1
        and text.count("<search>") == text.count("<information>")
    )


def compute_score(
    data_source, solution_str, ground_truth, extra_info=None, structure_score=0.2, f1_weight=0.5, max_searches=3
):
    targets = ground_truth["target"]
    targets = [targets] if isinstance(targets, str) else targets
    bonus = structure_score if good_form(solution_str) else 0.0
    answers = ANSWER.findall(solution_str)
    if not answers:
        return bonus / 2
    if solution_str.count("<search>") > max_searches:
        return 0.0
    ours = words(answers[-1])
    if any(words(target) == ours for target in targets):
        return 1.0 if bonus or good_form(solution_str) else 1.0 - structure_score
    return round(f1_weight * max((token_f1(ours, words(target)) for target in targets), default=0.0) + bonus, 3)
