"""HTTP answers from a tape, for rewards that ask a server: inside the sandbox there is none."""

from __future__ import annotations

import json
import os

TAPE_VARIABLE = "MIGRATE_REHEARSAL_TAPE"
"""Environment variable: the tape's settings as JSON; unset when the reward asks no server."""


def install_tape() -> bool:
    """Put the tape in the place of the HTTP clients when the rehearsal wants it; whether it did."""
    settings = os.environ.get(TAPE_VARIABLE)
    if not settings:
        return False
    from migrate_tools.parity import clients

    clients.install(json.loads(settings))
    return True
