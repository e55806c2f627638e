"""Files that a recipe wants copied over verl's own rollout before training."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from migrate_tools.verl.paths import walk
from migrate_tools.verl.versions import read_small

REPLACED = {
    "verl/workers/rollout/sglang_rollout/sglang_rollout.py": "SGLangRollout",
    "verl/workers/rollout/schemas.py": "AsyncRolloutRequest",
    "verl/workers/rollout/chat_scheduler.py": "ChatCompletionScheduler",
    "verl/experimental/agent_loop/tool_agent_loop.py": "ToolAgentLoop",
    "verl/experimental/agent_loop/agent_loop.py": "AgentLoopWorker",
}
"""Files of verl that run the turns (0.3 to 0.9), and a class that each defines."""
MOST = 4000


def own_rollout(folder: Path) -> tuple[Path, str] | None:
    """A file below a folder that stands for one of verl's, and verl's path of it; None when there is none.

    It has the name of verl's file, defines its class anew and does not lie where verl has it.
    """
    for path in islice(walk(folder), MOST):
        for place, name in REPLACED.items():
            if path.name != place.rpartition("/")[2] or path.as_posix().endswith(place):
                continue
            if re.search(rf"^class {name}\b", read_small(path), re.MULTILINE):
                return path, place
    return None
