"""Rules by which no input can tell a changed reward from the right one: where they hold, and where they must not."""

from __future__ import annotations

import ast

import pytest
from migrate_tools.parity import faults, power, settled
from migrate_tools.parity.beyond import beyond_a_case
from migrate_tools.parity.mutation import Code

FIRST, LISTED = "first for last match", "only the first of a list"
ONE_COMPLETION = """
def part(completions, answer):
    found = [completion[0]["content"] for completion in completions]
    rewards = []
    for response, wanted in zip(found, answer, strict=False):
        if not wanted:
            rewards.append(0.0)
            continue
        rewards.append(float(response == wanted))
    return rewards


def compute_score(text, answer):
    completions = [[{"content": text}]]
    return part(completions, [answer])[0]
"""
"""Lists of one item each: the messages, the completions, the rewards."""
POOL = """
def work(gold, text):
    from checker import verify

    return verify(gold, text)


def score(text, gold):
    pool = ProcessPoolExecutor(mp_context=get_context("spawn"))
    return pool.submit(work, gold, text).result(timeout=LIMIT)
"""
TAGS = """
def tags(text):
    opened = text.count("<a>")
    closed = text.count("</a>")
    return opened, closed


def score(text):
    opened, closed = tags(text)
    print(opened)
    if opened > 10 or closed > 10:
        return 0.25
    return 1.0
"""


def judged(source: str, operator: str) -> list[tuple[str, str]]:
    """The seeded faults of one kind, before -> after, each with its rule."""
    found = [item for item in faults.seed_faults(source, each=99, most=999) if item.operator == operator]
    assert found, source
    return [(f"{item.before} -> {item.after}", item.equivalent) for item in found]


def rules(source: str, operator: str) -> set[str]:
    return {why for _, why in judged(source, operator)}


def test_the_first_of_a_list_of_one_is_its_last() -> None:
    assert rules(ONE_COMPLETION, FIRST) == {"the list has one item at most"}
    listed = dict(judged(ONE_COMPLETION, LISTED))
    assert listed["completions -> list(completions)[:1]"] == "the list has one item at most"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('[[{"content": text}]]', '[[{"content": text}, {"content": answer}]]'),
        ("[[{", "[*text, [{"),
        ("    return part(", "    completions[0].append(text)\n    return part("),
        ("    return part(", "    for item in completions:\n        item.append(text)\n    return part("),
        ("    return part(", "    other(completions)\n    return part("),
        ("completion[0]", "(completion + completion)[0]"),
        ("    rewards = []\n", "    rewards = []\n    completions.append(answer)\n"),
    ],
)
def test_a_list_that_may_hold_more_is_not_one_of_one(old: str, new: str) -> None:
    assert old in ONE_COMPLETION
    assert "" in rules(ONE_COMPLETION.replace(old, new), FIRST)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            continue\n", ""),
        ("[answer])[0]", "answer)[0]"),
        ("    return rewards", "    rewards.append(1.0)\n    return rewards"),
        ("    return rewards", "    rewards += found\n    return rewards"),
        ("    rewards = []", "    rewards = [0.0]"),
    ],
)
def test_rewards_that_may_be_several_are_not_one(old: str, new: str) -> None:
    source = ONE_COMPLETION.replace(old, new)
    if old.startswith("[answer]"):  # what the completions are is not known either
        source = source.replace('[[{"content": text}]]', "text")
    assert "" in rules(source, FIRST)


@pytest.mark.parametrize("pattern", ["r'^<a>.*'", r"r'\A<a>'", "P"])
def test_match_and_search_are_one_for_what_starts_the_text(pattern: str) -> None:
    source = f"def f(x):\n    P = '^a|^b'\n    P = '^<a>.*?</a>'\n    return re.search({pattern}, x, re.S | re.I)"
    assert rules(source, "strictness") == {"the pattern matches at the start only"}


@pytest.mark.parametrize(
    "call",
    [
        "re.search('^a', x, re.M)",
        "re.search('(?m)^a', x)",
        "re.search('^a|b', x)",
        "re.search('^a', x, flags)",
        "re.search('(^a|b)', x)",
        "re.search(x, '^a')",
        "re.search('a', x)",
    ],
)
def test_match_and_search_differ_elsewhere(call: str) -> None:
    assert rules(f"def f(x, flags):\n    return {call}", "strictness") == {""}


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("zip(x, y, strict=False)", "strict is False by default"),
        ("enumerate(x, start=0)", "start is 0 by default"),
        ("zip(x, y, strict=True)", ""),
        ("self.zip(x, y, strict=False)", ""),
    ],
)
def test_defaults_of_built_in_functions_are_known(call: str, why: str) -> None:
    assert rules(f"def f(x, y):\n    return {call}", "keyword argument lost") == {why}


