"""The bundled recipe through the whole command line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e_tools import RECIPES, SMALL, Migrate, flags_of
from migrate_agent.cli import run_cli
from migrate_agent.evidence import ORACLE_FILES

pytestmark = pytest.mark.e2e
QUICKSTART = str(RECIPES / "quickstart")


def digests(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_quickstart_is_rehearsed_with_parity(migrate: Migrate) -> None:
    outcome = migrate("quickstart")
    document = outcome.document
    assert (outcome.code, document["verdict"]) == (0, "rehearsed")
    assert document["parity"]["cases"] >= 100
    assert document["parity"]["mismatches"] == 0
    assert {check["rung"] for check in document["checks"] if check["status"] == "passed"} >= {0, 1, 2, 3, 5, 6}
    (gpu,) = outcome.check(7)
    assert gpu["status"] == "skipped"
    assert sum(document["ledger"][0]["counts"].values()) == document["ledger"][0]["read"] == len(document["settings"])


def test_quickstart_files_are_those_that_the_report_lists(migrate: Migrate) -> None:
    outcome = migrate("quickstart")
    written = digests(outcome.root)
    listed = {item["path"]: item["sha256"] for item in outcome.document["files"]}
    assert listed.items() <= written.items()
    oracle = {f"examples/quickstart/migration/parity/run_sums/{name}" for name in ORACLE_FILES}
    assert set(written) - set(listed) - oracle == {
        "examples/quickstart/migration/MIGRATION.md",
        "examples/quickstart/migration/files.json",
        "examples/quickstart/migration/migration.json",
        "examples/quickstart/migration/rollout/run_sums/0.pt",
    }
    assert {"examples/quickstart/reward_quickstart.py", "scripts/tools/process_quickstart.py"} <= set(listed)


def test_quickstart_trains_what_the_recipe_says(migrate: Migrate) -> None:
    flags = flags_of(migrate("quickstart").text("run_quickstart.sh"))
    assert flags["--rollout-batch-size"] == ["32"]
    assert flags["--n-samples-per-prompt"] == ["8"]
    assert flags["--global-batch-size"] == ["256"]
    assert flags["--advantage-estimator"] == ["grpo"]
    assert flags["--rollout-max-response-len"] == ["256"]
    assert flags["--eps-clip"] == ["0.2"]
    assert flags["--eps-clip-high"] == ["0.2"]


@pytest.mark.usefixtures("unmeasured")
def test_running_again_gives_the_same_bytes_and_spares_an_edited_file(
    migrate: Migrate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", QUICKSTART, "--out", str(tmp_path / "out"), *SMALL]
    assert run_cli(arguments) == 0
    first = digests(tmp_path / "out")
    assert run_cli(arguments) == 0
    assert digests(tmp_path / "out") == first
    edited = tmp_path / "out" / "examples" / "quickstart" / "run_quickstart.sh"
    edited.write_text(edited.read_text() + "# mine\n")
    capsys.readouterr()
    assert run_cli(arguments) == 2
    assert "run_quickstart.sh" in capsys.readouterr().err
    assert edited.read_text().endswith("# mine\n")
    assert run_cli([*arguments, "--force"]) == 0
    assert digests(tmp_path / "out") == first


@pytest.mark.usefixtures("unmeasured")
def test_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run_cli(["run", QUICKSTART, "--out", str(out), "--dry-run", *SMALL]) == 0
    assert not out.exists()
    assert "nothing was written" in capsys.readouterr().out


@pytest.mark.usefixtures("unmeasured")
def test_verify_accepts_the_example_and_notices_a_spoiled_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run_cli(["run", QUICKSTART, "--out", str(out), *SMALL]) == 0
    example = out / "examples" / "quickstart"
    assert run_cli(["verify", str(example), "--sandbox", "bubblewrap"]) == 0
    script = example / "run_quickstart.sh"
    script.write_text(script.read_text().replace("--rollout-batch-size", "--rollout-batchsize"))
    capsys.readouterr()
    assert run_cli(["verify", str(example), "--sandbox", "bubblewrap", "--rung", "1"]) == 1
    said = capsys.readouterr().out
    assert "only rung 1 was climbed" in said
    assert "edited since it was written: examples/quickstart/run_quickstart.sh" in said
    assert "--rollout-batchsize" in said


def test_inspect_writes_nothing_and_names_the_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = digests(RECIPES / "quickstart")
    assert run_cli(["inspect", QUICKSTART]) == 0
    page = capsys.readouterr().out
    assert "reward_sums.py:compute_score" in page
    assert "0.9.1" in page
    assert digests(RECIPES / "quickstart") == before


def test_a_killed_run_resumes_to_the_same_files(tmp_path: Path) -> None:
    environment = {**os.environ, "MIGRATE_AGENT_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "migrate_agent.cli", "run", QUICKSTART, "--out", str(tmp_path / "out")]
    command += SMALL
    subprocess.run(command, env=environment, check=True, capture_output=True)
    expected = digests(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "first")
    child = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    run = ""
    assert child.stderr is not None
    for line in child.stderr:
        if found := re.search(r"run ([0-9a-f]{16}): test", line):
            run = found[1]
            break
    time.sleep(0.3)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stderr.close()
    assert run
    assert not (tmp_path / "out").exists()
    again = [sys.executable, "-m", "migrate_agent.cli", "run", "--resume", run, "--json"]
    done = subprocess.run(again, env=environment, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["run_id"] == run
    measured = {"migration.json", "MIGRATION.md", "files.json", "oracle.json"}  # they record seconds
    changed = {
        name.rpartition("/")[2] for name, digest in digests(tmp_path / "out").items() if expected[name] != digest
    }
    assert changed <= measured
