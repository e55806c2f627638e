"""hooks_<algo>.py: only what the launch needs, with its numbers, importable without torch, the library's own code."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from migrate_tools.mapping.algorithm_table import ESTIMATORS, LOSSES
from migrate_tools.model import Hook
from migrate_tools.relax.hooks import LIBRARY, hook_module_names, name_hook_modules, render_hooks
from writer_inputs import make_translation

POST_PROCESS = "--custom-reward-post-process-path"
LOSS = "--custom-loss-function-path"
TIS = "--custom-tis-function-path"
REDUCER = "--custom-pg-loss-reducer-function-path"
EVERY = [
    *((POST_PROCESS, row.hook) for row in ESTIMATORS.values() if row.hook),
    (POST_PROCESS, "discounted_returns"),
    *((LOSS, row.hook) for row in LOSSES.values() if row.hook),
    (TIS, "rollout_correction"),
    (REDUCER, "token_sum"),
    (REDUCER, "micro_batch_token_mean"),
    ("--dynamic-sampling-filter-path", "keep_varied_groups"),
]


def functions(text: str) -> dict[str, str]:
    """Top-level functions and classes by name, as normalised source."""
    nodes = (node for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.ClassDef)))
    return {node.name: ast.unparse(node) for node in nodes}


def render(*hooks: Hook) -> str:
    return render_hooks(hooks, algo="demo", origin="run.sh (verl 0.9.1)")


@pytest.fixture(scope="module")
def modules() -> dict[str, str]:
    """A module of each hook on its own."""
    return {function: render(Hook(flag=flag, function=function)) for flag, function in sorted(set(EVERY))}


def test_every_hook_is_complete_documented_and_free_of_torch(modules: dict[str, str], tmp_path: Path) -> None:
    for name, text in modules.items():
        (tmp_path / f"h_{name}.py").write_text(text, encoding="utf-8")
    code = (
        "import importlib, sys\nfor name in ('torch', 'verl', 'relax', 'migrate_tools'): sys.modules[name] = None\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\nfor name in sys.argv[1:]:\n"
        "    function = getattr(importlib.import_module('h_' + name), name)\n"
        "    print(name, 'Source: ' in function.__doc__)"
    )
    command = [sys.executable, "-I", "-c", code, *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"{name} True" for name in modules], done.stderr
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select=F,I", str(tmp_path)]
    whole = subprocess.run(command, capture_output=True, text=True, check=False)
    assert whole.returncode == 0, whole.stdout  # no name is undefined, no import unused


def test_a_module_holds_the_library_s_own_functions(modules: dict[str, str]) -> None:
    library: dict[str, str] = {}
    for path in LIBRARY.glob("*.py"):
        library |= functions(path.read_text(encoding="utf-8"))
    for module in modules.values():
        for name, text in functions(module).items():
            assert text == library[name]


def test_only_what_is_needed_is_written(modules: dict[str, str]) -> None:
    assert set(functions(modules["leave_one_out"])) == {"leave_one_out", "group_positions", "raw_rewards"}


def test_numbers_take_the_place_of_defaults() -> None:
    rules = [["token_k1", 0.5, 2.0]]
    text = render(Hook(flag=TIS, function="rollout_correction", constants={"REJECT": rules, "IS_LOWER": 0.25}))
    values: dict[str, object] = {}
    exec(compile(text, "hooks", "exec"), values)
    assert (values["REJECT"], values["IS_LOWER"], values["VETO"]) == ((("token_k1", 0.5, 2.0),), 0.25, None)


def test_conflicts_and_unknown_names_are_errors() -> None:
    one = Hook(flag=TIS, function="rollout_correction", constants={"IS_UPPER": 2.0})
    other = Hook(flag=LOSS, function="gpg_loss", constants={"IS_UPPER": 3.0})
    with pytest.raises(ValueError, match="IS_UPPER is both"):
        render(one, other)
    with pytest.raises(ValueError, match="no constant NOTHING"):
        render(Hook(flag=TIS, function="rollout_correction", constants={"NOTHING": 1}))
    with pytest.raises(ValueError, match="no function nothing"):
        render(Hook(flag=TIS, function="nothing"))


def test_launches_with_the_same_hooks_share_a_module() -> None:
    hook = Hook(flag=POST_PROCESS, function="leave_one_out")
    other = hook.model_copy(update={"function": "pass_at_k"})
    items = [
        make_translation(name, variant=name).model_copy(update={"hooks": hooks})
        for name, hooks in (("a", (hook,)), ("b", ()), ("c", (hook,)), ("d", (other,)))
    ]
    assert hook_module_names(items) == {"a": "hooks_demo", "c": "hooks_demo", "d": "hooks_demo_d"}
    assert name_hook_modules(items)[1] == items[1]
