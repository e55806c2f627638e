"""Threads build one syntax tree at a time."""

from __future__ import annotations

import ast
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from migrate_tools.parsing import parse_one_at_a_time


def test_no_tree_is_begun_while_another_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = [0], [0]

    def slow(text: str, mode: str = "exec") -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.002)
        inside[0] -= 1
        return compile(text, "x", mode, ast.PyCF_ONLY_AST)

    monkeypatch.setattr(ast, "parse", slow)
    parse_one_at_a_time()
    wrapped = ast.parse
    parse_one_at_a_time()
    assert ast.parse is wrapped
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(lambda number: ast.parse(f"{number} + 1", mode="eval"), range(16)))
    assert most == [1]
    assert [ast.unparse(tree) for tree in trees] == [f"{number} + 1" for number in range(16)]
