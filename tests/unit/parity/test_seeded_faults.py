"""Every operator of the fault catalogue and every mutant, the rules for equivalent ones, and what a share means."""

from __future__ import annotations

import os
import textwrap
from typing import Any

import pytest
from migrate_tools.parity import faults, mutants, power, power_side

WRAPPER = """
SPECIAL_TOKENS = ("<|end|>", "<|pad|>")
EXTRA_KEYS = {"acc": 0.0, "pred": ""}
REWARD_KWARGS = {"bonus": 0.5, "strict": True}
MANAGER_ADDS = {"num_turns": 2}
OVERLONG_FACTOR = 1.0
OVERLONG_BUFFER = 100

# --- scorer

def compute_score(data_source, solution_str, ground_truth, extra_info=None, bonus=0.5, strict=False):
    if data_source == "a":
        return 0.5 if solution_str == ground_truth else extra_info["floor"]
    return bonus

# --- reward manager

async def reward_func(args, sample, **kwargs):
    if isinstance(sample, list):
        return list(await gather(sample))
    return await _reward(args, sample)

def _request(sample):
    values = {
        "data_source": sample.metadata["data_source"],
        "ground_truth": sample.label,
        "extra_info": dict(sample.metadata),
    }
    return values

def _attempt(request):
    try:
        return _number(compute_score(**request)), ""
    except Exception as error:
        return {}, str(error)

def _number(value):
    return float(value)

def _finished(sample, reward):
    penalty = min(sample.response_length, 0)
    reward["score"] += penalty
    return reward
"""
SCORER = {
    "first for last match": [
        ("def f(x):\n    return x[-1]", "x[0]"),
        ("def f(x):\n    return x.rfind('a')", "x.find('a')"),
        ("def f(x):\n    return x.rpartition('a')", "x.partition('a')"),
    ],
    "normalisation step dropped": [
        ("def f(x):\n    return x.strip('.')", "return x\n"),
        ("def f(x):\n    return re.sub(r'a', '', x)", "return x\n"),
        ("def normal(x):\n    return x + 'b'\ndef f(x):\n    return normal(x)", "return (x)"),
    ],
    "case folding dropped": [("def f(x):\n    return x.lower()", "return x\n")],
    "clip length": [
        ("def f(x):\n    return x[-300:]", "x[-375:]"),
        ("def f(x):\n    return x[:300]", "return x\n"),
    ],
    "off by one in a slice": [
        ("def f(x, i):\n    return x[i:]", "x[i + 1:]"),
        ("def f(x):\n    return x[1:]", "x[2:]"),
    ],
    "int for float": [("def f(x):\n    return float(x)", "int(float(x))")],
    "float for int": [("def f(x):\n    return int(x)", "float(x)")],
    "rounding": [
        ("def f(x):\n    return round(x, 3)", "round(x, 1)"),
        ("def f(x, y):\n    return x / (y + 1)", "(x // (y + 1))"),
    ],
    "exception let through": [
        ("def f(x):\n    try:\n        return g(x)\n    except ValueError:\n        return 0", "except ():")
    ],
    "exception swallowed otherwise": [
        ("def f(x):\n    try:\n        return g(x)\n    except ValueError:\n        return False", "return True")
    ],
    "strictness": [
        ("def f(x):\n    return re.fullmatch('a', x)", "re.match('a', x)"),
        ("def f(x, y):\n    return x == y", "(str(y) in str(x))"),
    ],
    "condition lost": [("def f(x, y):\n    return x and y", "return (x)")],
    "one side not normalised": [("def f(x, y):\n    return g(x) == g(y)", "(x) == g(y)")],
    "keyword argument lost": [("def f(x):\n    return g(x, limit=3)", "g(x)")],
    "other key": [("def f(x):\n    return x['a']", "x['a_']"), ("def f(x):\n    return x.get('a')", "x.get('a_')")],
    "other default": [("def f(x):\n    return x.get('a', 1)", "x.get('a', 2)")],
    "only the first of a list": [
        ("def f(x):\n    return any(g(y) for y in x)", "in list(x)[:1]"),
        ("def f(x):\n    for y in x:\n        g(y)", "for y in list(x)[:1]"),
    ],
    "entry lost": [
        ("UNITS = ('cm', 'm')\ndef f(x):\n    return x in UNITS", "UNITS = ('cm',)"),
        ("NAMES = {'a': 'b', 'c': 'd'}\ndef f(x):\n    return NAMES[x]", "NAMES = {'a': 'b'}"),
    ],
    "number for dict": [("def f(x):\n    return {'score': x, 'acc': 1}", "return x\n")],
    "other value for the score": [("def f(x, y):\n    return {'score': x, 'acc': y}", "{'score': y, 'acc': y}")],
    "other group of the match": [("def f(x):\n    return x.group(1)", "x.group(0)")],
    "values unpacked in another order": [("def f(x):\n    a, b = g(x)\n    return a", "b, a = g(x)")],
    "bonus or penalty lost": [("def f(x):\n    x += g(x)\n    return x", "    pass\n")],
    "overlong penalty lost": [("def f(x, penalty):\n    x -= penalty\n    return x", "    pass\n")],
    "pattern flag lost": [("P = re.compile('a.b', re.DOTALL)\ndef f(x):\n    return P", "re.compile('a.b', 0)")],
    "greedy for lazy": [("def f(x):\n    return re.search(r'<a>(.*?)</a>', x)", "(.*)</a>")],
    "lazy for greedy": [("def f(x):\n    return re.search(r'<a>(.*)</a>', x)", "(.*?)</a>")],
    "anchor lost": [("def f(x):\n    return re.search(r'\\ba$', x)", 'r"a$"')],
    "optional part lost": [("def f(x):\n    return re.search(r'A:\\s*(-?\\d+)', x)", 'r"A:(-?\\d+)"')],
}
WIRING = {
    "special tokens kept": "SPECIAL_TOKENS = ()",
    "setting of the launch lost": 'REWARD_KWARGS = {"bonus": 0.5}',
    "manager's keys lost": "MANAGER_ADDS = {}",
    "overlong penalty lost": "OVERLONG_FACTOR = 0.0",
    "overlong penalty changed": "OVERLONG_BUFFER = 125",
    "data_source branch lost": "    if False:\n",
    "group order": "(list(await gather(sample)))[::-1]",
    "extra_info lost": '"extra_info": {}',
    "data_source lost": '"data_source": DATA_SOURCE_DEFAULT',
    "label as text": '"ground_truth": str(sample.label)',
    "exception let through": "except () as error",
    "int for float": "return float(int(value))",
}


