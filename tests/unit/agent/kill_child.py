"""A run with a live model, in a process of its own that a test kills: arguments are the run id and a flag file."""

from __future__ import annotations

import sys
from pathlib import Path

from migrate_agent.graph import run_graph
from migrate_agent.llm_settings import LlmSettings, open_model
from migrate_agent.nodes import Context
from migrate_agent.runs import open_run
from test_consult import JudgingEngine


def main() -> None:
    """Runs until the parent ends it."""
    run = open_run(sys.argv[1])
    model = open_model(LlmSettings(mode="auto"), run.root)
    engine = JudgingEngine(python="x = (wrong, wrong)\n")
    run_graph(Context(run, run.request(), engine, print, model), lambda node, took: None, resume=False)
    Path(sys.argv[2]).touch()


if __name__ == "__main__":
    main()
