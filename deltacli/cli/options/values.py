"""Parsers of option values, for `typer.Option(parser=...)`.

Typer's own conversions differ from version to version: some accept `1_000`, ` 5` or `1.0` as a whole number. The
parsers here accept the same texts with every version, and their errors name the option and say what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

import typer

from deltacli.core.errors import UsageError
from deltacli.core.ranges import parse_versions
from deltacli.core.texts import parse_names
from deltacli.core.times import parse_duration
from deltacli.core.units import FRACTION_CODE, parse_percentage

Choice = TypeVar("Choice", bound=StrEnum)

_COLUMN_NAME = re.compile(r"\s*`(?:[^`]|``)*`\s*(?=,|$)|[^,]+")
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)/s")


class InvalidValue(typer.BadParameter):
    """The value of an option or an argument is invalid. Typer adds the name of the option to the message.

    Attributes:
        text: The value as the user typed it.
        choices: The values that are accepted. Empty if there is no fixed set of values.
    """

    def __init__(self, text: str, expected: str, choices: Sequence[str] = ()) -> None:
        super().__init__(f"{text!r} is not {expected}")
        self.text = text
        self.choices = choices


def parse_whole_number(text: str | int) -> int:
    """Parse a whole number. Raises InvalidValue. Unlike `int`, it refuses `1_000`, ` 5` and digits of other scripts."""
    if isinstance(text, int):
        # Typer passes the default of an option to its parser, too.
        return text

    has_only_digits = text.isascii() and text.lstrip("+-").isdecimal()
    try:
        return int(text) if has_only_digits else _refuse_number(text)
    except ValueError:
        # The text has two signs, or thousands of digits.
        return _refuse_number(text)


def _refuse_number(text: str) -> int:
    raise InvalidValue(text, "a whole number")


def make_number_parser(*, at_least: int) -> Callable[[str | int], int]:
    """Return a parser for whole numbers that are at least `at_least`."""

    def parse_bounded_number(text: str | int) -> int:
        number = parse_whole_number(text)
        if number < at_least:
            raise typer.BadParameter(f"{number} is less than {at_least}")
        return number

    return parse_bounded_number


def make_choice_parser(choices: type[Choice]) -> Callable[[str], Choice]:
    """Return a parser for the values of an enum. Upper and lower case are different."""

    def parse_choice(text: str) -> Choice:
        try:
            return choices(text)
        except ValueError:
            words = [str(choice) for choice in choices]
            expected = f"one of {', '.join(map(repr, words))}"
            raise InvalidValue(text, expected, words) from None

    return parse_choice


def make_text_parser(option: str) -> Callable[[str], str]:
    """Return a parser that refuses empty texts. They usually come from an unset variable in a script."""

    def parse_text(text: str) -> str:
        if not text.strip():
            raise UsageError(f"{option} is empty")
        return text

    return parse_text


def make_duration_parser(option: str, suggested_unit: str | None = None) -> Callable[[str], int]:
    """Return a parser for durations such as `7d`. It returns milliseconds.

    Args:
        option: The name of the option, for errors.
        suggested_unit: The unit that the error suggests for a number without a unit. None: days or hours.
    """

    def parse_duration_of_option(text: str) -> int:
        return parse_duration(text, option, suggested_unit)

    return parse_duration_of_option


def make_columns_parser(option: str) -> Callable[[str], Sequence[str]]:
    """Return a parser for a list of columns, such as `id,ride.fare`."""

    def parse_columns(text: str) -> Sequence[str]:
        return split_columns(text, option)

    return parse_columns


def split_columns(text: str, option: str) -> list[str]:
    """Split a list of columns. A name with a comma is quoted by backticks. Raises UsageError if the list is empty."""
    hint = "deltacli snapshot {table} --schema"
    names = parse_names(text, option, _COLUMN_NAME, code="usage.column", hint=hint)
    return [_without_backticks(name) for name in names]


def _without_backticks(name: str) -> str:
    is_quoted = len(name) > 2 and name[0] == "`" == name[-1]
    return name[1:-1].replace("``", "`") if is_quoted else name


def make_share_parser(option: str) -> Callable[[str | float], float]:
    """Return a parser for percentages such as `5%`. It returns a number from 0 to 1."""

    def parse_share_of_option(text: str | float) -> float:
        if isinstance(text, float):
            # Typer passes the default of an option to its parser, too.
            return text
        try:
            return parse_percentage(text)
        except ValueError as fault:
            raise _refuse_share(text, f"{option} {fault}", FRACTION_CODE, "0% to 100%") from fault

    return parse_share_of_option


def make_sample_parser(option: str) -> Callable[[str | float], float]:
    """Return a parser for percentages above 0%. A sample of 0% would check nothing."""

    def parse_sample(text: str | float) -> float:
        if isinstance(text, float):
            # Typer passes the default of an option to its parser, too.
            return text
        try:
            share = parse_percentage(text)
            if not share:
                raise ValueError(f"{text!r} is not a share such as 5%")
        except ValueError as fault:
            raise _refuse_share(text, f"{option} {fault}", "usage.sample", "more than 0%, up to 100%") from fault
        return share

    return parse_sample


def _refuse_share(text: str, message: str, code: str, expected: str) -> UsageError:
    error = UsageError(message, code=code, facts={"expected": expected})
    is_sign_missing = re.fullmatch(r"[1-9][0-9]?|100", text) is not None
    if is_sign_missing:
        error.suggest_as_fact(text, f"{text}%")
    return error


def make_rate_parser(option: str) -> Callable[[str], float]:
    """Return a parser for rates in files per second, such as `500/s`."""

    def parse_rate(text: str) -> float:
        match = _RATE.fullmatch(text.strip())
        if match is None or float(match[1]) <= 0:
            expected = "files per second, such as 500/s or 0.5/s"
            raise UsageError(f"{option} {text} is not a rate", facts={"expected": expected})
        return float(match[1])

    return parse_rate


def join_names(texts: Sequence[str] | None, option: str) -> tuple[str, ...]:
    """Return the names in all values of a repeatable option. Each value is a list separated by commas."""
    return tuple(name for text in texts or () for name in parse_names(text, option))


def join_versions(texts: Sequence[str] | None, option: str) -> tuple[int, ...]:
    """Return the versions in all values of a repeatable option. Each value is a list such as `5,10-12`."""
    return parse_versions(",".join(texts), option) if texts else ()
