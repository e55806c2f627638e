"""What an endpoint can do, as `migrate-agent doctor` found out; kept in the user's cache for later runs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from migrate_tools.model import Frozen
from pydantic import ValidationError

from migrate_agent.llm.talk import Mode
from migrate_agent.llm_settings import Endpoint
from migrate_agent.runs import write_bytes


class Capability(Frozen):
    """The best form of answer that holds, and what was seen; None: not tried."""

    mode: Mode = "json_schema"
    usage: bool | None = None
    tool_calls: bool | None = None
    seconds: float | None = None
    """Of a short question."""


def cache_file(endpoint: Endpoint) -> Path:
    """Where the findings about this model on this endpoint are kept."""
    base = Path(os.environ.get("MIGRATE_AGENT_CACHE") or Path.home() / ".cache" / "migrate-agent")
    mark = hashlib.sha256(f"{endpoint.base_url}\n{endpoint.model}".encode()).hexdigest()[:16]
    return base / "llm" / f"{mark}.json"


def recall(endpoint: Endpoint) -> Capability:
    """What was found out; the best is assumed where nothing was."""
    try:
        return Capability.model_validate_json(cache_file(endpoint).read_text("utf-8"))
    except (OSError, ValidationError):
        return Capability()


def remember(endpoint: Endpoint, found: Capability) -> Path:
    """Keeps the findings and returns their file.

    Raises:
        OSError: it cannot be written.
    """
    path = cache_file(endpoint)
    write_bytes(path, found.model_dump_json(indent=1).encode())
    return path
