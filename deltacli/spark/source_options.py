"""The options of the data source, named as delta-spark names them, and how values of options are read and checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deltacli.core.errors import UsageError, nearest_name
from deltacli.core.times import to_epoch_ms
from deltacli.core.units import parse_size

LATEST = "latest"
OptionReader = Callable[[str, str], Any]  # Any: the value of the field
MOST_FILES = 1_000
"""Files of a batch, unless an option says otherwise: as in delta-spark."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def bad_option(name: str, value: str, expected: str) -> UsageError:
    """Return the error for a value of an option."""
    return UsageError(
        f"option {name} is {value!r}",
        code="usage.stream-option",
        facts={"expected": expected},
        hint=f'.option("{name}", …)',
    )


def flag(name: str, value: str) -> bool:
    """Return True or False. Raises UsageError, as every function here does."""
    if value.strip().lower() not in ("true", "false"):
        raise bad_option(name, value, "true or false")
    return value.strip().lower() == "true"


def text(name: str, value: str) -> str:
    if not value.strip():
        raise bad_option(name, value, "a text")
    return value


def names(name: str, value: str) -> tuple[str, ...]:
    """Return names of columns: separated by commas, or a JSON array, which may have names with commas."""
    found = _listed(value, [part.strip() for part in value.split(",")])
    if not found or not all(isinstance(one, str) and one for one in found):
        raise bad_option(name, value, 'names of columns: a,b or ["a", "b"]')
    return tuple(found)


def version_number(name: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,18}", value.strip(), re.ASCII):
        raise bad_option(name, value, "a version, 0 or more")
    return int(value)


def version_or_latest(name: str, value: str) -> int | str:
    """Return a version, or `latest`."""
    if value.strip().lower() == LATEST:
        return LATEST
    try:
        return version_number(name, value)
    except UsageError:
        raise bad_option(name, value, "a version, 0 or more, or latest") from None


def count_of_files(name: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,18}", value.strip(), re.ASCII) or int(value) == 0:
        raise bad_option(name, value, "a number of files, 1 or more")
    return int(value)


def size_in_bytes(name: str, value: str) -> int:
    """Return a number of bytes above 0."""
    try:
        # Spark reads `10g` and `10gb` as `10GiB`.
        spelled = re.sub(r"(?i)^\s*(\d+(?:\.\d+)?)\s*([kmgtp])b?\s*$", r"\1\2iB", value)
        found = parse_size(spelled)
    except UsageError:
        found = 0
    if found <= 0:
        raise bad_option(name, value, "a size, such as 512m or 10GiB")
    return found


def moment(name: str, value: str) -> int:
    """Return epoch milliseconds of a date, which is midnight UTC, or of a time with its zone.

    Spark's own sources use the zone of the session, which a Python data source does not know.
    """
    text = value.strip()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise bad_option(name, value, "a date, or a time with its zone: 2026-01-31T08:00:00Z") from None
    if _DAY.fullmatch(text):
        found = found.replace(tzinfo=UTC)
    if found.utcoffset() is None:
        raise bad_option(name, value, f"a time with its zone: {text}Z")
    return to_epoch_ms(found, begins=name == "startingTimestamp")


def prefixes(name: str, value: str) -> tuple[str, ...]:
    """Return one prefix, or those in a JSON array, as Spark writes lists of paths."""
    found = _listed(value, [value])
    if not all(isinstance(prefix, str) and prefix for prefix in found):
        raise bad_option(name, value, 'a path or a URI, or a JSON array of them: ["s3://lake/other"]')
    for prefix in found:
        require_absolute(f"the prefix {prefix}", prefix, f'.option("{name}", os.path.abspath({prefix!r}))')
    return tuple(found)


def _listed(value: str, otherwise: list[Any]) -> list[Any]:
    """Return the elements of a JSON array, [None] where it is damaged; `otherwise` for a text that is none."""
    if not value.lstrip().startswith("["):
        return otherwise
    try:
        found: list[Any] = json.loads(value)
    except ValueError:
        return [None]
    return found


def require_absolute(what: str, path: str, hint: str) -> None:
    """Raise UsageError for a path that depends on the process that opens it."""
    local = re.sub(r"^file:(//[^/]*)?", "", path, flags=re.IGNORECASE)
    if "://" not in local and not os.path.isabs(local):
        raise UsageError(
            f"{what} is relative, and processes of Spark have other working directories",
            code="usage.stream-option",
            facts={"expected": "an absolute path, or a URI"},
            hint=hint,
        )


