"""`migrate-agent mcp`: serves the commands to another agent over stdio."""

from __future__ import annotations

from migrate_tools.errors import MachineError


def mcp() -> int:
    """Serves until stdin ends.

    Raises:
        MachineError: the extra is not installed.
    """
    try:
        from migrate_agent.mcp_server.server import build_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise MachineError(f"the package {error.name} is missing", "pip install 'migrate-agent[mcp]'") from None
    build_server().run("stdio")
    return 0