def seeded(source: str, operator: str, **facts: Any) -> list[Any]:
    return [item for item in faults.seed_faults(source + "\n", each=9, most=999, **facts) if item.operator == operator]


@pytest.mark.parametrize(
    ("operator", "source", "expected"),
    [(operator, source, expected) for operator, pairs in SCORER.items() for source, expected in pairs],
)
def test_faults_of_the_scorer(operator: str, source: str, expected: str) -> None:
    found = seeded(source, operator)
    assert any(expected in item.source for item in found), [item.source for item in found]
    assert not any(item.equivalent for item in found)


@pytest.mark.parametrize(("operator", "expected"), WIRING.items())
def test_faults_of_the_wiring(operator: str, expected: str) -> None:
    assert any(expected in item.source for item in seeded(WRAPPER, operator))


def test_the_catalogue_is_large_enough() -> None:
    assert len(SCORER.keys() | WIRING.keys()) >= 35


def test_our_own_wrapper_is_changed_only_where_it_is_meant_to_be() -> None:
    head, mark, below = WRAPPER.partition("# --- reward manager")
    changed = {item.operator for item in faults.seed_faults(WRAPPER, most=999) if item.source.startswith(head)}
    assert changed == {
        "group order", "extra_info lost", "data_source lost", "label as text", "exception let through", "int for float",
        "overlong penalty lost",
    }  # fmt: skip


def test_faults_depend_on_the_module_alone_and_keep_to_their_number() -> None:
    first, second = faults.seed_faults(WRAPPER), faults.seed_faults(WRAPPER)
    assert [item.source for item in first] == [item.source for item in second]
    assert len({item.source for item in first}) == len(first)
    assert len(faults.seed_faults(WRAPPER, most=5)) == 5


def test_messages_docstrings_and_annotations_are_left_alone() -> None:
    source = '''
    def f(x: "str" = "a") -> "str":
        """Text [-1]."""
        print(x[-1], x.strip())
        raise ValueError(f"{x[0]}")
    '''
    assert faults.seed_faults(textwrap.dedent(source)) == []


