"""Rules about table properties: names, values, and conflicting values. A persistent fault is reported once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltacli.core.times import DAY_MS
from deltacli.delta.log import state
from deltacli.delta.log.segment import Place
from deltacli.delta.protocol import known_properties
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.framework.views import ListingView, MetadataView, StateView, TableConfigurationView

AREA = Area("properties")

_UNSET = "commit a metaData action without the property"
_CORRECT = "commit a metaData action with a valid value"
UNKNOWN_DELTA_KEY = AREA.warning(
    "property.unknown-delta-key",
    "A property begins with `delta.`, but no known engine recognizes it.",
    spec="Delta-Spark: names that begin with delta. are reserved",
    broken="engines ignore it or refuse to alter the table; it is often a typo",
    repair="commit a metaData action with the correct name, or without the property",
    example='"configuration":{"delta.checkpointIntervall":"10"}',
)
BAD_BOOLEAN = AREA.warning(
    "property.bad-boolean",
    "A boolean property has a value other than true or false.",
    spec="Delta-Spark: values of table properties",
    broken="some engines fail on it, others ignore it",
    repair=_CORRECT,
    example='"configuration":{"delta.appendOnly":"yes"}',
)
BAD_NUMBER = AREA.warning(
    "property.bad-number",
    "A numeric property is not a number, or is out of range.",
    spec="Delta-Spark: values of table properties",
    broken="some engines fail on it, others ignore it",
    repair=_CORRECT,
    example='"configuration":{"delta.checkpointInterval":"0"}',
)
BAD_INTERVAL = AREA.error(
    "property.bad-interval",
    "A retention is not a valid interval: it cannot be parsed, has months or years, or is negative.",
    spec="Delta-Spark: intervals of table properties",
    broken="some engines fail on it, others use their default retention",
    repair="commit a metaData action with an interval such as `interval 30 days`",
    example='"configuration":{"delta.logRetentionDuration":"interval 1 month"}',
)
INTERVAL_PORTABILITY = AREA.warning(
    "property.interval-portability",
    "A retention is an interval for Delta-Spark, but other engines read it differently.",
    spec="Delta-Spark: intervals of table properties",
    broken="delta-rs and kernel-rs read only `interval`, one integer and one lower-case unit; for anything else "
    "they use the first part, or their default, and may delete files too early",
    repair="commit a metaData action with an interval of one unit, such as `interval 30 days`",
    example='"configuration":{"delta.deletedFileRetentionDuration":"30 days"}',
)
RETENTION_ORDER = AREA.warning(
    "property.retention-order",
    "The log is kept for a shorter time than deleted files.",
    spec="Delta-Spark: retention of the log and of deleted files",
    broken="files are kept for versions that can no longer be read",
    repair="commit a metaData action with logRetentionDuration not below deletedFileRetentionDuration",
    example='"delta.logRetentionDuration":"interval 5 days","delta.deletedFileRetentionDuration":"interval 7 days"',
)
RETENTION_SHORT = AREA.warning(
    "property.retention-short",
    "Deleted files are kept for less than a day.",
    spec="Add File and Remove File",
    broken="a VACUUM deletes files that running readers and writers still need",
    repair="commit a metaData action with `interval 7 days`",
    example='"configuration":{"delta.deletedFileRetentionDuration":"interval 0 hours"}',
)
RETENTION_LONG = AREA.info(
    "property.retention-long",
    "The log or deleted files are kept for more than a year.",
    spec="Delta-Spark: retention of the log and of deleted files",
    broken="the log and the directory grow with every commit in that time",
    repair="commit a metaData action with the required retention",
    loss="time travel beyond it",
    example='"configuration":{"delta.logRetentionDuration":"interval 3650 days"}',
)
LEGACY_APPEND_ONLY_KEY = AREA.info(
    "property.legacy-append-only-key",
    "The property is named appendOnly, without `delta.`, and has no effect.",
    spec="Append-only Tables",
    broken="the table looks append-only but is not",
    repair="commit a metaData action with delta.appendOnly",
    loss="deletes and updates, if the table should be append-only",
    example='"configuration":{"appendOnly":"true"}',
)
STATS_BOTH_OFF = AREA.warning(
    "property.stats-both-off",
    "Checkpoints have no statistics, neither as JSON nor as columns.",
    spec="Checkpoint Format",
    broken="no query can skip a file after a checkpoint",
    repair="commit a metaData action with delta.checkpoint.writeStatsAsJson true",
    example='"delta.checkpoint.writeStatsAsJson":"false","delta.checkpoint.writeStatsAsStruct":"false"',
)
STATS_STRUCT_UNSET = AREA.info(
    "property.stats-struct-unset",
    "delta.checkpoint.writeStatsAsStruct is not set, and engines have different defaults.",
    spec="Checkpoint Format",
    broken="whether checkpoints have columns of statistics depends on the engine that writes them",
    repair="commit a metaData action with the property set to true or false",
    example='"configuration":{}',
)
CHECKPOINT_POLICY = AREA.error(
    "property.checkpoint-policy",
    "The checkpoint policy is invalid, or it is v2 and the protocol does not support v2Checkpoint.",
    spec="V2 Checkpoint Table Feature",
    broken="engines fail on it, or write checkpoints that others cannot read",
    repair="commit a protocol with v2Checkpoint, or a metaData action with the policy classic",
    loss="with the former, engines without support for V2 checkpoints",
    example='"delta.checkpointPolicy":"v2" with {"minReaderVersion":1,"minWriterVersion":2}',
)
COMPRESSION_CODEC = AREA.warning(
    "property.compression-codec",
    "The codec of data files is not a Parquet codec.",
    spec="Table Properties",
    broken="writers fail on it, or use another codec",
    repair=_CORRECT,
    example='"configuration":{"delta.parquet.compression.codec":"zip"}',
)
PARQUET_VERSION_INVALID = AREA.warning(
    "property.parquet-version",
    "The Parquet version of data files is neither 1.0.0 nor 2.x.y.",
    spec="Table Properties",
    broken="writers fail on it, or use another version",
    repair=_CORRECT,
    example='"configuration":{"delta.parquet.format.version":"2"}',
)
PROTOCOL_IN_CONFIG = AREA.warning(
    "property.protocol-in-config",
    "A property belongs in the protocol action and has no effect as a property.",
    spec="Delta-Spark: no properties of the protocol in a metaData action",
    broken="the table appears to have the feature or the version; Delta-Spark fails on it",
    repair="commit a metaData action without the property, and a protocol action if the feature is wanted",
    example='"configuration":{"delta.feature.deletionVectors":"supported"}',
)
LOG_CLEANUP_OFF = AREA.info(
    "property.log-cleanup-off",
    "Old commits are never cleaned up.",
    spec="Metadata Cleanup",
    broken="the log grows without limit, and listing it takes longer and longer",
    repair=_UNSET,
    loss="time travel to versions older than the retention of the log, once an engine cleans up",
    example='"configuration":{"delta.enableExpiredLogCleanup":"false"}',
)
CDF_LEGACY_KEY = AREA.info(
    "property.cdf-legacy-key",
    "The change data feed is set by its former property name, delta.enableChangeDataCapture.",
    spec="Delta-Spark: former names of table properties",
    broken="only Delta-Spark recognizes that name; other writers write no change data",
    repair="commit a metaData action with delta.enableChangeDataFeed",
    example='"configuration":{"delta.enableChangeDataCapture":"true"}',
)


LONGEST_VALUE = 1000
"Maximum length of a number or an interval."
LONGEST_RETENTION_MS = 365 * DAY_MS

_PLACES = "properties.places"
"The memory of a run: property -> the metaData action that changed it last."


def _fresh(view: MetadataView) -> Mapping[str, str]:
    """Return the properties that the previous metaData action did not have, or had with another value."""
    before = view.previous.properties if view.previous else {}
    raw = view.raw.get("configuration")
    unset = {key for key, value in raw.items() if value is None} if isinstance(raw, dict) else set()
    return {
        key: value for key, value in view.config.properties.items() if before.get(key) != value and key not in unset
    }


@AREA.check(MetadataView, UNKNOWN_DELTA_KEY, PROTOCOL_IN_CONFIG, LEGACY_APPEND_ONLY_KEY, CDF_LEGACY_KEY)
def property_names_are_odd(view: MetadataView) -> Iterator[Finding]:
    """Spec: Table Properties; Append-only Tables (whose samples have the key without its prefix)."""
    for key, value in _fresh(view).items():
        place = view.place._replace(key=key)
        if key == "appendOnly":
            message = "appendOnly has no effect; the property is named delta.appendOnly"
            yield LEGACY_APPEND_ONLY_KEY.at(place, message, seen=key, expected="delta.appendOnly")
        elif known_properties.is_of_protocol(key):
            message = f"{key} belongs in the protocol action; as a property it has no effect"
            yield PROTOCOL_IN_CONFIG.at(place, message, seen=value)
        elif key == "delta.enableChangeDataCapture":
            message = f"{key} is the former name of {state.CHANGE_FEED}"
            yield CDF_LEGACY_KEY.at(place, message, seen=key, expected=state.CHANGE_FEED)
        elif key.lower().startswith("delta.") and known_properties.property_kind(key) is None:
            right = known_properties.right_spelling(key)
            message = f"no known engine recognizes the property {key}" + (f"; did you mean {right}?" if right else "")
            yield UNKNOWN_DELTA_KEY.at(place, message, seen=key, expected=right)


@AREA.check(MetadataView, BAD_BOOLEAN, BAD_NUMBER)
def values_can_not_be_read(view: MetadataView) -> Iterator[Finding]:
    """Booleans are case-insensitive."""
    for key, value in _fresh(view).items():
        place = view.place._replace(key=key)
        kind = known_properties.property_kind(key)
        if kind is known_properties.PropertyKind.BOOLEAN and value.lower() not in ("true", "false"):
            message = f"{key} is {value!r}, which is neither true nor false"
            yield BAD_BOOLEAN.at(place, message, seen=value, expected="true or false")
        elif kind is known_properties.PropertyKind.NUMBER:
            lowest, highest = known_properties.NUMBERS[key]
            if not known_properties.INTEGER.fullmatch(value) or not lowest <= _bounded(value) <= highest:
                message = f"{key} is {value!r}, which is not an integer from {lowest} up"
                yield BAD_NUMBER.at(place, message, seen=value, expected=f"{lowest} to {highest}")
        elif key == "delta.targetFileSize" and not known_properties.SIZE.fullmatch(value.strip()):
            message = f"{key} is {value!r}, which is not a number of bytes"
            yield BAD_NUMBER.at(place, message, seen=value, expected="bytes, as in 134217728 or 128mb")


def _bounded(digits: str) -> int:
    """Return a number, or one beyond all bounds if it has more digits than Python converts."""
    return int(digits) if len(digits) <= LONGEST_VALUE else 10**LONGEST_VALUE


def _length_ms(interval: str) -> int | None:
    """Return the length of an interval, or None if it is invalid or has more digits than Python converts."""
    return state.parse_interval(interval) if len(interval) <= LONGEST_VALUE else None


@AREA.check(MetadataView, BAD_INTERVAL, INTERVAL_PORTABILITY)
def intervals_can_not_be_read(view: MetadataView) -> Iterator[Finding]:
    """Spec: intervals as Delta-Spark and kernel-rs read them."""
    for key, value in _fresh(view).items():
        if known_properties.property_kind(key) is not known_properties.PropertyKind.INTERVAL:
            continue
        place = view.place._replace(key=key)
        if _length_ms(value) is None:
            message = f"{key} is {value!r}, which is not an interval"
            yield BAD_INTERVAL.at(place, message, seen=value, expected="as in interval 30 days")
        elif not state.PORTABLE_INTERVAL.fullmatch(value):
            message = f"{key} is {value!r}, which delta-rs and kernel-rs read differently"
            yield INTERVAL_PORTABILITY.at(place, message, seen=value, expected="interval, one integer, one unit")


@AREA.check(MetadataView, RETENTION_ORDER, RETENTION_LONG)
def retentions_are_odd(view: MetadataView) -> Iterator[Finding]:
    """Spec: Add File and Remove File; Metadata Cleanup."""
    fresh = _fresh(view)
    told = {key: fresh[key] for key in (state.LOG_RETENTION, state.DELETED_FILE_RETENTION) if key in fresh}
    for key, value in told.items():
        place = view.place._replace(key=key)
        length = _length_ms(value)
        if length is not None and length > LONGEST_RETENTION_MS:
            message = f"{key} is {value}, more than a year"
            yield RETENTION_LONG.at(place, message, seen=value, expected="interval 365 days or less")
    if told and (retentions := state.retentions_out_of_order(view.config.properties)):
        log, files = retentions
        message = f"the log is kept for {log}, deleted files for {files}"
        yield RETENTION_ORDER.at(view.place, message, key=state.LOG_RETENTION, seen=log, expected=f"at least {files}")


@AREA.check(MetadataView, RETENTION_SHORT, STATS_BOTH_OFF, LOG_CLEANUP_OFF)
def where_properties_changed(view: MetadataView) -> Iterator[Finding]:
    """Remember the places for `newest_properties_are_odd`."""
    view.memory.setdefault(_PLACES, {}).update(dict.fromkeys(_fresh(view), view.place))
    return iter(())


@AREA.check(StateView, RETENTION_SHORT, STATS_BOTH_OFF, LOG_CLEANUP_OFF)
def newest_properties_are_odd(view: StateView) -> Iterator[Finding]:
    """Spec: Add File and Remove File; Checkpoint Format; Metadata Cleanup. Only the newest values: commands repair what
    is reported here, and one for a former value would replace a better one.
    """
    properties = view.config.properties
    places: Mapping[str, Place] = view.memory.get(_PLACES, {})
    kept = properties.get(state.DELETED_FILE_RETENTION) or ""
    length = _length_ms(kept)
    if length is not None and length < state.SHORTEST_SAFE_RETENTION_MS:
        place = places.get(state.DELETED_FILE_RETENTION, view.place())._replace(key=state.DELETED_FILE_RETENTION)
        message = f"deleted files are kept for only {kept}; running readers and writers may still need them"
        yield RETENTION_SHORT.at(place, message, seen=kept, expected="interval 1 day or more")
    if state.is_false(properties, state.STATS_AS_JSON) and state.is_false(properties, state.STATS_AS_STRUCT):
        changed = [places.get(key, view.place()) for key in (state.STATS_AS_JSON, state.STATS_AS_STRUCT)]
        place = max(changed, key=lambda place: place.version or 0)._replace(key=state.STATS_AS_JSON)
        message = f"{state.STATS_AS_JSON} and {state.STATS_AS_STRUCT} are both false, so checkpoints have no statistics"
        yield STATS_BOTH_OFF.at(place, message, seen="false", expected="true")
    if state.is_false(properties, state.LOG_CLEANUP):
        place = places.get(state.LOG_CLEANUP, view.place())._replace(key=state.LOG_CLEANUP)
        yield LOG_CLEANUP_OFF.at(place, f"{state.LOG_CLEANUP} is false, so old commits are never deleted", seen="false")


@AREA.check(ListingView, STATS_STRUCT_UNSET)
def engines_take_the_default_for_another(view: ListingView) -> Iterator[Finding]:
    """Report a table with checkpoints whose form depends on the engine that writes the next one."""
    config = view.config
    if view.newest_checkpoint is None or config.metadata is None or state.STATS_AS_STRUCT in config.properties:
        return
    message = f"{state.STATS_AS_STRUCT} is not set; Delta-Spark treats this as true, other engines as false"
    place = (config.metadata_place or view.place())._replace(key=state.STATS_AS_STRUCT)
    yield STATS_STRUCT_UNSET.at(place, message, expected="true or false")


@AREA.check(MetadataView, COMPRESSION_CODEC, PARQUET_VERSION_INVALID)
def settings_are_odd(view: MetadataView) -> Iterator[Finding]:
    """Spec: Table Properties."""
    fresh = _fresh(view)
    codec, version = fresh.get(known_properties.CODEC), fresh.get(known_properties.FORMAT_VERSION)
    if codec is not None and codec.lower() not in known_properties.CODECS:
        place = view.place._replace(key=known_properties.CODEC)
        message = f"{known_properties.CODEC} is {codec!r}, which is not a Parquet codec"
        yield COMPRESSION_CODEC.at(place, message, seen=codec, expected="zstd, snappy, gzip, …")
    if version is not None and not known_properties.PARQUET_VERSIONS.fullmatch(version):
        place = view.place._replace(key=known_properties.FORMAT_VERSION)
        message = f"{known_properties.FORMAT_VERSION} is {version!r}, which is not a Parquet version"
        yield PARQUET_VERSION_INVALID.at(place, message, seen=version, expected="1.0.0 or 2.x.y")


@AREA.check(TableConfigurationView, CHECKPOINT_POLICY)
def checkpoint_policy_is_odd(view: TableConfigurationView) -> Iterator[Finding]:
    """Spec: V2 Checkpoint Table Feature."""
    policy = view.config.properties.get("delta.checkpointPolicy")
    place = view.place._replace(key="delta.checkpointPolicy")
    if policy is None or policy == "classic":
        return
    if policy != "v2":
        message = f"delta.checkpointPolicy is {policy!r}, which is neither classic nor v2"
        yield CHECKPOINT_POLICY.at(place, message, seen=policy, expected="classic or v2")
    elif view.config.protocol is not None and "v2Checkpoint" not in view.config.features:
        message = "delta.checkpointPolicy is v2, but the protocol does not support v2Checkpoint"
        yield CHECKPOINT_POLICY.at(place, message, seen="v2", expected="the feature v2Checkpoint")
