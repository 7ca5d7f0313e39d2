"""Ranges of version numbers: `5,10-12` as text, as numbers, and what is missing between them."""

from __future__ import annotations

from collections.abc import Iterable

from deltacli.core.errors import UsageError

_MAX_DIGITS = 18
"""Digits of a number that fits into 64 bits, whatever they are."""

_MAX_VERSIONS_IN_RANGE = 1_000_000


def parse_versions(text: str, option: str) -> tuple[int, ...]:
    """Return the versions of a list such as `5,10-12`, ascending and each once.

    Raises:
        UsageError: If the list is not one of versions and ranges. The message names `option`.
    """
    versions: set[int] = set()
    for part in text.split(","):
        first_text, dash, last_text = part.strip().partition("-")
        if not dash:
            last_text = first_text
        if not (_is_version(first_text) and _is_version(last_text) and int(first_text) <= int(last_text)):
            raise UsageError(f"{option} {text}: {part.strip()!r} is not a version", facts={"expected": "5,10-12"})

        first = int(first_text)
        last = int(last_text)
        # Each version of a range becomes an object below: 0-999999999999 must not use up the memory.
        if last - first > _MAX_VERSIONS_IN_RANGE:
            raise UsageError(f"{option} {text}: more than a million versions")
        versions.update(range(first, last + 1))
    return tuple(sorted(versions))


def format_ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ranges: `0-9, 12`; `none` without a number."""
    return format_spans(find_ranges(numbers))


def format_spans(spans: Iterable[tuple[int, int]]) -> str:
    """Format pairs of a first and a last number as ranges: `0-9, 12`; `none` without a pair."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans) or "none"


def name_ranges(noun: str, numbers: Iterable[int]) -> str:
    """Format numbers as ranges after their noun: `commit 12`, `commits 0-9, 12`."""
    listed = list(numbers)
    plural_ending = "" if len(listed) == 1 else "s"
    return f"{noun}{plural_ending} {format_ranges(listed)}"


def find_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the longest runs of consecutive numbers, ascending, as pairs of the first and the last number."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def find_gaps(numbers: Iterable[int], first: int, last: int) -> list[tuple[int, int]]:
    """Return the runs of missing numbers between `first` and `last`, both included.

    The time depends on how many numbers exist, not on how many are missing: a hostile log can begin at version 2^60.

    Returns:
        The gaps, ascending, as pairs of the first and the last missing number.
    """
    gaps: list[tuple[int, int]] = []
    next_expected = first
    for number in sorted({number for number in numbers if first <= number <= last}):
        if number > next_expected:
            gaps.append((next_expected, number - 1))
        next_expected = number + 1

    if next_expected <= last:
        gaps.append((next_expected, last))
    return gaps


def _is_version(text: str) -> bool:
    """Return True for digits of ASCII that make a number of at most 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