CANNOT_HOLD = (
    "def f(x):\n    found = re.findall('## ([0-9,]+)', x)\n    return found[-1].replace('$', '')",
    "def f(x):\n    found = re.search('([0-9]+) of', x)\n    return found.group(1).strip()",
    "def f(x):\n    m = re.search('## [-0-9.]+', x)\n    if m:\n        y = m.group(0)\n        y = y.split('## ')[1]\n"
    "        return y.replace('$', '')\n    return None",
)
"""A text that a pattern has cut out, and something removed from it that the pattern cannot match."""
MAY_HOLD = (
    "def f(x):\n    found = re.findall('## ([0-9,]+)', x)\n    return found[-1].replace(',', '')",
    "def f(x):\n    found = re.findall('## ([^,]+)', x)\n    return found[-1].replace('$', '')",
    "def f(x):\n    found = re.search('([0-9]+)? of', x)\n    return found.group(1).strip()",
    "def f(x):\n    found = re.search('[0-9]+ of', x)\n    return found.group().replace(' ', '')",
    "def f(x):\n    y = re.search('[a-z]+', x, re.I).group(0)\n    return y.replace('A', '')",
    "def f(x):\n    y = '1'\n    for y in x:\n        pass\n    return y.replace('$', '')",
    "def f(x):\n    y = '1'\n    if x:\n        y = x\n    return y.replace('$', '')",
    "def f(x):\n    y = '1'\n    try:\n        y = x\n        g()\n    finally:\n        return y.replace('$', '')",
    "def f(x):\n    y = '1'\n    return [y.replace('$', '') for y in x]",
    "def f(x):\n    y = None\n    return y.replace('$', '')",
    "def f(x):\n    y = '1'.replace('1', x)\n    return y.replace('$', '')",
)


FORMAT = """
import re
def f(x):
    pattern = re.compile("<a>.*</a>.*", re.DOTALL)
    found = re.fullmatch(pattern, x)
    return 1.0 if found else 0.0
"""
"""A format that is there or not."""
NEVER_GIVEN = """
def cut(text, how="strict"):
    return text
def score(text, how="strict"):
    return cut(text, how=how)
def f(text):
    return score(text)
"""
"""An option that is handed on, and that nobody sets."""
MAY_BE_GIVEN = (
    NEVER_GIVEN.replace("score(text)\n", "score(text, 'loose')\n"),
    NEVER_GIVEN.replace("score(text)\n", "score(text, **text)\n"),
    NEVER_GIVEN.replace("score(text)\n", "map(score, text)\n"),
    NEVER_GIVEN.replace("    return cut", "    how = how or 'loose'\n    return cut"),
    NEVER_GIVEN.replace('score(text, how="strict")', 'score(text, how="loose")'),
)
WHOLE = """
def score(text, full=1.0):
    return full if text else 0
def f(text):
    result = score(text)
    if isinstance(result, dict):
        return result
    return float(result)
"""
"""Numbers that are whole in any case, one of them the default of what no call gives."""
NEVER_NONE = """
def cut(text):
    if "{" in text:
        return text[1:-1]
    raise ValueError(text)
def same(one, other, loud=False):
    if one is None %s other is None:
        return %s
    return one == other
def f(text, truth):
    if text:
        inner = cut(text)
        return same(inner, truth)
    return 0
"""
"""A parameter that every call gives a text; the second one may be None."""
MAY_BE_NONE = (
    NEVER_NONE % ("or", "False"),
    (NEVER_NONE % ("and", "True")).replace("raise ValueError(text)", "pass"),
    (NEVER_NONE % ("and", "True")) + "table = [same]\n",
    (NEVER_NONE % ("and", "True")) + "def g(text):\n    return same(text, '')\n",
    (NEVER_NONE % ("and", "True")).replace(
        "inner = cut(text)", "inner = cut(text)\n        if truth:\n            inner = None"
    ),
    "def f(x):\n    y = x.get('a')\n    return y is None and x == 2",
    "def f(x):\n    y = 'a'\n    return x and y is None",
)


