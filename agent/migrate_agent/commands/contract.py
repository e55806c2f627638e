"""`migrate-agent contract`: what a Relax checkout has, read from its syntax trees, never imported."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from migrate_tools.errors import UsageError

from migrate_agent.runs import write_bytes

if TYPE_CHECKING:
    from migrate_tools.relax.checkout import Checkout

SHOWN = 20


def contract(relax_root: Path, *, out: Path | None, as_json: bool) -> int:
    """Prints what the checkout has and how it differs from the built-in contract; saves it in `out`.

    Raises:
        RefusedInput: the folder is no Relax checkout.
        UsageError: `out` cannot be written.
    """
    from migrate_tools.relax.checkout import read_checkout

    if out is not None and out.suffix != ".json":
        raise UsageError(f"--out {out} does not end in .json", "contracts are JSON files")
    checkout = read_checkout(relax_root)
    if out is not None:
        try:
            write_bytes(out, checkout.saved().encode())
        except OSError as error:
            raise UsageError(f"{out} cannot be written: {error.strerror}", "choose another --out") from error
    print(json.dumps(_document(checkout), indent=1) if as_json else "\n".join(_page(checkout, out)))
    return 0


def _document(checkout: Checkout) -> dict[str, Any]:
    return {
        **json.loads(checkout.saved()),
        "only_in_checkout": list(checkout.only_here),
        "only_in_built_in": list(checkout.only_built_in),
        "differences": [asdict(item) for item in checkout.differences],
        "unparsed": list(checkout.unparsed),
    }


def _page(checkout: Checkout, out: Path | None) -> list[str]:
    commit = f" at {checkout.commit[:12]}" if checkout.commit else ""
    lines = [
        f"{checkout.name}{commit}: {len(checkout.flags)} flags, {len(checkout.hooks)} hooks, "
        f"{len(checkout.model_scripts)} model scripts, {len(checkout.sample_fields)} members of Sample; "
        f"nearest to the built-in contract {checkout.base}",
        _names("not in the built-in contract", checkout.only_here),
        _names("in the built-in contract, not added here", checkout.only_built_in),
        _names("hooks", sorted(checkout.hooks)),
        _names("model scripts", checkout.model_scripts),
    ]
    lines.append(f"{len(checkout.differences)} fields differ from the built-in contract")
    lines += [
        f"  {item.flag} {item.field}: {item.built_in!r} built in, {item.checkout!r} here"
        for item in checkout.differences[:SHOWN]
    ]
    if len(checkout.differences) > SHOWN:
        lines.append(f"  and {len(checkout.differences) - SHOWN} more (--json)")
    lines += [f"not read: {item.file}:{item.line}: {item.why}" for item in checkout.unread]
    lines += [f"not read: {path} is not Python that can be parsed here" for path in checkout.unparsed]
    if out is not None:
        lines.append(f"saved in {out}; use it with --contract {out}")
    return lines


def _names(title: str, names: tuple[str, ...] | list[str]) -> str:
    rest = f" and {len(names) - SHOWN} more (--json)" if len(names) > SHOWN else ""
    return f"{len(names)} {title}: {', '.join(names[:SHOWN]) or 'none'}{rest}"
