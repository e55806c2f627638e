"""Loaded by every Python that a taped process starts: its HTTP clients talk to the tape as well."""

import json
import os

if os.environ.get("PARITY_TAPE"):
    from migrate_tools.parity import clients

    clients.install(json.loads(os.environ["PARITY_TAPE"]))