@pytest.mark.parametrize(
    ("operator", "source", "why"),
    [
        ("condition lost", NEVER_NONE % ("and", "True"), "one is None never holds"),
        ("condition lost", "def f(x):\n    y = x.strip()\n    return x == 'b' or y is None", "y is None never holds"),
        ("normalisation step dropped", "def f(x):\n    return float(x.strip())", "float() passes over blanks"),
        ("normalisation step dropped", "def f(x):\n    return x.strip().split()", "split() follows"),
        ("int for float", "def f(x, y):\n    return float(x == y)", "truth value"),
        ("int for float", WHOLE, "a whole number"),
        ("float for int", "def f(x, y):\n    z = x in y\n    return {'score': int(z)}", "truth value"),
        ("keyword argument lost", "def g(x, n=3):\n    return x\ndef f(x):\n    return g(x, n=3)", "by default"),
        ("keyword argument lost", NEVER_GIVEN, 'how is "strict" by default'),
        ("keyword argument lost", "import json\ndef f(x):\n    return json.loads(x, cls=None)", "by default"),
        (
            "keyword argument lost",
            "def a(x, n=N):\n    return x\ndef f(x):\n    h = T.get(x)\n    return h(x, n=N)",
            "n is N by default",
        ),
        ("first for last match", "def f(x):\n    if len(x) == 1:\n        return x[0]\n    return ''", "one item"),
        ("pattern flag lost", "P = re.compile('ab', re.DOTALL)", "no dot"),
        ("pattern flag lost", "P = re.compile('a.b', re.MULTILINE)", "no anchor"),
        (
            "normalisation step dropped",
            "def f(x):\n    return x.replace(' ', '').replace(',', '').replace(' ', '')",
            "removed again",
        ),
        ("condition lost", "def _request(x):\n    return x\ndef f(extra_info):\n    return extra_info or {}", "dict"),
        (
            "number for dict",
            "EXTRA_KEYS = {'acc': 0.0, 'p': ''}\ndef f(x):\n    return {'score': 0.0, 'acc': 0.0, 'p': ''}",
            "fills in",
        ),
        *(("normalisation step dropped", f"import re\n{source}", "the pattern before it") for source in CANNOT_HOLD),
        ("greedy for lazy", "def f(x):\n    return bool(re.search('<a>.*?</a>', x) or x)", "whether it matches"),
        (
            "greedy for lazy",
            "def f(x):\n    m = re.match('a.*?b.*c', x)\n    return 1 if m else 0",
            "whether it matches",
        ),
        ("first for last match", "def f(c):\n    return c.create(model='m').choices[0].text", "one choice"),
        ("lazy for greedy", FORMAT, "whether it matches"),
        (
            "exception let through",
            "try:\n    import a\nexcept ImportError:\n    a = None",
            "for every input or for none",
        ),
        ("keyword argument lost", "def f(x):\n    return ProcessPoolExecutor(max_workers=4)", "number of workers"),
        ("strictness", FORMAT, "takes all the rest"),
    ],
)
def test_what_no_input_can_tell_is_called_equivalent(operator: str, source: str, why: str) -> None:
    found = seeded(source, operator)
    assert any(why in item.equivalent for item in found), [(item.after, item.equivalent) for item in found]


@pytest.mark.parametrize(
    ("operator", "source"),
    [
        ("normalisation step dropped", "def f(x):\n    return g(x.strip())"),
        ("normalisation step dropped", "def f(x):\n    return x.strip('.').split()"),
        ("int for float", "def f(x, y):\n    return float(x)"),
        ("keyword argument lost", "def g(x, n=3):\n    return x\ndef f(x):\n    return g(x, n=4)"),
        (
            "keyword argument lost",
            "def a(x, n=N):\n    return x\ndef b(x, n=3):\n    return x\ndef f(x):\n    return h(x, n=N)",
        ),
        ("first for last match", "def f(x):\n    if len(x) == 2:\n        return x[0]\n    return ''"),
        ("pattern flag lost", "P = re.compile('a.b', re.DOTALL)"),
        ("pattern flag lost", "P = re.compile('a', re.IGNORECASE)"),
        ("greedy for lazy", "def f(x):\n    return re.search(r'<a>(.*?)</a>', x)"),
        ("number for dict", "EXTRA_KEYS = {'acc': 0.0}\ndef f(x):\n    return {'score': 0.0, 'acc': 1.0}"),
        *(("normalisation step dropped", f"import re\n{source}") for source in MAY_HOLD),
        *(("condition lost", source) for source in MAY_BE_NONE),
        ("int for float", WHOLE.replace("score(text)\n", "score(text, 0.5)\n")),
        *(("keyword argument lost", source) for source in MAY_BE_GIVEN),
        ("greedy for lazy", "def f(x):\n    return re.search('<a>(.*?)</a>', x) or x"),
        ("greedy for lazy", "def f(x):\n    m = re.match('<a>(.*?)</a>', x)\n    return m.group(1) if m else 0"),
        ("greedy for lazy", "def f(x):\n    return bool(re.search('(?>a.*?)b.*?c', x))"),
        ("first for last match", "def f(c):\n    return c.create(model='m', n=4).choices[0].text"),
        ("exception let through", "def f(x):\n    try:\n        import a\n    except ImportError:\n        return 0"),
        ("exception let through", "try:\n    import a\n    a.b()\nexcept ImportError:\n    a = None"),
        ("keyword argument lost", "def f(x):\n    return ProcessPoolExecutor(initializer=g)"),
        ("lazy for greedy", FORMAT.replace("1.0 if found", "found.end() if found")),
        ("lazy for greedy", FORMAT.replace("re.fullmatch(pattern, x)", "pattern.findall(x)")),
        ("strictness", FORMAT.replace(", re.DOTALL", "")),
        ("strictness", FORMAT.replace("</a>.*", "</a>")),
        ("strictness", FORMAT.replace("</a>.*", "</a>|b.*")),
    ],
)
def test_what_some_input_can_tell_is_not(operator: str, source: str) -> None:
    assert [item.equivalent for item in seeded(source, operator)] == [""] * len(seeded(source, operator)) != []


