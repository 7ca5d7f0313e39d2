"""Settings of a session that change what Spark's Parquet scan returns, and what a plan does about each.

A setting that a read option overrides is overridden. For any other, rows are read by our own scan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from deltacli.core.errors import UsageError
from deltacli.core.hints import install_command
from deltacli.core.typing import SparkSession

READ_OPTIONS: Mapping[str, str] = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "timeZone": "UTC",
}
"""Options of every scan."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """A setting that no read option overrides, with the values that are harmless."""

    name: str
    default: str
    is_harmless: Callable[[str], bool]


HAZARDS = (
    Hazard("spark.sql.parquet.int96TimestampConversion", "false", lambda value: value == "false"),
    Hazard("spark.sql.sources.useV1SourceList", "parquet", lambda value: "parquet" in re.split(r"[\s,]+", value)),
    Hazard("spark.sql.parquet.int96AsTimestamp", "true", lambda value: value == "true"),
    Hazard("spark.sql.variant.allowReadingShredded", "true", lambda value: value == "true"),
    Hazard("spark.sql.parquet.ignoreVariantAnnotation", "false", lambda value: value == "false"),
)


def hazard_of(session: SparkSession) -> str | None:
    """Return the first setting of a session that forbids Spark's own scan, with its value; None for none."""
    for hazard in HAZARDS:
        value = _value(session, hazard.name, hazard.default)
        if not hazard.is_harmless(value):
            return f"{hazard.name} is {value}"
    return None


_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_counting = Lock()
_listings: dict[Any, tuple[int, str | None]] = {}  # Any: a session, or that of the JVM
"""The sessions that list paths, with how many threads do, and the setting from before."""


@contextmanager
def few_listing_tasks(session: SparkSession) -> Iterator[None]:
    """Let Spark list paths in 64 tasks instead of one for each path, which takes 10 times longer."""
    key = getattr(session, "_jsparkSession", session)
    with _counting:
        others, before = _listings.get(key) or (0, session.conf.get(_LISTING_TASKS, None))
        _listings[key] = others + 1, before
        session.conf.set(_LISTING_TASKS, "64")
    try:
        yield
    finally:
        with _counting:
            threads, before = _listings.pop(key)
            if threads > 1:
                _listings[key] = threads - 1, before
            elif before is None:
                session.conf.unset(_LISTING_TASKS)
            else:
                session.conf.set(_LISTING_TASKS, before)


def is_case_sensitive(session: SparkSession) -> bool:
    """Return whether the session tells `a` from `A`."""
    return _value(session, "spark.sql.caseSensitive", "false") == "true"


def is_before_4_1(session: SparkSession) -> bool:
    """Return True for Spark 4.0."""
    return str(session.version).startswith("4.0.")


def is_connect(session: SparkSession) -> bool:
    """Return True for a session of Spark Connect, which analyzes a plan again for each action."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def require_session(session: Any) -> None:  # Any: as the caller gave it
    """Raise UsageError unless this is a session of Spark 4."""
    version = str(getattr(session, "version", ""))
    if not re.match(r"[4-9]\.", version) or not hasattr(session, "createDataFrame"):
        raise UsageError(
            f"Spark {version} is too old" if version else f"{session!r} is not a Spark session",
            code="cluster.pyspark",
            facts={"supported": "4.0 to 4.3"},
            hint=install_command("spark-local"),
        )


def _value(session: Any, name: str, default: str) -> str:
    return str(session.conf.get(name, default)).lower()
