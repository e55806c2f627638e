"""What is shipped of the parity check."""

from __future__ import annotations

from pathlib import Path

from migrate_agent.evidence import parity_files
from migrate_tools.model import CheckResult


def test_oracles_once_each_and_mismatches_as_tests(tmp_path: Path) -> None:
    for launch in ("run_a", "run b"):
        folder = tmp_path / "parity" / launch / "oracle"
        folder.mkdir(parents=True)
        (folder / "cases.jsonl").write_text(f"{launch} sk-secret\n")
        (folder / "oracle.json").write_text("{}")
        (folder / "rows_0.parquet").write_bytes(b"PAR1")
    checks = [
        CheckResult(name="parity:run_a", rung=3, status="failed", evidence={"pytest": "def test(): ...\n"}),
        CheckResult(name="parity:run b", rung=3, status="passed"),
    ]
    files = parity_files(
        tmp_path,
        [{"launch": "run_a"}, {"launch": "run b"}, {"launch": "run_a"}],
        checks,
        lambda t: t.replace("sk-secret", "x"),
    )
    assert files == {
        "parity/run_a/cases.jsonl": "run_a x\n",
        "parity/run_a/oracle.json": "{}",
        "parity/run_b/cases.jsonl": "run b x\n",
        "parity/run_b/oracle.json": "{}",
        "parity/test_parity_run_a.py": "def test(): ...\n",
    }