def of_pool(source: str) -> str:
    return next(why for change, why in judged(source, "keyword argument lost") if change.startswith("Process"))


def test_how_workers_start_does_not_matter_to_what_reads_nothing_else() -> None:
    assert of_pool(POOL) == "what runs in the workers reads nothing that they inherit"
    beside = "try:\n    from checker.errors import Late\nexcept ImportError:\n    Late = None\n"
    handler = POOL.replace(
        "    return pool", "    try:\n        pass\n    except (Late, ValueError):\n        pass\n    return pool"
    )
    assert of_pool(beside + handler)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("verify(gold, text)", "verify(gold, text, TABLE)"),
        ("    from checker import verify\n", "    from checker import verify\n    import random\n"),
        ("verify(gold, text)", "verify(gold, text) + open('a').read().count(other)"),
        ("def score(text, gold):", "import checker\ndef score(text, gold):\n    checker.setup(text)"),
        ("submit(work, ", "submit(lambda *a: 1, "),
        ("ProcessPoolExecutor(mp", "ProcessPoolExecutor(initializer=setup, mp"),
        ("def work", "@cache\ndef work"),
    ],
)
def test_how_workers_start_matters_to_what_reads_more(old: str, new: str) -> None:
    assert old in POOL
    changes = judged(POOL.replace(old, new), "keyword argument lost")
    lost = [why for change, why in changes if "mp_context" in change and "mp_context" not in change.split(" -> ")[1]]
    assert lost == [""]


@pytest.mark.parametrize(("limit", "beyond"), [("30", True), ("20.0", True), ("5", False), ("LIMIT", False)])
def test_a_limit_longer_than_a_case_is_beyond_it(limit: str, beyond: bool) -> None:
    code = Code(POOL.replace("LIMIT", limit))
    found = [item for item in faults.seed_faults(code) if item.before.endswith(f".result(timeout={limit})")]
    [why] = [beyond_a_case(code, item, 20.0) for item in found]
    assert bool(why) is beyond
    assert not found[0].equivalent


def test_a_limit_that_no_call_sets_is_its_default() -> None:
    source = "def wait(job, seconds=30.0):\n    return job.result(timeout=seconds)\ndef f(job):\n    return wait(job)"
    code = Code(source)
    [fault] = [item for item in faults.seed_faults(code) if item.operator == "keyword argument lost"]
    assert beyond_a_case(code, fault, 20.0) == "it shows after 30 s, and a case ends after 20 s"
    assert beyond_a_case(code, fault, 40.0) == ""
    given = Code(source.replace("wait(job)\n", "wait(job, 1)\n") + "\ndef g(job):\n    return wait(job, 1)")
    [fault] = [item for item in faults.seed_faults(given) if item.operator == "keyword argument lost"]
    assert beyond_a_case(given, fault, 20.0) == ""


def test_two_counts_that_are_treated_alike_may_change_places() -> None:
    assert rules(TAGS, "values unpacked in another order") == {"opened and closed are treated alike"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("closed > 10", "closed > 9"),
        ("return 1.0", "return 1.0 / opened"),
        ("if opened > 10", "opened = 3\n    if opened > 10"),
        ("text.count", "text.find"),
        ("or closed > 10", "or closed > 10 or len(text) > 5"),
    ],
)
def test_two_counts_that_are_not_may_not(old: str, new: str) -> None:
    assert old in TAGS
    assert rules(TAGS.replace(old, new), "values unpacked in another order") == {""}


@pytest.mark.parametrize(
    ("given", "change"),
    [
        ("list(x), list(y)", "(all(item in a for item in b))"),
        ("[1], x.split()", "(all(item in a for item in b))"),
        ("x, list(y)", "(str(b) in str(a))"),
    ],
)
def test_a_part_of_a_list_are_some_of_its_items(given: str, change: str) -> None:
    found = judged(f"def same(a, b):\n    return a == b\ndef f(x, y):\n    return same({given})", "strictness")
    assert [text for text, _ in found] == [f"a == b -> {change}"]


def test_what_is_compared_with_a_list_is_one() -> None:
    found = judged('def f(x):\n    return x == [""]', "strictness")
    assert [text for text, _ in found] == ['x == [""] -> (all(item in x for item in [""]))']