def path_of(options: Mapping[str, str], hint: str) -> str:
    """Return what was given to `load`."""
    path = next((value for name, value in options.items() if name.lower() == "path"), "")
    if not path:
        raise UsageError("the table is missing", code="usage.stream-option", hint=hint)
    return path


def given_options(
    options: Mapping[str, str],
    known: Mapping[str, object],
    every: Mapping[str, object],
    where: str,
    also: tuple[str, ...] = (),
) -> dict[str, str]:
    """Return the options by the names in `known`: Spark ignores the case of options. Raises UsageError for others.

    `every` has the names of all readers of the source, and `also` is what an error names as options besides.
    """
    by_name = {name.lower(): name for name in known}
    found = {}
    for name, value in options.items():
        if name.lower() == "path":
            continue
        if name.lower() not in by_name:
            # Spark tells too late which reader it is to suggest options of this one only.
            is_of_the_other = name.lower() in {other.lower() for other in every}
            near = None if is_of_the_other else nearest_name(name, every, ignores_case=True)
            raise UsageError(
                f"{where if is_of_the_other else 'the data source'} has no option {name}",
                code="usage.stream-option",
                facts={} if near else {"options": ", ".join((*known, *also))},
            ).suggest_as_fact(name, near)
        found[by_name[name.lower()]] = str(value)
    return found


def fields_of(given: Mapping[str, str], known: Mapping[str, tuple[str, OptionReader]]) -> dict[str, Any]:
    """Return the fields of the given options, their values read."""
    return {known[name][0]: known[name][1](name, value) for name, value in given.items()}


def require_one(given: Mapping[str, str], one: str, other: str) -> None:
    if one in given and other in given:
        raise UsageError(f"{one} and {other} exclude each other", code="usage.stream-option")


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
    """What the caller of `read` wants: a version, or with `read_change_feed` the changes of a range of versions."""

    path: str
    version: int | None = None
    timestamp_ms: int | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    row_ids: bool = False
    read_change_feed: bool = False
    starting_version: int | None = None
    ending_version: int | None = None
    storage_options: tuple[tuple[str, str], ...] = ()
    allow_external: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the caller of `write` or `writeStream` wants. The rows of a transaction are appended once."""

    path: str
    app_id: str | None = None
    txn_version: int | None = None
    user_metadata: str | None = None
    storage_options: tuple[tuple[str, str], ...] = ()
    allow_external: tuple[str, ...] = ()


_BOTH: Mapping[str, tuple[str, OptionReader]] = {"allowExternal": ("allow_external", prefixes)}
STORAGE = "storage."
"""The beginning of the names of options of the store."""
STREAM: Mapping[str, tuple[str, OptionReader]] = {
    "startingVersion": ("starting_version", version_or_latest),
    "startingTimestamp": ("starting_timestamp_ms", moment),
    "maxFilesPerTrigger": ("most_files", count_of_files),
    "maxBytesPerTrigger": ("most_bytes", size_in_bytes),
    "readChangeFeed": ("read_change_feed", flag),
    "ignoreDeletes": ("ignore_deletes", flag),
    "ignoreChanges": ("ignore_changes", flag),
    "skipChangeCommits": ("skip_change_commits", flag),
    **_BOTH,
}
"""Option -> field of StreamOptions, and its reader."""
BATCH: Mapping[str, tuple[str, OptionReader]] = {
    "versionAsOf": ("version", version_number),
    "timestampAsOf": ("timestamp_ms", moment),
    "columns": ("columns", names),
    "where": ("where", text),
    "rowIds": ("row_ids", flag),
    "readChangeFeed": ("read_change_feed", flag),
    "startingVersion": ("starting_version", version_number),
    "endingVersion": ("ending_version", version_number),
    **_BOTH,
}
WRITE: Mapping[str, tuple[str, OptionReader]] = {
    "txnAppId": ("app_id", text),
    "txnVersion": ("txn_version", version_number),
    "userMetadata": ("user_metadata", text),
    **_BOTH,
}
_OF_SPARK = ("checkpointlocation", "queryname", "outputmode")
"""Options of `writeStream` that are Spark's own, in lower case."""
_FEED = "readchangefeed"
LIMITS = ("maxFilesPerTrigger", "maxBytesPerTrigger")


