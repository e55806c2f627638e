"""Follows a launch script's syntax tree, so that every word of its training command has a file, a line and a text.

With the lines that really ran (from the sandbox) it takes the same branches; without them it decides simple tests
itself, which is the fallback for scripts that cannot be run. It knows assignments, arrays, expansions with defaults,
functions, sourced files, `if`, `case` and loops (once); the rest is left to the record.
"""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from migrate_tools.verl.conditions import decide
from migrate_tools.verl.shelltree import Node, Script, last_line_of, line_of, literal
from migrate_tools.verl.symbolic import (
    Piece,
    Word,
    ansi,
    by_line,
    joined,
    literal_pieces,
    split_pieces,
    static,
    with_default,
)

Value = tuple[Piece, ...] | list[Word]
MAX_DEPTH = 12
_SPECIAL = frozenset({"@", "*"})
_PASS_ON = frozenset({"srun", "sbatch", "nohup", "sudo", "exec", "env", "time", "numactl", "uv", "docker", "podman"})
"""Programs that may start a script which stands later among their arguments."""


@dataclass
class SymbolicCommand:
    """A simple command as it stands in the tree."""

    words: list[Word]
    script: Script
    line: int
    assigns: list[str] = field(default_factory=list)


class _Exit(Exception):
    """The script ends here."""


