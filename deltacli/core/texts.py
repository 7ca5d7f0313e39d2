"""Check the texts of users, shorten long ones, and put words together for messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from deltacli.core.errors import UsageError

NOT_UNICODE = "text.not-unicode"
"""The code of the error for a text that cannot be stored."""

_LONGEST_SHOWN = 120

_LONGEST_WORD = 1 << 20
"""More characters than a word of a command line can have on any system."""

_LONGEST_TEXT = 20_000

_NAME = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+|`.*")
"""A name in a list separated by commas. Backticks quote commas; an open backtick quotes the rest."""


def require_path(text: str, name: str) -> None:
    """Raise UsageError for a text that cannot be a path: with a NUL, or with half a surrogate pair.

    Args:
        text: The path. Bytes that are not UTF-8 are allowed in the form that `os.fsdecode` gives them.
        name: What the message calls the text, such as `the path`.
    """
    if "\0" in text:
        raise build_text_error(text, f"{name} holds a NUL character")
    require_bytes_or_text(text, name)


def require_bytes_or_text(text: str, name: str) -> None:
    """Raise UsageError for half a surrogate pair, unless it stands for a byte that is not UTF-8."""
    if text.isascii():
        return
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise build_text_error(text, f"{name} is not text: it holds half a character") from None


def require_word(word: str) -> None:
    """Raise UsageError for a word of a command line that no system could pass on.

    Such words come from Python only, where the words of a command line are made by a program.
    """
    if len(word) > _LONGEST_WORD:
        raise UsageError(f"an argument has {len(word):,} characters", facts={"expected": f"at most {_LONGEST_WORD:,}"})
    require_path(word, "an argument")


def build_text_error(text: str, message: str) -> UsageError:
    """Return the error for a text that cannot be stored. It shows the beginning of the text in ASCII."""
    facts = {"found": ascii(text)[:_LONGEST_SHOWN], "expected": "a text in UTF-8"}
    return UsageError(message, code=NOT_UNICODE, facts=facts)


def is_utf8_encodable(text: str) -> bool:
    """Return False for a text with half a surrogate pair, which UTF-8, and therefore Arrow, cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cut_middle(text: str) -> str:
    """Return a text without its middle if it is too long to read, such as a path of megabytes in a hostile log."""
    if len(text) <= _LONGEST_TEXT:
        return text
    # The end is kept, too: a path ends with the name of its file.
    half = _LONGEST_TEXT // 2
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters ...] {text[-half:]}"


def add_article(noun: str) -> str:
    """Return a noun with its indefinite article: `a Delta`, `an Iceberg`, `an int`."""
    begins_with_vowel = noun[:1].lower() in ("a", "e", "i", "o")
    return f"{'an' if begins_with_vowel else 'a'} {noun}"


def summarize_names(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` names, and how many more there are: `a, b and 3 more`."""
    shown = separator.join(names[:most])
    if len(names) > most:
        shown += f" and {len(names) - most:,} more"
    return shown


def parse_names(text: str, where: str, name_pattern: re.Pattern[str] | None = None, **error_details: Any) -> list[str]:
    """Return the names of a list that is separated by commas.

    Args:
        text: The list. Backticks quote a comma within a name.
        where: The option that the message names.
        name_pattern: Matches one name, if names have another form than usual.
        error_details: Keyword arguments for the error, such as its code.

    Raises:
        UsageError: If the list is empty, or if a name in it is.
    """
    name_pattern = name_pattern or _NAME
    names = [name for match in name_pattern.findall(text) if (name := match.strip())]
    if not names:
        raise UsageError(f"{where} is empty", **error_details)

    if _has_empty_name(text, name_pattern):
        corrected = ",".join(names)
        facts = {"did you mean": corrected} | error_details.pop("facts", {})
        error_details["hint"] = None  # the fact says what to do
        error = UsageError(f"{where}: a name is empty", facts=facts, **error_details)
        raise error.suggest_as_fact(text, facts["did you mean"])
    return names


def _has_empty_name(text: str, name_pattern: re.Pattern[str]) -> bool:
    """Return True if a list has nothing between two commas, or before the first or after the last one.

    The names are replaced by dashes first, because quoted names may contain commas: "`a,b`,,c" becomes "-,,-".
    """
    dashes = name_pattern.sub(lambda match: "-" if match[0].strip() else "", text)
    return "" in dashes.split(",")
