"""Java's checks of options: `alter` refuses before writing what `validate` reports in files of others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from deltacli.changing.change import execute_change
from deltacli.core.errors import Refused
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.paimon.alter import AlterRequest, SchemaAlteration
from deltacli.paimon.evolution.requests import SetOption
from deltacli.rules.paimon.table_options import CONFLICTS
from deltacli.table.handle import TableHandle
from tests.support.in_memory import MemoryStorage
from tests.support.validating import validate_paimon

COLUMNS: Mapping[str, Any] = {  # Any: JSON values
    "id": "BIGINT NOT NULL",
    "day": "DATE",
    "u": "INT",
    "s": "STRING",
    "m": {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"},
    "n": {"type": "MAP", "key": "INT NOT NULL", "value": "INT"},
    "v": {"type": "VECTOR", "element": "FLOAT", "length": 3},
    "rows": {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 8, "name": "k", "type": "INT"}]}},
}
PLAIN: Mapping[str, Any] = {}  # Any: JSON values
KEYED = {"primaryKeys": ["id"]}
PARTED = {"primaryKeys": ["id", "day"], "partitionKeys": ["day"]}
CROSSED = {"primaryKeys": ["id"], "partitionKeys": ["day"]}
UPDATED = "merge-engine=partial-update"
CHAIN = (
    "chain-table.enabled=true bucket=1 sequence.field=u partition.timestamp-pattern=$day "
    "partition.timestamp-formatter=yyyy-MM-dd"
)
NESTED = "merge-engine=aggregation fields.rows.aggregate-function=nested_update"
CLUSTERED = "pk-clustering-override=true clustering.columns=u deletion-vectors.enabled=true"
TRACKED = "row-tracking.enabled=true data-evolution.enabled=true"

CONFLICTING: Mapping[str, tuple[Any, str]] = {  # Any: JSON values
    "changelog-producer input or full-compaction or lookup needs a primary key": (PLAIN, "changelog-producer=INPUT"),
    "streaming-read-overwrite needs a primary key": (PLAIN, "streaming-read-overwrite=true"),
    "streaming-read-overwrite cannot be used with changelog-producer full-compaction or lookup": (
        KEYED,
        "streaming-read-overwrite=TRUE changelog-producer=lookup",
    ),
    "merge-engine first-row needs changelog-producer none or lookup": (
        KEYED,
        "merge-engine=first-row changelog-producer=full-compaction",
    ),
    "sequence.field cannot be used with merge-engine first-row": (KEYED, "sequence.field=u merge-engine=first-row"),
    "sequence.field needs all partition keys in the primary key": (CROSSED, "sequence.field=u"),
    "primary-key.nullable needs a primary key": (PLAIN, "primary-key.nullable=true"),
    "upsert-key cannot be used with a primary key": (KEYED, "upsert-key=u"),
    "table-read.sequence-number.enabled needs a primary key": (PLAIN, "table-read.sequence-number.enabled=true"),
    "full-compaction.delta-commits with bucket -1 needs a primary key": (PLAIN, "full-compaction.delta-commits=5"),
    "deletion-vectors.merge-on-read needs deletion-vectors.enabled": (KEYED, "deletion-vectors.merge-on-read=true"),
    "deletion-vectors.enabled with merge-engine first-row needs pk-clustering-override": (
        KEYED,
        "deletion-vectors.enabled=true merge-engine=first-row",
    ),
    "deletion-vectors.enabled cannot be used with changelog-producer full-compaction": (
        KEYED,
        "deletion-vectors.enabled=true changelog-producer=full-compaction",
    ),
    "row-tracking.enabled cannot be used with a primary key": (KEYED, "row-tracking.enabled=true"),
    "row-tracking.enabled needs bucket -1": (PLAIN, "row-tracking.enabled=true bucket=2 bucket-key=u"),
    "data-evolution.enabled needs row-tracking.enabled": (PLAIN, "data-evolution.enabled=true"),
    "data-evolution.enabled cannot be used with deletion-vectors.enabled": (
        PLAIN,
        f"{TRACKED} deletion-vectors.enabled=true",
    ),
    "data-evolution.enabled cannot be used with clustering.incremental": (
        PLAIN,
        f"{TRACKED} clustering.incremental=true",
    ),
    "vector.file.format needs data-evolution.enabled": (PLAIN, "vector.file.format=lance"),
    "vector.file.format needs a column that is not a VECTOR": (
        {"fields": [{"id": 6, "name": "v", "type": COLUMNS["v"]}]},
        f"vector.file.format=lance {TRACKED}",
    ),
    "blob-external-storage-field needs blob-external-storage-path": (
        {"fields": [{"id": 0, "name": "b", "type": "BLOB"}, {"id": 1, "name": "u", "type": "INT"}]},
        f"blob-descriptor-field=b blob-external-storage-field=b {TRACKED}",
    ),
    "clustering.incremental cannot be used with a primary key": (KEYED, "clustering.incremental=true"),
    "clustering.incremental with buckets needs bucket-append-ordered false": (
        PLAIN,
        "clustering.incremental=true bucket=2 bucket-key=u",
    ),
    "clustering.incremental with buckets cannot be used with deletion-vectors.enabled": (
        PLAIN,
        "clustering.incremental=true bucket=2 bucket-key=u bucket-append-ordered=false deletion-vectors.enabled=true",
    ),
    "ignore-delete with partial updates cannot be used with partial-update.remove-record-on-delete": (
        KEYED,
        f"{UPDATED} ignore-delete=true partial-update.remove-record-on-delete=true",
    ),
    "ignore-delete with partial updates cannot be used with partial-update.remove-record-on-sequence-group": (
        KEYED,
        f"{UPDATED} ignore-delete=true partial-update.remove-record-on-sequence-group=u fields.u.sequence-group=s",
    ),
    "partial-update.remove-record-on-delete with partial updates cannot be used with sequence groups": (
        KEYED,
        f"{UPDATED} partial-update.remove-record-on-delete=true fields.u.sequence-group=s",
    ),
    "pk-clustering-override needs clustering.columns": (
        KEYED,
        "pk-clustering-override=true deletion-vectors.enabled=true",
    ),
    "pk-clustering-override needs merge-engine deduplicate or first-row": (
        KEYED,
        f"{CLUSTERED} merge-engine=aggregation",
    ),
    "pk-clustering-override with merge-engine deduplicate needs deletion-vectors.enabled": (
        KEYED,
        "pk-clustering-override=true clustering.columns=u",
    ),
    "pk-clustering-override needs changelog-producer none or input": (KEYED, f"{CLUSTERED} changelog-producer=lookup"),
    "pk-clustering-override cannot be used with sequence.field": (KEYED, f"{CLUSTERED} sequence.field=u"),
    "pk-clustering-override cannot be used with record-level.expire-time": (
        KEYED,
        f"{CLUSTERED} record-level.expire-time=1d",
    ),
    "chain-table.enabled needs a primary key": ({"partitionKeys": ["day"]}, f"{CHAIN} bucket-key=u"),
    "chain-table.enabled needs partition keys": (KEYED, CHAIN),
    "chain-table.enabled needs a positive bucket": (PARTED, CHAIN.replace("bucket=1", "bucket=-2")),
    "chain-table.enabled needs sequence.field": (PARTED, CHAIN.replace("sequence.field", "x")),
    "chain-table.enabled needs changelog-producer none or input": (PARTED, f"{CHAIN} changelog-producer=lookup"),
    "chain-table.enabled cannot be used with deletion-vectors.enabled": (
        PARTED,
        f"{CHAIN} deletion-vectors.enabled=true",
    ),
    "chain-table.enabled needs partition.timestamp-pattern": (
        PARTED,
        CHAIN.replace("partition.timestamp-pattern", "x"),
    ),
    "chain-table.enabled needs partition.timestamp-formatter": (
        PARTED,
        CHAIN.replace("partition.timestamp-formatter", "x"),
    ),
    "partition.expiration-time with chain-table.enabled needs partition.expiration-strategy values-time": (
        PARTED,
        f"{CHAIN} partition.expiration-time=1d partition.expiration-strategy=update-time",
    ),
    "chain-table.chain-partition-keys with chain-table.enabled needs the last of the partition keys": (
        PARTED,
        f"{CHAIN} chain-table.chain-partition-keys=u",
    ),
}
"""Conflict -> keys of a table and options that have it, alone."""

OTHERS: Mapping[str, tuple[Any, str]] = {  # Any: JSON values
    "bucket: bucket is not a number": (KEYED, "bucket=x"),
    "bucket: bucket is -2, but the table has no primary key": (PLAIN, "bucket=-2"),
    "bucket: bucket is -1, but there is a bucket-key": (KEYED, "bucket-key=id"),
    "key-type: the partition key b has the type BLOB": (
        {
            "fields": [{"id": 0, "name": "b", "type": "BLOB"}, {"id": 1, "name": "u", "type": "INT"}],
            "partitionKeys": ["b"],
        },
        TRACKED,
    ),
    "bucket-key: m has the type MAP": (PLAIN, "bucket=2 bucket-key=m"),
    "option-value: merge-engine is 'partial_update' (expected: aggregation, deduplicate, first-row, partial-update)": (
        KEYED,
        "merge-engine=partial_update",
    ),
    "option-value: deletion-vectors.enabled is 'yes' (expected: true or false)": (
        KEYED,
        "deletion-vectors.enabled=yes",
    ),
    "option-value: snapshot.num-retained.max is 'all' (expected: a whole number)": (
        PLAIN,
        "snapshot.num-retained.max=all",
    ),
    "option-value: snapshot.num-retained.min is 0 (expected: 1 or more)": (PLAIN, "snapshot.num-retained.min=0"),
    "option-value: snapshot.num-retained.min is 10, which is greater than snapshot.num-retained.max, 5": (
        PLAIN,
        "snapshot.num-retained.max=5 changelog.num-retained.min=1",
    ),
    "option-value: changelog.num-retained.min is 10, which is greater than changelog.num-retained.max, 3": (
        PLAIN,
        "changelog.num-retained.max=3",
    ),
    "option-value: 'summ' is not an aggregate function of Paimon": (
        KEYED,
        "merge-engine=aggregation fields.u.aggregate-function=summ",
    ),
    "option-column: fields.u.sequence-group names s, which is not a column: a blank beside the comma is part of the "
    "name": (
        KEYED,
        f"{UPDATED} fields.u.sequence-group=day,+s",
    ),
    "option-column: rowkind.field names nope, which is not a column": (KEYED, "rowkind.field=nope"),
    "option-column: record-level.time-field names s, which has the type VARCHAR (expected: INT, BIGINT or TIMESTAMP)": (
        KEYED,
        "record-level.time-field=s",
    ),
    "option-column: vector-field names u, which has the type INT (expected: VECTOR)": (PLAIN, "vector-field=u"),
    "option-column: blob-field names u, which has the type INT (expected: BLOB)": (PLAIN, "blob-field=u"),
    "option-column: upsert-key names m, which has the type MAP (expected: one that can be compared)": (
        PLAIN,
        "upsert-key=m",
    ),
    "option-column: fields.nope.aggregate-function names nope, which is not a column": (
        KEYED,
        "fields.nope.aggregate-function=sum",
    ),
    "option-column: fields.u.sequence-group names nope, which is not a column": (
        KEYED,
        f"{UPDATED} fields.u.sequence-group=nope",
    ),
    "option-column: file-index.bloom-filter.columns names nope, which is not a column": (
        PLAIN,
        "file-index.bloom-filter.columns=nope",
    ),
    "option-column: file-index.bitmap.columns names n[1], but n is not a MAP with text as keys": (
        PLAIN,
        "file-index.bitmap.columns=n[1]",
    ),
    "option-column: fields.rows.nested-key names 'nope', which is not a field of the rows in rows": (
        KEYED,
        f"{NESTED} fields.rows.nested-key=k,nope",
    ),
    "option-column: fields.rows.nested-sequence-field names ' k', which is not a field of the rows in rows": (
        KEYED,
        f"{NESTED} fields.rows.nested-key=k fields.rows.nested-sequence-field=+k",
    ),
    "option-column: fields.rows.nested-sequence-field needs fields.rows.nested-key": (
        KEYED,
        f"{NESTED} fields.rows.nested-sequence-field=k",
    ),
    "option-column: nested_partial_update needs fields.rows.nested-key": (
        KEYED,
        "merge-engine=aggregation fields.rows.aggregate-function=nested_partial_update",
    ),
    "option-column: nested_update needs an ARRAY of ROW, but u has the type INT": (
        KEYED,
        "merge-engine=aggregation fields.u.aggregate-function=nested_update",
    ),
    "option-column: sum needs a number, but s has the type VARCHAR": (
        KEYED,
        "merge-engine=aggregation fields.s.aggregate-function=sum",
    ),
    "option-column: bool_or needs BOOLEAN, but u has the type INT": (
        KEYED,
        "merge-engine=aggregation fields.u.aggregate-function=bool_or",
    ),
    "option-conflict: sequence.field names u 2 times": (KEYED, "sequence.field=u,u"),
    "option-conflict: u is a sequence.field, which cannot be aggregated": (
        KEYED,
        "merge-engine=aggregation sequence.field=u fields.u.aggregate-function=sum",
    ),
    "option-conflict: s is in more than one sequence group": (
        KEYED,
        f"{UPDATED} fields.u.sequence-group=s fields.day.sequence-group=s",
    ),
    "option-conflict: partial-update.remove-record-on-sequence-group names s, which orders no sequence group": (
        KEYED,
        f"{UPDATED} fields.u.sequence-group=s partial-update.remove-record-on-sequence-group=s",
    ),
    "option-conflict: u has an aggregate function, but is in no sequence group": (
        KEYED,
        f"{UPDATED} fields.u.aggregate-function=sum",
    ),
    "option-conflict: scan.mode from-timestamp needs exactly one of scan.timestamp-millis, scan.timestamp "
    "(found: none)": (
        PLAIN,
        "scan.mode=from-timestamp",
    ),
    "option-conflict: scan.mode from-snapshot needs exactly one of scan.snapshot-id, scan.tag-name, scan.watermark "
    "(found: scan.snapshot-id and scan.tag-name)": (PLAIN, "scan.snapshot-id=1 scan.tag-name=t"),
    "option-conflict: scan.snapshot-id cannot be used with scan.mode latest": (
        PLAIN,
        "scan.mode=latest scan.snapshot-id=1",
    ),
    "option-conflict: blob-external-storage-field names b, which is not in blob-descriptor-field": (
        {"fields": [{"id": 0, "name": "b", "type": "BLOB"}, {"id": 1, "name": "u", "type": "INT"}]},
        f"blob-external-storage-field=b blob-external-storage-path=/x {TRACKED}",
    ),
    "option-conflict: b is in both blob-view-field and blob-descriptor-field": (
        {"fields": [{"id": 0, "name": "b", "type": "BLOB"}, {"id": 1, "name": "u", "type": "INT"}]},
        f"blob-view-field=b blob-descriptor-field=b {TRACKED}",
    ),
}
"""Rule and message -> keys of a table and options that cause it, alone."""

SOUND: tuple[tuple[Any, str], ...] = (  # Any: JSON values
    (PARTED, f"{CHAIN} chain-table.chain-partition-keys=day partition.expiration-time=1d"),
    (KEYED, CLUSTERED),
    (KEYED, "pk-clustering-override=true clustering.columns=u merge-engine=first-row deletion-vectors.enabled=true"),
    (KEYED, f"{UPDATED} fields.u.sequence-group=s fields.s.aggregate-function=max fields.day.ignore-retract=true"),
    (KEYED, f"{UPDATED} fields.default-aggregate-function=last_non_null_value"),
    (KEYED, f"{NESTED} fields.rows.nested-key=k fields.rows.nested-sequence-field=k"),
    (KEYED, "fields.rows.aggregate-function=nested_update fields.rows.nested-key=nope"),
    (KEYED, "merge-engine=aggregation fields.u.aggregate-function=sum fields.s.aggregate-function=listagg"),
    (KEYED, "fields.s.aggregate-function=sum"),
    (KEYED, "merge-engine=First-Row changelog-producer=LOOKUP"),
    (KEYED, "sequence.field=u,+s, record-level.time-field=u rowkind.field=s"),
    (CROSSED, "bucket=4 merge-engine=first-row"),
    (PLAIN, "file.format=Mosaic"),
    (KEYED, "sequence.field= merge-engine=first-row"),
    (PLAIN, "scan.timestamp-millis=1"),
    (PLAIN, "scan.mode=from-file-creation-time scan.file-creation-time-millis=1 scan.timestamp=2026-01-01"),
    (PLAIN, "scan.mode=full scan.watermark=1"),
    (PLAIN, "incremental-between=1,2"),
    (PLAIN, "file-index.bloom-filter.columns=u,m[key] snapshot.num-retained.min=2 snapshot.num-retained.max=5"),
    (PLAIN, f"vector-field=v vector.file.format=lance {TRACKED}"),
    (PLAIN, f"{UPDATED} fields.u.sequence-group=nope fields.u.aggregate-function=sum"),
)


def content(keys: Any, options: Mapping[str, str]) -> bytes:  # Any: JSON values
    """Return a schema file."""
    fields = [{"id": number, "name": name, "type": found} for number, (name, found) in enumerate(COLUMNS.items())]
    base = {"version": 3, "id": 0, "fields": fields, "highestFieldId": 8, "partitionKeys": [], "primaryKeys": []}
    return json.dumps(base | keys | {"options": dict(options)}).encode()


def parsed(options: str) -> dict[str, str]:
    """Return options; `+` stands for a blank."""
    return dict(one.replace("+", " ").split("=", 1) for one in options.split())


def found_in(keys: Any, options: str) -> list[str]:  # Any: JSON values
    """Return the errors that `validate` reports in a file with options: rule and message."""
    storage = MemoryStorage()
    storage.put("schema/schema-0", content(keys, parsed(options)))
    findings = validate_paimon(storage, EmbeddedEngine()).findings
    return [f"{one.rule.id.removeprefix('paimon.')}: {one.message}" for one in findings if one.severity == "error"]


def refused(keys: Any, options: str) -> str | None:  # Any: JSON values
    """Return the rule and message with which `alter set` refuses options; None where it writes a version."""
    storage = MemoryStorage()
    needed = {"row-tracking.enabled", "data-evolution.enabled"} if "BLOB" in str(keys) else set()
    wanted = parsed(options)
    storage.put("schema/schema-0", content(keys, {key: wanted[key] for key in needed}))
    request = AlterRequest(tuple(SetOption(key, value) for key, value in wanted.items()), min_paimon=2)
    try:
        execute_change(SchemaAlteration(request), TableHandle(storage, clock=lambda: 0))
    except Refused as refusal:
        assert ["schema-0"] == [one.name for one in storage.list_from("schema")]
        reason = refusal.message.removeprefix("nothing was changed: the new schema is not valid: ")
        return f"{refusal.code.removeprefix('paimon.')}: {reason}"
    return None


CASES = {f"option-conflict: {sentence}": case for sentence, case in CONFLICTING.items()} | dict(OTHERS)


@pytest.mark.parametrize("fault", CASES)
def test_alter_refuses_with_the_finding_that_validate_reports_alone(fault: str) -> None:
    keys, options = CASES[fault]

    assert [fault] == found_in(keys, options)
    assert fault == refused(keys, options)


def test_every_conflict_of_java_has_a_case() -> None:
    assert {conflict.sentence for conflict in CONFLICTS} == set(CONFLICTING)


@pytest.mark.parametrize(("keys", "options"), SOUND, ids=[options for _, options in SOUND])
def test_options_that_java_accepts_are_set(keys: Any, options: str) -> None:  # Any: JSON values
    assert [] == found_in(keys, options)
    assert refused(keys, options) is None