def is_stream(options: Mapping[str, str]) -> bool:
    """Return True if any option is one of `readStream` only. Without one, both give the same columns."""
    known = {name.lower() for name in STREAM if name not in BATCH}
    return any(name.lower() in known or _is_latest(name, value) for name, value in options.items())


def _is_latest(name: str, value: str) -> bool:
    return name.lower() == "startingversion" and value.strip().lower() == LATEST


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
    require_one(given, "startingVersion", "startingTimestamp")
    return StreamOptions(_path(options), storage_options=options_of_store(options), **fields_of(given, STREAM))


def batch_options(options: Mapping[str, str]) -> BatchOptions:
    """Read the options of `read`. Raises UsageError (`usage.stream-option`)."""
    given = _given(options, BATCH, "read")
    require_one(given, "versionAsOf", "timestampAsOf")
    found = BatchOptions(_path(options), storage_options=options_of_store(options), **fields_of(given, BATCH))
    if found.read_change_feed and (found.version is not None or found.timestamp_ms is not None):
        raise UsageError(
            "changes have startingVersion and endingVersion instead of versionAsOf", code="usage.stream-option"
        )
    if not found.read_change_feed and (found.starting_version is not None or found.ending_version is not None):
        raise UsageError("startingVersion and endingVersion need readChangeFeed", code="usage.stream-option")
    return found


def column_options(options: Mapping[str, str]) -> BatchOptions:
    """Read the options by which the columns of a source are found. The version that a stream starts with is left out:
    Spark asks for columns before it says whether it reads once or follows the table.
    """
    if flag("readChangeFeed", next((value for name, value in options.items() if name.lower() == _FEED), "false")):
        return batch_options(options)
    return batch_options({name: value for name, value in options.items() if name.lower() != "startingversion"})


def write_options(options: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
    """Read the options of `write` and `writeStream`. Raises UsageError (`usage.stream-option`, `stream.no-app-id`)."""
    own = {name: value for name, value in options.items() if name.lower() not in _OF_SPARK}
    given = _given(own, WRITE, "writeStream" if is_stream else "write")
    found = WriteOptions(_path(options), storage_options=options_of_store(options), **fields_of(given, WRITE))
    if is_stream and not found.app_id:
        raise UsageError(
            "the option txnAppId is missing: by this name a query finds which of its batches are in the table",
            code="stream.no-app-id",
            hint='.option("txnAppId", "orders-to-lake")   # another name for each query, the same after a restart',
        )
    if is_stream and found.txn_version is not None:
        raise UsageError("txnVersion is the number of the batch in a stream", code="usage.stream-option")
    if not is_stream and (found.app_id is None) != (found.txn_version is None):
        raise UsageError("txnAppId and txnVersion need each other", code="usage.stream-option")
    return found


def has_limits(spark: str) -> bool:
    """Return True if a version of Spark lets a Python data source limit a batch: 4.2 or newer."""
    return _is_at_least(spark, (4, 2))


def has_stream_writers(spark: str) -> bool:
    """Return True if a version of Spark lets a Python data source write the batches of a query: 4.1 or newer."""
    return _is_at_least(spark, (4, 1))


def _is_at_least(spark: str, needed: tuple[int, int]) -> bool:
    found = re.match(r"(\d+)\.(\d+)", spark)
    return found is not None and (int(found[1]), int(found[2])) >= needed


def _path(options: Mapping[str, str]) -> str:
    path = path_of(options, '.load("s3://lake/events")')
    require_absolute(f"the path {path}", path, f".load(os.path.abspath({path!r}))")
    return path


def options_of_store(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found = {name[len(STORAGE) :]: str(value) for name, value in options.items() if name.lower().startswith(STORAGE)}
    return tuple(sorted(found.items()))


def without_store(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if not name.lower().startswith(STORAGE)}


def _given(options: Mapping[str, str], known: Mapping[str, object], where: str) -> dict[str, str]:
    """Return the options by the names in `known`, without those of the store. Raises UsageError for others."""
    return given_options(without_store(options), known, {**STREAM, **BATCH, **WRITE}, where, also=(f"{STORAGE}…",))


def _limit_in(options: Mapping[str, str]) -> str | None:
    given = {name.lower() for name in options}
    return next((name for name in LIMITS if name.lower() in given), None)
