"""Damages of checkpoints, of their names, their rows and their sidecars."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.schema.to_arrow import table_schema
from tests.rules.corruptions import damage
from tests.rules.table_builder import (
    MINUTE_MS,
    NOW_MS,
    V2_FIELDS,
    Action,
    TableBuilder,
    checkpoint_schema,
    column,
    set_time,
    struct,
    write_rows,
)

CHECKPOINT = "_delta_log/00000000000000000002.checkpoint.parquet"
UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
DAY_MS = 86_400_000
V2_PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["v2Checkpoint"],
    "writerFeatures": ["v2Checkpoint"],
}
PARSED_STATS = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct([("id", pa.int64()), ("name", pa.string())])),
        ("maxValues", pa.struct([("id", pa.int64()), ("name", pa.string())])),
        ("nullCount", pa.struct([("id", pa.int64()), ("name", pa.int64())])),
    ]
)
PARSED_PARTITIONS = pa.struct([("p", pa.string())])


class CheckpointBuilder(TableBuilder):
    """A table whose checkpoint has another form: V2 with or without sidecars, in parts, or with other columns.

    `edit_rows` changes the rows before they are spread over files; `change` gets the fields of the top-level file's
    sidecar and checkpointMetadata rows.
    """

    def __init__(self, *, form: str = "classic", parts: int = 2, sidecars: int = 0, **others: Any) -> None:
        super().__init__(**others)
        self.form, self.parts, self.sidecars = form, parts, sidecars
        self.columns: pa.Schema | None = None
        self.fill: Callable[[Action], Action] = lambda _: {}
        self.change: Callable[[str, Action], Action] = lambda _, fields: fields
        self.extra_in_sidecar: list[Action] = []
        self.inline: list[Action] = []
        self.with_metadata = form.startswith("uuid") or sidecars > 0

    def _write_checkpoint(self, log: Path, version: int) -> None:
        rows = self.rows(version)
        for edit in self._row_edits:
            rows = edit(rows) or rows
        for row in rows:
            if "add" in row:
                row["add"] |= self.fill(row["add"])
        named: list[Path] = []
        adds, in_sidecars = sum("add" in row for row in rows), 0
        if self.with_metadata:
            files = [row for row in rows if "add" in row or "remove" in row] if self.sidecars else []
            small = [row for row in rows if row not in files]
            sidecars = self._write_sidecars(log, version, files, named)
            in_sidecars = len(files) + len(self.extra_in_sidecar)
            sizes = sum(row["sidecar"]["sizeInBytes"] for row in sidecars)
            tags = {
                "sidecarNumActions": str(in_sidecars),
                "sidecarSizeInBytes": str(sizes),
                "numOfAddFiles": str(adds),
                "sidecarFileSchema": json.dumps(table_schema(file_schema())) if not self.extra_in_sidecar else "",
            }
            about = {"checkpointMetadata": self.change("checkpointMetadata", {"version": version, "tags": tags})}
            sidecars = [{"sidecar": self.change("sidecar", row["sidecar"])} for row in sidecars]
            rows = [about, *sidecars, *small, *self.inline]
        targets = self._write_top(log, version, rows)
        total = sum(path.stat().st_size for path in (*targets, *named))
        for path in targets:
            set_time(path, self.time_of(version) + 1000)
        if self.has_hint:
            hint = {
                "version": version,
                "size": len(rows) + in_sidecars,
                "sizeInBytes": total,
                "numOfAddFiles": adds,
                **({"parts": self.parts} if self.form == "parts" and self.parts > 1 else {}),
            }
            self._write_json(log, "_last_checkpoint", hint, version)

    def _write_sidecars(self, log: Path, version: int, rows: list[Action], named: list[Path]) -> list[Action]:
        found = []
        for number in range(self.sidecars):
            path = log / "_sidecars" / f"{number:08d}-7026-4e79-81be-64bd76c43a11.parquet"
            mine = [*rows[number :: self.sidecars], *(self.extra_in_sidecar if number == 0 else [])]
            write_rows(path, mine, schema=None if self.extra_in_sidecar else file_schema())
            set_time(path, self.time_of(version))
            named.append(path)
            fields = {
                "path": path.name,
                "sizeInBytes": path.stat().st_size,
                "modificationTime": self.time_of(version),
                "tags": {},
            }
            found.append({"sidecar": fields})
        return found

    def _write_top(self, log: Path, version: int, rows: list[Action]) -> list[Path]:
        stem = f"{version:020d}.checkpoint"
        match self.form:
            case "uuid-json":
                target = log / f"{stem}.{UUID}.json"
                target.write_text("".join(json.dumps(row) + "\n" for row in rows))
                return [target]
            case "parts":
                targets = [log / f"{stem}.{part:010d}.{self.parts:010d}.parquet" for part in range(1, self.parts + 1)]
                for number, target in enumerate(targets):
                    write_rows(target, rows[number :: self.parts])
                return targets
            case form:
                target = log / (f"{stem}.{UUID}.parquet" if form == "uuid-parquet" else f"{stem}.parquet")
                schema = self.columns
                if schema is not None and self.with_metadata:
                    schema = pa.schema([*schema, *V2_FIELDS])
                write_rows(target, rows, schema=schema)
                return [target]


def file_schema() -> pa.Schema:
    """The columns of a sidecar."""
    return pa.schema([field for field in checkpoint_schema() if field.name in ("add", "remove")])


def with_fields(kind: str, *fields: pa.Field, without: tuple[str, ...] = ()) -> pa.Schema:
    """The columns of a checkpoint, `kind` with other fields."""
    replaced = {field.name for field in fields} | set(without)
    schema = checkpoint_schema()
    struct_of = [field for field in schema.field(kind).type if field.name not in replaced] + list(fields)
    return schema.set(schema.get_field_index(kind), pa.field(kind, pa.struct(struct_of)))


def v2(form: str = "uuid-json", *, sidecars: int = 1, **others: Any) -> CheckpointBuilder:
    """A healthy table with a V2 checkpoint."""
    return CheckpointBuilder(
        form=form,
        sidecars=sidecars,
        protocol=dict(V2_PROTOCOL),
        properties={"delta.checkpointPolicy": "v2"},
        **others,
    )


def parsed(*, partitions: bool = True, stats: bool = True, **others: Any) -> CheckpointBuilder:
    """A healthy table whose checkpoint has parsed columns in addition to the others."""
    properties = {"delta.checkpoint.writeStatsAsStruct": "true"} | others.pop("properties", {})
    table = CheckpointBuilder(properties=properties, **others)
    fields = [
        *([pa.field("partitionValues_parsed", PARSED_PARTITIONS)] if partitions else []),
        *([pa.field("stats_parsed", PARSED_STATS)] if stats else []),
    ]
    table.columns = with_fields("add", *fields)
    table.fill = lambda add: {
        "partitionValues_parsed": {"p": add["partitionValues"].get("p")},
        "stats_parsed": json.loads(add["stats"]),
    }
    return table


def with_rows(edit: Callable[[list[Action]], list[Action] | None], table: TableBuilder | None = None) -> TableBuilder:
    table = table or TableBuilder()
    table.edit_rows(edit)
    return table


def row_of(rows: list[Action], kind: str, number: int = 0) -> Action:
    """The fields of the n-th row of a kind."""
    found: Action = [row[kind] for row in rows if kind in row][number]
    return found


def change(kind: str, **fields: Any) -> Callable[[list[Action]], None]:
    """Change the first row of a kind."""

    def edit(rows: list[Action]) -> None:
        row_of(rows, kind).update(fields)

    return edit


def without(kind: str) -> Callable[[list[Action]], list[Action]]:
    """Leave all rows of a kind out."""
    return lambda rows: [row for row in rows if kind not in row]


# -- rows, which the reader of columns judges -------------------------------------------------------------------------


@damage("checkpoint.unreadable")
def torn_checkpoint() -> TableBuilder:
    table = TableBuilder()
    table.edit_files(lambda root: _spoil_end(root / CHECKPOINT, 200))
    return table


@damage("checkpoint.duplicate-key")
def add_twice() -> TableBuilder:
    return with_rows(lambda rows: [*rows, {"add": row_of(rows, "add")}])


@damage("checkpoint.duplicate-key")
def remove_twice() -> TableBuilder:
    return with_rows(lambda rows: [*rows, {"remove": row_of(rows, "remove")}])


@damage("checkpoint.multi-action-row")
def two_actions_in_a_row() -> TableBuilder:
    table = TableBuilder()
    table.commits[1].append({"txn": {"appId": "stream", "version": 7, "lastUpdated": table.time_of(1)}})

    def join(rows: list[Action]) -> list[Action]:
        adds = [row for row in rows if "add" in row]
        others = [row for row in rows if "add" not in row and "txn" not in row]
        return [*others, adds[0] | {"txn": row_of(rows, "txn")}, *adds[1:]]

    return with_rows(join, table)


@damage("checkpoint.multi-action-row")
def row_without_action() -> TableBuilder:
    return with_rows(lambda rows: [*rows, {}])


@damage("checkpoint.missing-add")
def checkpoint_without_a_live_file() -> TableBuilder:
    def leave_out(rows: list[Action]) -> list[Action]:
        gone = row_of(rows, "add")
        return [row for row in rows if row.get("add") is not gone]

    return with_rows(leave_out)


@damage("checkpoint.extra-add")
def checkpoint_with_a_file_nobody_added() -> TableBuilder:
    table = TableBuilder()
    return with_rows(lambda rows: [*rows, table.new_add("a", 9, 1)], table)


@damage("checkpoint.add-differs")
def checkpoint_with_another_size() -> TableBuilder:
    def edit(rows: list[Action]) -> None:
        row_of(rows, "add")["size"] += 1

    return with_rows(edit)


@damage("checkpoint.add-differs")
def checkpoint_with_another_partition() -> TableBuilder:
    return with_rows(change("add", partitionValues={"p": "other"}))


@damage("checkpoint.missing-tombstone")
def checkpoint_without_a_fresh_remove() -> TableBuilder:
    return with_rows(without("remove"))


@damage("checkpoint.parsed-partition-differs")
def parsed_partition_of_another_value() -> TableBuilder:
    table = parsed()
    fill = table.fill
    table.fill = lambda add: fill(add) | {"partitionValues_parsed": {"p": "other"}}
    return table


@damage("checkpoint.parsed-stats-differs")
def parsed_statistics_of_another_count() -> TableBuilder:
    table = parsed()
    fill = table.fill
    table.fill = lambda add: fill(add) | {"stats_parsed": json.loads(add["stats"]) | {"numRecords": 9}}
    return table


@damage("action.stats-in-checkpointed-remove")
def remove_with_statistics_in_the_checkpoint() -> TableBuilder:
    table = CheckpointBuilder()
    table.columns = with_fields("remove", pa.field("stats", pa.string()))
    table.edit_rows(change("remove", stats='{"numRecords":10}'))
    return table


# -- names ------------------------------------------------------------------------------------------------------------


def in_parts(parts: int, *, protocol: Action | None = None) -> CheckpointBuilder:
    """A healthy table with a checkpoint in parts."""
    properties = {"delta.checkpointPolicy": "v2"} if protocol == V2_PROTOCOL else {}
    return CheckpointBuilder(form="parts", parts=parts, protocol=protocol, properties=properties)


def part_name(part: int, parts: int, version: int = 2) -> str:
    return f"_delta_log/{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


@damage("checkpoint.multipart-incomplete")
def part_missing() -> TableBuilder:
    table = in_parts(3).derive(hint=False)
    table.drop(part_name(2, 3))
    return table


@damage("checkpoint.multipart-mixed")
def parts_of_two_checkpoints() -> TableBuilder:
    table = in_parts(2).derive(hint=False)
    table.edit_files(lambda root: _rename(root / part_name(2, 2), root / part_name(2, 3)))
    return table


@damage("checkpoint.several-forms")
def classic_beside_parts() -> TableBuilder:
    table = in_parts(2)
    table.edit_files(_join_parts)
    return table


def _join_parts(root: Path) -> None:
    """Write the classic checkpoint that has the rows of both parts."""
    parts = [pq.read_table(root / part_name(part, 2)) for part in (1, 2)]
    pq.write_table(pa.concat_tables(parts), root / CHECKPOINT)
    shutil.copystat(root / part_name(1, 2), root / CHECKPOINT)


@damage("checkpoint.multipart-forbidden")
def parts_in_a_table_with_v2_checkpoints() -> TableBuilder:
    return in_parts(2, protocol=dict(V2_PROTOCOL))


# No hint can be right about such a checkpoint: one part is not to be told as parts, and not as a single file.
@damage("checkpoint.multipart-one", also=("hint.missing",))
def one_part() -> TableBuilder:
    return in_parts(1).derive(hint=False)


@damage("checkpoint.zero-length")
def empty_checkpoint() -> TableBuilder:
    table = TableBuilder().derive(checkpoint=False)
    table.put(CHECKPOINT, "", modified_ms=table.time_of(2) + 1000)
    return table


@damage("checkpoint.zero-length")
def empty_part() -> TableBuilder:
    """The set is incomplete for that reason alone, and says nothing more."""
    table = in_parts(2).derive(hint=False)
    table.put(part_name(2, 2), "", modified_ms=table.time_of(2) + 1000)
    return table


def checkpoint_above_the_log(table: TableBuilder) -> TableBuilder:
    """The commit of a checkpoint, which was the newest, is gone."""
    table.checkpoint_version = 3
    table.drop("_delta_log/00000000000000000003.json")
    return table


# That the commit of a checkpoint is gone, and that the hint is missing (any hint would be wrong), has rules of its own.
@damage("checkpoint.without-commit", also=("log.checkpoint-commit-missing", "hint.missing"))
def checkpoint_newer_than_the_log() -> TableBuilder:
    return checkpoint_above_the_log(TableBuilder().derive(hint=False, checksums=False))


# As above; and of every table that a catalog manages it is told that there may be more.
@damage(
    "checkpoint.unpublished",
    also=("log.checkpoint-commit-missing", "hint.missing", "catalog.unpublished-possible"),
)
def checkpoint_newer_than_the_published_log() -> TableBuilder:
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["catalogManaged"],
        "writerFeatures": ["catalogManaged", "inCommitTimestamp"],
    }
    table = TableBuilder(protocol=protocol, properties={"delta.enableInCommitTimestamps": "true"})
    for version, actions in table.commits.items():
        actions[0]["commitInfo"]["inCommitTimestamp"] = table.time_of(version)
    return checkpoint_above_the_log(table.derive(hint=False, checksums=False))


# Without the commits below it the checkpoint can't be compared, and older versions can't be read any more.
@damage("checkpoint.v2-compat-missing", also=("checkpoint.replay-unavailable", "history.restore-risk"))
def only_a_uuid_checkpoint_at_the_start() -> TableBuilder:
    return begin_at_checkpoint(v2())


@damage("checkpoint.replay-unavailable", also=("history.restore-risk",))
def log_that_begins_with_a_checkpoint() -> TableBuilder:
    return begin_at_checkpoint(TableBuilder())


def begin_at_checkpoint(table: TableBuilder) -> TableBuilder:
    """The log after a cleanup."""
    for version in (0, 1):
        table.drop(f"_delta_log/{version:020d}.json")
        table.drop(f"_delta_log/{version:020d}.crc")
    return table


@damage("checkpoint.protected-missing")
def protected_checkpoint_missing() -> TableBuilder:
    """The checkpoint at 2 came after the protected version 1; versions below 1 are still there."""
    return protected(before=1)


def protected(*, before: int) -> TableBuilder:
    return TableBuilder(
        protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["checkpointProtection"]},
        properties={"delta.requireCheckpointProtectionBeforeVersion": str(before)},
    )


# -- small actions ----------------------------------------------------------------------------------------------------


@damage("checkpoint.no-protocol")
def checkpoint_without_protocol() -> TableBuilder:
    return with_rows(without("protocol"))


@damage("checkpoint.no-protocol")
def checkpoint_with_two_protocols() -> TableBuilder:
    return with_rows(lambda rows: [*rows, {"protocol": row_of(rows, "protocol")}])


@damage("checkpoint.no-metadata")
def checkpoint_without_metadata() -> TableBuilder:
    return with_rows(without("metaData"))


@damage("checkpoint.no-metadata")
def checkpoint_with_two_metadata() -> TableBuilder:
    return with_rows(lambda rows: [*rows, {"metaData": row_of(rows, "metaData")}])


@damage("checkpoint.forbidden-action")
def commit_info_in_a_checkpoint() -> TableBuilder:
    table = CheckpointBuilder()
    table.columns = checkpoint_schema().append(pa.field("commitInfo", pa.struct([("operation", pa.string())])))
    table.edit_rows(lambda rows: [*rows, {"commitInfo": {"operation": "WRITE"}}])
    return table


@damage("checkpoint.forbidden-action")
def change_data_in_a_json_checkpoint() -> TableBuilder:
    table = v2(sidecars=0)
    file = {"path": "_change_data/c.parquet", "partitionValues": {"p": "a"}, "size": 9, "dataChange": False}
    table.edit_rows(lambda rows: [*rows, {"cdc": file}])
    return table


@damage("checkpoint.metadata-differs")
def checkpoint_with_another_schema() -> TableBuilder:
    schema = struct(column("id", "integer"), column("name", "string"), column("p", "string"))
    return with_rows(change("metaData", schemaString=json.dumps(schema)))


@damage("checkpoint.metadata-differs")
def checkpoint_with_another_property() -> TableBuilder:
    def edit(rows: list[Action]) -> None:
        metadata = row_of(rows, "metaData")
        metadata["configuration"] = metadata["configuration"] | {"app.x": "1"}

    return with_rows(edit)


@damage("checkpoint.metadata-differs")
def checkpoint_with_another_protocol() -> TableBuilder:
    return with_rows(change("protocol", minWriterVersion=1))


def with_transaction(**properties: str) -> TableBuilder:
    table = TableBuilder(properties=properties)
    table.commits[1].append({"txn": {"appId": "stream", "version": 7, "lastUpdated": table.time_of(1)}})
    return table


@damage("checkpoint.missing-txn")
def checkpoint_without_a_transaction() -> TableBuilder:
    return with_rows(without("txn"), with_transaction())


@damage("checkpoint.missing-txn")
def checkpoint_with_an_older_transaction() -> TableBuilder:
    return with_rows(change("txn", version=6), with_transaction())


@damage("checkpoint.missing-txn")
def checkpoint_without_a_transaction_that_just_lives() -> TableBuilder:
    """It expires when it is as old as the retention, and lacks one millisecond of that."""
    table = with_transaction(**{"delta.setTransactionRetentionDuration": f"interval {MINUTE_MS + 1001} milliseconds"})
    return with_rows(without("txn"), table)


def with_domain() -> TableBuilder:
    table = TableBuilder(protocol={"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["domainMetadata"]})
    table.commits[1].append({"domainMetadata": {"domain": "app.a", "configuration": "{}", "removed": False}})
    return table


@damage("checkpoint.missing-domain")
def checkpoint_without_a_domain() -> TableBuilder:
    return with_rows(without("domainMetadata"), with_domain())


@damage("checkpoint.missing-domain")
def checkpoint_with_another_configuration() -> TableBuilder:
    return with_rows(change("domainMetadata", configuration='{"a":1}'), with_domain())


@damage("checkpoint.missing-domain")
def checkpoint_with_a_domain_that_was_removed() -> TableBuilder:
    table = with_domain()
    domain = {"domain": "app.a", "configuration": "{}"}
    table.commits[2].append({"domainMetadata": domain | {"removed": True}})
    return with_rows(lambda rows: [*rows, {"domainMetadata": domain | {"removed": False}}], table)


@damage("checkpoint.domain-tombstone")
def checkpoint_with_a_removed_domain() -> TableBuilder:
    table = with_domain()
    removed = {"domain": "app.a", "configuration": "{}", "removed": True}
    table.commits[2].append({"domainMetadata": removed})
    return with_rows(lambda rows: [*rows, {"domainMetadata": removed}], table)


@damage("checkpoint.features-null")
def checkpoint_without_its_feature_lists() -> TableBuilder:
    return with_rows(change("protocol", readerFeatures=None), v2("classic"))


@damage("checkpoint.features-null")
def checkpoint_with_features_on_a_legacy_protocol() -> TableBuilder:
    return with_rows(change("protocol", writerFeatures=["appendOnly"]))


# -- columns ----------------------------------------------------------------------------------------------------------


@damage("checkpoint.schema-type")
def sizes_of_32_bits() -> TableBuilder:
    table = CheckpointBuilder()
    table.columns = with_fields("add", pa.field("size", pa.int32()))
    return table


@damage("checkpoint.schema-type")
def reader_version_of_64_bits() -> TableBuilder:
    table = CheckpointBuilder()
    table.columns = with_fields("protocol", pa.field("minReaderVersion", pa.int64()))
    return table


@damage("checkpoint.add-column-missing")
def main_file_without_columns_of_file_actions() -> TableBuilder:
    table = v2("uuid-parquet")
    table.columns = pa.schema([field for field in checkpoint_schema() if field.name not in ("add", "remove")])
    return table


@damage("checkpoint.add-column-missing")
def main_file_without_the_column_of_adds() -> TableBuilder:
    table = v2("uuid-parquet", sidecars=2)
    table.columns = pa.schema([field for field in checkpoint_schema() if field.name != "add"])
    return table


@damage("checkpoint.stats-policy")
def statistics_as_text_against_the_property() -> TableBuilder:
    return parsed(properties={"delta.checkpoint.writeStatsAsJson": "false"})


@damage("checkpoint.stats-policy")
def parsed_statistics_against_the_property() -> TableBuilder:
    return parsed(partitions=False, properties={"delta.checkpoint.writeStatsAsStruct": "false"})


@damage("checkpoint.stats-policy")
def no_parsed_statistics_against_the_property() -> TableBuilder:
    return parsed(stats=False)


@damage("checkpoint.stats-policy")
def no_statistics_as_text() -> TableBuilder:
    table = parsed()
    table.columns = with_fields(
        "add",
        pa.field("partitionValues_parsed", PARSED_PARTITIONS),
        pa.field("stats_parsed", PARSED_STATS),
        without=("stats",),
    )
    return table


@damage("checkpoint.parsed-partition-missing")
def no_parsed_partitions_against_the_property() -> TableBuilder:
    return parsed(partitions=False)


@damage("checkpoint.parsed-names")
def parsed_statistics_by_logical_names() -> TableBuilder:
    return mapped("id")


@damage("checkpoint.parsed-names")
def parsed_counts_of_nulls_by_logical_names() -> TableBuilder:
    return mapped(count="id")


def mapped(bound: str = "col-id", count: str = "col-id") -> CheckpointBuilder:
    """A table under column mapping, healthy while the parsed columns have physical names."""
    names = {"id": "long", "name": "string"}
    fields = [
        column(name, data_type)
        | {"metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{name}"}}
        for number, (name, data_type) in enumerate(names.items(), 1)
    ]
    table = CheckpointBuilder(
        schema=struct(*fields),
        partition_columns=(),
        protocol={"minReaderVersion": 2, "minWriterVersion": 5},
        properties={
            "delta.columnMapping.mode": "name",
            "delta.columnMapping.maxColumnId": "2",
            "delta.checkpoint.writeStatsAsStruct": "true",
        },
    )
    for version, number in ((1, 0), (1, 1), (2, 0), (3, 0)):
        text = table.add(version, number)["stats"]
        table.add(version, number)["stats"] = text.replace('"id"', '"col-id"').replace('"name"', '"col-name"')
    parts = [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct([(bound, pa.int64())])),
        ("nullCount", pa.struct([(count, pa.int64())])),
    ]
    table.columns = with_fields("add", pa.field("stats_parsed", pa.struct(parts)))
    table.fill = lambda add: {
        "stats_parsed": {
            "numRecords": 10,
            "minValues": {bound: json.loads(add["stats"])["minValues"]["col-id"]},
            "nullCount": {count: 0},
        }
    }
    return table


@damage("checkpoint.parsed-types-old")
def parsed_statistics_of_an_older_type() -> TableBuilder:
    table = parsed(partition_columns=(), partitions=False)
    bounds = pa.struct([("id", pa.int32()), ("name", pa.string())])
    table.columns = with_fields(
        "add",
        pa.field("stats_parsed", pa.struct([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds)])),
    )
    return table


# -- V2 checkpoints and sidecars --------------------------------------------------------------------------------------


@damage("checkpoint.v2-metadata-missing")
def v1_content_under_a_uuid_name() -> TableBuilder:
    table = v2("uuid-parquet", sidecars=0)
    table.with_metadata = False
    return table


@damage("checkpoint.v2-metadata-missing")
def v2_checkpoint_with_two_descriptions() -> TableBuilder:
    table = v2()
    table.inline = [{"checkpointMetadata": {"version": 2}}]
    return table


@damage("checkpoint.v2-version")
def v2_checkpoint_of_another_version() -> TableBuilder:
    table = v2("uuid-parquet")
    table.change = lambda kind, fields: fields | ({"version": 1} if kind == "checkpointMetadata" else {})
    return table


@damage("checkpoint.v2-without-feature")
def uuid_name_without_the_feature() -> TableBuilder:
    return CheckpointBuilder(form="uuid-parquet")


@damage("checkpoint.v2-without-feature")
def sidecars_without_the_feature() -> TableBuilder:
    return CheckpointBuilder(sidecars=1)


@damage("checkpoint.v2-mixed")
def file_actions_inline_and_in_a_sidecar() -> TableBuilder:
    table = v2("uuid-parquet")
    removed = table.action(2, "remove")
    table.edit_rows(without("remove"))
    table.inline = [{"remove": {name: value for name, value in removed.items() if name not in ("stats", "tags")}}]
    return table


@damage("checkpoint.v2-tags")
def tag_with_an_add_too_many() -> TableBuilder:
    return with_tags(numOfAddFiles="3")


@damage("checkpoint.v2-tags")
def tag_with_another_number_of_actions() -> TableBuilder:
    return with_tags(sidecarNumActions="2")


@damage("checkpoint.v2-tags")
def tag_with_other_bytes() -> TableBuilder:
    return with_tags(sidecarSizeInBytes="1")


@damage("checkpoint.v2-tags")
def tag_with_another_schema() -> TableBuilder:
    return with_tags(sidecarFileSchema='{"type":"struct","fields":[]}')


def with_tags(**tags: str) -> TableBuilder:
    table = v2(sidecars=2)
    table.change = lambda kind, fields: (
        fields | {"tags": fields["tags"] | tags} if kind == "checkpointMetadata" else fields
    )
    return table


SIDECAR = "_delta_log/_sidecars/00000000-7026-4e79-81be-64bd76c43a11.parquet"


@damage("sidecar.missing")
def sidecar_gone() -> TableBuilder:
    table = v2(sidecars=2)
    table.drop(SIDECAR)
    return table


@damage("sidecar.size-mismatch")
def sidecar_of_another_size() -> TableBuilder:
    table = v2()
    table.change = lambda kind, fields: (
        fields | {"sizeInBytes": fields["sizeInBytes"] - 1} if kind == "sidecar" else fields
    )
    return table


@damage("sidecar.path-outside")
def sidecar_path_to_the_log() -> TableBuilder:
    return with_sidecar_path("../")


@damage("sidecar.path-outside")
def sidecar_path_below_sidecars() -> TableBuilder:
    return with_sidecar_path("_sidecars/v2/")


def with_sidecar_path(directory: str) -> TableBuilder:
    table = v2()
    table.change = lambda kind, fields: fields | {"path": directory + fields["path"]} if kind == "sidecar" else fields
    return table


@damage("sidecar.non-file-action")
def transaction_in_a_sidecar() -> TableBuilder:
    table = v2()
    table.extra_in_sidecar = [{"txn": {"appId": "stream", "version": 7}}]
    return table


@damage("sidecar.orphan")
def sidecar_that_nobody_names() -> TableBuilder:
    table = v2()
    table.put("_delta_log/_sidecars/old.parquet", "x", modified_ms=NOW_MS - DAY_MS - 1)
    return table


# Of every table with a tree it is told that only its log was checked; and the feature needs five others, with which
# this table would test much more than one checkpoint.
_TREE = ("amt.readable-partially", "protocol.dependency")


@damage("checkpoint.amt-classic", also=_TREE)
def parts_beside_a_metadata_tree() -> TableBuilder:
    return in_parts(2, protocol=dict(TREE_PROTOCOL))


@damage("checkpoint.amt-classic", also=_TREE)
def classic_checkpoint_beside_a_metadata_tree() -> TableBuilder:
    return TableBuilder(protocol=dict(TREE_PROTOCOL))


TREE_PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["adaptiveMetadata"],
    "writerFeatures": ["adaptiveMetadata"],
}


def _spoil_end(path: Path, size: int) -> None:
    """Overwrite the last bytes, the file keeps its size and time."""
    time_ms = int(path.stat().st_mtime * 1000)
    path.write_bytes(path.read_bytes()[:-size] + b"x" * size)
    set_time(path, time_ms)


def _rename(path: Path, target: Path) -> None:
    path.rename(target)


@damage("dv.names-nothing", also=("checkpoint.replay-unavailable", "history.restore-risk"))
def checkpoint_with_empty_vectors() -> TableBuilder:
    vector = {"storageType": "", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 0}
    return begin_at_checkpoint(with_rows(change("add", deletionVector=vector)))
