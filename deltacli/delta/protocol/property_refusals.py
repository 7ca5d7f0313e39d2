"""Properties that a metadata change alone must not touch, and combinations of values that no table may have.

Each refusal has its own code and a fix. Spec: the sections of each feature; Delta-Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltacli.core.errors import Refused
from deltacli.core.hints import command
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.property_values import (
    CHANGE_FEED,
    CHECKPOINT_PROTECTION,
    DEFAULT_DELETED_FILE_RETENTION_MS,
    DEFAULT_RETENTIONS,
    DELETED_FILE_RETENTION,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
    IN_COMMIT_KEYS,
    IN_COMMIT_TIMESTAMPS,
    LOG_CLEANUP,
    LOG_RETENTION,
    SHORTEST_SAFE_RETENTION_MS,
    deleted_file_retention_ms,
    is_false,
    retentions_out_of_order,
)
from deltacli.delta.protocol.upgrade import way_to_mapping

_MAPPING_MODE = "delta.columnMapping.mode"
_VECTORS = "delta.enableDeletionVectors"
_MANIFEST = "delta.compatibility.symlinkFormatManifest.enabled"
_ROW_TRACKING = "delta.enableRowTracking"
_UNIFORM = "delta.universalFormat.enabledFormats"
_ICEBERG = tuple(f"delta.enableIcebergCompatV{number}" for number in (1, 2, 3))
_ICEBERG_WRITERS = {
    "delta.enableIcebergWriterCompatV1": "delta.enableIcebergCompatV2",
    "delta.enableIcebergWriterCompatV3": "delta.enableIcebergCompatV3",
}
"Compatibility of writers -> the compatibility that it requires."
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")

_INTERNAL = frozenset(
    {
        CHECKPOINT_PROTECTION,
        ICT_ENABLEMENT_TIMESTAMP,
        ICT_ENABLEMENT_VERSION,
        "delta.columnMapping.hasDroppedOrRenamed",
        "delta.columnMapping.maxColumnId",
        *IN_COMMIT_KEYS["inCommitTimestamp-preview"],
        "delta.lastCommitTimestamp",
        "delta.lastUpdateVersion",
        "delta.redirectReaderWriter-preview",
        "delta.redirectWriterOnly-preview",
        "delta.rowTrackingSuspended",
    }
)
_INTERNAL_FAMILIES = ("delta.coordinatedCommits.", "delta.rowTracking.")
_CONSTRAINTS = "delta.constraints."


def require_ours(key: str, value: str | None, config: TableConfiguration) -> None:
    """Raise Refused for a property that only an engine, a catalog or the commit itself may set or, with the value
    None, unset.
    """
    if key in _INTERNAL or key.startswith(_INTERNAL_FAMILIES) or key.endswith(".internal"):
        raise Refused(
            f"{key} is maintained by the writers of the table; another value would make their writes wrong",
            code="properties.internal",
            hint=command("properties"),
        )
    if key.lower().startswith(_CONSTRAINTS):
        raise Refused(
            f"{key} is a CHECK constraint, so existing rows must be checked first",
            code="properties.constraint",
            hint=command(
                "alter",
                "constraint",
                *(["drop", key.split(".", 2)[2]] if value is None else ["add", "NAME", "CONDITION"]),
            ),
        )
    if key == "delta.enableChangeDataCapture" and value is not None:
        raise Refused(
            f"{key} is the former name of {CHANGE_FEED}, which most engines do not recognize",
            code="property.cdf-legacy-key",
            hint=command("properties set", {CHANGE_FEED: value}),
        )
    if key == _UNIFORM and value:
        raise Refused(
            f"{key} requires a writer that converts every commit to {value}",
            code="properties.engine-only",
            facts={"fix": "set it in the engine that will convert the table"},
        )
    if key == _MAPPING_MODE:
        _require_same_mapping(config, value)
    if value == "true" and key == _ROW_TRACKING:
        raise Refused(
            f"{key} requires an id for every existing row, which this change does not assign",
            code="properties.row-tracking",
            facts={"fix": f"ALTER TABLE … SET TBLPROPERTIES ('{key}' = 'true') in an engine that fills ids in"},
        )
    if value == "true" and (key in _ICEBERG or key in _ICEBERG_WRITERS):
        raise Refused(
            f"{key} requires all existing files to be readable by Iceberg, which this change does not ensure",
            code="properties.iceberg-compat",
            facts={"fix": "REORG TABLE … APPLY (UPGRADE UNIFORM …) in an engine"},
        )


def _require_same_mapping(config: TableConfiguration, value: str | None) -> None:
    now, then = config.mapping_mode, value or "none"
    if now == then:
        return
    if now == "none" and then == "name":
        raise Refused(
            f"{_MAPPING_MODE} is set by a change of the schema: columns need ids and physical names first",
            code="properties.column-mapping",
            hint=way_to_mapping(config.raw_protocol or {}),
        )
    if now == "none":
        why, way = "existing files have no field ids", "a new table"
    elif then == "none":
        raise Refused(
            f"{_MAPPING_MODE} cannot be changed from {now} to {then} by itself: existing files have the columns under "
            "other names and are rewritten",
            code="properties.column-mapping",
            hint=command("features drop", "columnMapping"),
        )
    else:
        why = "existing files were written for the other mode"
        way = "a new table"
    raise Refused(
        f"{_MAPPING_MODE} cannot be changed from {now} to {then}: {why}",
        code="properties.column-mapping",
        facts={"fix": way},
    )


def require_legal(before: TableConfiguration, after: TableConfiguration, due: Mapping[str, str | None]) -> None:
    """Raise Refused if the changes would leave a table that no writer may commit to."""
    _require_iceberg_kept(before, after, due)
    if due.get(_VECTORS) == "true" and ("icebergCompatV1" in after.features or after.is_on(_ICEBERG[1])):
        culprit = _ICEBERG[1] if after.is_on(_ICEBERG[1]) else "the feature icebergCompatV1"
        raise Refused(
            f"{_VECTORS} and {culprit} exclude each other",
            code="protocol.exclusive",
            facts={"fix": "tables that Iceberg reads in these versions must not have deletion vectors"},
        )
    if after.is_on(_VECTORS) and after.is_on(_MANIFEST) and {_VECTORS, _MANIFEST} & due.keys():
        raise Refused(
            f"{_VECTORS} and {_MANIFEST} exclude each other, because readers of manifests would see deleted rows",
            code="properties.manifest",
            hint=command("properties unset", _MANIFEST),
        )
    if due.get(CHANGE_FEED) == "true" and after.schema is not None:
        taken = [field.name for field in after.schema.fields if field.name.lower() in CHANGE_COLUMNS]
        if taken:
            raise Refused(
                f"{CHANGE_FEED} requires that no column is named {', '.join(taken)}, which the change data uses",
                code="properties.reserved-column",
                facts={"fix": command("alter", "rename", taken[0], "NAME") or "rename the column first"},
            )
    if {LOG_RETENTION, DELETED_FILE_RETENTION} & due.keys():
        _require_order(after)


def _require_iceberg_kept(before: TableConfiguration, after: TableConfiguration, due: Mapping[str, str | None]) -> None:
    """Raise Refused if a property required by an active compatibility would be turned off."""
    for key in _ICEBERG:
        if key not in due or not before.is_on(key) or after.is_on(key):
            continue
        users = [user for user, needed in _ICEBERG_WRITERS.items() if needed == key and after.is_on(user)]
        if "iceberg" in after.properties.get(_UNIFORM, "") and not any(map(after.is_on, _ICEBERG)):
            users.append(_UNIFORM)
        if users:
            raise Refused(
                f"{key} must remain true because {', '.join(users)} requires it",
                code="properties.iceberg-needed",
                hint=command("properties unset", users[0]),
            )
    if _ROW_TRACKING in due and not after.is_on(_ROW_TRACKING) and after.is_on(_ICEBERG[2]):
        raise Refused(
            f"{_ROW_TRACKING} must remain true because {_ICEBERG[2]} is",
            code="properties.iceberg-needed",
            hint=command("properties unset", _ICEBERG[2]),
        )


def _require_order(after: TableConfiguration) -> None:
    if retentions := retentions_out_of_order(after.properties):
        kept = zip(DEFAULT_RETENTIONS, retentions, strict=True)
        shown = {key: text if after.properties.get(key) else f"{text}, its default" for key, text in kept}
        raise Refused(
            "the log would be kept for a shorter time than deleted files, which would then be unreadable",
            code="property.retention-order",
            facts=shown,
            hint=command("properties set", dict.fromkeys(DEFAULT_RETENTIONS, retentions[1])),
        )


def cautions_of(after: TableConfiguration, due: Mapping[str, str | None]) -> Iterator[str]:
    """Yield warnings to show before the changes are made."""
    json, struct = "delta.checkpoint.writeStatsAsJson", "delta.checkpoint.writeStatsAsStruct"
    if DELETED_FILE_RETENTION in due:
        kept = deleted_file_retention_ms(after.properties)
        if kept < SHORTEST_SAFE_RETENTION_MS:
            yield "deleted files are kept for less than a day, so running readers and writers may still need them"
        elif kept < DEFAULT_DELETED_FILE_RETENTION_MS:
            yield "deleted files are kept for less than a week, so time travel reaches less far after a vacuum"
    if {json, struct} & due.keys() and is_false(after.properties, json) and is_false(after.properties, struct):
        yield "checkpoints will have no statistics, so no query can skip a file after one"
    if LOG_CLEANUP in due and is_false(after.properties, LOG_CLEANUP):
        yield "engines no longer clean up the log, so it grows without limit"
    if due.get(IN_COMMIT_TIMESTAMPS) == "true":
        yield f"the commit also sets {ICT_ENABLEMENT_VERSION} and {ICT_ENABLEMENT_TIMESTAMP}, which record since when"
    if due.get("appendOnly") is not None:
        yield "appendOnly has no effect; the property is named delta.appendOnly"
