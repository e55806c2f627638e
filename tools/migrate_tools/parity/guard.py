"""What a generated example may not do: import verl, or look at the frozen oracle."""

from __future__ import annotations

import ast
from pathlib import Path

ORACLE_NAMES = ("oracle.json", "outcomes.jsonl", "cases.jsonl", "rows.parquet", "parity/")
IMPORTERS = frozenset({"import_module", "__import__", "find_spec", "run_module"})


def check_example(example_dir: Path) -> tuple[str, ...]:
    """One line for every place in the Python files below `example_dir` that breaks the rule; empty when none does."""
    problems: list[str] = []
    for path in sorted(example_dir.rglob("*.py")):
        name = str(path.relative_to(example_dir))
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError) as error:
            problems.append(f"{name}: cannot be parsed ({error.__class__.__name__})")
            continue
        problems += [f"{name}:{line}: {text}" for line, text in _problems(tree)]
    return tuple(problems)


def _problems(tree: ast.AST) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    docstrings = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, f"imports {alias.name}") for alias in node.names if _is_verl(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and _is_verl(node.module or ""):
            found.append((node.lineno, f"imports {node.module}"))
        elif isinstance(node, ast.Call) and _called(node.func) in IMPORTERS and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str) and _is_verl(first.value):
                found.append((node.lineno, f"imports {first.value}"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            for name in ORACLE_NAMES:
                if name in node.value:
                    found.append((node.lineno, f"names the parity oracle ({name})"))
                    break
    return sorted(set(found))


def _docstrings(tree: ast.AST) -> set[int]:
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _is_verl(name: str) -> bool:
    return name.partition(".")[0] == "verl"


def _called(function: ast.AST) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
