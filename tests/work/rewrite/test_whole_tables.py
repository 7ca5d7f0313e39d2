"""More of what goes wrong when tables are rewritten: names and ids of columns, row ids, partition columns, limits of
memory and size, and files that only their content shows to be impossible to copy.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import DataUnreadable, PartlyDone, Unreadable
from deltacli.rules.framework.base import Level
from deltacli.work.rewrite.file_writing import choose_write_batch_rows
from tests.support.actions import Line, add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.optimizing import live_paths
from tests.support.rewriting import rewrite_at
from tests.support.variants import encode, metadata_of
from tests.work.rewrite.test_traps import NOT_EXACT, array, column, one, parquet, rows_of, struct, table

ID, NAME, NESTED = (f"delta.columnMapping.{name}" for name in ("id", "physicalName", "nested.ids"))


def mapped(name: str, kind: Any, number: int, physical: str, **nested: int) -> dict[str, Any]:
    ids = {f"{physical}.{part}": one for part, one in nested.items()}
    about: dict[str, Any] = {ID: number, NAME: physical, **({NESTED: ids} if ids else {})}
    return column(name, kind) | {"metadata": about}


def with_ids(*fields: tuple[str, int, Any]) -> bytes:
    """A file with columns of these names and ids."""
    schema = pa.schema([pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(at)}) for name, at, _ in fields])
    return parquet(pa.table([pa.array(values, pa.int64()) for *_, values in fields], schema=schema))


def built(
    place: Path,
    columns: Sequence[dict[str, Any]],
    files: dict[str, bytes],
    *features: str,
    partition: Sequence[str] = (),
    properties: dict[str, str] | None = None,
    **fields: Any,
) -> Table:
    """A table of files; `fields` are in each add."""
    builder, readers = TableBuilder(), [name for name in features if name in ("columnMapping", "variantType")]
    lines: list[Line] = [
        protocol(3, 7, reader_features=readers, writer_features=list(features)),
        metadata(
            schema_string=json.dumps(struct(*columns)), configuration=properties or {}, partition_columns=partition
        ),
    ]
    first_id = fields.pop("first_row_id", None)
    for number, (name, data) in enumerate(files.items()):
        builder.file(name, data)
        values = dict.fromkeys(partition, "log")
        ids = {} if first_id is None else {"baseRowId": first_id + 10 * number}
        lines.append(add(name, size=len(data), partition_values=values, **fields, **ids))
    if first_id is not None:
        mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":99}', "removed": False}
        lines.append({"domainMetadata": mark})
    return open_table(str(builder.commit(*lines).write(place)))


def stored(found: Table) -> pq.ParquetFile:
    """The only live file."""
    (path,) = live_paths(found)
    return pq.ParquetFile(found.storage.open(path))


def optimized(found: Table, **how: Any) -> Any:
    before = rows_of(found.snapshot())
    done = found.optimize(verify=True, **how)
    assert before == rows_of(found.snapshot())
    assert found.optimize(**how).plan.is_noop
    return done


def test_field_ids_of_columns_and_of_what_is_within_them_are_written(tmp_path: Path) -> None:
    texts_to_longs = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    columns = [
        mapped("a", array("long"), 1, "col-a", element=4),
        mapped("m", texts_to_longs, 2, "col-m", key=5, value=6),
        mapped("s", struct(mapped("x", "long", 7, "col-x")), 3, "col-s"),
    ]
    values = pa.table(
        {
            "col-a": pa.array([[1], None], pa.list_(pa.int64())),
            "col-m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "col-s": pa.array([{"col-x": 1}, None], pa.struct({"col-x": pa.int64()})),
        }
    )
    on = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "7"}
    on["delta.enableIcebergCompatV2"] = "true"
    files = dict.fromkeys("ab", parquet(values))
    found = built(tmp_path / "t", columns, files, "columnMapping", "icebergCompatV2", properties=on)

    optimized(found)

    lines = str(stored(found).schema).splitlines()
    ids = {line.split("field_id=")[1].split()[0] for line in lines if "field_id=" in line}
    required = [line for line in lines if "required" in line and "schema" not in line]
    assert {str(number) for number in range(1, 8)} <= ids
    assert ["field_id=5" in line for line in required] == [True] * len(required), required


def test_a_name_that_was_dropped_and_added_again_is_another_column(tmp_path: Path) -> None:
    """The first file has the column of the past, under the name that the table has today."""
    columns = [mapped("a", "long", 3, "a-now"), mapped("b", "long", 2, "b")]
    files = {"old": with_ids(("a", 1, [1, 2]), ("b", 2, [3, 4])), "new": with_ids(("a-now", 3, [5]), ("b", 2, [6]))}
    on = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}
    found = built(tmp_path / "t", columns, files, "columnMapping", properties=on)

    optimized(found)

    assert [(5, 6), (None, 3), (None, 4)] == sorted(
        ((row["a"], row["b"]) for row in found.snapshot().scan().to_arrow().to_pylist()), key=lambda row: row[1] != 6
    )
    assert {"2", "3"} == {line.split("field_id=")[1].split()[0] for line in str(stored(found).schema).splitlines()[2:4]}


@pytest.mark.parametrize(
    ("mode", "columns_of_file", "rule"),
    [
        ("id", [("a", 1, [1, 2]), ("b", 2, [3, 4])], "mapping.field-id-mismatch"),
        ("id", [("a", None, [1, 2]), ("b", None, [3, 4])], "mapping.file-without-field-ids"),
        ("id", [("x", None, [1, 2]), ("y", None, [3, 4])], "mapping.file-with-logical-names"),
        ("name", [("x", None, [1, 2]), ("y", None, [3, 4])], "mapping.file-with-logical-names"),
        ("name", [("y", None, [3, 4])], "mapping.file-with-logical-names"),
    ],
)
def test_a_file_whose_columns_are_in_doubt_is_left_alone_and_named(
    mode: str, columns_of_file: list[tuple[str, int | None, list[int]]], rule: str, tmp_path: Path
) -> None:
    columns = [mapped("x", "long", 3, "a"), mapped("y", "long", 2, "b")]
    odd = pa.table(
        [values for _, _, values in columns_of_file],
        schema=pa.schema(
            [
                pa.field(name, pa.int64(), metadata=None if number is None else {"PARQUET:field_id": str(number)})
                for name, number, _ in columns_of_file
            ]
        ),
    )
    sound = {f"sound-{number}": with_ids(("a", 3, [5]), ("b", 2, [6])) for number in (1, 2)}
    on = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "3"}
    found = built(tmp_path / "t", columns, {"odd": parquet(odd), **sound}, "columnMapping", properties=on)

    with pytest.raises(PartlyDone) as refused:
        found.optimize()

    assert rule == refused.value.code
    assert "odd" in live_paths(found)
    assert 2 == len(live_paths(found))


def test_row_ids_in_a_file_are_kept_and_others_follow_from_its_add(tmp_path: Path) -> None:
    names = {
        "delta.rowTracking.materializedRowIdColumnName": "_id",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_version",
    }
    versions = pa.array([None, 4, None], pa.int64())
    rows = pa.table({"c": [1, 2, 3], "_id": pa.array([70, None, 72]), "_version": versions})
    found = built(
        tmp_path / "t",
        [column("c", "long")],
        {"a": parquet(rows), "b": parquet(pa.table({"c": [4]}))},
        *("rowTracking", "domainMetadata"),
        properties=names | {"delta.enableRowTracking": "true"},
        first_row_id=10,
        defaultRowCommitVersion=0,
        stats=json.dumps({"numRecords": 3}),
    )

    optimized(found)

    kept = stored(found).read().to_pydict()
    assert {1: (70, 0), 2: (11, 4), 3: (72, 0), 4: (20, 0)} == {
        row: (kept["_id"][place], kept["_version"][place]) for place, row in enumerate(kept["c"])
    }


@pytest.mark.parametrize("keeps", [False, True])
def test_the_value_of_a_partition_column_is_that_of_the_log(keeps: bool, tmp_path: Path) -> None:
    rows = parquet(pa.table({"c": [1, 2], "p": ["file", "file"]}))
    features = ["materializePartitionColumns"] if keeps else []
    columns = [column("p", "string"), column("c", "long")]
    found = built(tmp_path / "t", columns, {"a": rows, "b": rows}, *features, "appendOnly", partition=["p"])

    optimized(found)

    assert {"log"} == set(found.snapshot().scan().to_arrow().column("p").to_pylist())
    read = stored(found).read().to_pydict()
    assert (["log"] * 4 if keeps else None) == read.get("p")
    assert (["c", "p"] if keeps else ["c"]) == list(read), "the protocol places them after the data columns"


def test_bytes_of_variants_are_kept(tmp_path: Path) -> None:
    kind = pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")])
    values = [{"metadata": metadata_of(["b", "a"]), "value": encode({"a": 1, "b": [None, "x"]}, ["b", "a"])}, None]
    found = built(tmp_path / "t", [column("v", "variant")], dict.fromkeys("ab", one(values, kind, "v")), "variantType")

    optimized(found)

    assert sorted(map(repr, values * 2)) == sorted(map(repr, stored(found).read().column("v").to_pylist()))


def test_text_that_is_not_utf_8_is_kept_byte_by_byte_or_refused(tmp_path: Path) -> None:
    offsets, data = pa.array([0, 2, 3], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfea")
    texts = pa.StringArray.from_buffers(2, offsets, data)
    path = table(tmp_path / "t", [column("c", "string")], *[parquet(pa.table({"c": texts}))] * 2)
    before = sorted(found.read_bytes() for found in path.glob("old-*"))

    (result,) = rewrite_at(path)

    assert before == sorted(found.read_bytes() for found in path.glob("old-*"))
    if result.files:
        new = pq.read_table(path / result.files[0].path).column("c").cast(pa.binary()).to_pylist()
        assert [b"\xff\xfe", b"a"] * 2 == new
    else:
        assert 2 == len(result.refused)


SHREDDED = pa.struct(
    [
        pa.field("metadata", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
        pa.field("typed_value", pa.int64()),
    ]
)
IMPOSSIBLE = {
    "shredded variants": (
        column("c", "variant"),
        one([{"metadata": metadata_of([]), "value": None, "typed_value": 7}] * 3, SHREDDED),
    ),
    "nanoseconds": (column("c", "timestamp"), one([1_001], pa.timestamp("ns", "UTC"))),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_plan_has_nothing_to_do_where_every_file_would_be_refused(name: str, tmp_path: Path) -> None:
    about, data = IMPOSSIBLE[name]
    found = open_table(str(table(tmp_path / "t", [about], *[data] * 70)))

    plan = found.optimize(dry_run=True).plan

    assert (True, {NOT_EXACT: 70}) == (plan.is_noop, dict(plan.skipped))


def test_files_that_would_be_refused_do_not_hide_others(tmp_path: Path) -> None:
    about, data = IMPOSSIBLE["nanoseconds"]
    good = one([1_000], pa.timestamp("us", "UTC"))
    found = open_table(str(table(tmp_path / "t", [about], *[data] * 9, good, data, good)))

    done = optimized(found)

    assert (2, 1) == (done.files_removed, done.files_added)
    assert 11 == len(live_paths(found))


def test_a_row_group_that_is_too_large_is_refused_by_name(tmp_path: Path) -> None:
    large, small = one(list(range(10_000)), pa.int64()), one([1], pa.int64())
    path = table(tmp_path / "t", [column("c", "long")], small, large, small)

    (result,) = rewrite_at(path, most_group_bytes=10_000)

    assert [("old-1.parquet", "optimize.row-group-too-large")] == [(each.path, each.code) for each in result.refused]
    assert 2 == len(result.used)


def test_a_file_far_beyond_the_target_is_continued_in_another(tmp_path: Path) -> None:
    draw = random.Random(1)
    files = [one([draw.getrandbits(62) for _ in range(20_000)], pa.int64()) for _ in range(4)]
    path = table(tmp_path / "t", [column("c", "long")], *files)
    before = rows_of(open_table(str(path)).snapshot())

    (result,) = rewrite_at(path, target_bytes=60_000, group_rows=4_000)

    assert before == rows_of(open_table(str(path)).snapshot())
    assert len(result.files) > 2
    assert all(90_000 <= file.size_bytes <= 200_000 for file in result.files[:-1])
    assert 80_000 == sum(file.rows for file in result.files)


def test_a_file_that_turns_out_to_be_damaged_late_is_left_out_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Its first row group has been written to a new file when the second cannot be read.
    """
    monkeypatch.setattr("deltacli.work.rewrite.sources._HELD_BYTES", 0)
    bad = bytearray(one(list(range(1_000)), pa.int64(), row_group_size=500, use_dictionary=False))
    half = pq.ParquetFile(pa.BufferReader(bytes(bad))).metadata.row_group(1).column(0).data_page_offset
    bad[half : half + 40] = bytes(40)
    path = table(tmp_path / "t", [column("c", "long")], one([-1], pa.int64()), bytes(bad), one([-2], pa.int64()))

    (result,) = rewrite_at(path)

    assert [("old-1.parquet", "data.not-parquet")] == [(each.path, each.code) for each in result.refused]
    assert [-2, -1] == sorted(pq.read_table(path / result.files[0].path).column("c").to_pylist())
    assert 4 == len(list(path.glob("*.parquet"))), "a file of the first attempt was left"


