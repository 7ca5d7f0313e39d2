"""The options of the data source of shares, named as the connector of Delta Sharing names them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from deltacli.core.errors import UsageError
from deltacli.sharing.client.addresses import CODE, FORM, ShareAddress, parse_address
from deltacli.sharing.client.table_requests import BOTH_FORMATS
from deltacli.sharing.protocol.capabilities import ResponseFormat
from deltacli.spark.source_options import STREAM as TABLE_STREAM
from deltacli.spark.source_options import (
    OptionReader,
    StreamOptions,
    bad_option,
    fields_of,
    flag,
    given_options,
    has_limits,
    moment,
    path_of,
    require_one,
    version_number,
)

MOST_VERSIONS = 100
"""Versions per request, unless an option says otherwise."""
INTERVAL_SECONDS, LEAST_SECONDS = 30, 10
"""How often the server is asked for its newest version, unless an option says otherwise, and at most."""
_LOAD = '.load("/path/profile.share#share.schema.table")'
Formats = tuple[ResponseFormat, ...]


@dataclass(frozen=True, slots=True)
class ShareBatchOptions:
    """What the caller of `read` wants: a version, or with `read_change_feed` the changes of a range, in which a time
    selects a version. `columns` and `where` are those of `read_share`.
    """

    path: str
    version: int | None = None
    timestamp_ms: int | None = None
    read_change_feed: bool = False
    first: int | None = None
    first_ms: int | None = None
    last: int | None = None
    last_ms: int | None = None
    formats: Formats = BOTH_FORMATS
    columns: tuple[str, ...] | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class ShareStreamOptions:
    """What the caller of `readStream` wants.

    A stream keeps to one format, because ids of files, which order them, differ between the formats.
    """

    stream: StreamOptions
    versions_per_request: int = MOST_VERSIONS
    interval_seconds: int = INTERVAL_SECONDS
    formats: Formats = (ResponseFormat.DELTA,)


def _formats(name: str, value: str) -> Formats:
    try:
        return (ResponseFormat(value.strip().lower()),)
    except ValueError:
        raise bad_option(name, value, "delta or parquet") from None


def _count_of_versions(name: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,9}", value.strip(), re.ASCII) or int(value) == 0:
        raise bad_option(name, value, "a number of versions, 1 or more")
    return int(value)


def _seconds(name: str, value: str) -> int:
    found = re.fullmatch(r"(\d{1,9})\s*s?", value.strip(), re.ASCII)
    if found is None or int(found[1]) < LEAST_SECONDS:
        raise bad_option(name, value, f"a number of seconds, {LEAST_SECONDS} or more")
    return int(found[1])


BATCH: Mapping[str, tuple[str, OptionReader]] = {
    "versionAsOf": ("version", version_number),
    "timestampAsOf": ("timestamp_ms", moment),
    "readChangeFeed": ("read_change_feed", flag),
    "startingVersion": ("first", version_number),
    "startingTimestamp": ("first_ms", moment),
    "endingVersion": ("last", version_number),
    "endingTimestamp": ("last_ms", moment),
    "responseFormat": ("formats", _formats),
}
_OF_STREAMS = {name: reader for name, reader in TABLE_STREAM.items() if name != "allowExternal"}
_OF_REQUESTS: Mapping[str, tuple[str, OptionReader]] = {
    "maxVersionsPerRpc": ("versions_per_request", _count_of_versions),
    "queryTableVersionIntervalSeconds": ("interval_seconds", _seconds),
    "responseFormat": ("formats", _formats),
}
STREAM = {**_OF_STREAMS, **_OF_REQUESTS}
_EVERY = {**STREAM, **BATCH}


def batch_options(options: Mapping[str, str]) -> ShareBatchOptions:
    """Read the options of `read`. Raises UsageError (`usage.stream-option`, `share.address`)."""
    given = given_options(options, BATCH, _EVERY, "read")
    for one, other in (
        ("versionAsOf", "timestampAsOf"),
        ("startingVersion", "startingTimestamp"),
        ("endingVersion", "endingTimestamp"),
    ):
        require_one(given, one, other)
    found = ShareBatchOptions(path_of(options, _LOAD), **fields_of(given, BATCH))
    _require_range(found, given)
    address_of(found.path)
    return found


def _require_range(found: ShareBatchOptions, given: Mapping[str, str]) -> None:
    """Raise UsageError unless a change feed has a beginning, and a version has no range."""
    of_range = [name for name in given if name.startswith(("starting", "ending"))]
    of_version = [name for name in ("versionAsOf", "timestampAsOf") if name in given]
    if found.read_change_feed and of_version:
        raise UsageError(f"readChangeFeed and {of_version[0]} exclude each other", code="usage.stream-option")
    if found.read_change_feed and found.first is None and found.first_ms is None:
        raise UsageError(
            "readChangeFeed needs a beginning", code="usage.stream-option", hint='.option("startingVersion", 0)'
        )
    if of_range and not found.read_change_feed:
        raise UsageError(
            f"{of_range[0]} needs readChangeFeed", code="usage.stream-option", hint='.option("readChangeFeed", "true")'
        )


def stream_options(options: Mapping[str, str], spark: str) -> ShareStreamOptions:
    """Read the options of `readStream` on a version of Spark. Raises UsageError (`usage.stream-option`)."""
    if not has_limits(spark):
        raise UsageError(
            f"Spark {spark} cannot follow a share: its Python data sources have no begin and no limits of a batch",
            code="usage.stream-option",
            facts={"needed": "Spark 4.2"},
            hint="use Spark 4.2, or read changes: .option('readChangeFeed', 'true') of spark.read",
        )
    given = given_options(options, STREAM, _EVERY, "readStream")
    require_one(given, "startingVersion", "startingTimestamp")
    path = path_of(options, _LOAD)
    address_of(path)
    of_streams = {name: value for name, value in given.items() if name in _OF_STREAMS}
    of_requests = {name: value for name, value in given.items() if name in _OF_REQUESTS}
    stream = StreamOptions(path, **fields_of(of_streams, _OF_STREAMS))
    return ShareStreamOptions(stream, **fields_of(of_requests, _OF_REQUESTS))


def column_options(options: Mapping[str, str], spark: str) -> ShareBatchOptions:
    """Return what decides the columns, whichever reader the options are for. Raises UsageError."""
    given = given_options(options, _EVERY, _EVERY, "the data source")
    if any(name not in BATCH for name in given):
        stream_options(options, spark)
    elif any(name not in STREAM for name in given):
        return batch_options(options)
    path = path_of(options, _LOAD)
    address_of(path)
    both = {name: value for name, value in given.items() if name in ("readChangeFeed", "responseFormat")}
    return ShareBatchOptions(path, **fields_of(both, BATCH))


def address_of(path: str) -> ShareAddress:
    """Return the address of a shared table. Raises UsageError for any other path, and for a relative one."""
    address = parse_address(path)
    if address is None:
        raise UsageError(
            "the path is not the address of a shared table", code=CODE, facts={"expected": FORM}, hint=_LOAD
        )
    if not os.path.isabs(address.profile):
        raise UsageError(
            f"the path of the profile is relative: {address.profile}",
            code="usage.stream-option",
            facts={"expected": "an absolute path, because processes of Spark have other working directories"},
            hint=f".load(os.path.abspath({path!r}))",
        )
    return address
