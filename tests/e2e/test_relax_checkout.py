"""A recipe written into a Relax checkout: its own flags are the contract, its scripts are those that exist."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest
from e2e_tools import RECIPES, SMALL, planned
from migrate_agent.cli import run_cli
from relax_trees import relax_checkout

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("unmeasured")]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIGRATE_AGENT_HOME", str(tmp_path / "home"))


def said(*arguments: str) -> tuple[int, dict[str, object]]:
    """Exit code and JSON of one command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = run_cli([*arguments, "--json"])
    return code, json.loads(out.getvalue())


def contract_check(document: dict[str, object]) -> dict[str, object]:
    (found,) = [item for item in document["checks"] if item["name"] == "contract"]  # type: ignore[attr-defined]
    return dict(found)


def test_the_checkout_decides_which_flags_exist(tmp_path: Path) -> None:
    recipe = str(RECIPES / "quickstart")
    root = relax_checkout(tmp_path / "relax", "studio")
    code, document = said("run", recipe, "--relax-root", str(root), *SMALL)
    assert (code, document["verdict"]) == (0, "rehearsed")
    assert document["relax"] == {"contract": "checkout relax no commit"}
    assert (root / "examples" / "quickstart" / "run_quickstart.sh").is_file()

    climb = ("verify", str(root / "examples" / "quickstart"), "--rung", "1", "--sandbox", "bubblewrap")
    code, document = said(*climb)
    assert (code, contract_check(document)["status"]) == (0, "passed")

    relax_checkout(root, "studio", without=["--rollout-shuffle"])
    code, document = said(*climb)
    check = contract_check(document)
    assert (code, check["status"]) == (1, "failed")
    assert "--rollout-shuffle does not exist in this version" in str(check["summary"])


def test_model_args_are_written_where_the_checkout_has_no_model_script(tmp_path: Path) -> None:
    scripts = {"scripts__models__other-7B.sh": "MODEL_ARGS=()\n"}
    saved = tmp_path / "contract.json"
    said("contract", str(relax_checkout(tmp_path / "relax", **scripts)), "--out", str(saved))
    plan = planned("quickstart", "", "--contract", str(saved)).translation
    assert plan["model_script"] == ""
    assert {"--num-layers 28", "--hidden-size 1024", "--num-query-groups 8"} <= set(plan["model_args"])
    assert "scripts/models/qwen3-0.6B.sh is not in this Relax checkout" in {note["text"] for note in plan["notes"]}
    assert planned("quickstart").translation["model_script"] == "qwen3-0.6B"


def test_a_saved_contract_serves_where_the_checkout_is_not(tmp_path: Path) -> None:
    root = relax_checkout(tmp_path / "relax", "infra")
    saved = tmp_path / "contract.json"
    code, document = said("contract", str(root), "--out", str(saved))
    assert (code, document["base"], document["only_in_checkout"], document["differences"]) == (0, "infra", [], [])
    flags = planned("quickstart", "", "--contract", str(saved)).flags
    assert flags == planned("quickstart", "", "--relax-version", "infra").flags
    assert flags != planned("quickstart").flags
