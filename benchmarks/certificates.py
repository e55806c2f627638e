"""Parity certificates of verl's own scorers and of the rewards of recipes, one row each.

    python benchmarks/certificates.py [--builtin VERSION ...] [--recipe DIR[::LAUNCH] ...] [--verl-root DIR]
        [--cases N] [--seconds S] [--most N] [--only TEXT] [--sandbox KIND] [--out TABLE.md] [--json FILE]

Only the reward is written and compared: a recipe whose tools or algorithm cannot be moved still gets a certificate of
its reward. Verl's scorers get rows made up from what is publicly known about their data; recipes their own rows where
the files are at hand. The verl releases should be cached already (`migrate-agent doctor --fix`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from migrate_tools.errors import MigrateError
from migrate_tools.model import CheckResult, Launch, Recipe, VerlRef
from migrate_tools.parity.alone import builtin_launch, certify, function_launch, recipe_of
from migrate_tools.parity.frozen import Budget
from migrate_tools.sandbox import Sandbox, open_sandbox
from migrate_tools.verl.source import wheel

SOURCES = (
    "openai/gsm8k",
    "lighteval/MATH",
    "math_dapo",
    "numina_aops_forum",
    "codecontests",
    "hiyouga/geometry3k",
    "searchR1_nq",
)
"""One data_source for every scorer that verl's dispatch knows."""
MATH_VERIFY = '''"""How a recipe uses verl's math_verify scorer: through a function of its own."""

from verl.utils.reward_score import math_verify


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return math_verify.compute_score(solution_str, ground_truth)
'''
NUMBERS = ("18", "\\frac{1}{2}", "x^2+1", "3", "0.25", "(1,2)", "70", "\\sqrt{2}")
CALL = '{{"name": "{name}", "parameters": {{"query": "{query}", "limit": {limit}}}}}'
CALLS = "<think>look it up</think>\n<tool_call>\n{calls}\n</tool_call>"
REPLY = "<think>nothing to call</think>\n<response>{query}</response>"
HEAD = (
    "| reward | verl | status | cases | accepted | rejected | coverage old | coverage new | power | real rows (Wilson) "
    "| s | remarks |"
)


def main() -> None:
    """Makes the certificates and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--builtin", action="append", default=[], metavar="VERSION")
    parser.add_argument("--recipe", action="append", default=[], metavar="DIR[::LAUNCH]")
    parser.add_argument("--verl-root", type=Path)
    parser.add_argument("--cases", type=int, default=Budget().cases)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--most", type=int, default=6, help="different rewards of one recipe")
    parser.add_argument("--only", default="")
    parser.add_argument("--sandbox", choices=("auto", "docker", "bubblewrap"), default="auto")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    budget = Budget(seconds=options.seconds, cases=options.cases)
    sandbox = open_sandbox(options.sandbox)
    lines, documents = [HEAD, "|" + " --- |" * 12], []
    with tempfile.TemporaryDirectory() as place:
        for name, launch, recipe in subjects(options, sandbox, Path(place)):
            if options.only not in name:
                continue
            line, document = certificate(name, launch, recipe, sandbox, Path(place, "work"), budget)
            lines.append(line)
            documents.append(document)
            print(line, file=sys.stderr, flush=True)
    text = "\n".join(lines) + "\n"
    if options.out:
        options.out.write_text(text, "utf-8")
    if options.json:
        options.json.write_text(json.dumps(documents, indent=1, default=str) + "\n", "utf-8")
    print(text, end="")


def subjects(
    options: argparse.Namespace, sandbox: Sandbox, place: Path
) -> Iterator[tuple[str, Launch | str, Recipe | None]]:
    """Name, launch and recipe of every reward; a text in place of the launch says why there is none."""
    for version in options.builtin:
        verl = wheel(version)
        for source in SOURCES:
            try:
                launch = builtin_launch(verl, source)
                yield f"{source} ({version})", launch, recipe_of(launch, place)
            except MigrateError as error:
                yield f"{source} ({version})", error.line(), None
        yield from functions(verl, place / version)
    for text in options.recipe:
        path, _, wanted = text.partition("::")
        yield from launches(Path(path), wanted, options, sandbox)


def functions(verl: VerlRef, place: Path) -> Iterator[tuple[str, Launch, Recipe]]:
    """verl's scorers that no data_source selects: rlla, the batch form of MATH, math_verify."""
    place.mkdir(parents=True, exist_ok=True)
    scorers = Path(verl.root, "verl/utils/reward_score")
    numbers = [row("HuggingFaceH4/MATH-500", value, index) for index, value in enumerate(NUMBERS)]
    if (scorers / "rlla.py").is_file():
        path, config = "verl/utils/reward_score/rlla.py", {"trainer.experiment_name": "gdpo-qwen2.5-1.5b"}
        launch = function_launch(verl, path, "compute_score", rlla_rows(), manager="gdpo", config=config)
        yield f"rlla ({verl.version})", launch, recipe_of(launch, place)
    if (scorers / "math_batch.py").is_file():
        path = "verl/utils/reward_score/math_batch.py"
        launch = function_launch(verl, path, "compute_score_batched", numbers, manager="batch")
        yield f"math_batch ({verl.version})", launch, recipe_of(launch, place)
    if (scorers / "math_verify.py").is_file():
        (place / "math_verify_reward.py").write_text(MATH_VERIFY, "utf-8")
        launch = function_launch(verl, str(place / "math_verify_reward.py"), "compute_score", numbers)
        spec = launch.reward.model_copy(
            update={"path": "math_verify_reward.py", "traits": ("import:math_verify", "process")}
        )
        launch = launch.model_copy(update={"reward": spec, "name": "math_verify"})
        yield f"math_verify ({verl.version})", launch, recipe_of(launch, place)


