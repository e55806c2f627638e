"""Follows a launch script's syntax tree, so that every word of its training command has a file, a line and a text.

With the lines that really ran (from the sandbox) it takes the same branches; without them it decides simple tests
itself, which is the fallback for scripts that cannot be run. It knows assignments, arrays, expansions with defaults,
functions, sourced files, `if`, `case` and loops (once); the rest is left to the record.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from migrate_tools.verl.shelltree import Node, Script, last_line_of, line_of, literal, walk
from migrate_tools.verl.symbolic import Piece, Word, split_pieces, static, with_default

Value = tuple[Piece, ...] | list[Word]
MAX_DEPTH = 12
_SPECIAL = frozenset({"@", "*"})


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

    def follow(self, script: Script) -> None:
        """Execute a script symbolically."""
        try:
            self._file(script)
        except _Exit:
            pass

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
                out += _literal_pieces(part.get("Value", ""), line_of(part), quoted)
            elif kind == "SglQuoted":
                text = part.get("Value", "")
                out += _lines(_ansi(text) if part.get("Dollar") else text, line_of(part))
            elif kind == "DblQuoted":
                out += self._pieces(part.get("Parts"), script, True)
            elif kind == "ParamExp":
                value = self._parameter(part, script)
                out += _joined(value) if isinstance(value, list) else value
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
                pieces = split_pieces(_joined(value) if isinstance(value, list) else value)
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
            raise _Exit
        elif words:
            self.commands.append(SymbolicCommand(words, script, line_of(command)))

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
                taken = self._test(clause["Cond"], script)
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
        verdict = self._test([command["X"]], script)
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

    def _test(self, statements: list[Node], script: Script) -> bool | None:
        if len(statements) != 1 or not statements[0].get("Cmd"):
            return None
        result = self._test_command(statements[0]["Cmd"], script)
        return result if result is None or not statements[0].get("Negated") else not result

    def _test_command(self, command: Node, script: Script) -> bool | None:
        kind = command["Type"]
        if kind == "BinaryCmd":
            first, second = self._test([command["X"]], script), self._test([command["Y"]], script)
            return _combine(
                "&&" in script.between(command["X"]["End"]["Offset"], command["Y"]["Pos"]["Offset"]), first, second
            )
        if kind == "Block" and len(command.get("Stmts") or []) == 1:
            return self._test(command["Stmts"], script)
        if kind == "TestClause":
            return self._test_expression(command["X"], script)
        if kind == "CallExpr" and command.get("Args"):
            words = [static(self._pieces(w.get("Parts"), script, False)) for w in command["Args"]]
            if words[0] in ("true", ":"):
                return True
            if words[0] == "false":
                return False
            if words[0] in ("[", "test"):
                return _simple_test(words[1:-1] if words[0] == "[" else words[1:])
        return None

    def _test_expression(self, node: Node, script: Script) -> bool | None:
        kind = node.get("Type")
        if kind == "ParenTest":
            return self._test_expression(node["X"], script)
        if kind == "UnaryTest":
            operator = script.between(node["Pos"]["Offset"], node["X"]["Pos"]["Offset"]).strip()
            if operator == "!":
                inner = self._test_expression(node["X"], script)
                return None if inner is None else not inner
            return _simple_test([operator, self._text_of(node["X"], script)])
        if kind == "BinaryTest":
            operator = script.between(node["X"]["End"]["Offset"], node["Y"]["Pos"]["Offset"]).strip()
            if operator in ("&&", "||"):
                both = self._test_expression(node["X"], script), self._test_expression(node["Y"], script)
                return _combine(operator == "&&", *both)
            left, right = self._text_of(node["X"], script), self._text_of(node["Y"], script)
            if operator in ("==", "=", "!=") and left is not None and right is not None:
                return fnmatch.fnmatchcase(left, right) == (operator != "!=")
            return _simple_test([left, operator, right])
        text = self._text_of(node, script)
        return None if text is None else bool(text)

    def _text_of(self, node: Node, script: Script) -> str | None:
        return static(self._pieces(node.get("Parts"), script, False))


def untaken_settings(script: Script, ran: set[int]) -> list[tuple[str, int, int]]:
    """Branches that did not run and hold settings: the condition's text, its line, and how many."""
    found = []
    for node in walk(script.tree):
        if node.get("Type") == "IfClause":
            label = script.between(node["Cond"][0]["Pos"]["Offset"], node["Cond"][-1]["End"]["Offset"])
            found += _untaken(node.get("Then"), f"if {label}", line_of(node), ran)
            rest = node.get("Else")
            if rest and not rest.get("Cond"):
                found += _untaken(rest.get("Then"), f"not ({label})", line_of(rest), ran)
        elif node.get("Type") == "CaseClause":
            subject = script.text(node["Word"])
            for item in node.get("Items") or []:
                label = " | ".join(script.text(p) for p in item["Patterns"])
                found += _untaken(item.get("Stmts"), f"{subject} is {label}", line_of(item), ran)
    return found


