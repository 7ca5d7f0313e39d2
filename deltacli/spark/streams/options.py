"""The options of the data source, named as delta-spark names them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deltacli.did_you_mean import nearest_name
from deltacli.errors import UsageError
from deltacli.units import EPOCH, parse_size

MOST_FILES = 1_000
"""Files of a batch, unless an option says otherwise: as in delta-spark."""
LATEST = "latest"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the caller of `readStream` wants.

    `starting_version` is a version, `latest`, or None: the newest version as a whole, then its commits.
    """

    path: str
    starting_version: int | str | None = None
    starting_timestamp_ms: int | None = None
    most_files: int | None = MOST_FILES
    most_bytes: int | None = None
    read_change_feed: bool = False
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    storage_options: tuple[tuple[str, str], ...] = ()
    allow_external: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """What the caller of `read` wants."""

    path: str
    version: int | None = None
    timestamp_ms: int | None = None
    storage_options: tuple[tuple[str, str], ...] = ()
    allow_external: tuple[str, ...] = ()


def _bad(name: str, value: str, expected: str) -> UsageError:
    return UsageError(
        f"option {name} is {value!r}",
        code="usage.stream-option",
        facts={"expected": expected},
        hint=f'.option("{name}", …)',
    )


def _flag(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise _bad(name, value, "true or false")
    return value.strip().lower() == "true"


def _version(name: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,18}", value.strip(), re.ASCII):
        raise _bad(name, value, "a version, 0 or more")
    return int(value)


def _version_or_latest(name: str, value: str) -> int | str:
    if value.strip().lower() == LATEST:
        return LATEST
    try:
        return _version(name, value)
    except UsageError:
        raise _bad(name, value, "a version, 0 or more, or latest") from None


def _count(name: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,18}", value.strip(), re.ASCII) or int(value) == 0:
        raise _bad(name, value, "a number of files, 1 or more")
    return int(value)


def _size(name: str, value: str) -> int:
    try:
        # Spark reads `10g` and `10gb` as `10GiB`.
        spelled = re.sub(r"(?i)^\s*(\d+)\s*([kmgtp])b?\s*$", r"\1\2iB", value)
        found = parse_size(spelled)
    except UsageError:
        found = 0
    if found <= 0:
        raise _bad(name, value, "a size, such as 512m or 10GiB")
    return found


def _moment(name: str, value: str) -> int:
    """Return epoch milliseconds of a date, which is midnight UTC, or of a time with its zone.

    Spark's own sources use the zone of the session, which a Python data source does not know.
    """
    text = value.strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _bad(name, value, "a date, or a time with its zone: 2026-01-31T08:00:00Z") from None
    if _DAY.fullmatch(text):
        moment = moment.replace(tzinfo=UTC)
    if moment.utcoffset() is None:
        raise _bad(name, value, f"a time with its zone: {text}Z")
    return int((moment - EPOCH).total_seconds() * 1000)


def _prefixes(name: str, value: str) -> tuple[str, ...]:
    """Return one prefix, or those in a JSON array, as Spark writes lists of paths."""
    found: Any = [value]
    if value.lstrip().startswith("["):
        try:
            found = json.loads(value)
        except ValueError:
            found = [None]
    if not all(isinstance(prefix, str) and prefix for prefix in found):
        raise _bad(name, value, 'a path or a URI, or a JSON array of them: ["s3://lake/other"]')
    for prefix in found:
        _require_absolute(f"the prefix {prefix}", prefix, f'.option("{name}", os.path.abspath({prefix!r}))')
    return tuple(found)


_Reader = Callable[[str, str], Any]  # Any: the value of the field
_BOTH: Mapping[str, tuple[str, _Reader]] = {"allowExternal": ("allow_external", _prefixes)}
STORAGE = "storage."
"""The beginning of the names of options of the store."""
STREAM: Mapping[str, tuple[str, _Reader]] = {
    "startingVersion": ("starting_version", _version_or_latest),
    "startingTimestamp": ("starting_timestamp_ms", _moment),
    "maxFilesPerTrigger": ("most_files", _count),
    "maxBytesPerTrigger": ("most_bytes", _size),
    "readChangeFeed": ("read_change_feed", _flag),
    "ignoreDeletes": ("ignore_deletes", _flag),
    "ignoreChanges": ("ignore_changes", _flag),
    "skipChangeCommits": ("skip_change_commits", _flag),
    **_BOTH,
}
"""Option -> field of StreamOptions, and its reader."""
BATCH: Mapping[str, tuple[str, _Reader]] = {
    "versionAsOf": ("version", _version),
    "timestampAsOf": ("timestamp_ms", _moment),
    **_BOTH,
}
LIMITS = ("maxFilesPerTrigger", "maxBytesPerTrigger")


def is_stream(options: Mapping[str, str]) -> bool:
    """Return True if any option is one of `readStream` only. Without one, both give the same columns."""
    known = {name.lower() for name in STREAM if name not in BATCH}
    return any(name.lower() in known for name in options)


def stream_options(options: Mapping[str, str], spark: str) -> StreamOptions:
    """Read the options of `readStream` on a version of Spark. Raises UsageError (`usage.stream-option`)."""
    if not has_limits(spark):
        raise UsageError(
            f"Spark {spark} cannot follow a table: its Python data sources have no begin and no limits of a batch",
            code="usage.stream-option",
            facts={"needed": "Spark 4.2", **({"option": limit} if (limit := _limit_in(options)) else {})},
            hint="use Spark 4.2, or read_changes(spark, …, from_version)   # of deltacli.spark, in a loop of your own",
        )
    given = _given(options, STREAM, "readStream")
    _require_one(given, "startingVersion", "startingTimestamp")
    return StreamOptions(_path(options), storage_options=_of_store(options), **_fields(given, STREAM))


def batch_options(options: Mapping[str, str]) -> BatchOptions:
    """Read the options of `read`. Raises UsageError (`usage.stream-option`)."""
    given = _given(options, BATCH, "read")
    _require_one(given, "versionAsOf", "timestampAsOf")
    return BatchOptions(_path(options), storage_options=_of_store(options), **_fields(given, BATCH))


def has_limits(spark: str) -> bool:
    """Return True if a version of Spark lets a Python data source limit a batch: 4.2 or newer."""
    found = re.match(r"(\d+)\.(\d+)", spark)
    return found is not None and (int(found[1]), int(found[2])) >= (4, 2)


def _path(options: Mapping[str, str]) -> str:
    path = next((value for name, value in options.items() if name.lower() == "path"), "")
    if not path:
        raise UsageError("the table is missing", code="usage.stream-option", hint='.load("s3://lake/events")')
    _require_absolute(f"the path {path}", path, f".load(os.path.abspath({path!r}))")
    return path


def _require_absolute(what: str, path: str, hint: str) -> None:
    """Raise UsageError for a path that depends on the process that opens it."""
    local = re.sub(r"^file:(//[^/]*)?", "", path, flags=re.IGNORECASE)
    if "://" not in local and not os.path.isabs(local):
        raise UsageError(
            f"{what} is relative, and processes of Spark have other working directories",
            code="usage.stream-option",
            facts={"expected": "an absolute path, or a URI"},
            hint=hint,
        )


def _of_store(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the options of the store, without the beginning of their names."""
    found = {name[len(STORAGE) :]: str(value) for name, value in options.items() if name.lower().startswith(STORAGE)}
    return tuple(sorted(found.items()))


def _given(options: Mapping[str, str], known: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the options by the names in `known`: Spark ignores the case of options. Raises UsageError for others."""
    by_name = {name.lower(): name for name in known}
    found = {}
    for name, value in options.items():
        if name.lower() == "path" or name.lower().startswith(STORAGE):
            continue
        if name.lower() not in by_name:
            raise _unknown(name, known, where)
        found[by_name[name.lower()]] = str(value)
    return found


def _unknown(name: str, known: Mapping[str, Any], where: str) -> UsageError:
    """Return the error for an option that a reader does not have. Which one it is, Spark tells too late to suggest
    options of this one only.
    """
    every = {**STREAM, **BATCH}
    is_of_the_other = name.lower() in {other.lower() for other in every}
    near = None if is_of_the_other else nearest_name(name, every, ignores_case=True)
    return UsageError(
        f"{where if is_of_the_other else 'the data source'} has no option {name}",
        code="usage.stream-option",
        facts={"did you mean": near} if near else {"options": ", ".join((*known, f"{STORAGE}…"))},
    )


def _fields(given: Mapping[str, str], known: Mapping[str, tuple[str, _Reader]]) -> dict[str, Any]:
    return {known[name][0]: known[name][1](name, value) for name, value in given.items()}


def _require_one(given: Mapping[str, str], one: str, other: str) -> None:
    if one in given and other in given:
        raise UsageError(f"{one} and {other} exclude each other", code="usage.stream-option")


def _limit_in(options: Mapping[str, str]) -> str | None:
    given = {name.lower() for name in options}
    return next((name for name in LIMITS if name.lower() in given), None)