def row(source: str, truth: Any, index: int) -> dict[str, Any]:
    """One row in verl's layout."""
    return {
        "data_source": source,
        "prompt": [{"role": "user", "content": f"Question {index}?"}],
        "ability": "made-up",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"index": index, "split": "train"},
    }


def rlla_rows() -> list[dict[str, Any]]:
    """Ground truths of the rlla scorer: a thought, then tool calls (one a line), a reply, both or none."""
    queries = ("rain in Paris", "blue whale", "height of Everest")
    names = ("search", "lookup")
    calls = [CALL.format(name=name, query=query, limit=n + 3) for name in names for n, query in enumerate(queries)]
    several = [*calls[:3], "\n".join(calls[1:3]), "\n".join((calls[0], calls[0], calls[4]))]
    truths = [CALLS.format(calls=call) for call in several] + [REPLY.format(query=query) for query in queries[:2]]
    both = f"{CALLS.format(calls=calls[5])}\n<response>it is found</response>"
    return [row("rlla", truth, i) for i, truth in enumerate([*truths, both, "<think>nothing to say</think>"])]


def launches(
    path: Path, wanted: str, options: argparse.Namespace, sandbox: Sandbox
) -> Iterator[tuple[str, Launch | str, Recipe | None]]:
    """The different rewards of a recipe."""
    from migrate_tools.parity.oracle import scorer_key
    from migrate_tools.verl.reader import read_recipe

    try:
        recipe = read_recipe(path, launches=[wanted] if wanted else [], verl_root=options.verl_root, sandbox=sandbox)
    except MigrateError as error:
        yield path.name, error.line(), None
        return
    seen: set[str] = set()
    for launch in recipe.launches:
        if (key := scorer_key(launch)) not in seen and len(seen) < options.most:
            seen.add(key)
            yield f"{path.name}: {launch.name}", launch, recipe


def certificate(
    name: str, launch: Launch | str, recipe: Recipe | None, sandbox: Sandbox, work: Path, budget: Budget
) -> tuple[str, dict[str, Any]]:
    """The row of one reward and its whole result."""
    if isinstance(launch, str) or recipe is None:
        return table_row(name, "", None, str(launch), 0.0), {"name": name, "error": str(launch)}
    began = time.monotonic()
    try:
        result = certify(recipe, launch, sandbox=sandbox, work=work / name.replace("/", "_"), budget=budget)
    except MigrateError as error:
        seconds = time.monotonic() - began
        return table_row(name, launch.verl.version, None, error.line(), seconds), {"name": name, "error": error.line()}
    seconds = time.monotonic() - began
    document = {"name": name, "reward": launch.reward.model_dump(mode="json"), "result": result.model_dump(mode="json")}
    return table_row(name, launch.verl.version, result, result.summary, seconds), document


def table_row(name: str, version: str, result: CheckResult | None, remark: str, seconds: float) -> str:
    """One line of the table."""
    evidence = result.evidence if result else {}
    power = evidence.get("power") or {}
    real = evidence.get("real_rows") or {}
    cells = [
        name,
        version,
        result.status.replace("_", " ") if result else "none",
        str(evidence.get("compared", "")),
        share(evidence.get("accepted_share", evidence.get("accepted"))),
        share(evidence.get("rejected_share", evidence.get("rejected"))),
        coverage(evidence, "old"),
        coverage(evidence, "new"),
        f"{power['caught']}/{power['seeded']}" if power.get("seeded") else "",
        f"{real['n'] - real['differences']}/{real['n']} (<= {real['wilson95']:.2%})" if real.get("n") else "",
        f"{seconds:.0f}",
        remark.replace("|", "\\|").replace("\n", " ")[:300],
    ]
    return "| " + " | ".join(cells) + " |"


def share(value: Any) -> str:
    """A share in percent."""
    return f"{value:.0%}" if isinstance(value, (int, float)) else ""


def coverage(evidence: dict[str, Any], side: str) -> str:
    """Lines and branches of one side, in percent."""
    found = (evidence.get("coverage") or {}).get(side) or {}
    parts = [share(found[key]) for key in ("lines", "branches") if isinstance(found.get(key), (int, float))]
    if not parts and side == "old" and (lines := evidence.get("line_coverage")) and lines.get("lines"):
        parts = [share(lines["hit"] / lines["lines"])]
    return " / ".join(parts)


if __name__ == "__main__":
    main()
