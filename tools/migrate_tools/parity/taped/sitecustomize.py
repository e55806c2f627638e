"""Loaded by every Python that a process of the comparison starts: what was replaced there is replaced here too."""

import json
import os

if os.environ.get("PARITY_VERL"):
    from migrate_tools.parity import stubs

    stubs.install(os.environ["PARITY_VERL"])
if os.environ.get("PARITY_ABSENT"):
    from migrate_tools.parity import absent

    absent.watch_on(os.environ["PARITY_ABSENT"])
if os.environ.get("PARITY_TAPE"):
    from migrate_tools.parity import clients

    clients.install(json.loads(os.environ["PARITY_TAPE"]))
