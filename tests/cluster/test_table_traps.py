"""Tables on which Spark's own scan would return wrong rows without an error. Each test fails without one guard."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import DataUnreadable, DeltacliError, ProtocolUnsupported, Refused, UsageError
from deltacli.spark import parquet_scan, plan_table, read_table
from deltacli.spark.parquet_scan import Values, file_keys
from tests.cluster.spark_rows import counts_of
from tests.spark.test_parquet_shapes import calls_of
from tests.support.actions import Action, Line, add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.row_counts import Rows, count_rows
from tests.support.rows import parquet_bytes, schema_of, table_of
from tests.support.small_vectors import inline, vector_file, vector_path

Change = Callable[[str, str], None]
_ODD_NAMES = (
    "a b.parquet",
    "p%20q.parquet",
    "ü.parquet",
    "h#x.parquet",
    "b[1].parquet",
    "c{1}.parquet",
    "`t`'.parquet",
)
"""Names on disk that a spelling, a glob or a quotation could change."""


EXTREMES: Mapping[str, tuple[str, ...]] = {
    "byte": ("-128", "127"),
    "long": (str(-(1 << 63)), str((1 << 63) - 1)),
    "float": ("NaN", "-Infinity", "3.4028235E38", "-0.0"),
    "double": ("NaN", "Infinity", "1.7976931348623157E308", "4.9E-324"),
    "decimal(38,0)": ("9" * 38, "-" + "9" * 38),
    "decimal(38,38)": ("0." + "9" * 38, "-0." + "9" * 38),
    "date": ("0001-01-01", "9999-12-31", "-0001-01-01", "+12026-01-01"),
    "timestamp": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "+12026-01-01 00:00:00"),
    "timestamp_ntz": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "+12026-01-01 00:00:00"),
    "string": ("\U0010ffff", "\x7f", "a" * 300, "%", "'"),
    "boolean": ("true", "false"),
}
"""Type -> partition values at the ends of its range, as the log has them."""


@pytest.mark.parametrize("kind", EXTREMES)
def test_no_internal_exception_leaves_the_package_for_extreme_values(kind: str, session: Any, tmp_path: Path) -> None:
    """
    Each value that our own scan reads is read; others are errors of deltacli.
    """
    place, counted = tmp_path / "t", Counter[str]()
    builder = TableBuilder().commit(
        protocol(3, 7, reader_features=["timestampNtz"], writer_features=["timestampNtz"]),
        metadata(partition_columns=["p"], schema_string=schema_string(field("id", "long"), field("p", kind))),
    )
    data = parquet_bytes(pa.table({"id": pa.array([1, 2])}))
    for number, value in enumerate(EXTREMES[kind]):
        builder.file(f"{number}.parquet", data)
        builder.commit(add(f"{number}.parquet", size=len(data), partition_values={"p": value}))
    builder.write(place)

    for version, value in enumerate(EXTREMES[kind], 1):
        for where in (None, "p IS NOT NULL", "id > 0 AND p = p"):
            try:
                expected: Any = open_table(place).snapshot(version=version).scan(where=where).to_arrow().num_rows
            except DeltacliError as fault:
                expected = fault.code
            try:
                frame = read_table(session, place, version=version, where=where)
                found: Any = len(frame.selectExpr("id", "string(p)").collect())
            except DeltacliError as fault:
                found = fault.code
            except Exception as fault:
                counted[type(fault).__name__] += 1
                raise
            assert expected == found, (value, where)

    assert {} == counted


def own_rows(uri: Path, **options: Any) -> Rows:  # Any: as `scan` takes them
    """The rows as our own scan reads them."""
    rows = open_table(uri).snapshot().scan(**options).to_arrow()
    return count_rows([rows], rows.schema.names)


def encoded(name: str) -> str:
    """A path as a log has it."""
    return name.replace("%", "%25").replace(" ", "%20").replace("#", "%23")


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:  # Any: JSON values
    """A field of a schemaString."""
    return {"name": name, "type": kind, "nullable": True, "metadata": more.pop("metadata", {}), **more}


def schema_string(*fields: dict[str, Any]) -> str:  # Any: JSON values
    return json.dumps({"type": "struct", "fields": list(fields)})


def mapped(name: str, kind: Any, number: int, physical: str) -> dict[str, Any]:  # Any: JSON values
    """A field under column mapping."""
    found = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return field(name, kind, metadata=found)


def built(
    place: Path,
    files: Mapping[str, pa.Table],
    schema: str,
    *,
    features: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    partition_columns: Sequence[str] = (),
    values: Mapping[str, Mapping[str, str | None]] | None = None,
    vectors: Mapping[str, Action] | None = None,
) -> Path:
    """Write a table of one version; the keys of `files` are names on disk."""
    lines: list[Line] = [
        protocol(3, 7, reader_features=features, writer_features=features),
        metadata(schema_string=schema, partition_columns=partition_columns, configuration=dict(configuration or {})),
    ]
    builder = TableBuilder()
    for name, rows in files.items():
        data = parquet_bytes(rows)
        builder.file(name, data)
        lines.append(
            add(
                encoded(name),
                size=len(data),
                partition_values=(values or {}).get(name),
                vector=(vectors or {}).get(name),
                stats=json.dumps({"numRecords": rows.num_rows}),
            )
        )
    return builder.commit(*lines).write(place)


def numbers(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


ID = schema_string(field("id", "long"))
MAPPING = {"delta.columnMapping.mode": "id"}


def with_ids(rows: pa.Table, **ids: int) -> pa.Table:
    """Rows whose fields have Parquet field ids."""
    fields = [each.with_metadata({"PARQUET:field_id": str(ids[each.name])}) for each in rows.schema]
    return rows.cast(pa.schema(fields))


# -- names and listings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _ODD_NAMES)
def test_names_of_files_are_text(name: str, session: Any, tmp_path: Path) -> None:
    root = built(tmp_path / "t", {name: numbers(1, 2)}, ID)

    plan = plan_table(session, root)

    assert 1 == plan.native_files
    assert own_rows(root) == counts_of(plan.dataframe())


def test_files_that_spark_skips_are_read(session: Any, tmp_path: Path) -> None:
    files = {"_x.parquet": numbers(1), ".x.parquet": numbers(2), "a:b.parquet": numbers(3), "plain.parquet": numbers(4)}
    root = built(tmp_path / "t", files, ID)

    plan = plan_table(session, root)

    assert (1, 3) == (plan.native_files, len(plan.own_files))
    assert own_rows(root) == counts_of(plan.dataframe())


def test_deleted_rows_stay_deleted_whatever_the_names(session: Any, tmp_path: Path) -> None:
    vectors: dict[str, Action] = {name: inline([0, 2]) for name in _ODD_NAMES}
    files = {name: numbers(*range(10 * number, 10 * number + 4)) for number, name in enumerate(_ODD_NAMES)}
    root = built(tmp_path / "t", files, ID, features=["deletionVectors"], vectors=vectors)

    plan = plan_table(session, root)

    assert len(files) == plan.native_files == plan.vectors
    assert own_rows(root) == counts_of(plan.dataframe())


def test_rows_of_a_vector_that_the_file_does_not_have_are_ignored(session: Any, tmp_path: Path) -> None:
    root = built(
        tmp_path / "t",
        {"a.parquet": numbers(1)},
        ID,
        features=["deletionVectors"],
        vectors={"a.parquet": inline([0, 7])},
    )

    assert 0 == read_table(session, root).count()


def test_paths_that_spark_spells_otherwise_are_refused(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = built(
        tmp_path / "t", {"a.parquet": numbers(1)}, ID, features=["deletionVectors"], vectors={"a.parquet": inline([0])}
    )
    monkeypatch.setattr(
        parquet_scan, "file_keys", lambda frame, files: file_keys(frame, [one._replace(place="x") for one in files])
    )

    with pytest.raises(Refused) as caught:
        read_table(session, root)

    assert "spark.spelling" == caught.value.code


def test_a_file_that_the_log_names_twice_is_read_twice(session: Any, tmp_path: Path) -> None:
    data = parquet_bytes(numbers(1, 2))
    root = (
        TableBuilder()
        .file("a.parquet", data)
        .commit(
            protocol(1, 2),
            metadata(schema_string=ID),
            add("a.parquet", size=len(data)),
            add((tmp_path / "t" / "a.parquet").as_uri(), size=len(data)),
        )
        .write(tmp_path / "t")
    )

    assert own_rows(root) == counts_of(read_table(session, root))


def many(place: Path, count: int = 40, **more: Any) -> Path:  # Any: as `built` takes it
    """A table of more files than Spark is given as paths."""
    return built(place, {f"f{number}.parquet": numbers(number) for number in range(count)}, ID, **more)


def test_files_beside_the_live_ones_are_never_opened(session: Any, tmp_path: Path) -> None:
    root = many(tmp_path / "t")
    for name in ("gar b#ä%ge.parquet", "it's.parquet", "sub/uncommitted.parquet"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"not Parquet")
    frame = read_table(session, root)
    before = counts_of(frame)

    (root / "arrived.parquet").write_bytes(parquet_bytes(numbers(99)))

    assert own_rows(root) == before == counts_of(frame)


def test_deleted_rows_stay_deleted_in_directories_of_many_files(session: Any, tmp_path: Path) -> None:
    vectors: dict[str, Action] = {f"f{number}.parquet": inline([0]) for number in range(35)}
    root = many(tmp_path / "t", 80, features=["deletionVectors"], vectors=vectors)

    frame = read_table(session, root)

    assert own_rows(root) == counts_of(frame)
    assert 45 == frame.count()


def test_files_of_more_deleted_rows_than_a_plan_sends_are_read_by_our_own_scan(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltacli.spark.parquet_scan.MOST_DELETED_ROWS", 3)
    vectors: dict[str, Action] = {name: inline([0, 1]) for name in ("a.parquet", "b.parquet")}
    files = {"a.parquet": numbers(1, 2, 3), "b.parquet": numbers(4, 5, 6)}
    root = built(tmp_path / "t", files, ID, features=["deletionVectors"], vectors=vectors)

    plan = plan_table(session, root)

    assert (1, 1) == (plan.native_files, len(plan.own_files))
    assert {(3,): 1, (6,): 1} == counts_of(plan.dataframe())


@pytest.mark.parametrize("count", [3, 40])
def test_a_missing_file_is_an_error(count: int, session: Any, setting: Change, tmp_path: Path) -> None:
    setting("spark.sql.files.ignoreMissingFiles", "true")
    root = many(tmp_path / "t", count)
    frame = read_table(session, root)
    (root / "f1.parquet").unlink()

    with pytest.raises(Exception, match=r"f1\.parquet|FILE_NOT_EXIST|PATH_NOT_FOUND"):
        counts_of(frame)
    with pytest.raises(DataUnreadable) as caught:
        read_table(session, root)

    assert "data.file-missing" == caught.value.code


def test_a_missing_file_is_found_without_footers(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.spark.table_plan.MOST_FOOTERS", 10)
    root = many(tmp_path / "t")
    (root / "f1.parquet").unlink()

    with pytest.raises(DataUnreadable) as caught:
        read_table(session, root)

    assert "data.file-missing" == caught.value.code


def test_a_missing_file_of_our_own_scan_is_found_while_planning(session: Any, tmp_path: Path) -> None:
    root = built(tmp_path / "t", {"_own.parquet": numbers(1)}, ID)
    (root / "_own.parquet").unlink()

    with pytest.raises(DataUnreadable) as caught:
        plan_table(session, root)

    assert "data.file-missing" == caught.value.code


# -- columns ----------------------------------------------------------------------------------------------------------


def test_ids_decide_where_names_are_swapped(session: Any, setting: Change, tmp_path: Path) -> None:
    setting("spark.sql.parquet.fieldId.read.enabled", "true")
    swapped = with_ids(pa.table({"a": pa.array([5], pa.int64()), "b": pa.array([6], pa.int64())}), a=2, b=1)
    schema = schema_string(mapped("a", "long", 1, "a"), mapped("b", "long", 2, "b"))
    root = built(tmp_path / "t", {"x.parquet": swapped}, schema, features=["columnMapping"], configuration=MAPPING)

    frame = read_table(session, root)

    assert own_rows(root) == counts_of(frame) == {(6, 5): 1}
    assert {(6, 5): 1} == counts_of(frame.where("b = 5"))
    assert {(6, 5): 1} == counts_of(read_table(session, root, where="b = 5"))


def test_files_without_ids_are_read_by_name(session: Any, tmp_path: Path) -> None:
    plain = pa.table({"p1": pa.array([1], pa.int64())})
    files = {"with.parquet": with_ids(plain.rename_columns(["other"]), other=1), "without.parquet": plain}
    root = built(
        tmp_path / "t",
        files,
        schema_string(mapped("a", "long", 1, "p1")),
        features=["columnMapping"],
        configuration=MAPPING,
    )

    assert own_rows(root) == counts_of(read_table(session, root)) == {(1,): 2}


@pytest.mark.parametrize("vectorised", ["true", "false"])
def test_narrow_integers_become_decimals(vectorised: str, session: Any, setting: Change, tmp_path: Path) -> None:
    setting("spark.sql.parquet.enableVectorizedReader", vectorised)
    changes = [{"fromType": "byte", "toType": "decimal(4,1)"}]
    schema = schema_string(field("n", "decimal(4,1)", metadata={"delta.typeChanges": changes}))
    old = pa.table({"n": pa.array([1, -7], pa.int8())})
    new = pa.table({"n": pa.array([None, 2], pa.decimal128(4, 1))})
    root = built(tmp_path / "t", {"old.parquet": old, "new.parquet": new}, schema, features=["typeWidening-preview"])

    plan = plan_table(session, root)

    assert 2 == plan.native_files
    assert own_rows(root) == counts_of(plan.dataframe())
    assert own_rows(root, where="n < 1.5") == counts_of(plan.dataframe().where("n < 1.5"))
    assert own_rows(root, where="n < 1.5") == counts_of(read_table(session, root, where="n < 1.5"))


def test_names_of_columns_are_text(session: Any, tmp_path: Path) -> None:
    names = ["a.b", "back`tick", "ü ö", "_metadata", "x'y", "a,b", "{c}"]
    rows = pa.table({name: pa.array([number, None], pa.int64()) for number, name in enumerate(names)})
    root = table_of({"f.parquet": parquet_bytes(rows)}, schema_of(rows), vectors={"f.parquet": inline([1])})

    frame = read_table(session, root.write(tmp_path / "t"))

    assert own_rows(tmp_path / "t") == counts_of(frame)
    assert names == frame.columns


def test_the_case_of_names_does_not_matter(session: Any, setting: Change, tmp_path: Path) -> None:
    setting("spark.sql.caseSensitive", "true")
    rows = pa.table({"ID": pa.array([1, 2], pa.int64())})
    root = built(tmp_path / "t", {"f.parquet": rows}, ID)

    assert own_rows(root) == counts_of(read_table(session, root)) == {(1,): 1, (2,): 1}


def test_two_columns_of_one_name_are_refused_by_name(session: Any, tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array([1], pa.int64()), "A": pa.array([2], pa.int64())})
    root = built(tmp_path / "t", {"f.parquet": rows}, schema_of(rows))

    with pytest.raises(UsageError, match="columns a and A"):
        read_table(session, root)


def test_missing_columns_are_null_even_with_defaults(session: Any, tmp_path: Path) -> None:
    default = {"CURRENT_DEFAULT": "7", "EXISTS_DEFAULT": "7"}
    nested = {"type": "struct", "fields": [field("x", "long"), field("y", "string")]}
    schema = schema_string(field("id", "long"), field("d", "integer", metadata=default), field("s", nested))
    kind = pa.struct([pa.field("x", pa.int64())])
    old = pa.table({"id": [1, 2], "s": pa.array([{"x": 1}, None], kind)})
    other = pa.table({"id": [3, 4], "s": pa.array([{"gone": 1}, None], pa.struct([pa.field("gone", pa.int64())]))})
    root = built(tmp_path / "t", {"a.parquet": old, "b.parquet": other}, schema)

    frame = read_table(session, root)

    assert own_rows(root) == counts_of(frame)
    assert own_rows(root, columns=["id"], where="s is not null") == counts_of(frame.where("s is not null").select("id"))
    assert {(None,): 2} == counts_of(frame.where("s is not null").select("s.y"))


# -- partition values -------------------------------------------------------------------------------------------------


def test_partition_values_come_from_the_log_alone(session: Any, tmp_path: Path) -> None:
    schema = schema_string(field("id", "long"), field("p", "string"))
    files = {"p=wrong/a.parquet": numbers(1), "p=right/b.parquet": numbers(2)}
    values = {"p=wrong/a.parquet": {"p": "true value"}, "p=right/b.parquet": {"p": "right"}}
    root = built(tmp_path / "t", files, schema, partition_columns=["p"], values=values)

    plan = plan_table(session, root)

    assert Values.LITERALS is plan.values
    assert own_rows(root) == counts_of(plan.dataframe())


def test_directories_that_agree_with_the_log_prune_files(session: Any, tmp_path: Path) -> None:
    schema = schema_string(field("id", "long"), field("p", "integer"), field("q", "string"))
    values = {"p=1/q=x y/a.parquet": {"p": "1", "q": "x y"}, "p=2/q=__HIVE_DEFAULT_PARTITION__/b.parquet": {"p": "2"}}
    root = built(
        tmp_path / "t",
        {name: numbers(number) for number, name in enumerate(values)},
        schema,
        partition_columns=["p", "q"],
        values={name: {"q": None, **each} for name, each in values.items()},
    )

    plan = plan_table(session, root)
    frame = plan.dataframe()

    assert Values.DIRECTORIES is plan.values
    assert own_rows(root) == counts_of(frame)
    assert "PartitionFilters: [isnotnull(p" in explained(frame.where("p = 1"))


def test_escapes_of_several_bytes_are_not_left_to_spark(session: Any, tmp_path: Path) -> None:
    name = "p=%C3%BC/a.parquet"  # Spark reads each escape as a character
    root = built(
        tmp_path / "t",
        {name: numbers(1)},
        schema_string(field("id", "long"), field("p", "string")),
        partition_columns=["p"],
        values={name: {"p": "ü"}},
    )

    assert own_rows(root) == counts_of(read_table(session, root)) == {(1, "ü"): 1}


@pytest.mark.parametrize("count", [3, 40])
def test_timestamps_as_partition_values_ignore_the_zone(
    count: int, session: Any, setting: Change, tmp_path: Path
) -> None:
    setting("spark.sql.session.timeZone", "Asia/Tokyo")
    schema = schema_string(field("id", "long"), field("t", "timestamp"), field("n", "timestamp_ntz"))
    texts = [f"2024-01-01 00:00:{number:02d}.000001" for number in range(count)]
    names = [f"t={text.replace(':', '%3A')}/f.parquet" for text in texts]
    root = built(
        tmp_path / "t",
        {name: numbers(number) for number, name in enumerate(names)},
        schema,
        features=["timestampNtz"],
        partition_columns=["t", "n"],
        values={name: {"t": text, "n": text} for name, text in zip(names, texts, strict=True)},
    )

    plan = plan_table(session, root)
    some = "t >= '2024-01-01 00:00:01.000001Z' and n < '2024-01-01 00:00:02.5'"

    assert (Values.LITERALS if count < 32 else Values.JOIN) is plan.values
    assert own_rows(root) == counts_of(plan.dataframe())
    assert own_rows(root, where=some) == counts_of(read_table(session, root, where=some))
    assert 2 == plan_table(session, root, where=some).files


@pytest.mark.parametrize("count", [3, 40])
def test_timestamps_as_partition_values_may_be_in_hours_that_a_zone_skips_or_repeats(
    count: int, session: Any, setting: Change, tmp_path: Path
) -> None:
    schema = schema_string(field("id", "long"), field("t", "timestamp"), field("n", "timestamp_ntz"))
    hours = ("2024-11-03 01:30", "2024-03-10 02:30", "2024-10-27 02:30", "2024-03-31 02:30")  # autumn, spring
    texts = [f"{hours[number % 4]}:{number:02d}" for number in range(count)]
    files = {f"f{number}.parquet": numbers(number) for number in range(count)}
    values: dict[str, dict[str, str | None]] = {
        name: {"t": text, "n": text} for name, text in zip(files, texts, strict=True)
    }
    root = built(tmp_path / "t", files, schema, features=["timestampNtz"], partition_columns=["t", "n"], values=values)

    for zone in ("America/New_York", "Europe/Berlin", "UTC"):
        setting("spark.sql.session.timeZone", zone)

        assert own_rows(root) == counts_of(read_table(session, root)), zone


def test_negative_zero_and_nan_as_partition_values_are_kept(session: Any, tmp_path: Path) -> None:
    texts = {"a.parquet": "0.0", "b.parquet": "-0.0", "c.parquet": "NaN", "d.parquet": "NaN"}
    schema = schema_string(field("id", "long"), field("x", "double"), field("f", "float"))
    root = built(
        tmp_path / "t",
        {name: numbers(number) for number, name in enumerate(texts)},
        schema,
        partition_columns=["x", "f"],
        values={name: {"x": text, "f": text} for name, text in texts.items()},
    )

    rows = read_table(session, root).toArrow().to_pylist()

    assert Values.LITERALS is plan_table(session, root).values
    assert {(0, "0.0", "0.0"), (1, "-0.0", "-0.0"), (2, "nan", "nan"), (3, "nan", "nan")} == {
        (row["id"], str(row["x"]), str(row["f"])) for row in rows
    }


def test_comments_and_metadata_of_columns_are_kept_and_those_of_engines_are_not(session: Any, tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [field("x", "long", metadata={"comment": "in a struct"})]}
    described = {
        "comment": "a number",
        "owner": {"team": "b", "size": 2},
        "parquet.field.id": 9,
        "CURRENT_DEFAULT": "7",
    }
    schema = schema_string(field("id", "long", metadata=described), field("s", inner, metadata={"comment": "a struct"}))
    rows = pa.table({"id": pa.array([1], pa.int64()), "s": pa.array([{"x": 1}], pa.struct([("x", pa.int64())]))})
    files = {"a.parquet": rows, "_own.parquet": rows, "lacks.parquet": rows.select(["s"])}
    root = built(tmp_path / "t", files, schema)
    wanted = {"comment": "a number", "owner": {"team": "b", "size": 2}}

    frame = read_table(session, root)
    plain = read_table(session, root, columns=["id"])

    assert own_rows(root) == counts_of(frame)
    assert wanted == frame.schema["id"].metadata == plain.schema["id"].metadata
    assert {"comment": "a struct"} == frame.schema["s"].metadata
    assert {"comment": "in a struct"} == frame.schema["s"].dataType["x"].metadata
    read = explained(frame.select("s.x").where("s.x > 3"))
    assert "ReadSchema: struct<s:struct<x:bigint>" in read  # Spark 4.0 reads the number of the row, too


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, value",
    [
        ("spark.sql.files.ignoreCorruptFiles", "true"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.int96RebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.inferTimestampNTZ.enabled", "false"),
        ("spark.sql.parquet.mergeSchema", "true"),
        ("spark.sql.parquet.int96TimestampConversion", "true"),
        ("spark.sql.sources.useV1SourceList", ""),
        ("spark.sql.session.timeZone", "America/Los_Angeles"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.sources.partitionColumnTypeInference.enabled", "false"),
        ("spark.databricks.delta.optimizeWrite.enabled", "true"),
    ],
)
def test_settings_do_not_change_rows(name: str, value: str, session: Any, setting: Change, tmp_path: Path) -> None:
    setting("spark.sql.session.timeZone", "Asia/Tokyo")
    setting(name, value)
    root = built_with_times(tmp_path / "t")

    assert own_rows(root) == counts_of(read_table(session, root))


def built_with_times(place: Path) -> Path:
    """A table with INT96, old dates and timestamps without a zone, without marks of the writer."""
    schema = schema_string(field("i", "timestamp"), field("n", "timestamp_ntz"), field("d", "date"), field("p", "date"))
    micros = pa.array([-62_000_000_000_000_000, 1_700_000_000_000_000], pa.int64())
    rows = pa.table(
        {
            "i": micros.cast(pa.timestamp("us")),
            "n": micros.cast(pa.timestamp("us")),
            "d": pa.array([-600_000, 1], pa.int32()).cast(pa.date32()),
        }
    )
    data = parquet_bytes(rows.select(["i"]), use_deprecated_int96_timestamps=True)
    other = parquet_bytes(rows.select(["n", "d"]))
    features = ["timestampNtz"]
    lines: list[Line] = [
        protocol(3, 7, reader_features=features, writer_features=features),
        metadata(schema_string=schema, partition_columns=["p"]),
        add("p=2024-01-02/a.parquet", size=len(data), partition_values={"p": "2024-01-02"}),
        add("p=2024-01-03/b.parquet", size=len(other), partition_values={"p": "2024-01-03"}),
    ]
    builder = TableBuilder().file("p=2024-01-02/a.parquet", data).file("p=2024-01-03/b.parquet", other)
    return builder.commit(*lines).write(place)


def test_a_damaged_file_is_an_error_even_where_spark_ignores_them(
    session: Any, setting: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting("spark.sql.files.ignoreCorruptFiles", "true")
    monkeypatch.setattr("deltacli.spark.table_plan.MOST_FOOTERS", 10)
    root = many(tmp_path / "t")
    (root / "f1.parquet").write_bytes(b"not Parquet")

    with pytest.raises(Exception, match=r"f1\.parquet"):
        counts_of(read_table(session, root))


# -- the plan ---------------------------------------------------------------------------------------------------------


def explained(frame: Any) -> str:  # Any: a DataFrame
    """The physical plan."""
    text: str = frame._explain_string() if hasattr(frame, "_explain_string") else ""
    if not text:
        text = frame._sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "simple")
    return text


def test_columns_and_filters_reach_the_scan(session: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "a": ["x"] * 100, "b": ["y"] * 100})
    files = {"f.parquet": rows, "g.parquet": rows}
    root = built(
        tmp_path / "t", files, schema_of(rows), features=["deletionVectors"], vectors={"g.parquet": inline([1])}
    )

    plan = explained(read_table(session, root).where("id > 97").select("id"))
    ours = explained(read_table(session, root, columns=["id"], where="id > 97"))

    for text in (plan, ours):
        assert 2 == text.count("ReadSchema: struct<id:bigint")
        assert 2 == text.count("GreaterThan")
        assert "a:string" not in text


def test_files_are_pruned_on_the_driver(session: Any, tmp_path: Path) -> None:
    lines: list[Line] = [protocol(1, 2), metadata(schema_string=ID)]
    builder = TableBuilder()
    for number in range(3):
        data = parquet_bytes(numbers(number))
        stats = {"numRecords": 1, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}}
        builder.file(f"f{number}.parquet", data)
        lines.append(add(f"f{number}.parquet", size=len(data), stats=json.dumps(stats)))
    root = builder.commit(*lines).write(tmp_path / "t")

    plan = plan_table(session, root, where="id = 1")

    assert (1, 0, 2) == (plan.files, plan.pruned_by_partition, plan.pruned_by_statistics)
    assert {(1,): 1} == counts_of(plan.dataframe())
    assert "files    1 of 3" in repr(plan)
    assert "<td>1 of 3" in plan._repr_html_()


def test_vectors_in_files_are_read(session: Any, tmp_path: Path) -> None:
    vectors = vector_file([[0], [1, 2]])
    name = uuid.UUID(int=7)
    files = {"a.parquet": numbers(1, 2), "b.parquet": numbers(3, 4, 5), "c.parquet": numbers(6)}
    root = built(
        tmp_path / "t",
        files,
        ID,
        features=["deletionVectors"],
        vectors={"a.parquet": vectors.relative(0, name), "b.parquet": vectors.relative(1, name)},
    )
    (root / vector_path(name)).write_bytes(vectors.data)

    assert own_rows(root) == counts_of(read_table(session, root)) == {(2,): 1, (3,): 1, (6,): 1}


def test_an_unknown_reader_feature_is_refused(session: Any, tmp_path: Path) -> None:
    root = built(tmp_path / "t", {"a.parquet": numbers(1)}, ID, features=["unheardOf"])

    with pytest.raises(ProtocolUnsupported):
        read_table(session, root)


def test_a_frame_of_many_columns_is_made_in_few_calls(session: Any, tmp_path: Path) -> None:
    calls = []
    for count in (50, 150):
        rows = pa.table({f"c{number}": pa.array([number], pa.int64()) for number in range(count)})
        plan = plan_table(session, built(tmp_path / f"{count}", {"f.parquet": rows}, schema_of(rows)))
        calls.append(calls_of(plan.dataframe))

    assert 100 * 200 > calls[1] - calls[0]
