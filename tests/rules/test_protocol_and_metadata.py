"""Where the rules about protocols, features, metadata and properties begin, and where they stay silent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.protocol.features import FEATURES, stable_name
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.storage import open_storage
from tests.rules.corruptions_protocol import protocol, with_features
from tests.rules.table_builder import DEFAULT_SCHEMA, NOW_MS, Action, TableBuilder, column, struct
from tests.support.validating import validate_table

OURS = ("protocol.*", "feature.*", "vacuumcheck.*", "metadata.*", "property.*")


def found_in(table: TableBuilder, root: Path, *, select: tuple[str, ...] = OURS) -> list[tuple[str, str]]:
    """(rule, severity) of what is found in a table."""
    storage = open_storage(str(table.write(root / "t")))
    found = validate_table(storage, EmbeddedEngine(), level="log", select=select, now_ms=NOW_MS)
    return [(finding.rule.id, finding.severity.value) for finding in found.findings]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.checkpointInterval", "1"),
        ("delta.checkpointInterval", "2147483647"),
        ("delta.dataSkippingNumIndexedCols", "-1"),
        ("delta.dataSkippingStringPrefixLength", "0"),
        ("delta.randomPrefixLength", "1"),
        ("delta.targetFileSize", "134217728"),
        ("delta.targetFileSize", "128mb"),
        ("delta.targetFileSize", "1 GiB"),
        ("delta.randomizeFilePrefixes", "TRUE"),
        ("delta.autoOptimize.autoCompact", "auto"),
        ("delta.deletedFileRetentionDuration", "interval 1 day"),
        ("delta.deletedFileRetentionDuration", "interval 30 days"),
        ("delta.logRetentionDuration", "interval 7 days"),
        ("delta.logRetentionDuration", "interval 365 days"),
        ("delta.checkpointPolicy", "classic"),
        ("delta.parquet.compression.codec", "ZSTD"),
        ("delta.parquet.format.version", "2.12.0"),
        ("delta.parquet.format.version.afe.internal", "2.12.0"),
        ("delta.universalFormat.config.iceberg.write.metadata.compression-codec", "none"),
        ("deltalake.owner", "us"),
        ("owner", "us"),
    ],
)
def test_a_valid_property_is_silent(key: str, value: str, tmp_path: Path) -> None:
    assert [] == found_in(TableBuilder(properties={key: value}), tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("delta.checkpointInterval", "2147483648", "property.bad-number"),
        ("delta.checkpointInterval", "9" * 6000, "property.bad-number"),
        ("delta.checkpointInterval", "1.5", "property.bad-number"),
        ("delta.targetFileSize", "0", "property.bad-number"),
        ("delta.randomizeFilePrefixes", " true", "property.bad-boolean"),
        ("delta.randomizeFilePrefixes", "", "property.bad-boolean"),
        ("delta.logRetentionDuration", "interval -1 days", "property.bad-interval"),
        ("delta.logRetentionDuration", f"interval {'9' * 6000} days", "property.bad-interval"),
        ("delta.logRetentionDuration", "INTERVAL 30 DAYS", "property.interval-portability"),
        ("delta.logRetentionDuration", "interval 8640000.5 seconds", "property.interval-portability"),
        ("delta.deletedFileRetentionDuration", "interval 31 days", "property.retention-order"),
        ("Delta.AppendOnly", "true", "property.unknown-delta-key"),
    ],
)
def test_an_invalid_property_is_reported_once(key: str, value: str, rule: str, tmp_path: Path) -> None:
    assert [rule] == [found for found, _ in found_in(TableBuilder(properties={key: value}), tmp_path)]


def test_a_lasting_fault_is_reported_once(tmp_path: Path) -> None:
    table = TableBuilder(properties={"delta.checkpointInterval": "0"})
    table.metadata["id"] = "my-table"
    table.commit(table.change_metadata(name="new name"), operation="SET TBLPROPERTIES")

    assert ["metadata.id-not-guid", "property.bad-number"] == [rule for rule, _ in found_in(table, tmp_path)]


@pytest.mark.parametrize(
    "action",
    [
        protocol(1, 1),
        protocol(1, 2),
        protocol(1, 4),
        protocol(2, 5),
        protocol(2, 6),
        protocol(2, 7, writerFeatures=[]),
        with_features("appendOnly", "invariants", "domainMetadata"),
        with_features(for_readers=("vacuumProtocolCheck",)),
        {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": None, "writerFeatures": None},
    ],
)
def test_a_valid_protocol_is_silent(action: Action, tmp_path: Path) -> None:
    assert [] == found_in(TableBuilder(protocol=action), tmp_path)


def test_column_mapping_for_writers_is_enough_at_reader_version_two(tmp_path: Path) -> None:
    table = TableBuilder(protocol=protocol(2, 7, writerFeatures=["columnMapping"]))

    assert [("feature.supported-not-used", "info")] == found_in(table, tmp_path)


@pytest.mark.parametrize("preview", ["", "-preview"])
def test_a_preview_supports_what_its_feature_does(preview: str, tmp_path: Path) -> None:
    table = TableBuilder(
        schema=struct(*DEFAULT_SCHEMA["fields"], column("v", "variant")),
        protocol=with_features(for_readers=(f"variantType{preview}",)),
    )

    expected = ["protocol.preview-feature"] if preview else []
    assert expected == [rule for rule, _ in found_in(table, tmp_path)]


def test_giving_up_what_only_writers_need_is_a_warning(tmp_path: Path) -> None:
    table = TableBuilder(protocol=with_features("domainMetadata"))
    table.commit({"protocol": protocol(1, 2)})

    assert [("protocol.downgrade", "warning")] == found_in(table, tmp_path)


@pytest.mark.parametrize(
    "dropped, found", [("domainMetadata", []), ("rowTracking", [("protocol.downgrade", "warning")])]
)
def test_a_feature_that_older_versions_do_not_need_may_go_with_a_commit_that_names_it(
    dropped: str, found: list[tuple[str, str]], tmp_path: Path
) -> None:
    table = TableBuilder(protocol=with_features("domainMetadata"))
    info = table.info(1, "DROP FEATURE")["commitInfo"] | {"operationParameters": {"featureName": dropped}}
    table.commit({"commitInfo": info}, {"protocol": protocol(1, 2)}, with_info=False)

    assert found == found_in(table, tmp_path)


def test_a_feature_may_go_under_checkpoint_protection(tmp_path: Path) -> None:
    table = TableBuilder(protocol=with_features(for_readers=("vacuumProtocolCheck",)))
    table.configure({"delta.requireCheckpointProtectionBeforeVersion": "0"})
    table.commit({"protocol": with_features("checkpointProtection")})

    assert [("feature.supported-not-used", "info")] == found_in(table, tmp_path)


def test_a_feature_may_go_when_the_log_no_longer_has_the_versions_before(tmp_path: Path) -> None:
    table = TableBuilder(protocol=with_features(for_readers=("vacuumProtocolCheck",)))
    table.commit({"protocol": protocol(1, 2)})
    for version in (0, 1):
        table.drop(f"_delta_log/{version:020d}.json")

    assert [] == found_in(table, tmp_path)


def test_the_name_of_a_final_feature_replaces_that_of_its_preview(tmp_path: Path) -> None:
    table = TableBuilder(protocol=with_features(for_readers=("typeWidening-preview",)))
    table.configure({"delta.enableTypeWidening": "true"})
    table.commit({"protocol": with_features(for_readers=("typeWidening",))})

    assert ["protocol.preview-feature"] == [rule for rule, _ in found_in(table, tmp_path)]


def test_features_implied_by_version_numbers_may_be_unused(tmp_path: Path) -> None:
    table = TableBuilder(protocol=protocol(1, 4))
    implied = ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns")
    table.commit({"protocol": with_features(*implied)})

    assert [] == found_in(table, tmp_path)


def test_a_vacuum_of_the_release_that_checks_is_silent(tmp_path: Path) -> None:
    table = TableBuilder(protocol=with_features(for_readers=("vacuumProtocolCheck",)))
    version = table.commit(operation="VACUUM START")
    table.action(version, "commitInfo")["engineInfo"] = "Apache-Spark/3.5.0 Delta-Lake/3.2.0"

    assert [] == found_in(table, tmp_path)


def test_partitioning_may_change_when_all_files_go(tmp_path: Path) -> None:
    table = TableBuilder()
    table.commit(
        table.change_metadata(partitionColumns=[]),
        table.new_remove("b", 2, 4),
        table.new_remove("a", 3, 4),
        table.new_remove("b", 4, 4),
        operation="REPLACE TABLE",
    )

    assert [] == found_in(table, tmp_path)


def test_a_table_with_a_column_for_its_files_may_be_partitioned_by_the_others(tmp_path: Path) -> None:
    table = TableBuilder()
    table.metadata["partitionColumns"] = ["p", "name"]

    assert [] == found_in(table, tmp_path)


ODD_VALUES: tuple[Any, ...] = (None, True, 3, 2.5, "", "text", [], [None], ["a", 1], {}, {"a": None}, {"a": {"b": []}})


@pytest.mark.parametrize("value", ODD_VALUES, ids=repr)
@pytest.mark.parametrize("kind", ["protocol", "metaData"])
def test_values_of_any_type_break_no_check(kind: str, value: Any, tmp_path: Path) -> None:
    table = TableBuilder()
    for name in list(table.action(0, kind)):
        table.commit({kind: table.action(0, kind) | {name: value}}, with_info=False)
    table.commit(
        {kind: {"readerFeatures": value, "writerFeatures": value, "minReaderVersion": 3, "minWriterVersion": 7}}
    )
    table.commit(
        {
            "metaData": table.metadata
            | {"configuration": {"delta.appendOnly": value, "delta.logRetentionDuration": value}}
        }
    )
    table.derive(checkpoint=False, checksums=False, files=False)

    found = found_in(table, tmp_path, select=("validate.*", *OURS))

    assert "validate.check-crashed" not in {rule for rule, _ in found}


def test_every_feature_that_another_one_needs_or_excludes_is_known() -> None:
    named = {name for feature in FEATURES.values() for name in (*feature.requires, *feature.excludes)}

    assert named <= FEATURES.keys()


@pytest.mark.parametrize(
    ("name", "stable"),
    [
        ("typeWidening-preview", "typeWidening"),
        ("geospatial-dev", "geospatial"),
        ("timestampWithoutTimezone", "timestampNtz"),
        ("deletionVectors", "deletionVectors"),
        ("unknown-preview", "unknown-preview"),
    ],
)
def test_previews_and_aliases_have_the_name_of_their_feature(name: str, stable: str) -> None:
    assert stable == stable_name(name)


MANY = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors", "domainMetadata"]}
FEWER = {"readerFeatures": [], "writerFeatures": ["domainMetadata"]}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (protocol(3, 7, **MANY), protocol(3, 7, **FEWER), ("error", "deletionVectors")),
        (protocol(3, 7, **FEWER), protocol(3, 7, readerFeatures=[], writerFeatures=[]), ("warning", "domainMetadata")),
        (protocol(1, 3), protocol(1, 2), ("warning", "checkConstraints")),
        (
            protocol(3, 7, readerFeatures=["new"], writerFeatures=["new"]),
            protocol(3, 7, readerFeatures=[], writerFeatures=[]),
            ("error", "new"),
        ),
        (
            protocol(1, 7, writerFeatures=["new"]),
            protocol(1, 7, writerFeatures=[]),
            ("warning", "new"),
        ),
        (
            protocol(4, 7, **MANY),
            protocol(3, 7, **MANY),
            ("error", "reader 4, writer 7 with deletionVectors, domainMetadata"),
        ),
        (
            protocol(3, 8, **MANY),
            protocol(3, 7, **MANY),
            ("error", "reader 3, writer 8 with deletionVectors, domainMetadata"),
        ),
        (protocol(4, 7, **MANY), protocol(5, 7, **MANY), None),
        (protocol(4, 8, **MANY), protocol(4, 8, **MANY, tags=1), None),
        (protocol(3, 7, **FEWER), protocol(1, 7, writerFeatures=["domainMetadata"]), None),
        (protocol(1, 2), protocol(1, 7, writerFeatures=["appendOnly", "invariants"]), None),
    ],
)
def test_a_protocol_that_drops_something_is_reported_with_it(
    before: Action, after: Action, expected: tuple[str, str] | None, tmp_path: Path
) -> None:
    table = TableBuilder(protocol=before).derive(checkpoint=False, checksums=False)
    version = table.commit({"protocol": after}, operation="DROP FEATURE")

    storage = open_storage(str(table.write(tmp_path / "t")))
    found = validate_table(storage, EmbeddedEngine(), select=["protocol.downgrade"], now_ms=NOW_MS).findings

    text = "version {} drops {}, but older versions that may need it can still be read"
    assert ([(expected[0], text.format(version, expected[1]), 2)] if expected else []) == [
        (finding.severity.value, finding.message, finding.place.line) for finding in found
    ]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (protocol(1, 7, writerFeatures=["appendonly"]), ["writerFeatures has the unknown feature appendonly"]),
        (
            protocol(3, 7, readerFeatures=["new"], writerFeatures=["new"]),
            ["readerFeatures has the unknown feature new"],
        ),
        (
            protocol(1, 7, writerFeatures=["new", "new"]),
            [
                "writerFeatures has new and new, one feature listed more than once",
                "writerFeatures has the unknown feature new",
            ],
        ),
        (
            protocol(3, 7, readerFeatures=[], writerFeatures=["columnMapping"]),
            [
                (
                    "columnMapping is a reader feature, but reader version 3 does not require it; "
                    "deltalake, DuckDB, polars and chDB refuse it"
                )
            ],
        ),
    ],
)
def test_faults_of_feature_lists_are_described(action: Action, expected: list[str], tmp_path: Path) -> None:
    storage = open_storage(str(TableBuilder(protocol=action).write(tmp_path / "t")))
    found = validate_table(storage, EmbeddedEngine(), select=["protocol.*"], now_ms=NOW_MS).findings

    assert expected == sorted(finding.message for finding in found)


@pytest.mark.parametrize(
    ("engine", "operation", "expected"),
    [
        ("Apache-Spark/3.5.0 Delta-Lake/3.1.0", "VACUUM START", ["vacuumcheck.old-vacuum"]),
        ("Apache-Spark/3.5.0 Delta-Lake/3.1.0", "WRITE", []),
        ("Apache-Spark/3.5.0 Delta-Lake/3.2.0", "VACUUM START", []),
        (None, "VACUUM START", []),
    ],
)
def test_old_engines_may_write_and_may_not_vacuum(
    engine: str | None, operation: str, expected: list[str], tmp_path: Path
) -> None:
    table = TableBuilder(protocol=with_features(for_readers=("vacuumProtocolCheck",)))
    table.action(table.commit(operation=operation), "commitInfo")["engineInfo"] = engine

    assert expected == [rule for rule, _ in found_in(table, tmp_path, select=("vacuumcheck.*",))]


@pytest.mark.parametrize(
    ("features", "told"),
    [
        (("columnMapping",), "columnMapping, but no visible version uses it"),
        (("columnMapping", "deletionVectors"), "columnMapping, deletionVectors, but no visible version uses them"),
    ],
)
def test_unused_features_are_reported_together(features: tuple[str, ...], told: str, tmp_path: Path) -> None:
    table = TableBuilder(protocol=with_features(for_readers=features)).derive(checkpoint=False)
    storage = open_storage(str(table.write(tmp_path / "t")))
    found = validate_table(storage, EmbeddedEngine(), select=["feature.*"], now_ms=NOW_MS).findings

    assert [(f"the protocol lists {told}", 2)] == [(finding.message, finding.place.line) for finding in found]


@pytest.mark.parametrize("feature", ["inCommitTimestamp", "inCommitTimestamp-preview"])
def test_the_preview_of_in_commit_timestamps_asks_for_them_as_the_feature_does(feature: str, tmp_path: Path) -> None:
    """
    Delta 3.2 names the feature and its properties with -preview at the end.
    """
    preview = feature.removeprefix("inCommitTimestamp")
    table = TableBuilder(protocol=with_features(feature))
    table.configure({f"delta.enableInCommitTimestamps{preview}": "true"})

    found = [rule for rule, _ in found_in(table, tmp_path, select=(*OURS, "ict.missing"))]

    expected = ["protocol.preview-feature"] if preview else []
    assert expected == [rule for rule in found if rule != "ict.missing"]
    assert "ict.missing" in found


OTHER_ID = "0c5d2f44-7d1c-4e6c-8a9e-2b8a0b7f6d21"


def table_with_another_id(operation: object) -> TableBuilder:
    """A table whose newest commit, by this operation, gives it another id, and removes its files as a replacement."""
    table = TableBuilder()
    removes = [table.new_remove(partition, number, 4) for partition, number in (("b", 2), ("a", 3), ("b", 4))]
    version = table.commit(table.change_metadata(id=OTHER_ID), *removes)
    table.action(version, "commitInfo")["operation"] = operation
    return table


@pytest.mark.parametrize(
    "operation",
    [
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "create or replace table",
        "CLONE",
        "RESTORE",
    ],
)
def test_a_commit_that_states_that_it_replaces_the_table_may_change_its_id(operation: str, tmp_path: Path) -> None:
    table = table_with_another_id(operation)

    assert [] == found_in(table, tmp_path)


@pytest.mark.parametrize(
    "operation",
    ["WRITE", "CREATE TABLE", "CONVERT", "TRUNCATE", "REPLACE COLUMNS", "SET TBLPROPERTIES", "", None, 7, ["CLONE"]],
)
def test_another_id_by_any_other_operation_is_an_error(operation: object, tmp_path: Path) -> None:
    table = table_with_another_id(operation)

    assert ("metadata.id-changed", "error") in found_in(table, tmp_path)


def test_another_id_in_a_commit_without_provenance_is_an_error(tmp_path: Path) -> None:
    table = TableBuilder()
    table.commit(table.change_metadata(id=OTHER_ID), with_info=False)

    assert [("metadata.id-changed", "error")] == found_in(table, tmp_path)


def test_a_restore_behind_a_replacement_brings_the_first_id_back(tmp_path: Path) -> None:
    table = table_with_another_id("CREATE OR REPLACE TABLE AS SELECT")
    table.commit({"metaData": table.metadata}, operation="RESTORE")

    assert [] == found_in(table, tmp_path)


def test_the_id_after_a_replacement_may_not_change_silently(tmp_path: Path) -> None:
    table = table_with_another_id("REPLACE TABLE")
    table.commit({"metaData": table.metadata}, operation="WRITE")

    assert [("metadata.id-changed", "error")] == found_in(table, tmp_path)


@pytest.mark.parametrize(("operation", "rules"), [("REPLACE TABLE", []), ("WRITE", ["metadata.created-time"])])
def test_a_replaced_table_may_have_a_new_created_time(operation: str, rules: list[str], tmp_path: Path) -> None:
    table = TableBuilder()
    created_ms = table.metadata["createdTime"] + 60_000
    table.commit(table.change_metadata(createdTime=created_ms), operation=operation)

    assert rules == [rule for rule, _ in found_in(table, tmp_path)]


def test_a_replaced_table_still_needs_a_guid(tmp_path: Path) -> None:
    table = TableBuilder()
    table.commit(table.change_metadata(id="my-table"), operation="REPLACE TABLE")

    assert [("metadata.id-not-guid", "warning")] == found_in(table, tmp_path)


@pytest.mark.parametrize(("operation", "is_found"), [("REPLACE COLUMNS", True), ("REPLACE TABLE", False)])
def test_a_replacement_of_columns_leaves_the_older_files_live(operation: str, is_found: bool, tmp_path: Path) -> None:
    table = TableBuilder()
    fields = [field for field in DEFAULT_SCHEMA["fields"] if field["name"] != "name"]
    table.commit(table.change_metadata(schemaString=json.dumps(struct(*fields))), operation=operation)

    rules = [rule for rule, _ in found_in(table, tmp_path, select=("schema.*",))]

    assert is_found is ("schema.column-dropped-no-mapping" in rules)
