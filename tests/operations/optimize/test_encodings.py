"""Every file that is written has the codec and the pages of the table properties: data files and checkpoints alike."""

from __future__ import annotations

from io import BytesIO

import pyarrow.parquet as pq
import pytest

from deltacli.errors import Refused
from tests.support.optimizing import Ids, data_files

CODEC, VERSION = "delta.parquet.compression.codec", "delta.parquet.format.version"


def encoded(data: bytes) -> tuple[str, int]:
    """Return the codec of a file, and the version of its data pages."""
    column = pq.read_metadata(BytesIO(data)).row_group(0).column(0)
    head = data[column.data_page_offset : column.data_page_offset + 2]
    return column.compression, {b"\x15\x00": 1, b"\x15\x06": 2}[head]


@pytest.mark.parametrize(
    ("codec", "expected", "ending"),
    [
        ("uncompressed", "UNCOMPRESSED", "parquet"),
        ("UNCOMPRESSED", "UNCOMPRESSED", "parquet"),
        (" none ", "UNCOMPRESSED", "parquet"),
        ("snappy", "SNAPPY", "snappy.parquet"),
        ("Gzip", "GZIP", "gz.parquet"),
        ("brotli", "BROTLI", "br.parquet"),
        ("lz4", "LZ4", "lz4raw.parquet"),
        ("lz4_raw", "LZ4", "lz4raw.parquet"),
        ("lzo", "ZSTD", "zstd.parquet"),
        ("zip", "ZSTD", "zstd.parquet"),
    ],
)
@pytest.mark.parametrize(("version", "pages"), [("1.0.0", 1), ("2.12.0", 2)])
def test_new_data_files_and_checkpoints_are_encoded_alike(
    codec: str, expected: str, ending: str, version: str, pages: int
) -> None:
    table = Ids(configuration={CODEC: codec, VERSION: version}).append("a", "b").table()
    storage = table.storage
    before = data_files(storage)

    table.optimize()
    table.checkpoint()

    made, checkpoint = sorted(data_files(storage) - before, key=lambda path: path.startswith("_delta_log"))
    assert ending == made.rpartition("/")[2].partition(".")[2]
    assert [(expected, pages)] * 2 == [encoded(storage.read(made)), encoded(storage.read(checkpoint))]


def test_no_data_file_is_written_by_an_invalid_version_of_the_format() -> None:
    table = Ids(configuration={VERSION: "2"}).append("a", "b").table()
    before = data_files(table.storage)

    with pytest.raises(Refused) as refused:
        table.optimize()

    assert ("property.parquet-version", before) == (refused.value.code, data_files(table.storage))