BATCH = """
def score_all(solution_strs, ground_truths):
    return [float(one == two) for one, two in zip(solution_strs, ground_truths, strict=True)]

# --- reward manager

async def _rewards(args, samples):
    return await _run({"solution_strs": [], "ground_truths": []})

def _attempt(request):
    return score_all(**request), ""
"""


def test_lists_of_a_batch_have_one_length() -> None:
    assert rules(BATCH, "keyword argument lost") == {"every list of a batch has a value for each sample"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return [", "    ground_truths = ground_truths[:1]\n    return ["),
        ("zip(solution_strs, ", "zip(words, "),
        ("\n# --- reward manager\n", ""),
        ("def score_all(", "def other(x):\n    return score_all(x, [1])\n\ndef score_all("),
    ],
)
def test_lists_that_the_scorer_makes_may_not(old: str, new: str) -> None:
    assert old in BATCH
    assert rules(BATCH.replace(old, new), "keyword argument lost") == {""}


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ('{"score": 0, "acc": False}', "the same number"),
        ('{"score": 1.0, "acc": True}', "the same number"),
        ('{"score": 1, "acc": False}', ""),
        ('{"score": 0, "acc": x}', ""),
    ],
)
def test_a_truth_value_of_the_same_number_is_the_same_score(result: str, why: str) -> None:
    assert rules(f"def f(x):\n    return {result}", "other value for the score") == {why}


NAMED = """
RATIO = 1.0
def part(x, ratio=1.0):
    return x * ratio
def f(x):
    return part(x, ratio=RATIO)
"""


def test_a_constant_of_the_module_may_be_the_default() -> None:
    assert rules(NAMED, "keyword argument lost") == {"ratio is 1.0 by default"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RATIO = 1.0", "RATIO = 2.0"),
        ("RATIO = 1.0", "RATIO = 1.0\nRATIO += g()"),
        ("def f(x):", "def f(x, RATIO=2.0):"),
        ("RATIO = 1.0", "RATIO = float(os.environ['R'])"),
    ],
)
def test_a_name_that_may_have_another_value_is_not(old: str, new: str) -> None:
    assert rules(NAMED.replace(old, new), "keyword argument lost") == {""}


CHECKED = """
def f(x):
    if not x or not x.startswith("<a>"):
        return None
    if x.count("<a>") != 1 or x.count("</a>") != 1:
        return None
    found = re.search(r"<a>(.*?)</a>", x, re.DOTALL)
    return found, x.find("</a>")
"""


def test_what_stands_once_is_first_and_last() -> None:
    assert rules(CHECKED, FIRST) == {"'</a>' stands there once"}
    inside = 'def f(x):\n    if x.count("b") == 1 and x:\n        return x.rfind("b")\n    return 0'
    assert rules(inside, FIRST) == {"'b' stands there once"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('x.count("</a>") != 1', 'x.count("</a>") != 2'),
        ('x.count("<a>") != 1 or', 'x.count("<a>") != 1 and'),
        ("    found =", "    x = x + x\n    found ="),
        ('x.find("</a>")', 'y.find("</a>")'),
        ('count("</a>") != 1:\n        return None', 'count("</a>") != 1:\n        pass'),
        ('x.find("</a>")', 'x.find("</a>", 3)'),
    ],
)
def test_what_may_stand_twice_is_not(old: str, new: str) -> None:
    assert old in CHECKED
    assert rules(CHECKED.replace(old, new), FIRST) == {""}


def test_a_pattern_of_what_stands_first_matches_there() -> None:
    assert rules(CHECKED, "strictness") == {"the text starts with what the pattern starts with"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", re.DOTALL", ""),
        ("<a>(.*?)</a>", "<a>([^<]*?)</a>"),
        ("<a>(.*?)</a>", "<b>(.*?)</a>"),
        ('not x or not x.startswith("<a>")', 'not x and not x.startswith("<a>")'),
        ('x.startswith("<a>")', 'y.startswith("<a>")'),
        ("<a>(.*?)</a>", "<a>(?:b|.*?)</a>"),
    ],
)
def test_a_pattern_of_what_may_stand_later_does_not(old: str, new: str) -> None:
    assert old in CHECKED
    assert rules(CHECKED.replace(old, new), "strictness") == {""}


WHOLE = """
def f(g, p):
    if g == int(g) and p == int(p):
        return int(g) == int(p)
    return g - p < 1
"""