def test_files_without_rows_are_removed_without_a_successor(tmp_path: Path) -> None:
    found = open_table(str(table(tmp_path / "t", [column("c", "long")], *[one([], pa.int64())] * 2)))

    done = optimized(found)

    assert (2, 0, set()) == (done.files_removed, done.files_added, live_paths(found))


def test_a_commit_has_a_limited_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = one(list(range(500)), pa.int64())
    path = table(tmp_path / "t", [column("c", "long")], *[small] * 6)
    monkeypatch.setattr("deltacli.operations.optimize.plan.COMMIT_BYTES", 4 * len(small))

    done = optimized(open_table(str(path)), target_size=2 * len(small) + 1, min_size=10 * len(small))

    assert [2, 1] == [len(group) for group in done.plan.groups]
    assert 2 == len(done.versions)


def encrypted(rows: pa.Table, *, plaintext_footer: bool) -> bytes:
    """A file whose column is encrypted, and its footer, too, unless that is plain."""
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):  # type: ignore[misc, name-defined]
        def __init__(self, _: Any) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64encode(key)

    how = encryption.EncryptionConfiguration("f", column_keys={"k": ["c"]}, plaintext_footer=plaintext_footer)
    factory = encryption.CryptoFactory(Keys)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), how)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_file_is_left_alone_and_named(plaintext_footer: bool, tmp_path: Path) -> None:
    secret = encrypted(pa.table({"c": pa.array([1, 2], pa.int64())}), plaintext_footer=plaintext_footer)
    path = table(tmp_path / "t", [column("c", "long")], one([3], pa.int64()), secret, one([4], pa.int64()))

    (result,) = rewrite_at(path)

    assert [("old-1.parquet", "data.not-parquet")] == [(each.path, each.code) for each in result.refused]
    assert "crypt" in result.refused[0].reason
    assert secret == (path / "old-1.parquet").read_bytes()