def test_lazy_before_a_character_that_its_class_excludes_is_no_fault() -> None:
    assert seeded("def f(x):\n    return re.search(r'<([^>]*?)>', x)", "greedy for lazy") == []


def test_wiring_that_does_not_matter_is_called_equivalent() -> None:
    [setting] = [item for item in seeded(WRAPPER, "setting of the launch lost") if "bonus" not in item.after]
    assert setting.equivalent == "bonus is 0.5 by default"
    assert seeded(WRAPPER, "manager's keys lost")[0].equivalent == "the scorer reads none of these keys"
    reads = WRAPPER.replace('extra_info["floor"]', 'extra_info["num_turns"]')
    assert seeded(reads, "manager's keys lost")[0].equivalent == ""
    assert seeded(WRAPPER, "extra_info lost")[0].equivalent == ""
    assert seeded(WRAPPER, "label as text")[0].equivalent == ""
    assert seeded(WRAPPER, "label as text", text_labels=True)[0].equivalent == "every label is a text"
    as_text = WRAPPER.replace("solution_str == ground_truth", "solution_str == str(ground_truth)")
    assert seeded(as_text, "label as text")[0].equivalent == "the scorer makes ground_truth a text itself"
    in_prompt = WRAPPER.replace("solution_str == ground_truth", 'solution_str == f"is it {ground_truth}?"')
    assert seeded(in_prompt, "label as text")[0].equivalent == "the scorer makes ground_truth a text itself"
    with_format = in_prompt.replace("{ground_truth}", "{ground_truth!r}")
    assert seeded(with_format, "label as text")[0].equivalent == ""
    assert seeded(WRAPPER, "int for float")[0].equivalent == ""
    fraction = 'return 0.5 if solution_str == ground_truth else extra_info["floor"]'
    whole = WRAPPER.replace(fraction, "return 1.0 if solution_str else -1").replace("return bonus", "return 0")
    assert seeded(whole, "int for float")[0].equivalent == "every reward is a whole number"


KEYS = """
MANAGER_ADDS = {"num_turns": 2, "tool_rewards": []}
FROM_ROLLOUT = ("num_turns", "tool_rewards")


def f(solution_str, extra_info=None):
    return 1.0 - 0.1 * max(0, (extra_info or {}).get("num_turns", 2))


def _request(sample):
    return {"extra_info": {**sample.metadata}}
"""


def test_what_the_manager_sets_makes_the_row_and_a_default_not_matter() -> None:
    assert seeded(KEYS, "other default")[0].equivalent == "the reward manager always sets num_turns"
    assert seeded(KEYS, "extra_info lost")[0].equivalent == "the scorer reads only keys that the manager sets"
    lost = {item.after: item.equivalent for item in seeded(KEYS, "entry lost") if "FROM" in item.source}
    assert "the scorer does not read this key" in lost.values()
    assert "" in lost.values()  # num_turns itself is read


QUESTION = KEYS.replace(
    'max(0, (extra_info or {}).get("num_turns", 2))', 'len(extra_info.get("question", "") if extra_info else "")'
)


