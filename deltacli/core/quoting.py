"""Quote command line arguments for a shell, and column names for SQL."""

from __future__ import annotations

import re
import shlex

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, marks that change the direction of text, and halves of surrogate pairs.

A path in a hostile log could contain them to move the cursor of the terminal, so that the command that a user sees and
pastes differs from the command that runs.
"""

_SPECIAL_IN_DOUBLE_QUOTES = re.compile(r"""["$`\\!]""")

_SHARED_TABLE = re.compile(r"#[^#/.]+(?:\.[^#/.]+){2}\Z")


def quote_word(word: str) -> str:
    """Return an argument as one word for a POSIX shell, with quotes if it needs them.

    >>> quote_word("it's here")
    '"it\\'s here"'
    """
    if _UNPRINTABLE.search(word):
        return _quote_with_escapes(word)

    # More readable than the result of `shlex.quote`: 'it'"'"'s here'.
    if "'" in word and not _SPECIAL_IN_DOUBLE_QUOTES.search(word):
        return f'"{word}"'
    return shlex.quote(word)


def quote_table(table: str) -> str:
    """Return the name of a table as one word for a shell.

    `./` is prepended to a path that begins with a dash, because the command would parse it as an option.
    """
    if table.startswith("-"):
        table = f"./{table}"
    return quote_word(table)


def quote_identifier(name: str) -> str:
    """Return the name of a column in backticks, for SQL and for the conditions of `--where`."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def format_sql_name(name: str) -> str:
    """Return the name of a column for SQL, in backticks unless it is an ASCII identifier."""
    if name.isascii() and name.isidentifier():
        return name
    return quote_identifier(name)


def is_shared(table: str) -> bool:
    """Return True if a table is a Delta Sharing address, `PROFILE#SHARE.SCHEMA.TABLE`."""
    return _SHARED_TABLE.search(table) is not None


def _quote_with_escapes(word: str) -> str:
    r"""Return a word with escapes for unprintable characters, such as `$'a\x0ab'`, for bash, zsh and ksh."""
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_UNPRINTABLE.sub(_escape_bytes, escaped)}'"


def _escape_bytes(match: re.Match[str]) -> str:
    """Return an escape for each byte of the matched characters.

    `os.fsdecode` returns a low surrogate for a byte of a file name that is not UTF-8. Such a surrogate becomes that
    byte. Other surrogates, which only Python programs can pass, are encoded as three bytes.
    """
    characters = match[0]
    try:
        data = characters.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = characters.encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)
