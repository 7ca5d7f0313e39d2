"""Hints: commands to paste, with the table's name filled in and words quoted for a shell."""

from __future__ import annotations

import re
import shlex

_UNPRINTABLE = r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_BELOW = re.compile(r"\{table\}/(.*)\Z", re.DOTALL)


def quoted(word: str) -> str:
    """Return a word quoted for a shell; `$'…'` if it has characters that must not reach a terminal."""
    if not re.search(_UNPRINTABLE, word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    data = re.sub(
        _UNPRINTABLE,
        lambda match: "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "surrogateescape")),
        escaped,
    )
    return f"$'{data}'"


def quoted_table(table: str) -> str:
    """Return a table as an argument: a path that begins with a dash must not be read as an option."""
    return quoted(f"./{table}" if table.startswith("-") else table)


class CommandLine(str):
    """A whole command line: a hint with no place for a table, whatever its words are."""

    __slots__ = ()


def is_command(advice: str) -> bool:
    """Return True for advice that is a command to paste, False for a sentence."""
    return advice.startswith("deltacli ")


def fill_hint(hint: str, table: str | None) -> str:
    """Fill the table into a hint: `{table}`, `{table}/NAME` for one below it, `{parent}` for the directory above."""
    if isinstance(hint, CommandLine):
        return hint
    if table is None:
        return hint.replace("{table}", "TABLE").replace("{parent}", "TABLE")
    if below := _BELOW.search(hint):
        return hint[: below.start()] + quoted_table(f"{table.rstrip('/')}/{below[1]}")
    parent = table.rstrip("/").rpartition("/")[0] if "/" in table.rstrip("/") else "."
    return hint.replace("{table}", quoted_table(table)).replace("{parent}", quoted_table(parent or "/"))