def _untaken(statements: list[Node] | None, label: str, line: int, ran: set[int]) -> list[tuple[str, int, int]]:
    if not statements or set(range(line_of(statements[0]), last_line_of(statements[-1]) + 1)) & ran:
        return []
    count = sum(
        1
        for node in walk(statements)
        if (node.get("Type") == "Lit" and re.match(r"[+~]{0,2}[a-z_][\w.]*\.[\w.]+=", node.get("Value", "")))
    )
    return [(" ".join(label.split()), line, count)] if count else []


def _operator(text: str, name: str) -> str:
    match = re.match(r"\$\{" + re.escape(name) + r"(?:\[[^\]]*\])?(:?[-=+?])", text)
    return match[1] if match else ""


def _literal_pieces(text: str, line: int, quoted: bool) -> list[Piece]:
    """A literal part: continuation lines removed, escapes resolved, one piece a line."""
    out = []
    for chunk in re.split(r"(?<=\n)", text):
        clean = re.sub(r"(?<!\\)((?:\\\\)*)\\\n", r"\1", chunk)
        clean = re.sub(r'\\([$`"\\])', r"\1", clean) if quoted else re.sub(r"\\(.)", r"\1", clean, flags=re.DOTALL)
        if clean:
            out.append(Piece("literal", clean, line))
        line += chunk.count("\n")
    return out


def _lines(text: str, line: int) -> list[Piece]:
    out = []
    for chunk in re.split(r"(?<=\n)", text):
        if chunk:
            out.append(Piece("literal", chunk, line))
        line += chunk.count("\n")
    return out


def _ansi(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\'", "'")


def _joined(words: list[Word]) -> tuple[Piece, ...]:
    out: list[Piece] = []
    for index, word in enumerate(words):
        if index:
            out.append(Piece("literal", " ", word.line))
        out += word.pieces
    return tuple(out)


def _combine(conjunction: bool, first: bool | None, second: bool | None) -> bool | None:
    if conjunction:
        return False if first is False or second is False else (True if first and second else None)
    return True if first or second else (False if first is False and second is False else None)


def _simple_test(words: list[str | None]) -> bool | None:
    """`[ ... ]` with one operator; None when a word is unknown or a file is asked for."""
    if words[:1] == ["!"]:
        inner = _simple_test(words[1:])
        return None if inner is None else not inner
    if any(word is None for word in words):
        return None
    texts = [word or "" for word in words]
    if len(texts) == 1:
        return bool(texts[0])
    if len(texts) == 2:
        return {"-n": bool(texts[1]), "-z": not texts[1]}.get(texts[0])
    if len(texts) != 3:
        return None
    left, operator, right = texts
    if operator in ("=", "==", "!="):
        return (left == right) == (operator != "!=")
    try:
        order = int(left) - int(right)
    except ValueError:
        return None
    return {
        "-eq": order == 0,
        "-ne": order != 0,
        "-gt": order > 0,
        "-ge": order >= 0,
        "-lt": order < 0,
        "-le": order <= 0,
    }.get(operator)
