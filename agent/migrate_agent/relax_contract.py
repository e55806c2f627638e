"""Which flag contract a command works with: a built-in version, a saved file, or the one read from a checkout."""

from __future__ import annotations

import hashlib
from pathlib import Path

from migrate_tools.errors import UsageError

from migrate_agent.runs import home, write_bytes


def choose(relax_version: str | None, contract_file: Path | None, relax_root: Path | None) -> str:
    """The contract as `load_contract` takes it: a version, or the path of a file.

    An explicit choice wins; else a checkout is read, and its contract kept under a name made of its content, so that a
    run that is resumed meets the same one; else "latest".

    Raises:
        UsageError: two choices at once, or a file that is no saved contract.
        RefusedInput: the checkout adds no flag (choose a built-in contract with --relax-version).
    """
    from migrate_tools.relax.contract import load_contract

    if relax_version and contract_file:
        raise UsageError("--relax-version and --contract exclude each other", "give one of them")
    if contract_file is not None:
        if not contract_file.is_file() or contract_file.suffix != ".json":
            raise UsageError(
                f"{contract_file} is no JSON file", "make one with migrate-agent contract RELAX_ROOT --out FILE.json"
            )
        load_contract(str(contract_file.resolve()))
        return keep(contract_file.read_text("utf-8"))
    if relax_version or relax_root is None:
        return relax_version or "latest"
    from migrate_tools.relax.checkout import read_checkout

    return keep(read_checkout(relax_root).saved())


def keep(text: str) -> str:
    """Stores a contract under a name made of its content; returns the path."""
    path = home() / "contracts" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text.encode())
    return str(path)


def kept(name: str) -> str:
    """The path of a contract that an earlier run read from a checkout.

    Raises:
        UsageError: it is no longer there.
    """
    path = home() / "contracts" / Path(name).name
    if not path.is_file():
        raise UsageError(
            f"the contract {name} that the example was written for is not here",
            "give --relax-version, or --contract FILE from migrate-agent contract RELAX_ROOT --out FILE",
        )
    return str(path)