class Evaluator:
    """Walks scripts in the order of execution."""

    def __init__(
        self,
        load: Callable[[str, Script], Script | None],
        ran: Mapping[str, set[int]] | None = None,
        positional: tuple[str, ...] = (),
        past_exit: bool = False,
    ) -> None:
        self.load = load
        """Finds the script that a `source` word means."""
        self.ran = ran
        """File -> lines that ran; None: nothing was run."""
        self.variables: dict[str, Value] = {}
        self.exported: dict[str, None] = {}
        self.commands: list[SymbolicCommand] = []
        self.functions: dict[str, tuple[Node, Script]] = {}
        self.cycle: list[str] = []
        self._stack: list[str] = []
        self._positional = positional
        self._past_exit = past_exit

    def follow(self, script: Script) -> None:
        """Execute a script symbolically."""
        with contextlib.suppress(_Exit):
            self._file(script)

    def _file(self, script: Script) -> None:
        if script.file in self._stack:
            self.cycle = [*self._stack[self._stack.index(script.file) :], script.file]
            return
        if len(self._stack) >= MAX_DEPTH:
            return
        self._stack.append(script.file)
        try:
            self._statements(script.tree.get("Stmts"), script)
        finally:
            self._stack.pop()

    # ------------------------------------------------------------ words

    def _pieces(self, parts: list[Node] | None, script: Script, quoted: bool) -> tuple[Piece, ...]:
        """Pieces of word parts in a place where no word splitting happens."""
        out: list[Piece] = []
        for part in parts or []:
            kind = part["Type"]
            if kind == "Lit":
                out += literal_pieces(part.get("Value", ""), line_of(part), quoted)
            elif kind == "SglQuoted":
                text = part.get("Value", "")
                out += by_line(ansi(text) if part.get("Dollar") else text, line_of(part))
            elif kind == "DblQuoted":
                out += self._pieces(part.get("Parts"), script, True)
            elif kind == "ParamExp":
                value = self._parameter(part, script)
                out += joined(value) if isinstance(value, list) else value
            elif kind == "CmdSubst":
                out.append(self._substitution(part, script))
            else:
                out.append(Piece("opaque", "", line_of(part)))
        return tuple(out)

    def _substitution(self, part: Node, script: Script) -> Piece:
        statements = part.get("Stmts") or []
        call = (statements[0].get("Cmd") or {}) if len(statements) == 1 else {}
        words = [literal(word) for word in call.get("Args") or []] if call.get("Type") == "CallExpr" else [None]
        if words[:1] == ["date"] and None not in words and not call.get("Assigns"):
            return Piece("date", script.text(part), line_of(part))
        return Piece("opaque", "", line_of(part))

    def expand(self, word: Node, script: Script) -> list[Word]:
        """The words that one word of a command becomes."""
        words: list[list[Piece]] = [[]]
        present = False
        for part in word.get("Parts") or []:
            present |= part["Type"] in ("Lit", "SglQuoted", "CmdSubst", "ArithmExp", "ExtGlob", "ProcSubst")
            array = self._array_of(part, script)
            if array is not None:
                present |= bool(array)
                for index, item in enumerate(array):
                    if index:
                        words.append([])
                    words[-1] += item.pieces
            elif part["Type"] == "ParamExp":
                value = self._parameter(part, script)
                pieces = split_pieces(joined(value) if isinstance(value, list) else value)
                present |= any(pieces)
                words[-1] += pieces[0]
                words += pieces[1:]
            else:
                present |= part["Type"] == "DblQuoted"
                words[-1] += self._pieces([part], script, False)
        if not present:
            return []
        quoted = any(part["Type"] in ("DblQuoted", "SglQuoted") for part in word.get("Parts") or [])
        kept = [item for item in words if item or (quoted and len(words) == 1)]
        line = line_of(word)
        return [Word(tuple(item), script.file, next((p.line for p in item if p.line), line)) for item in kept]

    def _array_of(self, part: Node, script: Script) -> list[Word] | None:
        """The words of `${A[@]}`, quoted or not, and of `$@`; None when the part is something else."""
        inner = part
        if part["Type"] == "DblQuoted" and len(part.get("Parts") or []) == 1:
            inner = part["Parts"][0]
        if inner["Type"] != "ParamExp":
            return None
        name = (inner.get("Param") or {}).get("Value", "")
        if name in _SPECIAL:
            return [
                Word((Piece("literal", text, line_of(part)),), script.file, line_of(part)) for text in self._positional
            ]
        if not inner.get("Index") or literal(inner["Index"]) not in _SPECIAL or inner.get("Length"):
            return None
        value = self.variables.get(name, [])
        if isinstance(value, list):
            return value
        return [Word(value, script.file, line_of(part))]

    def _parameter(self, part: Node, script: Script) -> Value:
        name = (part.get("Param") or {}).get("Value", "")
        line = line_of(part)
        opaque = (Piece("opaque", "", line),)
        if (
            part.get("Length")
            or part.get("Excl")
            or part.get("Slice")
            or part.get("Repl")
            or not re.match(r"[A-Za-z_]", name)
        ):
            return opaque
        value = self.variables.get(name)
        if isinstance(value, list):
            index = literal(part.get("Index")) if part.get("Index") else "0"
            if index and index.isdigit():
                return value[int(index)].pieces if int(index) < len(value) else ()
            return value if index in _SPECIAL else opaque
        expansion = part.get("Exp")
        if expansion is None:
            return value if value is not None else (Piece("variable", name, line),)
        operator = _operator(script.text(part), name)
        default = self._pieces((expansion.get("Word") or {}).get("Parts"), script, True)
        if operator in (":-", "-", ":=", "="):
            if value is None:
                result: tuple[Piece, ...] = (Piece("variable", name, line, default),)
            else:
                result = with_default(value, default) if operator[0] == ":" else value
            if operator.endswith("="):
                self.variables[name] = result
            return result
        if operator in (":?", "?"):
            return value if value is not None else (Piece("variable", name, line),)
        if operator in (":+", "+") and (value is None or static(value) is not None):
            return default if value is not None and (static(value) or operator == "+") else ()
        return opaque

    # ------------------------------------------------------------ statements

    def _statements(self, statements: list[Node] | None, script: Script) -> None:
        for statement in statements or []:
            command = statement.get("Cmd")
            if command:
                self._command(command, script)

    def _command(self, command: Node, script: Script) -> None:
        kind = command["Type"]
        if kind == "CallExpr":
            self._call(command, script)
        elif kind == "DeclClause":
            self._declare(command, script)
        elif kind == "IfClause":
            self._if(command, script)
        elif kind == "CaseClause":
            self._case(command, script)
        elif kind == "BinaryCmd":
            self._binary(command, script)
        elif kind in ("Block", "Subshell"):
            self._statements(command.get("Stmts"), script)
        elif kind in ("ForClause", "WhileClause"):
            self._loop(command, script)
        elif kind == "FuncDecl":
            self.functions[command["Name"]["Value"]] = (command["Body"], script)
        elif kind == "TimeClause" and command.get("Stmt"):
            self._statements([command["Stmt"]], script)

    def _call(self, command: Node, script: Script) -> None:
        assigns = command.get("Assigns") or []
        if not command.get("Args"):
            self._assign(assigns, script)
            return
        if not self._was_run(command, script):
            return
        words = [item for word in command["Args"] for item in self.expand(word, script)]
        name = words[0].known() if words else None
        if name in self.functions:
            body, home = self.functions[name]
            if len(self._stack) < MAX_DEPTH:
                self._stack.append(f"{name}()")
                try:
                    self._statements([body], home)
                finally:
                    self._stack.pop()
        elif name in ("source", ".") and len(words) > 1:
            text = words[1].known()
            inner = self.load(text, script) if text is not None else self.load(script.text(command["Args"][1]), script)
            if inner is not None:
                self._file(inner)
        elif name == "exit":
            if not self._past_exit:
                raise _Exit
        elif inner := self._called(command, words, script):
            self._subshell(inner)
        elif words:
            self.commands.append(SymbolicCommand(words, script, line_of(command)))

    def _called(self, command: Node, words: list[Word], script: Script) -> Script | None:
        """The project's script that a command runs: `bash x.sh` or the path of a script."""
        passed_on = bool(words) and words[0].known() in _PASS_ON
        for index, word in enumerate(words[: 16 if passed_on else 3]):
            text = word.known()
            if (index == 0 and passed_on) or text in ("bash", "sh"):
                continue
            if index and text is not None and text.startswith("-"):
                continue
            if index < len(command["Args"]) and text is None:
                text = script.text(command["Args"][index])
            if text and text.strip("\"'").endswith((".sh", ".bash", ".slurm", ".sbatch")):
                return self.load(text, script)
            if not passed_on:
                return None
        return None

    def _subshell(self, script: Script) -> None:
        saved, functions = dict(self.variables), dict(self.functions)
        with contextlib.suppress(_Exit):
            self._file(script)
        self.variables, self.functions = saved, functions

    def _declare(self, command: Node, script: Script) -> None:
        export = (command.get("Variant") or {}).get("Value") == "export"
        arguments = [item for item in command.get("Args") or [] if item.get("Name")]
        self._assign([item for item in arguments if item.get("Value") or item.get("Array")], script)
        if export:
            self.exported.update(dict.fromkeys(item["Name"]["Value"] for item in arguments))

    def _assign(self, assigns: list[Node], script: Script) -> None:
        for item in assigns:
            name = (item.get("Name") or {}).get("Value")
            if not name or item.get("Index"):
                continue
            old = self.variables.get(name)
            if item.get("Array"):
                elements = item["Array"].get("Elems") or []
                words = [word for e in elements if e.get("Value") for word in self.expand(e["Value"], script)]
                self.variables[name] = [*old, *words] if item.get("Append") and isinstance(old, list) else words
                continue
            value = self._pieces((item.get("Value") or {}).get("Parts"), script, False)
            if item.get("Append") and isinstance(old, list):
                self.variables[name] = [*old, Word(value, script.file, line_of(item))]
            else:
                self.variables[name] = (*old, *value) if item.get("Append") and isinstance(old, tuple) else value

    def _if(self, clause: Node, script: Script) -> None:
        if clause.get("Cond"):
            taken = self._branch_taken(clause.get("Then"), clause["Cond"], script)
            if taken is None:
                taken = decide(self._pieces, clause["Cond"], script)
        else:
            taken = True
        if taken or (taken is None and not clause.get("Else") and self.ran is not None):
            self._statements(clause.get("Then"), script)
        elif clause.get("Else"):
            self._if(clause["Else"], script)

    def _case(self, clause: Node, script: Script) -> None:
        subject = static(self._pieces((clause.get("Word") or {}).get("Parts"), script, False))
        for item in clause.get("Items") or []:
            taken = self._branch_taken(item.get("Stmts"), [], script)
            if taken is None and subject is not None:
                patterns = [static(self._pieces(p.get("Parts"), script, False)) for p in item["Patterns"]]
                taken = any(p is not None and fnmatch.fnmatchcase(subject, p) for p in patterns)
            if taken:
                self._statements(item.get("Stmts"), script)
                return

    def _binary(self, command: Node, script: Script) -> None:
        operator = script.between(command["X"]["End"]["Offset"], command["Y"]["Pos"]["Offset"]).strip(" \t\\\n;")
        if operator not in ("&&", "||"):
            self._statements([command["X"], command["Y"]], script)
            return
        verdict = decide(self._pieces, [command["X"]], script)
        if verdict is None:
            self._statements([command["X"]], script)
            if operator == "&&":
                self._statements([command["Y"]], script)
        elif verdict == (operator == "&&"):
            self._statements([command["Y"]], script)

    def _loop(self, clause: Node, script: Script) -> None:
        loop = clause.get("Loop") or {}
        name = (loop.get("Name") or {}).get("Value")
        if name:
            items = [item for word in loop.get("Items") or [] for item in self.expand(word, script)]
            self.variables[name] = items[0].pieces if len(items) == 1 else (Piece("opaque", "", line_of(clause)),)
        self._statements(clause.get("Do"), script)

    # ------------------------------------------------------------ which branch

    def _was_run(self, node: Node, script: Script) -> bool:
        if self.ran is None:
            return True
        lines = self.ran.get(script.file)
        return lines is None or any(line in lines for line in range(line_of(node), last_line_of(node) + 1))

    def _branch_taken(self, statements: list[Node] | None, condition: list[Node], script: Script) -> bool | None:
        """From the lines that ran; None when they cannot tell."""
        if self.ran is None or not statements or script.file not in self.ran:
            return None
        shared = set(range(line_of(condition[0]), last_line_of(condition[-1]) + 1)) if condition else set()
        lines = set(range(line_of(statements[0]), last_line_of(statements[-1]) + 1)) - shared
        return bool(lines & self.ran[script.file]) if lines else None


def _operator(text: str, name: str) -> str:
    match = re.match(r"\$\{" + re.escape(name) + r"(?:\[[^\]]*\])?(:?[-=+?])", text)
    return match[1] if match else ""