def test_a_number_that_is_whole_is_the_same_as_a_float() -> None:
    inside = [why for change, why in judged(WHOLE, "float for int")][-2:]
    assert inside == ["g is a whole number there", "p is a whole number there"]
    other = WHOLE.replace("g == int(g) and", "g == int(g) or")
    assert rules(other, "float for int") == {""}
    text = WHOLE.replace("return int(g) == int(p)", "return str(int(g))")
    assert "" in rules(text, "float for int")


def test_a_default_that_the_launch_never_leaves_to_be_used() -> None:
    source = "def f(x):\n    return g(os.environ.get('A', 'u'), os.environ.get('B', 'v'), x.get('A', 'w'))"
    code = Code(source, environment={"A": "1"})
    found = [item for item in faults.seed_faults(code) if item.operator == "other default"]
    assert {item.before: item.equivalent for item in found} == {"'u'": "the launch sets A", "'v'": "", "'w'": ""}


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("x in [0, False]", {"an equal entry stays"}),
        ("x not in (1.0, 1, True)", {"an equal entry stays"}),
        ("x in [0, 1]", {""}),
        ("x in (0, '0')", {""}),
        ("len([0, False]) > x", {""}),
        ("[0, False] in x", {""}),
    ],
)
def test_an_entry_is_missed_only_where_none_is_equal(condition: str, why: set[str]) -> None:
    assert rules(f"def f(x):\n    return 1.0 if {condition} else 0.0", "entry lost") == why


SETTLED = """
import os
DEBUG = os.environ.get("DEBUG", "no").lower() == "true"
KIND = os.environ["KIND"].upper()
def f(x, extra_info=None):
    score = 1.0 if x.lower() == "a" else 0.0
    if KIND == "OTHER":
        score = extra_info["weight"]
    elif DEBUG:
        print(extra_info)
    return g(x, extra_info=extra_info) if os.getenv("KIND").lower() == "plain" else extra_info
def g(x, extra_info):
    return x
"""
LAUNCH = {"DEBUG": "False", "KIND": "Plain"}


def folds(source: str, environment: dict[str, str]) -> list[str]:
    code = Code(source, environment=environment)
    found = [item for item in faults.seed_faults(code) if item.operator == "case folding dropped"]
    return [item.equivalent for item in sorted(found, key=lambda item: item.line)]


def test_what_the_launch_settles_is_the_same_after_a_change_that_leaves_it_so() -> None:
    assert folds(SETTLED, LAUNCH) == ["the launch sets DEBUG", "", "", ""]  # "Plain" is not "PLAIN", nor "plain"
    assert folds(SETTLED, {"DEBUG": "TRUE", "KIND": "PLAIN"}) == ["", "the launch sets KIND", "", ""]
    assert set(folds(SETTLED, {"KIND": "<secret removed>"})) == {""}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def f(", "os.environ.setdefault('DEBUG', '1')\ndef f("),
        ("def f(", "load_dotenv()\ndef f("),
        ("def f(", "environment = os.environ\ndef f("),
        ("def f(", "os.environ['KIND'] = 'other'\ndef f("),
    ],
)
def test_nothing_is_settled_where_the_module_changes_the_environment(old: str, new: str) -> None:
    assert set(folds(SETTLED.replace(old, new, 1), LAUNCH)) == {""}


@pytest.mark.parametrize(
    ("source", "environment", "branches"),
    [
        (SETTLED, LAUNCH, [True, True, False, True]),
        (SETTLED, {**LAUNCH, "DEBUG": "true"}, [True, False, False, True]),
        (SETTLED, {**LAUNCH, "KIND": "other"}, [False, True, True, False]),
        (SETTLED, {"DEBUG": "False"}, [False, True, False, False]),
        (SETTLED.replace("def g(", "def other():\n    global DEBUG\n    DEBUG = True\ndef g("), LAUNCH,
         [True, False, False, True]),
        (SETTLED.replace("def g(", "from settings import DEBUG\ndef g("), LAUNCH, [True, False, False, True]),
        (SETTLED.replace("def g(", "sys.modules[__name__].KIND = 'OTHER'\ndef g("), LAUNCH,
         [False, True, False, True]),
        (SETTLED.replace("extra_info=None)", "extra_info=None, KIND=1)"), LAUNCH, [False, True, False, True]),
    ],
)  # fmt: skip
def test_branches_that_the_launch_rules_out(source: str, environment: dict[str, str], branches: list[bool]) -> None:
    code = Code(source, environment=environment)
    uses = [
        node
        for node in ast.walk(code.functions["f"])
        if isinstance(node, ast.Name) and node.id == "extra_info" and isinstance(node.ctx, ast.Load)
    ]
    found = {(node.lineno, node.col_offset): settled.never_runs(code, node) for node in uses}
    assert [found[place] for place in sorted(found)] == branches