def test_keys_of_the_manager_and_of_the_rollout_that_nobody_reads_do_not_matter() -> None:
    assert seeded(QUESTION, "manager's keys lost")[0].equivalent == "the scorer reads none of these keys"
    lost = [item.equivalent for item in seeded(QUESTION, "entry lost") if "FROM" in item.source]
    assert lost == ["the scorer does not read this key"] * 2
    # without keys of the manager's own the rollout's may be the only ones, and the scorer asks whether there are any
    alone = QUESTION.replace('MANAGER_ADDS = {"num_turns": 2, "tool_rewards": []}', "MANAGER_ADDS = {}")
    assert [item.equivalent for item in seeded(alone, "entry lost") if "FROM" in item.source] == [""] * 2
    handed = QUESTION.replace('len(extra_info.get("question", "") if extra_info else "")', "g(extra_info)")
    assert [item.equivalent for item in seeded(handed, "entry lost") if "FROM" in item.source] == [""] * 2


@pytest.mark.parametrize(
    "other", ['extra_info.get("split", 2)', 'g(extra_info).get("num_turns", 2)', 'other.get("num_turns", 2)']
)
def test_keys_of_the_row_still_matter(other: str) -> None:
    source = KEYS.replace('(extra_info or {}).get("num_turns", 2)', other)
    assert source != KEYS
    assert [item.equivalent for item in seeded(source, "other default")] == [""]
    if "extra_info" in other:
        assert [item.equivalent for item in seeded(source, "extra_info lost")] == [""]


@pytest.mark.parametrize(("beside", "same"), [("0.1 * n", True), ("n", False), ("len(x)", False)])
def test_a_truth_value_beside_a_float_is_the_same_number(beside: str, same: bool) -> None:
    [found] = seeded(f"def f(x, y, n):\n    z = float(x == y) - {beside}\n    return g(z)", "int for float")
    assert bool(found.equivalent) is same


@pytest.mark.parametrize(
    ("operator", "source", "expected"),
    [
        ("comparison", "def f(x):\n    return x < 3", "(x <= 3)"),
        ("boolean", "def f(x, y):\n    return x and y", "((x) or (y))"),
        ("boolean", "def f(x):\n    return not x", "bool(x)"),
        ("constant", "def f(x):\n    return x * 3", "x * 4"),
        ("arithmetic", "def f(x, y):\n    return x * (y + 1)", "(x / (y + 1))"),
        ("return", "def f(x):\n    return g(x)", "return None"),
        ("slice", "def f(x):\n    return x[2:9]", "x[:9]"),
        ("condition", "def f(x):\n    if x:\n        return 1\n    return 2", "if False:"),
        ("statement", "def f(x):\n    x['a'] = 1\n    return x", "    pass\n"),
    ],
)
def test_mutants(operator: str, source: str, expected: str) -> None:
    found = [item for item in mutants.seed_mutants(source + "\n", each=9, most=99) if item.operator == operator]
    assert any(expected in item.source for item in found), [item.source for item in found]


def test_lines_that_must_run() -> None:
    source = "A = ('x', 'y')\ndef f(x):\n    if x:\n        return x[-1]\n    return x in A\n"
    found = {(item.operator, item.lines) for item in faults.seed_faults(source)}
    assert found == {("first for last match", (4,)), ("entry lost", (5,))}


@pytest.mark.parametrize(
    ("seeded", "caught", "not_run", "status"),
    [
        (20, 19, 0, "passed"),
        (20, 18, 0, "failed"),
        (12, 11, 0, "failed"),
        (7, 6, 0, "passed"),
        (7, 5, 0, "failed"),
        (0, 0, 0, "passed"),
        (20, 12, 8, "not_checkable"),
        (20, 12, 6, "failed"),
        (20, 19, 1, "passed"),
    ],
)
def test_when_the_cases_are_too_weak(seeded: int, caught: int, not_run: int, status: str) -> None:
    survivors = [{"operator": "clip length", "line": 7}]
    found = {"seeded": seeded, "caught": caught, "not_run": not_run, "unshown": 0, "survivors": survivors}
    assert power.verdict(found)[0] == status


@pytest.mark.parametrize(
    ("seeded", "caught", "unshown", "status"),
    [(40, 32, 8, "passed"), (40, 31, 9, "failed"), (40, 32, 7, "passed"), (40, 29, 8, "failed"), (6, 4, 2, "passed")],
)
def test_survivors_that_nothing_shows_stand_apart_but_may_not_be_many(
    seeded: int, caught: int, unshown: int, status: str
) -> None:
    listed = [{"operator": "step lost", "line": 3}]
    found = {"seeded": seeded, "caught": caught, "not_run": 0, "unshown": unshown, "survivors": listed}
    answer = power.verdict({**found, "no_input": listed})
    assert answer[0] == status
    assert ("--parity-cases" in answer[1]) is (status == "failed")


