"""`explain` on the command line: every form says the same, and what is not known is said to be unknown."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.operations.explain import beginnings, states
from tests.cli.support import Result, deltacli
from tests.docs.test_schemas import faults, line_faults
from tests.support.actions import add, commit_info, domain, metadata, protocol
from tests.support.builder import TableBuilder

Json = dict[str, Any]  # Any: JSON values


@pytest.fixture
def home(sample: Path, tmp_path: Path) -> Path:
    shutil.copytree(sample, tmp_path / "tbl")
    return tmp_path


def explain(home: Path, *arguments: str, table: str = "./tbl") -> Result:
    return deltacli("explain", table, *arguments, cwd=home)


def document(home: Path, *arguments: str, table: str = "./tbl") -> Json:
    found = explain(home, *arguments, "--json", table=table)
    assert found.code == 0, found.err
    parsed: Json = json.loads(found.out)
    assert not faults(parsed, "deltacli.explain")
    return parsed


def column(name: str, kind: object) -> Json:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def clients(found: Json) -> dict[str, Json]:
    return {one["name"]: one for one in found["clients"]}


def test_every_form_tells_the_same_of_each_client(home: Path) -> None:
    open_table(home / "tbl").add_features(["deletionVectors", "rowTracking"])
    whole = document(home)
    line = json.loads(explain(home, "--format", "ndjson").out.splitlines()[0])
    rows = explain(home, "--format", "csv").out.splitlines()
    markdown = explain(home, "--format", "markdown").out

    assert not line_faults(line)
    assert line["clients"] == whole["clients"]
    assert len(rows) == 1 + len(whole["clients"])
    found = clients(whole)["deltalake"]
    assert (found["reads"], found["writes"]) == (True, False)
    newest = open_table(home / "tbl").snapshot().version
    assert {one["feature"]: one["since"] for one in found["blockers"]} == {
        "domainMetadata": newest,
        "rowTracking": newest,
    }
    assert f"rowTracking since version {newest}, stops writes" in markdown
    assert "domainMetadata cannot be dropped: rowTracking requires it" in explain(home).out


def test_a_supposed_change_is_not_made(home: Path) -> None:
    before = open_table(home / "tbl").snapshot().version

    added = clients(document(home, "--if", "add=columnMapping"))
    widened = clients(document(home, "--if", "widen=trip:decimal(20,0)"))

    assert [added["duckdb"][name] for name in ("readsNow", "writesNow", "reads", "writes")] == [True, None, True, False]
    assert (widened["deltalake"]["reads"], widened["deltalake"]["readsNow"]) == (False, True)
    assert before == open_table(home / "tbl").snapshot().version


def test_a_client_that_writes_no_tables_loses_no_writing(home: Path) -> None:
    found = document(home, "--if", "add=columnMapping", "--client", "delta-sharing")["clients"][0]
    mapped = deltacli("alter", "./tbl", "mapping", "name", "--upgrade-protocol", "--dry-run", cwd=home).out
    lost = explain(home, "--if", "add=variantType", "--client", "delta-sharing").out

    assert [found[name] for name in ("reads", "writes", "blockers", "unknown")] == [True, False, [], []]
    assert re.search(rf"^{found['name']} +yes +never +{found['version']} ", mapped, re.MULTILINE)
    assert "variantType" in lost
    assert "stops" not in lost


def test_a_drop_leaves_the_protection_of_checkpoints_in_the_protocol(home: Path) -> None:
    open_table(home / "tbl").add_features(["deletionVectors"])

    found = document(home, "--if", "drop=deletionVectors", "--client", "deltalake")

    assert "checkpointProtection" in found["features"]
    assert (found["clients"][0]["reads"], found["clients"][0]["writes"]) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--client", "duckbd"), "did you mean duckdb?"),
        (("--client", "duckdb=x"), "expected  duckdb=1.2.3"),
        (("--if", "add=deletionVector"), "did you mean deletionVectors?"),
        (("--if", "drop=columnMaping"), "did you mean columnMapping?"),
        (("--if", "rename=a:b"), "add=FEATURE, drop=FEATURE or widen=COLUMN:TYPE"),
        (("--if", "widen=nothing:long"), "nothing"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(arguments: tuple[str, ...], said: str, home: Path) -> None:
    if "columnMaping" in arguments[1]:
        open_table(home / "tbl").add_features(["columnMapping"])
    found = explain(home, *arguments)

    assert found.code == 2
    assert said in found.err


def test_a_change_that_cannot_be_made_is_refused_without_a_word_about_changes(home: Path) -> None:
    found = explain(home, "--if", "widen=trip:smallint")

    assert (4, True) == (found.code, "tbl: trip cannot become short" in found.err)


def test_what_was_not_measured_is_null(home: Path) -> None:
    found = document(home, "--client", "deltalake=1.0", "--client", "trino=470", "--client", "spark=2.3")

    assert [(one["reads"], one["measuredOn"]) for one in found["clients"][:2]] == [(None, None)] * 2
    assert found["clients"][2]["reads"] is True


def test_a_feature_that_nobody_knows_is_unknown_and_readers_of_it_too(tmp_path: Path) -> None:
    features = ["futureFeature"]
    TableBuilder().commit(protocol(1, 2), metadata()).commit(
        protocol(3, 7, reader_features=features, writer_features=features), add("a")
    ).write(tmp_path / "tbl")

    found = document(tmp_path)

    assert found["unknownFeatures"] == ["futureFeature"]
    assert {one["reads"] for one in found["clients"]} == {None}
    assert all("futureFeature" in one["unknown"] for one in found["clients"])


def test_a_feature_that_nobody_knows_is_found_where_the_log_begins_later(tmp_path: Path) -> None:
    new = protocol(3, 7, reader_features=["futureFeature"], writer_features=["futureFeature"])
    builder = TableBuilder().commit(new, metadata(), domain("a.b")).commit(add("a"))
    builder.checkpoint()
    del builder.files[f"_delta_log/{0:020d}.json"]
    builder.write(tmp_path / "tbl")

    found = document(tmp_path)

    assert (1, ["futureFeature"]) == (found["version"], found["unknownFeatures"])
    assert {one["reads"] for one in found["clients"]} == {None}


@pytest.mark.parametrize("reader", [1, 3])
def test_an_unknown_feature_that_is_for_writers_only_stops_no_reader(tmp_path: Path, reader: int) -> None:
    lists: dict[str, list[str]] = {"writer_features": ["futureFeature"]}
    lists |= {"reader_features": []} if reader == 3 else {}
    TableBuilder().commit(protocol(reader, 7, **lists), metadata(), add("a")).write(tmp_path / "tbl")

    found = document(tmp_path)

    assert found["unknownFeatures"] == ["futureFeature"]
    assert {one["reads"] for one in found["clients"]} == {True}
    writers = [one for one in found["clients"] if one["name"] != "delta-sharing"]
    assert {(one["writes"], *one["unknown"]) for one in writers} == {(None, "futureFeature")}


@pytest.mark.parametrize(("reader", "writer", "wrong"), [(99, 7, "reader version 99"), (1, 99, "writer version 99")])
def test_no_client_is_said_to_support_a_version_that_no_specification_has(
    reader: int, writer: int, wrong: str, tmp_path: Path
) -> None:
    TableBuilder().commit(protocol(reader, writer), metadata()).commit(add("a")).write(tmp_path / "tbl")

    found = document(tmp_path)

    assert 1 == found["version"]
    of_measured = {(one["reads"], one["writes"]) for one in found["clients"] if one["measuredOn"]}
    assert {(None, None), (None, False)} == of_measured
    assert {None, False} == {one["writes"] for one in found["clients"]}
    assert f"unknown   no specification has {wrong}" in explain(tmp_path).out


def test_a_feature_that_cannot_be_dropped_is_no_refusal(tmp_path: Path) -> None:
    ids = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c1"}
    field = {"name": "a b", "type": "long", "nullable": True, "metadata": ids}
    schema = json.dumps({"type": "struct", "fields": [field]})
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    TableBuilder().commit(protocol(2, 5), metadata(configuration=mapped, schema_string=schema)).write(tmp_path / "tbl")

    why = [one["why"] for one in document(tmp_path)["waysOut"] if one["feature"] == "columnMapping"]

    assert 1 == len(why)
    assert why[0].startswith("column mapping cannot be removed: ")


def test_a_trait_begins_at_its_version_and_unknown_where_the_log_begins_later(tmp_path: Path) -> None:
    lists = {"reader_features": ["deletionVectors"], "writer_features": ["deletionVectors"]}
    builder = (
        TableBuilder()
        .commit(protocol(1, 2), metadata())
        .commit(protocol(3, 7, **lists))
        .commit(protocol(1, 2))
        .commit(add("a"))
        .commit(protocol(3, 7, **lists))
        .commit(add("b"))
    )
    table = open_table(builder.write(tmp_path / "tbl"))
    assert beginnings(states(table), ["deletionVectors"]) == {"deletionVectors": 4}
    table.checkpoint(version=5)
    for version in range(6):
        (tmp_path / f"tbl/_delta_log/{version:020}.json").unlink()

    assert beginnings(states(open_table(tmp_path / "tbl")), ["deletionVectors"]) == {"deletionVectors": None}


def test_of_a_log_with_a_gap_is_said_what_can_be_said(home: Path) -> None:
    newest = open_table(home / "tbl").snapshot().version
    (home / "tbl/_delta_log" / f"{newest - 1:020}.json").unlink()
    commands = {"explain": ["explain", "./tbl"], "doctor": ["doctor", "table", "./tbl"], "diff": ["diff", "./tbl", "3"]}

    found = {name: deltacli(*words, "--json", cwd=home) for name, words in commands.items()}
    text = {name: deltacli(*words, cwd=home) for name, words in commands.items()}

    of = {name: one.document for name, one in found.items()}
    assert [False] * 3 == [one["complete"] for one in of.values()]
    assert not faults(of["explain"], "deltacli.explain")
    assert not faults(of["diff"], "deltacli.diff")
    assert "log.gap" in of["doctor"]["log"]["problems"]
    versions = of["explain"]["version"], of["doctor"]["snapshotVersion"], of["diff"]["to"]["version"]
    assert (newest - 2,) * 3 == versions
    assert [] == of["doctor"]["advice"]
    files = open_table(home / "tbl").snapshot(version=newest - 2).files()
    assert of["doctor"]["files"]["count"] == sum(batch.num_rows for batch in files)
    for name in commands:
        assert (3, "log.gap", 3) == (found[name].code, json.loads(found[name].err)["code"], text[name].code)
        assert f"commit {newest - 1} is missing" in text[name].err
    assert "incomplete  commits are missing" in text["explain"].out
    assert "none that is certain" in text["doctor"].out


def test_a_gap_is_named_beside_a_feature_that_nobody_knows(tmp_path: Path) -> None:
    builder = TableBuilder().commit(protocol(3, 7, reader_features=["x"], writer_features=["x"]), metadata())
    builder.commit(add("a")).commit(add("b"))
    del builder.files[f"_delta_log/{1:020d}.json"]
    builder.write(tmp_path / "tbl")

    done = explain(tmp_path, "--json")

    assert (3, "log.gap") == (done.code, json.loads(done.err)["code"])
    assert (0, ["x"], False) == tuple(done.document[name] for name in ("version", "unknownFeatures", "complete"))


@pytest.mark.parametrize(
    ("columns", "known", "trait"),
    [
        ([column("a", "void")], {"duckdb": False, "deltalake": True}, "type.void"),
        ([column("a", "interval year to month")], {"duckdb": False, "deltalake": True}, "type.interval"),
        ([column("a", "unheard_of")], {}, "type.unlisted"),
        ([column("a", {"type": "array", "elementType": "hugeint", "containsNull": True})], {}, "type.unlisted"),
        ([column("a", "long"), column("A", "long")], {"duckdb": False}, "columns.letter-case"),
        (
            [column("s", {"type": "struct", "fields": [column("a", "long"), column("A", "long")]})],
            {},
            "columns.letter-case",
        ),
        ([column("a", "geometry(OGC:CRS84)")], {"duckdb": None, "trino": False}, "geospatial"),
    ],
)
def test_what_the_protocol_does_not_list_is_unknown_unless_it_was_measured(
    columns: list[object], known: dict[str, bool | None], trait: str, tmp_path: Path
) -> None:
    schema = json.dumps({"type": "struct", "fields": columns})
    TableBuilder().commit(protocol(), metadata(schema_string=schema), add("a")).write(tmp_path / "tbl")

    found = {one["name"]: one for one in document(tmp_path)["clients"]}

    assert known == {name: one["reads"] for name, one in found.items() if name in known}
    documented = [found[name] for name in ("databricks", "trino") if name not in known]
    assert {None} == {one["reads"] for one in documented}
    assert all(trait in one["unknown"] for one in documented)


@pytest.mark.parametrize(
    ("text", "data_type", "is_odd"),
    [
        ("1.5", "decimal(5,2)", True),
        ("1.50", "decimal(5,2)", False),
        ("2026-01-02T03:04:05", "timestamp", True),
        ("2026-01-02 03:04:05", "timestamp", False),
        ("1.5f", "double", True),
        ("1.5", "string", False),
    ],
)
def test_a_partition_value_that_kernels_refuse_stops_those_that_were_measured(
    text: str, data_type: str, is_odd: bool, tmp_path: Path
) -> None:
    schema = json.dumps({"type": "struct", "fields": [column("a", "long"), column("p", data_type)]})
    meta = metadata(schema_string=schema, partition_columns=["p"])
    TableBuilder().commit(protocol(), meta, add("a", partition_values={"p": text})).write(tmp_path / "tbl")

    found = {one["name"]: one for one in document(tmp_path)["clients"]}

    assert (not is_odd) == found["deltalake"]["reads"] == found["duckdb"]["reads"]
    assert (None if is_odd else True) == found["trino"]["reads"]
    assert is_odd == ("values.kernel-unreadable" in found["trino"]["unknown"])
    assert found["spark"]["reads"] is True  # its own parser reads them


@pytest.mark.parametrize(
    ("text", "is_written"),
    [
        ("id > 0", True),
        ("`id` > 0", True),
        ("name <> 'id'", True),
        ('"other" <> name', True),
        ('"id" > 0', None),
        ('"ID" > 0 AND name = "x"', None),
    ],
)
def test_a_column_in_double_quotes_is_not_known_to_be_written(
    text: str, is_written: bool | None, tmp_path: Path
) -> None:
    schema = json.dumps({"type": "struct", "fields": [column("id", "long"), column("name", "string")]})
    meta = metadata(schema_string=schema, configuration={"delta.constraints.c": text})
    TableBuilder().commit(protocol(1, 3), meta, add("a")).write(tmp_path / "tbl")

    found = {one["name"]: one for one in document(tmp_path)["clients"]}

    assert (True, is_written is True) == (found["spark"]["reads"], found["spark"]["writes"])  # it was measured
    assert (True, is_written) == (found["trino"]["reads"], found["trino"]["writes"])
    assert (True, True) == (found["deltalake"]["reads"], found["deltalake"]["writes"])


def partitioned(place: Path, *columns: Json, partitions: list[str], **configuration: str) -> Path:
    """Write a table with some partition columns and without files, and return the directory that it is in."""
    schema = json.dumps({"type": "struct", "fields": columns})
    versions = protocol(2, 5) if configuration else protocol()
    meta = metadata(schema_string=schema, partition_columns=partitions, configuration=configuration)
    TableBuilder().commit(versions, meta).write(place / "tbl")
    return place


@pytest.mark.parametrize(
    ("data_type", "client", "expected"),
    [
        ("decimal(5,2)", "deltalake", None),
        ("decimal(38,2)", "deltalake", None),
        ("decimal(5,2)", "polars", None),
        ("decimal(5,2)", "chdb", None),
        ("decimal(5,2)", "spark", True),
        ("string", "deltalake", True),
        ("string", "duckdb", None),
        ("integer", "duckdb", None),
        ("timestamp", "duckdb", False),
        ("timestamp", "deltalake", True),
        ("binary", "deltalake", False),
        ("binary", "polars", False),
        ("binary", "duckdb", None),
        ("binary", "spark", True),
        ("binary", "trino", None),
    ],
)
def test_whether_partition_values_are_written_rightly_depends_on_their_type(
    data_type: str, client: str, expected: bool | None, tmp_path: Path
) -> None:
    home = partitioned(tmp_path, column("a", "long"), column("p", data_type), partitions=["p"])

    found = document(home, "--client", client)["clients"][0]

    assert expected == found["writes"]


def test_where_access_depends_on_the_data_each_form_says_why(tmp_path: Path) -> None:
    home = partitioned(tmp_path, column("a", "long"), column("p", "decimal(5,2)"), partitions=["p"])

    texts = [explain(home, "--client", "deltalake", "--format", form).out for form in ("csv", "markdown")]
    notes = document(home, "--client", "deltalake")["clients"][0]["notes"]

    (reason,) = (note for note in notes if "-1.50" in note)
    for text in texts:
        assert f"depends on the data: {reason}" in text


def test_spark_reads_a_managed_table_through_its_catalog_only(tmp_path: Path) -> None:
    reader = ["catalogManaged"]
    features = protocol(3, 7, reader_features=reader, writer_features=[*reader, "inCommitTimestamp"])
    managed = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    info = commit_info("WRITE", inCommitTimestamp=1, txnId="1")
    root = TableBuilder().commit(info, features, managed).write(tmp_path / "t")

    explained = open_table(root).explain(clients=["spark"])
    shown = deltacli("explain", str(root), "--client", "spark").out

    access = explained.client("spark").access
    assert (None, None) == (access.reads, access.writes)
    assert "Unity Catalog" in shown
    assert "depends on the data" not in shown


def test_a_table_without_partitions_says_nothing_of_them(tmp_path: Path) -> None:
    home = partitioned(tmp_path, column("a", "long"), column("b", "binary"), partitions=[])

    found = clients(document(home))

    assert {True} == {found[name]["writes"] for name in ("deltalake", "duckdb", "polars", "chdb", "spark")}


def mapped(name: str, number: int, physical: str, data_type: str = "string") -> Json:
    field = column(name, data_type)
    field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return field


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize(
    ("columns", "partitions", "is_read"),
    [
        ([mapped("a", 1, "col-a"), mapped("p", 2, "col-p")], ["p"], False),
        ([mapped("a", 1, "col-a"), mapped("p", 2, "p")], ["p"], False),
        ([mapped("a", 1, "a"), mapped("p", 2, "col-p")], ["p"], True),
        ([mapped("a", 1, "a"), mapped("p", 2, "p")], ["p"], True),
        ([mapped("p", 1, "col-p"), mapped("a", 2, "col-a")], ["p"], True),
        ([mapped("p", 1, "col-p"), mapped("q", 2, "col-q"), mapped("a", 3, "col-a")], ["p", "q"], True),
        ([mapped("p", 1, "col-p"), mapped("a", 2, "col-a"), mapped("q", 3, "q")], ["p", "q"], False),
        ([mapped("a", 1, "col-a"), mapped("b", 2, "b"), mapped("p", 3, "col-p")], ["p"], True),
        ([mapped("a", 1, "a"), mapped("b", 2, "col-b"), mapped("p", 3, "col-p")], ["p"], False),
    ],
)
def test_duckdb_reads_null_behind_a_column_with_another_physical_name(
    mode: str, columns: list[Json], partitions: list[str], is_read: bool, tmp_path: Path
) -> None:
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "3"}
    home = partitioned(tmp_path, *columns, partitions=partitions, **configuration)

    found = document(home, "--client", "duckdb")["clients"][0]

    assert is_read == found["reads"]
    assert (not is_read) == (f"columnMapping.by-{mode}-partition" in {one["trait"] for one in found["blockers"]})


@pytest.mark.parametrize(
    "product",
    [
        *("fabric", "Fabric=1.3", "athena", "amazon-athena", "snowflake", "BigQuery", "big_query", "starrocks"),
        *("redshift", "redshift-spectrum", "synapse", "azure synapse", "onelake", "snowpark", "presto", "flink"),
    ],
)
def test_a_product_without_facts_is_not_another_one(product: str, home: Path) -> None:
    result = explain(home, "--client", product, "--json")

    name = product.partition("=")[0]
    assert (2, "usage.client") == (result.code, result.error["code"])
    assert f"no facts about {name}" == result.error["message"]
    assert "deltacli explain ./tbl --json" == result.error["hint"]
    assert "databricks" in result.error["details"]["known"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sparc", "spark"),
        ("Databrick", "databricks"),
        ("dukcdb", "duckdb"),
        ("deltars", "deltalake"),
        ("trno", "trino"),
    ],
)
def test_a_misspelled_client_is_suggested(typed: str, meant: str, home: Path) -> None:
    result = explain(home, "--client", typed, "--json")

    assert result.error["message"].endswith(f"did you mean {meant}?")
    assert f"deltacli explain ./tbl --client {meant}" in result.error["hint"]


@pytest.mark.parametrize("typed", ["", "x", "fab", "brick", "oracle", "postgres", "é", "a" * 5_000])
def test_what_is_like_no_client_has_no_suggestion(typed: str, home: Path) -> None:
    result = explain(home, "--client", typed, "--json")

    assert (2, False) == (result.code, "did you mean" in result.error["message"])
