"""Checks of the types of arguments of the Python API, before anything is read."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from deltacli.errors import UsageError
from deltacli.units import EPOCH


def version_number(value: object, name: str) -> int:
    """Return a version. Raises UsageError where the value is not an integer; whether it exists is not checked."""
    try:
        number = operator.index(value) if not isinstance(value, bool) else None  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise UsageError(f"{name} is {value!r}", facts={"expected": "an integer", "type": type(value).__name__})
    return number


def optional_version(value: object, name: str) -> int | None:
    """Return a version, or None. Raises UsageError."""
    return None if value is None else version_number(value, name)


def count_number(value: object, name: str) -> int:
    """Return a count, which is 0 or more. Raises UsageError."""
    number = version_number(value, name)
    if number < 0:
        raise UsageError(f"{name} {number} is negative", facts={"expected": "0 or more"})
    return number


def optional_count(value: object, name: str) -> int | None:
    """Return a count, or None. Raises UsageError."""
    return None if value is None else count_number(value, name)


class VersionTime(NamedTuple):
    """A time that selects a version."""

    timestamp_ms: int


@dataclass(frozen=True, kw_only=True)
class VersionEnds:
    """Two versions in a request, each by its number or by a time, which becomes milliseconds."""

    from_version: int | None = None
    from_timestamp: datetime | date | None = None
    from_timestamp_ms: int | None = None
    to_version: int | None = None
    to_timestamp: datetime | date | None = None
    to_timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for an end that is given twice, or is no version or time."""
        for end in ("from", "to"):
            version, timestamp, timestamp_ms = (
                getattr(self, f"{end}_{what}") for what in ("version", "timestamp", "timestamp_ms")
            )
            if sum(one is not None for one in (version, timestamp, timestamp_ms)) > 1:
                raise UsageError(f"{end}_version and {end}_timestamp exclude each other")
            version = optional_version(version, f"{end}_version")
            if version is not None and version < 0:
                raise UsageError(f"version {version} is negative")
            object.__setattr__(self, f"{end}_version", version)
            if timestamp is not None:
                object.__setattr__(self, f"{end}_timestamp_ms", moment_ms(timestamp, f"{end}_timestamp"))
                object.__setattr__(self, f"{end}_timestamp", None)


def moment_ms(value: object, name: str) -> int:
    """Return epoch milliseconds of a datetime that has a time zone, or of a date, which is midnight UTC.

    Raises UsageError, also for a datetime without a time zone.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise UsageError(
                f"{name} {value} has no time zone",
                code="usage.timestamp",
                facts={"expected": "a datetime with a time zone, as in datetime.now(timezone.utc)"},
            )
        return (value - EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, date):
        return moment_ms(datetime(value.year, value.month, value.day, tzinfo=UTC), name)
    raise UsageError(
        f"{name} is {value!r}",
        code="usage.timestamp",
        facts={"expected": "a datetime with a time zone, or a date", "type": type(value).__name__},
    )
