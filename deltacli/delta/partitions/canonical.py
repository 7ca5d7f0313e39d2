"""The text that Delta writes for a partition value which another writer spelled in its own way.

Hive and Spark name directories `month=01`, `flag=True` or `day=2024-1-5`. These are values of their types, but not in
the form that every reader of Delta parses.

Spec: Partition Value Serialization.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from math import isnan
from typing import NamedTuple

from deltacli.core.errors import UsageError
from deltacli.delta.encoding import value_text
from deltacli.delta.partitions.values import Spelling, is_refused_by_kernel, is_text, parse_number, spelling_of
from deltacli.delta.schema.type_changes import digits_of_decimal
from deltacli.delta.schema.types import WHOLE_BITS
from deltacli.delta.stats.columns import exact_decimal

_OFFSET = re.compile(r"([+-])([01][0-9]):?([0-5][0-9])")
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,63}(/[A-Za-z0-9_+-]{1,64}){0,2}")
_BEYOND_MICROSECONDS = re.compile(r"\.[0-9]{6}[0-9]*[1-9]", re.ASCII)
_NAMED_ZONE = re.compile(r"[A-Za-z]+/[A-Za-z_/+-]+\Z")
_EPOCH = datetime(1970, 1, 1)  # a local time, whose zone is found out


TIME_WITH_ZONE = "a time with a zone"
"""What is expected instead of a local time whose zone is not known."""


class CanonicalValue(NamedTuple):
    """A partition value as Delta writes it, or what is missing for that.

    Attributes:
        text: The canonical text; None if there is none.
        expected: What the text would have to be; empty if there is a canonical text.
    """

    text: str | None
    expected: str = ""


def canonical_value(type_name: str, text: str, zone: tzinfo | None = None) -> CanonicalValue:
    """Return a partition value in the form that every reader parses. Nothing is rounded and no zone is guessed.

    Args:
        type_name: The type of the partition column.
        text: A value as a directory, or another log, spells it; neither null nor empty.
        zone: The zone of local times in columns of type `timestamp`; None if it is not known.

    Spec: Partition Value Serialization.
    """
    if is_text(type_name):
        return CanonicalValue(text)
    if type_name.startswith("timestamp") and _BEYOND_MICROSECONDS.search(text):
        return CanonicalValue(None, "a time in whole microseconds")
    if digits_of_decimal(type_name) is None and _is_canonical(type_name, text):
        return CanonicalValue(text)
    bare = text.strip()
    if not bare or spelling_of(type_name, bare) is Spelling.UNPARSABLE:
        return CanonicalValue(None, f"a value of type {type_name}")

    if type_name.startswith("timestamp"):
        found = _canonical_time(type_name, bare, zone)
    else:
        found = CanonicalValue(_canonical_text(type_name, bare))
    if found.text is not None and (_is_beyond_years(found.text) or not _is_canonical(type_name, found.text)):
        return CanonicalValue(None, f"a value of type {type_name} that every reader parses")
    return found


def parse_zone(text: str) -> tzinfo | None:
    """Return a time zone by its IANA name or its offset such as `+02:00`; None for an unknown one."""
    if text.upper() in ("UTC", "Z"):
        return UTC
    if match := _OFFSET.fullmatch(text):
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    if not _ZONE_NAME.fullmatch(text):
        return None

    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # only for conversions that name a zone

    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a directory, such as Europe
        return None


def require_zone(text: str, option: str) -> tzinfo:
    """Return a time zone as `parse_zone`. Raises UsageError, which names the option, for an unknown one."""
    zone = parse_zone(text)
    if zone is None:
        raise UsageError(
            f"{option} {text[:80]!r} is not a time zone of this machine",
            code="usage.time-zone",
            facts={"expected": "an IANA name such as Europe/Berlin, UTC, or an offset such as +02:00"},
        )
    return zone


def _is_beyond_years(text: str) -> bool:
    """Return whether a time was moved by its zone out of the years 1 to 9999."""
    return text.startswith(("0000-", "+1"))


def _is_canonical(type_name: str, text: str) -> bool:
    return spelling_of(type_name, text) is Spelling.PLAIN and not is_refused_by_kernel(type_name, text)


def _canonical_text(type_name: str, text: str) -> str:
    """Return a valid value without blanks around it that is not a time."""
    if type_name in WHOLE_BITS:
        return str(int(text))
    if type_name == "boolean":
        return text.lower()
    if type_name == "date":
        days = value_text.parse_date(text)
        assert days is not None
        return value_text.date_text(days)
    if type_name in ("float", "double"):
        return _float_text(text)
    digits = digits_of_decimal(type_name)
    number = exact_decimal(text)
    if digits is None or number is None:
        return text
    # Kernels refuse a decimal with another number of digits than its scale.
    whole, _, fraction = f"{number:f}".partition(".")
    fraction = fraction.rstrip("0").ljust(digits.scale, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _float_text(text: str) -> str:
    number = parse_number(text)
    if isnan(number):
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number).replace("e+", "E").replace("e", "E")


def _canonical_time(type_name: str, text: str, zone: tzinfo | None) -> CanonicalValue:
    moment = value_text.parse_moment(text)
    assert moment is not None
    if type_name == "timestamp_ntz":
        if moment.has_zone:
            return CanonicalValue(None, "a time without a zone")
        return CanonicalValue(value_text.moment_text(moment.microseconds).replace("T", " "))
    if moment.has_zone:
        # The place that a name of a zone means is not resolved when a time is parsed.
        if _NAMED_ZONE.search(text):
            return CanonicalValue(None, "a time in UTC or with an offset")
        return CanonicalValue(f"{value_text.moment_text(moment.microseconds)}Z")
    if zone is None:
        return CanonicalValue(None, TIME_WITH_ZONE)

    try:
        local = _EPOCH + timedelta(microseconds=moment.microseconds)
        offsets = {local.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1)}
    except OverflowError:
        return CanonicalValue(None, "a time of the years 1 to 9999")
    if len(offsets) > 1:  # clocks were changed: the time occurs twice, or never
        return CanonicalValue(None, f"a time that occurs once in {zone}")
    microseconds = moment.microseconds - offsets.pop() // timedelta(microseconds=1)
    return CanonicalValue(f"{value_text.moment_text(microseconds)}Z")