def test_only_a_long_search_tells_that_nothing_shows_a_survivor() -> None:
    fault = faults.seed_faults("def f(a):\n    return a.strip()\n")[0]
    long = {"kind": "survived", "tried": 2000, "other": 7, "input": None}
    counted = power._counted(
        [fault] * 5,
        [
            long,
            {**long, "tried": 700},
            {**long, "input": {"row": 0, "raw": " x", "changes": [], "length": 1, "told": {}}},
            {"kind": "survived"},
            {"kind": "caught"},
        ],
    )
    assert (counted["seeded"], counted["caught"], counted["unshown"], len(counted["survivors"])) == (5, 1, 1, 3)
    assert counted["no_input"][0]["tried"] == 2000
    assert [item.get("input") for item in counted["survivors"]] == [
        None,
        {"row": 0, "response": " x", "changes": []},
        None,
    ]


def test_power_that_was_not_measured_is_not_checkable() -> None:
    assert power.verdict({"why": "no time given"})[0] == "not_checkable"


BASE = {"kind": "value", "score": 1.0, "keys": {"score": 1.0, "acc": 1.0, "n": 2}, "zeroed": False}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"score": 0.5}, True),
        ({"kind": "exception"}, True),
        ({"reward_error": "ValueError: x"}, True),
        ({"keys": {"acc": 1.0, "n": 2.0}}, True),
        ({"keys": {"acc": 1, "n": 2}}, False),
        ({"keys": {"acc": 1.0}}, True),
        ({"keys": {"n": 2}}, False),
        ({"keys": {"acc": 1.0, "n": 2, "more": 1}}, False),
    ],
)
def test_what_the_comparison_would_refuse(change: dict[str, Any], expected: bool) -> None:
    base = {**BASE, "old_kind": "value", "old_keys": ["acc", "n", "score"]}
    assert power_side.differs({**BASE, **change}, base) is expected


def test_where_the_old_reward_raises_only_floor_and_class_count() -> None:
    base = {**BASE, "old_kind": "exception", "old_keys": [], "reward_error": "KeyError: 'a'", "at_floor": True}
    assert power_side.differs({**BASE, "reward_error": "KeyError: 'b'", "at_floor": True}, base) is False
    assert power_side.differs({**BASE, "reward_error": "TypeError: b", "at_floor": True}, base) is True
    assert power_side.differs(BASE, base) is True


def test_cases_of_every_reward_have_their_turn_early() -> None:
    scores = [0.0, 0.0, 0.0, 1.0, 0.0, None, 1.0, 0.5]
    turns = power_side._turns([None if score is None else {"score": score} for score in scores])
    assert sorted(range(8), key=turns.__getitem__) == [0, 3, 5, 7, 1, 6, 2, 4]


def test_lines_that_ran_in_a_child_are_seen() -> None:
    lines = power_side._Lines(10)
    lines.add(3)
    child = os.fork()
    if child == 0:
        lines.add(7)
        os._exit(0)
    os.waitpid(child, 0)
    assert lines.found() == [3, 7]
    lines.clear()
    assert lines.found() == []


ZIPPED = """
def batch(data_sources, solution_strs, extra_infos):
    assert len(extra_infos) == len(solution_strs)
    return [score(solution, source) for source, solution, extra_info in zip(data_sources, solution_strs, extra_infos)]


def _request(sample):
    return {"data_source": sample.metadata["data_source"], "extra_info": {**sample.metadata}}
"""


def test_a_list_of_a_batch_that_is_only_taken_apart_is_not_read() -> None:
    (extra,), (source,) = seeded(ZIPPED, "extra_info lost"), seeded(ZIPPED, "data_source lost")
    assert extra.equivalent == "the scorer does not read extra_info"
    assert source.equivalent == ""  # its items go by another name
    call = "score(solution, source)"
    for before, after in ((call, "score(extra_info)"), ("infos)]", "infos[:1])]"), (call, "extra_infos or score")):
        read = seeded(ZIPPED.replace(before, after), "extra_info lost")
        assert [item.equivalent for item in read] == [""], after