SAME = """
def text_normalize(text):
    \"\"\"Nothing to do yet.\"\"\"
    return text
def f(x):
    return text_normalize(x)
"""


def test_a_step_that_does_nothing_may_be_left_out() -> None:
    assert rules(SAME, "normalisation step dropped") == {"text_normalize gives back what it gets"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return text\ndef", "return text + text\ndef"),
        ("(text):", "(other, text=1):"),
        ("def text_normalize", "@cache\ndef text_normalize"),
        ("    return text\ndef", "    text = text or 1\n    return text\ndef"),
    ],
)
def test_a_step_that_does_something_may_not(old: str, new: str) -> None:
    assert old in SAME
    assert rules(SAME.replace(old, new), "normalisation step dropped") == {""}


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("bonus = 0", "bonus is 0 there"),
        ("bonus = 0.0", "bonus is 0 there"),
        ("bonus = 0\n    if x:\n        bonus = 1", ""),
        ("bonus = x", ""),
    ],
)
def test_a_term_that_is_zero_may_be_lost(before: str, why: str) -> None:
    source = f"def f(x):\n    total = x\n    {before}\n    if x:\n        total += bonus\n    return total"
    assert rules(source, "bonus or penalty lost") == {why}


STRIPPED = """
NUMBER = re.compile(r"-?[0-9,]+")
def box(x):
    m = re.search("<(.*)>", x)
    if m:
        return m.group(1).strip()
    return None
def plain(x):
    found = NUMBER.findall(x)
    if found:
        return found[-1].replace(",", "")
    return None
def number(x):
    m = NUMBER.search(x)
    if m:
        return m.group(0).replace(",", "")
    return x.strip()
def same(gold, pred):
    return gold.strip() == pred.strip()
def f(x, y, how):
    found = box(x)
    if found is None and how:
        found = plain(x)
    if found is None:
        return 0.0
    else:
        taken = number(found)
        return same(y, taken)
"""


def test_what_was_stripped_before_needs_it_no_more() -> None:
    why = "there is no blank at its ends any more"
    steps = dict(judged(STRIPPED, "normalisation step dropped"))
    assert {steps["x.strip() -> x"], steps["pred.strip() -> pred"]} == {why}
    assert steps["m.group(1).strip() -> m.group(1)"] == steps["gold.strip() -> gold"] == ""
    sides = dict(judged(STRIPPED, "one side not normalised"))
    assert sides == {"gold.strip() -> (gold)": "", "pred.strip() -> (pred)": why}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m.group(1).strip()\n", "m.group(1)\n"),
        ('re.compile(r"-?[0-9,]+")', 're.compile(r"-? ?[0-9,]+")'),
        ('re.compile(r"-?[0-9,]+")', 're.compile(r"-?[0-9,]+", re.X)'),
        ("    if found is None:\n        return 0.0\n    else:", "    if how:"),
        ("taken = number(found)", "taken = number(found + x)"),
        ("taken = number(found)", "taken = number(box(x))"),
        ("def f(x, y, how):", "def g(x):\n    return number(x)\ndef f(x, y, how):"),
    ],
)
def test_what_may_have_blanks_still_needs_it(old: str, new: str) -> None:
    assert old in STRIPPED
    changed = STRIPPED.replace(old, new)
    assert dict(judged(changed, "normalisation step dropped"))["x.strip() -> x"] == ""


def test_a_fault_beyond_a_case_is_not_run_and_says_why() -> None:
    code = Code(POOL.replace("LIMIT", "30"))
    found = faults.seed_faults(code)
    decided = [power._decided(code, fault, 20.0) for fault in found]
    waits = [fault.before for fault, known in zip(found, decided, strict=True) if known and known["kind"] == "skipped"]
    assert len(waits) == 1
    assert waits[0].endswith(".result(timeout=30)")
    counted = power._counted(found, [known or {"kind": "caught"} for known in decided])
    assert (counted["not_run"], counted["caught"], counted["survivors"]) == (1, counted["seeded"] - 1, [])
    assert [item["why"] for item in counted["beyond"]] == ["it shows after 30 s, and a case ends after 20 s"]
    assert [power._decided(code, fault, 40.0) for fault in found if fault.before == waits[0]] == [None]
