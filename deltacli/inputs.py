"""What every way in checks of texts and numbers, whatever they mean: the command line, the Python API, files."""

from __future__ import annotations

from deltacli.errors import UsageError

NOT_UNICODE = "text.not-unicode"
MOST_NUMBER = 2**63 - 1
"""The largest number of a field, in a log as in Arrow."""
_LONGEST_WORD = 1 << 20
"""More than a word of a command line can be on any system."""
_SHOWN = 120


def require_number(value: float, name: str) -> None:
    """Raise UsageError for a number that has more than 64 bits, or is none: NaN and infinities."""
    if not -MOST_NUMBER - 1 <= value <= MOST_NUMBER:
        raise UsageError(f"{name} is out of range", facts={"expected": "a number of at most 64 bits"})


def require_word(word: str) -> None:
    """Raise UsageError for a word of a command line that no system could pass on."""
    if len(word) > _LONGEST_WORD:
        raise UsageError(f"an argument has {len(word):,} characters", facts={"expected": f"at most {_LONGEST_WORD:,}"})
    require_path(word, "an argument")


def require_path(text: str, name: str) -> None:
    """Raise UsageError for what no path can be: a text with a NUL, or with half a surrogate pair that is no byte."""
    if "\0" in text:
        raise not_text(text, f"{name} holds a NUL character")
    require_bytes_or_text(text, name)


def require_bytes_or_text(text: str, name: str) -> None:
    """Raise UsageError for half a surrogate pair, unless it is a byte that is not UTF-8."""
    if not text.isascii():
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise not_text(text, f"{name} is not text: it holds half a character") from None


def not_text(text: str, message: str) -> UsageError:
    """Return the error for a text that cannot be stored."""
    return UsageError(message, code=NOT_UNICODE, facts={"found": ascii(text)[:_SHOWN], "expected": "a text in UTF-8"})
