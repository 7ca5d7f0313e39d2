"""Quote words for a shell and names of columns for SQL."""

from __future__ import annotations

import re
import shlex

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, marks that turn the direction of text, and halves of surrogate pairs.

A name from a hostile log must not move the cursor of a terminal, or show a command other than the one it is.
"""

_SPECIAL_IN_DOUBLE_QUOTES = re.compile(r"""["$`\\!]""")

_SHARED_TABLE = re.compile(r"#[^#/.]+(?:\.[^#/.]+){2}\Z")


def quote_word(word: str) -> str:
    """Quote a word for a POSIX shell, if it needs quotes.

    >>> quote_word("it's here")
    '"it\\'s here"'
    """
    if _UNPRINTABLE.search(word):
        return _quote_with_escapes(word)

    # `shlex.quote` makes 'it'"'"'s' of this, which nobody can read.
    if "'" in word and not _SPECIAL_IN_DOUBLE_QUOTES.search(word):
        return f'"{word}"'
    return shlex.quote(word)


def quote_table(table: str) -> str:
    """Quote a table as an argument of a command. A path that begins with a dash must not be read as an option."""
    if table.startswith("-"):
        table = f"./{table}"
    return quote_word(table)


def quote_identifier(name: str) -> str:
    """Return the name of a column in backticks, as SQL and the conditions of `--where` take it literally."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def format_sql_name(name: str) -> str:
    """Return the name of a column for SQL, in backticks only if it is not a plain word."""
    if name.isascii() and name.isidentifier():
        return name
    return quote_identifier(name)


def is_shared(table: str) -> bool:
    """Return True if the name of a table is the address of a shared table, `PROFILE#SHARE.SCHEMA.TABLE`."""
    return _SHARED_TABLE.search(table) is not None


def _quote_with_escapes(word: str) -> str:
    r"""Quote a word with unprintable characters, as in `$'a\x0ab'`, which bash, zsh and ksh understand."""
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_UNPRINTABLE.sub(_escape_bytes, escaped)}'"


def _escape_bytes(match: re.Match[str]) -> str:
    """Return the escapes for the bytes of unprintable characters.

    A low surrogate from `os.fsdecode` is one byte of a file name that is not UTF-8. Any other half of a surrogate pair
    can only come from a caller in Python, and is encoded as it is.
    """
    characters = match[0]
    try:
        data = characters.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = characters.encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)
