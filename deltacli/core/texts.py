"""Validate texts that users pass, shorten long texts, and join words for messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from deltacli.core.errors import UsageError

NOT_UNICODE = "text.not-unicode"
"""The code of the error for a text that cannot be encoded in UTF-8."""

_LONGEST_SHOWN = 120

_LONGEST_WORD = 1 << 20
"""Characters of a command line argument. The limits of all operating systems are lower."""

_LONGEST_TEXT = 20_000

_NAME = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+|`.*")
"""A name in a list that is separated by commas.

A comma between backticks belongs to the name. After a backtick without a partner, all the remaining text is one name.
"""


def require_path(text: str, name: str) -> None:
    """Raise UsageError for a text that cannot be a path: it contains a NUL or half a surrogate pair.

    Args:
        text: The path. File names that are not UTF-8 are accepted in the form that `os.fsdecode` returns.
        name: The subject of the error message, such as `the path`.
    """
    if "\0" in text:
        raise build_text_error(text, f"{name} holds a NUL character")
    require_bytes_or_text(text, name)


def require_bytes_or_text(text: str, name: str) -> None:
    """Raise UsageError for a text with half a surrogate pair, which UTF-8 cannot encode.

    The low surrogates by which `os.fsdecode` represents single bytes are accepted.
    """
    if text.isascii():
        return
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise build_text_error(text, f"{name} is not text: it holds half a character") from None


def require_word(word: str) -> None:
    """Raise UsageError for a command line argument that no operating system can pass to a process.

    A shell cannot produce such an argument, but a program that calls `main(arguments)` can.
    """
    if len(word) > _LONGEST_WORD:
        raise UsageError(f"an argument has {len(word):,} characters", facts={"expected": f"at most {_LONGEST_WORD:,}"})
    require_path(word, "an argument")


def build_text_error(text: str, message: str) -> UsageError:
    """Return the error for a text that cannot be encoded. Its facts show the beginning of the text in ASCII."""
    facts = {"found": ascii(text)[:_LONGEST_SHOWN], "expected": "a text in UTF-8"}
    return UsageError(message, code=NOT_UNICODE, facts=facts)


def is_utf8_encodable(text: str) -> bool:
    """Return False for a text with half a surrogate pair, which neither UTF-8 nor an Arrow column can represent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cut_middle(text: str) -> str:
    """Shorten a text of more than 20,000 characters, such as a path of megabytes in a hostile log."""
    if len(text) <= _LONGEST_TEXT:
        return text
    # Remove the middle, not the end, because a path ends with the file name.
    half = _LONGEST_TEXT // 2
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters ...] {text[-half:]}"


def add_article(noun: str) -> str:
    """Return a noun after its indefinite article: `a Delta`, `an Iceberg`, `an int`."""
    begins_with_vowel = noun[:1].lower() in ("a", "e", "i", "o")
    return f"{'an' if begins_with_vowel else 'a'} {noun}"


def summarize_names(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Join the first `most` names, followed by the number of the remaining names: `a, b and 3 more`."""
    shown = separator.join(names[:most])
    if len(names) > most:
        shown += f" and {len(names) - most:,} more"
    return shown


def parse_names(text: str, where: str, name_pattern: re.Pattern[str] | None = None, **error_details: Any) -> list[str]:
    """Split a list of names at its commas: `"a, b"` becomes `["a", "b"]`.

    Args:
        text: The list. A comma between backticks belongs to a name.
        where: The name of the option for the error message.
        name_pattern: Matches one name. None for names in which backticks quote commas.
        error_details: Keyword arguments for the error, such as `code`.

    Raises:
        UsageError: If the list contains no name, or an empty name, as in `a,,b`.
    """
    name_pattern = name_pattern or _NAME
    names = [match.strip() for match in name_pattern.findall(text)]
    names = [name for name in names if name]
    if not names:
        raise UsageError(f"{where} is empty", **error_details)

    if _has_empty_name(text, name_pattern):
        corrected = ",".join(names)
        facts = {"did you mean": corrected} | error_details.pop("facts", {})
        error_details["hint"] = None  # the fact already shows the corrected list
        error = UsageError(f"{where}: a name is empty", facts=facts, **error_details)
        raise error.suggest_as_fact(text, facts["did you mean"])
    return names


def _has_empty_name(text: str, name_pattern: re.Pattern[str]) -> bool:
    """Return True if a list begins or ends with a comma, or has two commas without a name between them."""
    # Replace the names by dashes first, because quoted names may contain commas: "`a,b`,,c" becomes "-,,-".
    dashes = name_pattern.sub(lambda match: "-" if match[0].strip() else "", text)
    return "" in dashes.split(",")
