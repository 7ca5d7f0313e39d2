"""Tables at the very edge of a rule: exactly the named rules report, on the one side and on the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate.validate import Validation
from deltacli.storage import open_storage
from tests.rules.corruptions_deletion_vectors import table_with_a_vector
from tests.rules.corruptions_history import vacuumed
from tests.rules.corruptions_last_checkpoint import with_hint
from tests.rules.corruptions_log_files import commit_often
from tests.rules.corruptions_mapping import PROTOCOL as MAPPING
from tests.rules.corruptions_mapping import MappedTable, mapped
from tests.rules.corruptions_mapping import usual_fields as mapped_fields
from tests.rules.corruptions_metadata import (
    partitioned_by,
)
from tests.rules.corruptions_partitions import table_by
from tests.rules.corruptions_row_tracking import PROTOCOL as TRACKING
from tests.rules.corruptions_row_tracking import again, mark, tagged, tracked_table
from tests.rules.corruptions_schema import changed_schema, usual_fields, with_columns
from tests.rules.corruptions_statistics import table_of_codes
from tests.rules.corruptions_widening import FEATURE, change, changed, narrow_table, protocol_of, schema_text
from tests.rules.table_builder import DEFAULT_SCHEMA, NOW_MS, Action, TableBuilder, column, struct
from tests.support.validating import validate_table

EDGES: list[tuple[frozenset[str], Callable[[], TableBuilder]]] = []


def edge(*rules: str) -> Callable[[Callable[[], TableBuilder]], Callable[[], TableBuilder]]:
    """Register a table on which exactly these rules report."""

    def register(make: Callable[[], TableBuilder]) -> Callable[[], TableBuilder]:
        EDGES.append((frozenset(rules), make))
        return make

    return register


def inspect(table: TableBuilder, root: Path) -> Validation:
    storage = open_storage(str(table.write(root)))
    return validate_table(storage, EmbeddedEngine(), level="storage", now_ms=NOW_MS)


def without_statistics(table: TableBuilder) -> TableBuilder:
    for actions in table.commits.values():
        for action in actions:
            if "add" in action:
                action["add"]["stats"] = '{"numRecords":10}'
    return table


# -- history ---------------------------------------------------------------------------------------------------------


@edge()
def texts_as_long_as_their_type() -> TableBuilder:
    return table_of_codes("varchar(5)", "äöüäö", "äöüäö")


@edge()
def texts_beyond_their_type_that_wide_bounds_may_have_of_deleted_rows() -> TableBuilder:
    table = table_of_codes("varchar(5)", "abcdef", "abcdef")
    table.set_stats(3, table.stats(3) | {"tightBounds": False, "nullCount": {}})
    return table


@edge()
def cut_maximum_of_a_text_as_long_as_its_type() -> TableBuilder:
    """What follows the 32 characters may be none of its value."""
    return table_of_codes("varchar(32)", "a" * 32, "b" * 32 + "\ufffd")


@edge()
def vacuum_that_tells_no_parameters() -> TableBuilder:
    table = vacuumed()
    del table.action(4, "commitInfo")["operationParameters"]
    return table


@edge("history.vacuum-start-without-end")
def write_after_a_vacuum_that_was_broken_off() -> TableBuilder:
    table = vacuumed()
    table.action(5, "commitInfo")["operation"] = "WRITE"
    return table


@edge()
def end_of_a_vacuum_that_began_before_the_log() -> TableBuilder:
    table = TableBuilder()
    table.commit(operation="VACUUM END")
    return table


@edge()
def engine_that_is_not_named() -> TableBuilder:
    table = TableBuilder()
    table.action(3, "commitInfo")["engineInfo"] = ""
    return table


@edge("history.concurrent-version-hole")
def commit_prepared_before_there_was_a_table() -> TableBuilder:
    table = TableBuilder()
    commit_often(table, 14)
    table.action(13, "commitInfo").update(readVersion=-1, isBlindAppend=False)
    return table


# -- hints -----------------------------------------------------------------------------------------------------------


@edge("hint.size-wrong")
def hint_that_counts_no_files() -> TableBuilder:
    return with_hint(numOfAddFiles=0)


@edge("hint.size-wrong")
def wrong_hint_at_the_first_version() -> TableBuilder:
    table = with_hint(size=7)
    table.checkpoint_version = 0
    return table


# -- schemas ---------------------------------------------------------------------------------------------------------


def overwritten(table: TableBuilder, **parameters: str) -> TableBuilder:
    """Another type for `id`, by an overwrite of one of three files."""
    fields = [column("id", "string"), column("name", "string"), column("p", "string")]
    version = table.commit(table.change_metadata(schemaString=json.dumps(struct(*fields))), table.new_remove("b", 4, 4))
    table.action(version, "commitInfo")["operationParameters"] = {"mode": "Overwrite"} | parameters
    return table


@edge("schema.type-changed-illegally")
def overwrite_of_a_part_leaves_files_of_the_old_type() -> TableBuilder:
    return overwritten(TableBuilder(), predicate="(p = 'b')")


@edge("schema.type-changed-illegally")
def overwrite_that_removed_nothing() -> TableBuilder:
    table = overwritten(TableBuilder())
    table.commits[4].pop()
    return table


@edge("metadata.partition-column-nested")
def partition_column_named_as_a_field_of_a_struct() -> TableBuilder:
    schema = struct(*DEFAULT_SCHEMA["fields"], column("address", struct(column("country", "string"))))
    return partitioned_by("p", "country", schema=schema, values={"country": "AT"})


@edge("metadata.partition-column-duplicate")
def later_metadata_names_a_partition_column_twice() -> TableBuilder:
    table = TableBuilder()
    table.commit(table.change_metadata(partitionColumns=["p", "p"]))
    return table


@edge("schema.void-in-complex")
def nothing_but_void_beside_the_partition_column() -> TableBuilder:
    return without_statistics(TableBuilder(schema=struct(column("id", "void"), column("p", "string"))))


@edge("schema.void-in-complex")
def struct_of_void_that_is_named_as_the_partition_column() -> TableBuilder:
    return with_columns(column("s", struct(column("p", "void"))))


@edge("schema.empty-name")
def two_fields_without_a_name() -> TableBuilder:
    return with_columns(column("s", struct(column("", "long"), column("", "long"))))


@edge("schema.unknown-type")
def type_changes_to_one_that_nobody_knows() -> TableBuilder:
    return changed_schema(with_columns(column("x", "long")), [*usual_fields(), column("x", "bigint")])


@edge("schema.decimal-bounds")
def decimal_changes_to_one_that_can_not_be() -> TableBuilder:
    before = with_columns(column("x", "decimal(10,2)"))
    return changed_schema(before, [*usual_fields(), column("x", "decimal(39,2)")])


@edge("schema.type-changed-illegally")
def type_changes_to_a_struct() -> TableBuilder:
    after = changed("x", struct(column("a", "long")), {"fromType": "long", "toType": "struct"})
    return changed_schema(with_columns(column("x", "long")), [*usual_fields(), after | {"metadata": {}}])


@edge("metadata.id-changed")
def table_with_another_id_and_schema() -> TableBuilder:
    table = changed_schema(TableBuilder(), [column("id", "string"), *usual_fields()[1:]])
    table.action(4, "metaData")["id"] = "0c5d2f44-7d1c-4e6c-8a9e-2b8a0b7f6d21"
    return table


@edge("schema.type-changed-illegally")
def column_renamed_and_given_another_type_under_mapping() -> TableBuilder:
    one, two, three = mapped_fields()
    return MappedTable().change(one | {"name": "ID", "type": "string"}, two, three)


@edge("schema.type-changed-illegally")
def mapping_begins_with_another_name_and_another_type() -> TableBuilder:
    fields = [mapped("ID", "string", 1, "id"), mapped("name", "string", 2, "name"), mapped("p", "string", 3, "p")]
    table = TableBuilder(protocol=MAPPING)
    metadata = table.change_metadata(schemaString=json.dumps(struct(*fields)))
    metadata["metaData"]["configuration"] |= {
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": "3",
    }
    table.commit(metadata, operation="SET TBLPROPERTIES")
    return table


def widened(after: str, *changes: Action) -> TableBuilder:
    """A table whose column `id` gets a type and records some changes."""
    table = narrow_table(**{"delta.enableTypeWidening": "true"})
    table.commit(table.change_metadata(schemaString=schema_text(changed("id", after, *changes))))
    return without_statistics(table)


@edge("typewidening.change-not-allowed")
def change_that_is_recorded_and_not_allowed() -> TableBuilder:
    return widened("string", change("integer", "string"))


@edge("schema.type-changed-illegally", "typewidening.bad-path", "typewidening.change-not-allowed")
def change_of_an_element_that_the_column_does_not_have() -> TableBuilder:
    return widened("string", change("integer", "string", "element"))


@edge()
def changed_column_that_no_older_file_has() -> TableBuilder:
    """As after `features drop`, which rewrites files of the older type only."""
    table = narrow_table(**{"delta.enableTypeWidening": "true"})
    for added in (column("d", "float"), changed("d", "double", change("float", "double")), column("d", "double")):
        schema = json.dumps(struct(*table.schema["fields"], added))
        table.commit(table.change_metadata(schemaString=schema))
    return without_statistics(table)


@edge()
def changed_partition_column() -> TableBuilder:
    """Which no file has."""
    on = {"delta.enableTypeWidening": "true"}
    table = table_by("q", "integer", "7", protocol=protocol_of(FEATURE), properties=on)
    for field in (changed("q", "long", change("integer", "long")), column("q", "long")):
        schema = json.dumps(struct(column("id", "long"), column("name", "string"), field))
        table.commit(table.change_metadata(schemaString=schema))
    return table


@edge()
def restored_to_before_a_change() -> TableBuilder:
    """No live file is of an older type than the column had again, before it was changed once more."""
    table = widened("long", change("integer", "long"))
    for field in (column("id", "integer"), changed("id", "double", change("integer", "double"))):
        table.commit(table.change_metadata(schemaString=schema_text(field)), operation="RESTORE")
    return without_statistics(table)


# -- partitions ------------------------------------------------------------------------------------------------------


def in_directory(table: TableBuilder, directory: str, **values: str | None) -> TableBuilder:
    """One more file, in a directory."""
    table.commit(table.new_add("x", 5, 4, path=f"{directory}/part-00005.parquet", partitionValues=values))
    return table


@edge()
def directory_of_the_same_number_in_other_digits() -> TableBuilder:
    return in_directory(table_by("ratio", "double", "1.0"), "ratio=1", ratio="1.0")


@edge("partition.dir-mismatch")
def directory_of_another_number() -> TableBuilder:
    return in_directory(table_by("ratio", "double", "1.0"), "ratio=10", ratio="1.0")


@edge("partition.dir-mismatch")
def directory_of_a_later_partition() -> TableBuilder:
    return in_directory(TableBuilder(), "p=c", p="b")


@edge("partition.unparsable")
def directory_of_a_value_that_does_not_parse() -> TableBuilder:
    return in_directory(table_by("year", "integer", "2026"), "year=2026", year="MMXXVI")


@edge()
def hives_directory_of_nulls() -> TableBuilder:
    return in_directory(TableBuilder(), "p=__HIVE_DEFAULT_PARTITION__", p=None)


@edge("partition.dir-mismatch")
def hives_directory_of_nulls_for_a_value() -> TableBuilder:
    return in_directory(TableBuilder(), "p=__HIVE_DEFAULT_PARTITION__", p="b")


@edge("partition.dir-mismatch")
def directory_of_a_value_for_null() -> TableBuilder:
    return in_directory(TableBuilder(), "p=b", p=None)


@edge("partition.dir-mismatch")
def second_directory_of_another_value() -> TableBuilder:
    table = TableBuilder(partition_columns=("p", "name"))
    for actions in table.commits.values():
        for action in actions:
            for kind in action.keys() & {"add", "remove"}:
                action[kind]["partitionValues"]["name"] = "x"
                action[kind].pop("stats", None)
    in_directory(table, "p=b/name=y", p="b", name="x")
    del table.add(4)["stats"]
    return table


@edge()
def values_in_a_partition_column_that_forbids_null() -> TableBuilder:
    return table_by("year", "integer", "2026", nullable=False)


@edge("partition.empty-string")
def empty_text_in_a_partition_column_that_forbids_null() -> TableBuilder:
    table = table_by("word", "string", "x", nullable=False)
    table.add(3)["partitionValues"] = {"word": ""}
    return table


# -- paths and files -------------------------------------------------------------------------------------------------


def comes_back(vector_before: bool, vector: bool) -> TableBuilder:
    """A file of another size under the path of one that was removed."""
    table = table_with_a_vector()
    descriptor = table.add(4)["deletionVector"]
    stats = table.add(4)["stats"]
    path = table.add(4)["path"]
    if vector_before:
        table.commit(table.new_remove("b", 4, 5, deletionVector=descriptor), operation="DELETE")
    else:
        table.commit(table.new_remove("b", 2, 5), operation="DELETE")
        path = table.add(1, 1)["path"]
    more = {"deletionVector": descriptor, "stats": stats} if vector else {}
    table.commit(table.new_add("b", 2, 6, path=path, size=7, **more))
    table.put(path, b"x" * 7, modified_ms=table.time_of(6))
    return table


@edge("path.not-unique-over-history")
def another_file_comes_back_with_a_vector() -> TableBuilder:
    return comes_back(vector_before=False, vector=True)


@edge("path.not-unique-over-history")
def another_file_comes_back_with_the_vector_it_went_with() -> TableBuilder:
    return comes_back(vector_before=True, vector=True)


@edge("data.orphan-young")
def file_named_as_the_escapes_of_another() -> TableBuilder:
    table = in_directory(TableBuilder(), "p=b/a%20b", p="b")
    table.put("p=b/a%20b/part-00005.parquet", b"x")
    return table


@edge("data.file-missing")
def missing_file_whose_path_has_two_readings() -> TableBuilder:
    table = in_directory(TableBuilder(), "p=b/a%2520b", p="b")
    table.drop("p=b/a%20b/part-00005.parquet")
    return table


@edge("data.orphan-young", "iceberg.metadata-at-risk")
def directory_of_metadata_that_is_not_iceberg() -> TableBuilder:
    table = TableBuilder()
    table.put("metadata/x.parquet", b"x")
    return table


@edge("data.orphan-young", "iceberg.metadata-at-risk")
def unknown_file_beside_iceberg() -> TableBuilder:
    table = TableBuilder()
    table.put("metadata/v1.metadata.json", b"{}")
    table.put("p=a/x.parquet", b"x")
    return table


# -- row tracking ----------------------------------------------------------------------------------------------------


@edge("rowtracking.overlap")
def two_files_share_their_last_row_id() -> TableBuilder:
    table = tracked_table()
    table.commit(table.new_remove("b", 2, 4, baseRowId=10, defaultRowCommitVersion=1), operation="DELETE")
    table.action(4, "commitInfo")["tags"] = {"delta.rowTracking.preserved": "true"}
    table.add(3)["baseRowId"] = 29
    return table


@edge("feature.supported-not-used")
def row_tracking_is_supported_and_no_file_has_ids() -> TableBuilder:
    return TableBuilder(protocol=dict(TRACKING))


@edge("rowtracking.high-water-mark")
def no_mark_for_the_very_first_row() -> TableBuilder:
    table = TableBuilder(protocol=dict(TRACKING))
    table.add(3).update(baseRowId=0, defaultRowCommitVersion=3, stats='{"numRecords":1}')
    return table


@edge("rowtracking.base-row-id-changed")
def added_again_with_other_row_ids_and_no_version() -> TableBuilder:
    table = tracked_table()
    version = tagged(table, again(table, baseRowId=40), mark(49))
    del table.add(version)["defaultRowCommitVersion"]
    table.configure({"delta.rowTrackingSuspended": "true", "delta.enableRowTracking": "false"})
    return table


@edge("rowtracking.commit-version")
def added_again_with_another_version_and_no_row_ids() -> TableBuilder:
    table = tracked_table()
    version = tagged(table, again(table, defaultRowCommitVersion=4))
    del table.add(version)["baseRowId"]
    table.configure({"delta.enableRowTracking": "false"})
    return table


# -- column mapping --------------------------------------------------------------------------------------------------


@edge("mapping.max-id-too-small")
def greatest_id_there_is_above_the_counter() -> TableBuilder:
    return MappedTable(mapped("x", "long", 2**31 - 1), max_id=3)


@edge("mapping.physical-path-duplicate")
def two_fields_of_a_struct_with_one_physical_name() -> TableBuilder:
    return MappedTable(mapped("s", struct(mapped("a", "long", 5, "x"), mapped("b", "long", 6, "x")), 4), max_id=6)


@edge("mapping.max-id-decreased")
def counter_goes_down_to_the_highest_id() -> TableBuilder:
    return MappedTable(max_id=9).change(*mapped_fields(), maxColumnId="3")


@edge("history.restore-risk", "checkpoint.replay-unavailable")
def log_of_a_mapped_table_begins_with_a_checkpoint() -> TableBuilder:
    table = MappedTable()
    for version in (0, 1):
        table.drop(f"_delta_log/{version:020d}.json")
        table.drop(f"_delta_log/{version:020d}.crc")
    return table


@edge()
def replaced_table_gives_ids_anew() -> TableBuilder:
    three = mapped_fields()[2]
    table = MappedTable().change(mapped("name", "string", 1, "x"), mapped("id", "long", 2, "y"), three)
    removes = [table.new_remove(partition, number, 4) for partition, number in (("b", 2), ("a", 3), ("b", 4))]
    table.commits[4] += removes
    table.action(4, "commitInfo")["operation"] = "REPLACE TABLE"
    return table


@edge("mapping.name-missing")
def field_loses_its_physical_name() -> TableBuilder:
    one, two, three = mapped_fields()
    del two["metadata"]["delta.columnMapping.physicalName"]
    return MappedTable().change(one, two, three).change(*mapped_fields())


@edge("mapping.mode-invalid")
def mode_changes_to_none_of_the_three() -> TableBuilder:
    return MappedTable().change(*mapped_fields(), mode="names")


@edge("schema.bad-json")
def mapped_table_loses_its_schema() -> TableBuilder:
    table = MappedTable()
    table.commit(table.change_metadata(schemaString="[]"))
    return table


@edge()
def nested_ids_are_asked_for_by_a_property_alone() -> TableBuilder:
    return MappedTable(mapped("x", "long", 4), properties={"delta.enableIcebergCompatV2": "false"}, max_id=4)


# -- statistics ------------------------------------------------------------------------------------------------------


@edge("stats.cardinality-exceeds", "stats.records-disagree")
def vector_of_a_file_without_rows() -> TableBuilder:
    table = table_with_a_vector()
    table.set_stats(4, '{"numRecords":0,"tightBounds":false}')
    return table


@pytest.mark.parametrize(("rules", "make"), EDGES, ids=lambda value: getattr(value, "__name__", ""))
def test_exactly_these_rules_report(rules: frozenset[str], make: Callable[[], TableBuilder], tmp_path: Path) -> None:
    found = inspect(make(), tmp_path / "t")

    assert rules == {finding.rule.id for finding in found.findings}, found.findings
