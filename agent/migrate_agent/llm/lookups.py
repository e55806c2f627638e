"""What a model may look up: files of the example, flags of the contract, rows of the tables, verl's source."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from migrate_tools.model import Example
from migrate_tools.relax.flag_model import FlagInfo

from migrate_agent.llm.actions import Lookup, LookupFlag, LookupRow, Read
from migrate_agent.llm.edits import text_of

NEAREST = 6
FOUND_LINES = 30
LONGEST = 12_000
"""Characters of one result."""
LARGEST_SOURCE = 1 << 20


@dataclass(frozen=True)
class References:
    """Where look-ups are answered from."""

    relax_version: str
    verl_root: str

    def answer(self, lookup: Lookup, example: Example) -> str:
        """The result of a look-up as text; says so when nothing is found."""
        if isinstance(lookup, Read):
            text = text_of(example, lookup.file)
            known = ", ".join(item.path for item in example.files)
            found = text if text is not None else f"the example has no such file; it has: {known}"
        elif isinstance(lookup, LookupFlag):
            found = self.flags(lookup.name)
        elif isinstance(lookup, LookupRow):
            found = self.rows(lookup.key)
        else:
            found = self.verl(lookup.text)
        return found if len(found) <= LONGEST else f"{found[:LONGEST]}\n[cut off]"

    def flags(self, name: str) -> str:
        """Flags of the contract with this name, or with this text in name or meaning, or near it."""
        from migrate_tools.relax.contract import load_contract

        contract = load_contract(self.relax_version)
        wanted = name.strip().lower()
        exact = contract.find(wanted)
        bare = wanted.strip("-").replace("_", "-")
        inside = [
            item for item in contract.flags.values() if bare and (bare in item.name or bare in item.meaning.lower())
        ]
        close = difflib.get_close_matches(f"--{bare}", contract.flags, n=NEAREST, cutoff=0.6)
        chosen = dict.fromkeys(
            item.name for item in [*([exact] if exact else []), *inside, *(contract.flags[key] for key in close)]
        )
        lines = [_flag_line(contract.flags[key]) for key in list(chosen)[:NEAREST]]
        return "\n".join(lines) or f"this Relax contract has no flag near {name!r}"

    def rows(self, key: str) -> str:
        """Rows of the mapping tables for a verl key, or for the keys near it."""
        from migrate_tools.mapping.tables import load_tables

        tables = load_tables()
        row = tables.lookup(key)
        last = key.rpartition(".")[2]
        near = [name for name in tables.by_key if name.rpartition(".")[2] == last]
        near += difflib.get_close_matches(key, tables.by_key, n=NEAREST, cutoff=0.75)
        rows = [row] if row else [tables.by_key[name] for name in near]
        chosen = {item.id: item for item in rows}
        lines = [
            f"{item.id}: {', '.join(item.keys[:3])} -> {item.status} {' '.join(item.relax)}: {item.reason}"
            for item in list(chosen.values())[:NEAREST]
        ]
        return "\n".join(lines) or f"no mapping row speaks for {key!r} or a key near it"

    def verl(self, text: str) -> str:
        """Lines of verl's Python and YAML sources that hold a text."""
        lines: list[str] = []
        for line in self._verl_lines(text):
            lines.append(line)
            if len(lines) == FOUND_LINES:
                break
        return "\n".join(lines) or f"verl's source does not hold {text!r}"

    def _verl_lines(self, text: str) -> Iterator[str]:
        root = Path(self.verl_root)
        for path in sorted((root / "verl").rglob("*")) if self.verl_root else ():
            if path.suffix not in (".py", ".yaml") or not path.is_file() or path.stat().st_size > LARGEST_SOURCE:
                continue
            for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
                if text in line:
                    yield f"{path.relative_to(root).as_posix()}:{number}: {line.strip()[:200]}"


def _flag_line(flag: FlagInfo) -> str:
    choices = f" one of {', '.join(map(str, flag.choices))}" if flag.choices else ""
    kind = "switch" if flag.is_switch else flag.type
    return f"{flag.name} ({kind}{choices}; default {flag.default!r}): {flag.meaning or flag.note or flag.group}"