def level_that_finds(path: Path, hint: str | None) -> Level:
    """Return the level of the validation that a hint names, after it has found a fault of a data file."""
    named = re.search(r"level(?:='| )([a-z]+)", hint or "")
    assert named is not None
    level = Level(named[1])
    findings = open_table(str(path)).validate(level=level.value).findings
    assert {"data.encrypted", "data.not-parquet", "dv.crc-mismatch"} & {finding.rule.id for finding in findings}
    return level


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_the_hint_of_an_encrypted_file_is_the_validation_that_finds_it(plaintext_footer: bool, tmp_path: Path) -> None:
    secret = encrypted(pa.table({"c": pa.array([1, 2], pa.int64())}), plaintext_footer=plaintext_footer)
    path = table(tmp_path / "t", [column("c", "long")], secret)

    with pytest.raises(DataUnreadable) as ended:
        open_table(str(path)).snapshot().scan().to_arrow()

    assert Level.FOOTERS is level_that_finds(path, ended.value.hint)


@pytest.mark.parametrize(("place", "level"), [(-6, Level.FOOTERS), (20, Level.DATA), (None, Level.FOOTERS)])
def test_the_hint_of_a_damaged_file_is_the_validation_that_finds_it(
    place: int | None, level: Level, tmp_path: Path
) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"c": pa.array(range(500), pa.int64())}), sink, compression="zstd", write_page_checksum=True
    )
    data = bytearray(sink.getvalue())
    if place is None:
        data[-4:] = b"none"
    else:
        data[place : place + 4] = b"\xff\xff\xff\x7f" if place > 0 else b"\xff\xff"
    path = table(tmp_path / "t", [column("c", "long")], bytes(data))

    with pytest.raises(DataUnreadable) as ended:
        open_table(str(path)).snapshot().scan().to_arrow()

    assert level is level_that_finds(path, ended.value.hint)


def test_a_type_that_is_not_known_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    data = one([b"\x01"], pa.binary(), "g")
    path = table(tmp_path / "t", [column("g", "geometry(OGC:CRS84)")], data, data)

    with pytest.raises(Unreadable) as caught:
        open_table(str(path)).optimize()

    assert caught.value.code.startswith("schema.")
    assert 2 == len(list(path.glob("*.parquet")))


def test_a_page_of_the_widest_column_is_encoded_at_once() -> None:
    rows = 1_000
    narrow, texts = pa.array(range(rows)), pa.array(["x" * 60] * rows)

    assert 1 << 17 == choose_write_batch_rows(pa.record_batch([narrow], ["a"]))
    assert (1 << 20) // 64 == choose_write_batch_rows(pa.record_batch([narrow, texts], ["a", "b"]))
    assert 1 << 10 == choose_write_batch_rows(pa.record_batch([narrow, pa.array(["x" * 60_000] * rows)], ["a", "b"]))
    assert 1 << 17 == choose_write_batch_rows(pa.record_batch([narrow.slice(0, 0)], ["a"]))
