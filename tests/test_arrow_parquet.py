"""The short way to pyarrow's reader of Parquet gives what the long way gives."""

from __future__ import annotations

import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.arrow import parquet as arrow_parquet
from deltacli.arrow.parquet import ParquetReader
from deltacli.work.parquet_writing import ParquetStream

ROWS = pa.table(
    {
        "a": pa.array([{"b": 1, "c": {"d": "x"}}, None, {"b": 2, "c": None}]),
        "a.b": pa.array([7, 8, 9]),
        "l": pa.array([[1, 2], None, []]),
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    }
)


def opened_both_ways() -> tuple[ParquetReader, pq.ParquetFile]:
    file = io.BytesIO()
    pq.write_table(ROWS, file, row_group_size=2)
    return ParquetReader(pa.BufferReader(file.getvalue())), pq.ParquetFile(pa.BufferReader(file.getvalue()))


@pytest.mark.parametrize("is_there", [True, False], ids=["found", "moved"])
def test_the_footer_is_pyarrow_s(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_there:
        monkeypatch.setitem(sys.modules, "pyarrow._parquet", None)

    short, long = opened_both_ways()

    assert long.metadata.equals(short.metadata)
    assert long.schema_arrow.equals(short.schema_arrow, check_metadata=True)


@pytest.mark.parametrize(
    "columns", [["a"], ["a.b"], ["a.c"], ["a.c.d", "l"], ["l", "a"], ["m", "no such"], ["no such"]]
)
@pytest.mark.parametrize("group", [0, 1])
def test_columns_are_found_by_the_same_names(columns: list[str], group: int) -> None:
    short, long = opened_both_ways()

    found = list(short.read_columns(10, group, columns))

    assert list(long.iter_batches(10, [group], columns)) == found


def test_a_setting_that_this_release_does_not_know_is_tried_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    pq.write_table(ROWS, file)
    monkeypatch.setitem(arrow_parquet._READER_OPTIONS, "no_such_setting", 1)

    with pytest.raises(TypeError, match="no_such_setting"):
        ParquetReader(pa.BufferReader(file.getvalue()))


@pytest.mark.parametrize("is_there", [True, False], ids=["found", "moved"])
def test_int96_reaches_from_the_first_year_to_the_last(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_there:
        monkeypatch.setitem(sys.modules, "pyarrow._parquet", None)
    ends = pa.array([-62_135_596_800_000_000, 253_402_300_799_999_999], pa.int64()).view(pa.timestamp("us"))
    file = io.BytesIO()
    pq.write_table(
        pa.table({"s": pa.StructArray.from_arrays([ends], ["t"])}), file, use_deprecated_int96_timestamps=True
    )

    reader = ParquetReader(pa.BufferReader(file.getvalue()))

    assert {("s", "t")} == reader.int96_paths
    assert ends.equals(reader.read_all().column("s").combine_chunks().field("t"))


@pytest.mark.parametrize("is_there", [True, False], ids=["found", "moved"])
def test_files_are_written_as_pyarrow_writes_them(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = io.BytesIO(), io.BytesIO()
    with pq.ParquetWriter(long, ROWS.schema, compression="zstd") as writer:
        writer.write_table(ROWS, 2)
    if not is_there:
        monkeypatch.setitem(sys.modules, "pyarrow._parquet", None)

    stream = ParquetStream(short, ROWS.schema, group_rows=2)
    for batch in ROWS.to_batches():
        stream.add(batch)
    stream.finish()

    assert (long.getvalue(), 2) == (short.getvalue(), stream.footer.num_row_groups)


def test_writing_loads_neither_tls_nor_file_systems() -> None:
    writing = (
        "import io, sys, pyarrow as pa; from deltacli.work.parquet_writing import write_parquet;"
        "rows = pa.record_batch({'a': [1]}); write_parquet(io.BytesIO(), rows.schema, [rows]);"
        "print({'_ssl', 'pyarrow.fs'} & {*sys.modules})"
    )

    done = subprocess.run([sys.executable, "-c", writing], capture_output=True, text=True, check=True)

    assert "set()" == done.stdout.strip()


def test_parquet_is_opened_by_the_package_that_limits_what_a_file_may_ask_for() -> None:
    openers = {"ParquetFile", "ParquetDataset", "read_table"}
    package = Path(arrow_parquet.__file__).parent.parent

    def opens(path: Path) -> bool:
        """`deltacli.spark.read_table` is a function of ours, and no attribute."""
        text = path.read_text()
        if not any(name in text for name in openers):
            return False
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        return any(
            token.type == tokenize.NAME and token.string in openers and (before == "." or "pyarrow" in token.line)
            for token, before in zip(tokens, ["", *(token.string for token in tokens)], strict=False)
        )

    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if opens(path)}

    assert found
    assert all(path.startswith("arrow/") for path in found), found
