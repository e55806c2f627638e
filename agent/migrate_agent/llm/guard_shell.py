"""What an edit of a run script may not bring in: commands, redirections, variables, unknown flags, other hooks."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from migrate_tools.verl.shelltree import Node, Script, ShellSyntaxError, line_of, parse_script, walk

_ADDRESS = re.compile(r"\b[a-z][a-z0-9+]*://")
_RUNS = frozenset({"CmdSubst", "ProcSubst", "FuncDecl", "CoprocClause", "LetClause", "ArithmCmd", "TestClause"})
_HOOK = re.compile(r"--[a-z-]*(?:path|function|class)(?:s)?$")


def shell_problems(text: str, originals: Collection[str], flags: Collection[str]) -> list[str]:
    """One line for every thing that an edited run script may not do; empty when it may stay.

    Words of the existing arrays may change. Everything that is run stays as it is.

    Args:
        originals: the script as first drafted.
        flags: spellings that the Relax contract accepts.

    Raises:
        MachineError: shfmt is not installed.
    """
    try:
        script = _parsed(text)
    except ShellSyntaxError as error:
        return [f"1: not bash: {error}"]
    before, broken = _drafts(originals)
    known = {act for item in before for _, act in acts(item)}
    problems = [
        f"{line}: `{act[:100]}` is not in the draft"
        for line, act in acts(script)
        if act not in known and not stands_in(re.sub(r"^(?:declare|redirect) | \)$", "", act), broken)
    ]
    words = {word for item in before for _, word in script_words(item)}
    for line, word in script_words(script):
        if word not in words:
            problems += [f"{line}: {what}" for what in _word_problems(word, flags)]
    if problem := _hooks(script, before, broken):
        problems.append(problem)
    return list(dict.fromkeys(problems))


def _drafts(originals: Collection[str]) -> tuple[list[Script], str]:
    """The drafts that can be parsed, and the bare text of those that cannot (a repair is to mend them)."""
    parsed: list[Script] = []
    broken = ""
    for item in originals:
        try:
            parsed.append(_parsed(item))
        except ShellSyntaxError:
            broken += f" {_bare(item)}"
    return parsed, broken


def stands_in(text: str, broken: str) -> bool:
    """Whether a text stands in another as whole words."""
    return bool(text.strip()) and re.search(rf"(?<![\w./-]){re.escape(text)}(?![\w./-])", broken) is not None


def same_words(text: str, other: str) -> bool:
    """Whether two scripts say the same, quotes and comments apart."""
    try:
        one, two = _parsed(text), _parsed(other)
    except ShellSyntaxError:
        return False
    same_acts = sorted(act for _, act in acts(one)) == sorted(act for _, act in acts(two))
    return same_acts and [word for _, word in script_words(one)] == [word for _, word in script_words(two)]


def acts(script: Script) -> Iterator[tuple[int, str]]:
    """Line and text (without quotes) of everything that is run, redirected or assigned, in source order."""
    for node in walk(script.tree):
        kind = node.get("Type")
        if kind == "CallExpr":
            if node.get("Args"):
                yield line_of(node), _bare(script.between(node["Args"][0]["Pos"]["Offset"], node["End"]["Offset"]))
            yield from ((line_of(item), _assigned(script, item)) for item in node.get("Assigns") or ())
        elif kind == "DeclClause":
            yield from ((line_of(item), "declare " + _assigned(script, item)) for item in node.get("Args") or ())
        elif kind in _RUNS:
            yield line_of(node), _bare(script.text(node))
        for redirect in node.get("Redirs") or ():
            yield line_of(node), "redirect " + _bare(script.text(redirect)) + _bare(_heredoc(script, redirect))


def script_words(script: Script) -> Iterator[tuple[int, str]]:
    """Line and text (without quotes) of every word of an array."""
    for node in walk(script.tree):
        for item in (node.get("Array") or {}).get("Elems") or ():
            if item.get("Value"):
                yield line_of(item), _bare(script.text(item["Value"]))


def _parsed(text: str) -> Script:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.sh"
        path.write_text(text, "utf-8", errors="surrogatepass")
        return parse_script(path, "script.sh")


def _bare(text: str) -> str:
    return " ".join(re.sub(r"[\"']|\\\n", "", text).split())


def _assigned(script: Script, node: Node) -> str:
    """An assignment; of an array only its name, because its words are looked at one by one."""
    if node.get("Array"):
        return f"{node['Name']['Value']}{'+' if node.get('Append') else ''}=( )" if node.get("Name") else "( )"
    return _bare(script.text(node))


def _heredoc(script: Script, redirect: Node) -> str:
    body = redirect.get("Hdoc")
    return script.text(body) if body else ""


def _word_problems(word: str, flags: Collection[str]) -> Iterator[str]:
    name, _, value = word.partition("=")
    if name.startswith("--") and name not in flags:
        yield f"{name} is not in this Relax contract"
    if _ADDRESS.search(word):
        yield f"names an address: {word[:60]}"
    if "../" in word or re.search(r"(?:^|=)[/~]\w", word):
        yield f"names a path outside the example: {word[:60]}"
    if "migration/" in word:
        yield f"names the report's folder: {word[:60]}"


def _hooks(script: Script, before: Collection[Script], broken: str) -> str:
    """Flags that name code or files keep their values."""
    after = {pair for pair in _named(script) if not stands_in(" ".join(pair), broken)}
    known = {pair for item in before for pair in _named(item)}
    if extra := sorted(after - known):
        return f"1: {extra[0][0]} would name {extra[0][1][:60] or 'nothing'}, which the draft does not"
    if lost := sorted(known - after):
        return f"1: {lost[0][0]} is gone"
    return ""


def _named(script: Script) -> Iterator[tuple[str, str]]:
    flag = ""
    for _, word in script_words(script):
        if word.startswith("--"):
            name, sign, value = word.partition("=")
            flag = "" if sign else name
            if sign and _HOOK.match(name):
                yield name, value
        elif flag and _HOOK.match(flag):
            yield flag, word
