"""The options of the data source, named as delta-spark names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from deltacli.errors import UsageError
from deltacli.spark.option_values import (
    LATEST,
    OptionReader,
    count_of_files,
    fields_of,
    flag,
    given_options,
    moment,
    names,
    path_of,
    prefixes,
    require_absolute,
    require_one,
    size_in_bytes,
    text,
    version_number,
    version_or_latest,
)

MOST_FILES = 1_000
"""Files of a batch, unless an option says otherwise: as in delta-spark."""


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
    return StreamOptions(_path(options), storage_options=_of_store(options), **fields_of(given, STREAM))


def batch_options(options: Mapping[str, str]) -> BatchOptions:
    """Read the options of `read`. Raises UsageError (`usage.stream-option`)."""
    given = _given(options, BATCH, "read")
    require_one(given, "versionAsOf", "timestampAsOf")
    found = BatchOptions(_path(options), storage_options=_of_store(options), **fields_of(given, BATCH))
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
    found = WriteOptions(_path(options), storage_options=_of_store(options), **fields_of(given, WRITE))
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


def _of_store(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the options of the store, without the beginning of their names."""
    found = {name[len(STORAGE) :]: str(value) for name, value in options.items() if name.lower().startswith(STORAGE)}
    return tuple(sorted(found.items()))


def _given(options: Mapping[str, str], known: Mapping[str, object], where: str) -> dict[str, str]:
    """Return the options by the names in `known`, without those of the store. Raises UsageError for others."""
    others = {name: value for name, value in options.items() if not name.lower().startswith(STORAGE)}
    return given_options(others, known, {**STREAM, **BATCH, **WRITE}, where, also=(f"{STORAGE}…",))


def _limit_in(options: Mapping[str, str]) -> str | None:
    given = {name.lower() for name in options}
    return next((name for name in LIMITS if name.lower() in given), None)
