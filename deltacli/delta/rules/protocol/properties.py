"""Rules about table properties: names, values, and conflicting values. A persistent fault is reported once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltacli.delta.protocol.intervals import PORTABLE_INTERVAL, parse_interval
from deltacli.delta.protocol.known_properties import (
    CODECS,
    INTEGER,
    NUMBERS,
    PARQUET_VERSIONS,
    SIZE,
    PropertyKind,
    is_of_protocol,
    kind_of,
    right_spelling,
)
from deltacli.delta.protocol.retention import DELETED_FILE_RETENTION
from deltacli.delta.rules.framework.base import Finding
from deltacli.delta.rules.framework.views import ListingView, MetadataView, TableConfigurationView
from deltacli.delta.rules.protocol import property_rows as rows
from deltacli.units import DAY_MS

AREA = rows.AREA

LONGEST_VALUE = 1000
"Maximum length of a number or an interval."
SHORTEST_RETENTION_MS = DAY_MS
LONGEST_RETENTION_MS = 365 * DAY_MS
LOG_RETENTION = "delta.logRetentionDuration"
WRITE_JSON, WRITE_STRUCT = "delta.checkpoint.writeStatsAsJson", "delta.checkpoint.writeStatsAsStruct"
CODEC, PARQUET_VERSION = "delta.parquet.compression.codec", "delta.parquet.format.version"

_DEFAULT_RETENTION = {LOG_RETENTION: "interval 30 days", DELETED_FILE_RETENTION: "interval 7 days"}


def _fresh(view: MetadataView) -> Mapping[str, str]:
    """Return the properties that the previous metaData action did not have, or had with another value."""
    before = view.previous.properties if view.previous else {}
    raw = view.raw.get("configuration")
    unset = {key for key, value in raw.items() if value is None} if isinstance(raw, dict) else set()
    return {
        key: value for key, value in view.config.properties.items() if before.get(key) != value and key not in unset
    }


@AREA.check(
    MetadataView,
    rows.UNKNOWN_DELTA_KEY,
    rows.PROTOCOL_IN_CONFIG,
    rows.LEGACY_APPEND_ONLY_KEY,
    rows.CDF_LEGACY_KEY,
)
def names_are_odd(view: MetadataView) -> Iterator[Finding]:
    """Spec: Table Properties; Append-only Tables (whose samples have the key without its prefix)."""
    for key, value in _fresh(view).items():
        place = view.place._replace(key=key)
        if key == "appendOnly":
            message = "appendOnly has no effect; the property is named delta.appendOnly"
            yield rows.LEGACY_APPEND_ONLY_KEY.at(place, message, seen=key, expected="delta.appendOnly")
        elif is_of_protocol(key):
            message = f"{key} belongs in the protocol action; as a property it has no effect"
            yield rows.PROTOCOL_IN_CONFIG.at(place, message, seen=value)
        elif key == "delta.enableChangeDataCapture":
            message = f"{key} is the former name of delta.enableChangeDataFeed"
            yield rows.CDF_LEGACY_KEY.at(place, message, seen=key, expected="delta.enableChangeDataFeed")
        elif key.lower().startswith("delta.") and kind_of(key) is None:
            right = right_spelling(key)
            message = f"no known engine recognizes the property {key}" + (f"; did you mean {right}?" if right else "")
            yield rows.UNKNOWN_DELTA_KEY.at(place, message, seen=key, expected=right)


@AREA.check(MetadataView, rows.BAD_BOOLEAN, rows.BAD_NUMBER)
def values_can_not_be_read(view: MetadataView) -> Iterator[Finding]:
    """Booleans are case-insensitive."""
    for key, value in _fresh(view).items():
        place = view.place._replace(key=key)
        kind = kind_of(key)
        if kind is PropertyKind.BOOLEAN and value.lower() not in ("true", "false"):
            message = f"{key} is {value!r}, which is neither true nor false"
            yield rows.BAD_BOOLEAN.at(place, message, seen=value, expected="true or false")
        elif kind is PropertyKind.NUMBER:
            lowest, highest = NUMBERS[key]
            if not INTEGER.fullmatch(value) or not lowest <= _bounded(value) <= highest:
                message = f"{key} is {value!r}, which is not an integer from {lowest} up"
                yield rows.BAD_NUMBER.at(place, message, seen=value, expected=f"{lowest} to {highest}")
        elif key == "delta.targetFileSize" and not SIZE.fullmatch(value.strip()):
            message = f"{key} is {value!r}, which is not a number of bytes"
            yield rows.BAD_NUMBER.at(place, message, seen=value, expected="bytes, as in 134217728 or 128mb")


def _bounded(digits: str) -> int:
    """Return a number, or one beyond all bounds if it has more digits than Python converts."""
    return int(digits) if len(digits) <= LONGEST_VALUE else 10**LONGEST_VALUE


def _length_ms(interval: str) -> int | None:
    """Return the length of an interval, or None if it is invalid or has more digits than Python converts."""
    return parse_interval(interval) if len(interval) <= LONGEST_VALUE else None


@AREA.check(MetadataView, rows.BAD_INTERVAL, rows.INTERVAL_PORTABILITY)
def intervals_can_not_be_read(view: MetadataView) -> Iterator[Finding]:
    """Spec: intervals as Delta-Spark and kernel-rs read them."""
    for key, value in _fresh(view).items():
        if kind_of(key) is not PropertyKind.INTERVAL:
            continue
        place = view.place._replace(key=key)
        if _length_ms(value) is None:
            message = f"{key} is {value!r}, which is not an interval"
            yield rows.BAD_INTERVAL.at(place, message, seen=value, expected="as in interval 30 days")
        elif not PORTABLE_INTERVAL.fullmatch(value):
            message = f"{key} is {value!r}, which delta-rs and kernel-rs read differently"
            yield rows.INTERVAL_PORTABILITY.at(place, message, seen=value, expected="interval, one integer, one unit")


@AREA.check(MetadataView, rows.RETENTION_ORDER, rows.RETENTION_SHORT, rows.RETENTION_LONG)
def retentions_are_odd(view: MetadataView) -> Iterator[Finding]:
    """Spec: Add File and Remove File; Metadata Cleanup."""
    fresh = _fresh(view)
    told = {key: fresh[key] for key in (LOG_RETENTION, DELETED_FILE_RETENTION) if key in fresh}
    for key, value in told.items():
        place = view.place._replace(key=key)
        length = _length_ms(value)
        if length is None:
            continue
        if key == DELETED_FILE_RETENTION and length < SHORTEST_RETENTION_MS:
            message = f"deleted files are kept for only {value}; running readers and writers may still need them"
            yield rows.RETENTION_SHORT.at(place, message, seen=value, expected="interval 1 day or more")
        elif length > LONGEST_RETENTION_MS:
            message = f"{key} is {value}, more than a year"
            yield rows.RETENTION_LONG.at(place, message, seen=value, expected="interval 365 days or less")
    if not told:
        return
    shown = {key: view.config.properties.get(key) or default for key, default in _DEFAULT_RETENTION.items()}
    log, files = (_length_ms(shown[key]) for key in (LOG_RETENTION, DELETED_FILE_RETENTION))
    if log is not None and files is not None and log < files:
        message = f"the log is kept for {shown[LOG_RETENTION]}, deleted files for {shown[DELETED_FILE_RETENTION]}"
        expected = f"at least {shown[DELETED_FILE_RETENTION]}"
        place = view.place._replace(key=LOG_RETENTION)
        yield rows.RETENTION_ORDER.at(place, message, seen=shown[LOG_RETENTION], expected=expected)


@AREA.check(MetadataView, rows.STATS_BOTH_OFF)
def checkpoints_get_no_statistics(view: MetadataView) -> Iterator[Finding]:
    """Spec: Checkpoint Format."""
    if view.config.metadata is None:
        return
    now, before = view.config.properties, view.previous.properties if view.previous else None
    if _are_both_off(now) and not (before is not None and _are_both_off(before)):
        message = f"{WRITE_JSON} and {WRITE_STRUCT} are both false, so checkpoints have no statistics"
        yield rows.STATS_BOTH_OFF.at(view.place._replace(key=WRITE_JSON), message, seen="false", expected="true")


@AREA.check(ListingView, rows.STATS_STRUCT_UNSET)
def engines_take_the_default_for_another(view: ListingView) -> Iterator[Finding]:
    """Report a table with checkpoints whose form depends on the engine that writes the next one."""
    config = view.config
    if view.newest_checkpoint is None or config.metadata is None or WRITE_STRUCT in config.properties:
        return
    message = f"{WRITE_STRUCT} is not set; Delta-Spark treats this as true, other engines as false"
    place = (config.metadata_place or view.place())._replace(key=WRITE_STRUCT)
    yield rows.STATS_STRUCT_UNSET.at(place, message, expected="true or false")


def _are_both_off(properties: Mapping[str, str]) -> bool:
    return _is_false(properties, WRITE_JSON) and _is_false(properties, WRITE_STRUCT)


def _is_false(properties: Mapping[str, str], key: str) -> bool:
    return str(properties.get(key) or "").strip().lower() == "false"


@AREA.check(MetadataView, rows.COMPRESSION_CODEC, rows.PARQUET_VERSION, rows.LOG_CLEANUP_OFF)
def settings_are_odd(view: MetadataView) -> Iterator[Finding]:
    """Spec: Table Properties; Metadata Cleanup."""
    fresh = _fresh(view)
    codec, version, cleanup = fresh.get(CODEC), fresh.get(PARQUET_VERSION), "delta.enableExpiredLogCleanup"
    if codec is not None and codec.lower() not in CODECS:
        place = view.place._replace(key=CODEC)
        message = f"{CODEC} is {codec!r}, which is not a Parquet codec"
        yield rows.COMPRESSION_CODEC.at(place, message, seen=codec, expected="zstd, snappy, gzip, …")
    if version is not None and not PARQUET_VERSIONS.fullmatch(version):
        place = view.place._replace(key=PARQUET_VERSION)
        message = f"{PARQUET_VERSION} is {version!r}, which is not a Parquet version"
        yield rows.PARQUET_VERSION.at(place, message, seen=version, expected="1.0.0 or 2.x.y")
    if _is_false(fresh, cleanup):
        place = view.place._replace(key=cleanup)
        yield rows.LOG_CLEANUP_OFF.at(place, f"{cleanup} is false, so old commits are never deleted", seen="false")


@AREA.check(TableConfigurationView, rows.CHECKPOINT_POLICY)
def checkpoint_policy_is_odd(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: V2 Checkpoint Table Feature."""
    policy = view.config.properties.get("delta.checkpointPolicy")
    place = view.place._replace(key="delta.checkpointPolicy")
    if policy is None or policy == "classic":
        return
    if policy != "v2":
        message = f"delta.checkpointPolicy is {policy!r}, which is neither classic nor v2"
        yield rows.CHECKPOINT_POLICY.at(place, message, seen=policy, expected="classic or v2")
    elif view.config.protocol is not None and "v2Checkpoint" not in view.config.features:
        message = "delta.checkpointPolicy is v2, but the protocol does not support v2Checkpoint"
        yield rows.CHECKPOINT_POLICY.at(place, message, seen="v2", expected="the feature v2Checkpoint")
