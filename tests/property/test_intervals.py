"""Interval text of table properties, read as the reference implementation reads it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.log.state import parse_interval
from tests.support.effort import examples

MICROSECONDS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}

BLANKS = st.sampled_from([" ", "  ", "\t", " \n "])
SOME_BLANKS = st.sampled_from(["", "", " "])


@st.composite
def terms(draw: st.DrawFn) -> tuple[str, Fraction]:
    """One `[sign] number unit` in some spelling, and its microseconds."""
    unit = draw(st.sampled_from(sorted(MICROSECONDS)))
    sign = draw(st.sampled_from(["", "", "+", "-"]))
    number = str(draw(st.integers(0, 5_000)))
    if unit == "second" and draw(st.booleans()):
        number += "." + draw(st.text("0123456789", min_size=1, max_size=9))
    amount = Fraction(int(Fraction(number) * MICROSECONDS[unit])) * (-1 if sign == "-" else 1)
    text = f"{sign}{draw(SOME_BLANKS) if sign else ''}{number}{draw(BLANKS)}{unit}{draw(st.sampled_from(['', 's']))}"
    return text, amount


@given(st.lists(terms(), min_size=1, max_size=3), st.booleans(), st.data())
@examples(150)
def test_units_add_up_whatever_the_case_and_the_blanks(
    parts: list[tuple[str, Fraction]], prefixed: bool, data: st.DataObject
) -> None:
    text = data.draw(BLANKS).join(text for text, _ in parts)
    text = data.draw(SOME_BLANKS) + (f"interval{data.draw(BLANKS)}" if prefixed else "") + text + data.draw(SOME_BLANKS)
    text = data.draw(st.sampled_from([text, text.upper(), text.title()]))
    total = sum((amount for _, amount in parts), Fraction(0))

    found = parse_interval(text)

    assert (None if total < 0 else int(total / 1000)) == found


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 1 week", 604_800_000),
        ("30 days", 2_592_000_000),
        ("INTERVAL 30 DAYS", 2_592_000_000),
        ("interval 4 weeks 2 days", 2_592_000_000),
        ("interval 20 days 12 hours", 1_771_200_000),
        ("interval 1.5 seconds", 1_500),
        ("interval 1 day -1 hour", 82_800_000),
        ("interval 0 days", 0),
        ("interval 1999 microseconds", 1),
        ("", None),
        ("interval", None),
        ("interval 1", None),
        ("7", None),
        ("week 1", None),
        ("interval 1 month", None),
        (f"interval {'9' * 5_000} weeks", None),
        ("interval 1 year", None),
        ("interval 1.5 days", None),
        ("interval 1day", None),
        ("interval -1 day", None),
        ("interval 1 day,", None),
        ("interval 1 fortnight", None),
        ("P7D", None),
    ],
)
def test_interval_examples(text: str, milliseconds: int | None) -> None:
    assert milliseconds == parse_interval(text)
