"""Parse and format lists of version numbers such as `5,10-12`, and find gaps in a list of versions."""

from __future__ import annotations

from collections.abc import Iterable

from deltacli.core.errors import UsageError

_MAX_DIGITS = 18
"""All numbers of this many digits fit into 64 bits."""

_MAX_VERSIONS_IN_RANGE = 1_000_000


def parse_versions(text: str, option: str) -> tuple[int, ...]:
    """Parse a list of versions and ranges such as `5,10-12`.

    Args:
        text: The list.
        option: The name of the option for the error message.

    Returns:
        The versions, ascending and without duplicates.

    Raises:
        UsageError: If the text is not a list of versions and ranges, or if a range is too long.
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
        # Each version of a range is stored as an int below: 0-999999999999 would exhaust the memory.
        if last - first > _MAX_VERSIONS_IN_RANGE:
            raise UsageError(f"{option} {text}: more than a million versions")
        versions.update(range(first, last + 1))
    return tuple(sorted(versions))


def format_ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ranges: `0-9, 12`. No numbers are formatted as `none`."""
    return format_spans(find_ranges(numbers))


def format_spans(spans: Iterable[tuple[int, int]]) -> str:
    """Format pairs of a first and a last number as ranges: `0-9, 12`. No pairs are formatted as `none`."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans) or "none"


def name_ranges(noun: str, numbers: Iterable[int]) -> str:
    """Format numbers as ranges, with a noun in singular or plural: `commit 12`, `commits 0-9, 12`."""
    listed = list(numbers)
    plural_ending = "" if len(listed) == 1 else "s"
    return f"{noun}{plural_ending} {format_ranges(listed)}"


def find_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Group numbers into ranges of consecutive numbers.

    >>> find_ranges([12, 0, 1, 2])
    [(0, 2), (12, 12)]
    """
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def find_gaps(numbers: Iterable[int], first: int, last: int) -> list[tuple[int, int]]:
    """Return the ranges from `first` to `last`, both included, that contain none of the numbers.

    >>> find_gaps([0, 1, 4], 0, 6)
    [(2, 3), (5, 6)]

    The running time depends on the count of `numbers` only, not on the size of the gaps: a hostile log can begin at
    version 2^60.
    """
    gaps: list[tuple[int, int]] = []
    next_expected = first
    numbers_in_range = {number for number in numbers if first <= number <= last}
    for number in sorted(numbers_in_range):
        if number > next_expected:
            gaps.append((next_expected, number - 1))
        next_expected = number + 1

    if next_expected <= last:
        gaps.append((next_expected, last))
    return gaps


def _is_version(text: str) -> bool:
    """Return True for ASCII digits whose number fits into 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
