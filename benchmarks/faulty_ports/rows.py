"""Rows of the five recipes: a few of every kind, the same on every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def row(source: str, truth: Any, index: int, **extra: Any) -> dict[str, Any]:
    """One row as verl's preparation scripts write it."""
    return {
        "data_source": source,
        "prompt": [{"role": "user", "content": f"Question {index}?"}],
        "ability": "bench",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"split": "train", "index": index, **extra},
    }


def amount() -> list[dict[str, Any]]:
    """Amounts as text, some in percent, some asked for without the marker."""
    truths = ["1,250.50", "12", "-7.5", "0", "48%", "$3,000", "19.99", "100000", "5.10", "12.5%", "-400", "0.25"]
    return [
        row("amount", truth, index, style="free" if index % 4 == 3 else "fixed", unit="%" if "%" in truth else "")
        for index, truth in enumerate(truths)
    ]


def boxed() -> list[dict[str, Any]]:
    """Expressions in the forms that answers are written in."""
    truths = [
        "\\frac{1}{2}", "12", "3\\sqrt{5}", "-7", "1000", "0.5", "x^2+1", "(1,2)", "45", "\\frac{\\pi}{6}", "8.25",
        "\\{1,2,3\\}", "-\\frac{3}{4}", "2\\pi", "x\\leq 3", "\\text{even}",
        "125000", "\\sqrt{x}", "\\frac{13}{20}", "-0.25",
    ]  # fmt: skip
    return [row("boxed", truth, index) for index, truth in enumerate(truths)]


def lookup() -> list[dict[str, Any]]:
    """Names with other ways to write them."""
    truths = [
        ["Marie Curie", "Maria Sklodowska-Curie"], ["the Nile", "Nile River"], ["1969"], ["yes"], ["An Apple a Day"],
        ["New York City", "NYC", "New York"], ["no"], ["H. G. Wells"], ["blue whale"], ["O'Brien"],
        ["Treaty of Westphalia"], ["Jean-Luc Picard", "Picard"],
    ]  # fmt: skip
    return [row("lookup", {"target": truth}, index) for index, truth in enumerate(truths)]


def dispatch() -> list[dict[str, Any]]:
    """Four kinds of question, six data sources."""
    rows: list[dict[str, Any]] = []
    for index in range(24):
        kind = index % 6
        number, names = str(index * 7 - 40), ["Ada", "Ann", "Anna", "Dan"][: 2 + index // 6 % 3]
        source = ("arith_easy", "arith_hard", "quiz", "exam", "facts", "sorting")[kind]
        value = (number, f"{number}.5", "ABCDE"[index % 5], "BCDAE"[index % 5], ("Yes", "no")[index // 6 % 2], "")[kind]
        truth = {"value": value, "order": names if kind == 5 else []}
        rows.append(row(source, truth, index, level=1 + index % 3, hint=index % 4 == 1))
    return rows


def screen() -> list[dict[str, Any]]:
    """Clicks, typing and scrolling; half of the coordinates in thousandths of the screen."""
    rows = []
    for index in range(18):
        left, top = 40 + 90 * index, 30 + 40 * index
        truth = {
            "action": ("click", "click", "type", "scroll", "click", "wait")[index % 6],
            "bbox": [left, top, left + 125, top + 45],
            "text": ("hello world", "Paris", "42 Main St.")[index % 3],
            "direction": ("up", "down")[index % 2],
        }
        rows.append(row("screen", truth, index, width=1920, height=1080, relative=index % 2 == 1))
    return rows


ROWS = {"amount": amount, "boxed": boxed, "lookup": lookup, "dispatch": dispatch, "screen": screen}


def write(name: str, folder: Path) -> None:
    """data/train.parquet and data/test.parquet of one recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        pq.write_table(pa.Table.from_pylist(ROWS[name]()), folder / f"{split}.parquet")
