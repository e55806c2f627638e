"""Names of a recipe as text for `"${NAME:=...}"`: variables and dates stay what they are, nothing else can run."""

from __future__ import annotations

import re

_DEFAULTED = re.compile(r"\$\{([A-Za-z_]\w*):?-")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
_DATE = re.compile(r"\$\(date([^()$`\\]*)\)|`date([^()$`\\]*)`")
_FORMAT = re.compile(r"\+[\w%:.-]+")
_STAMP = "$(date +%Y%m%d-%H%M%S)"


def safe_name(text: str, default: str, separator: str = " ") -> str:
    """The name, or the default when nothing is left of it.

    Args:
        text: as a Setting's `text`: shell text with variables kept, `\\$` for a literal dollar.
        separator: what stands for a space.
    """
    found = _converted(text, separator).strip("- ")
    alone = re.fullmatch(r"\$\{(\w+):-\}", found)
    return f"${{{alone[1]}:-{default}}}" if alone else found or default


def _converted(text: str, separator: str) -> str:
    out, place = "", 0
    while place < len(text):
        if text[place] == "\\" and place + 1 < len(text):
            out += _literal(text[place + 1], separator)
            place += 2
        elif match := _DEFAULTED.match(text, place):
            end = _closing(text, match.end())
            inner = _converted(text[match.end() : end], separator).strip("- ")
            out += f"${{{match[1]}:-{inner}}}"
            place = end + 1
        elif match := _VARIABLE.match(text, place):
            name = match[1] or match[2]
            out += f"${{{name}}}" if name in ("HOME", "USER") else f"${{{name}:-}}"
            place = match.end()
        elif match := _DATE.match(text, place):
            out += _date(match[1] or match[2] or "")
            place = match.end()
        else:
            out += _literal(text[place], separator)
            place += 1
    return re.sub(r"-{2,}", "-", out)


def _literal(sign: str, separator: str) -> str:
    if sign == " ":
        return separator
    return sign if re.match(r"[A-Za-z0-9._-]", sign) or (sign == "/" and separator == " ") else "-"


def _closing(text: str, place: int) -> int:
    """Where the brace that was opened before `place` ends."""
    depth = 1
    while place < len(text):
        depth += (text[place] == "{") - (text[place] == "}")
        if not depth:
            return place
        place += 1
    return place


def _date(arguments: str) -> str:
    """A date with its format when that needs no quotes, else one of ours."""
    words = arguments.replace('"', "").replace("'", "").split()
    formats = [word for word in words if word.startswith("+")]
    known = len(formats) == 1 and len(words) == 1 and _FORMAT.fullmatch(formats[0])
    return f"$(date {formats[0]})" if known else _STAMP
