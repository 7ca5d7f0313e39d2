"""Read the rows of the files of an inventory: Parquet, ORC and CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from deltacli.arrow.parquet import BUFFER_BYTES, ParquetReader
from deltacli.core.errors import FileMissing, Unreadable
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.typing import RecordBatch
from deltacli.storage import ReadStorage
from deltacli.work.inventory.columns import CODE, InventoryColumns

_ROWS_A_BATCH = 65_536
_CSV_BYTES = 4 << 20
_HEADER_BYTES = 64 << 10


Rows = Iterator[tuple[RecordBatch, InventoryColumns]]


@contextmanager
def inventory_faults(location: str) -> Iterator[None]:
    """Raise every fault in the bytes of an inventory as Unreadable, naming the file."""
    try:
        yield
    except FileMissing as fault:
        raise Unreadable(f"no inventory found at {location}", code=CODE, facts={"file": location}) from fault
    except (pa.ArrowException, OSError, KeyError, ValueError, OverflowError, MemoryError) as fault:
        raise_if_out_of_memory(fault)
        reason = " ".join(str(fault).split())[:200]
        raise Unreadable(
            f"{location} cannot be read as an inventory", code=CODE, facts={"file": location, "reason": reason}
        ) from fault


def split_location(location: str) -> tuple[str, str]:
    """Return the directory and the file name of a path or URI, both in the form that a store accepts."""
    directory, slash, name = location.rpartition("/")
    if location.lower().startswith("file:"):
        name = unquote(name, errors="surrogateescape")
    if directory.endswith(":"):
        directory += "/"
    return directory or ("/" if slash else "."), name


def read_parquet(storage: ReadStorage, name: str, location: str) -> Rows:
    """Yield the rows of a Parquet file."""
    is_near = storage.capabilities.has_cheap_requests
    with inventory_faults(location), storage.open(name) as source:
        file = ParquetReader(source, pre_buffer=not is_near, buffer_size=BUFFER_BYTES if is_near else 0)
        columns = InventoryColumns.choose(file.schema_arrow.names, location)
        for group in range(file.metadata.num_row_groups):
            yield from ((rows, columns) for rows in file.read_columns(_ROWS_A_BATCH, group, columns.names))


def read_orc(storage: ReadStorage, name: str, location: str) -> Rows:
    """Yield the rows of an ORC file."""
    try:
        from pyarrow import orc
    except ImportError as fault:
        raise Unreadable(
            f"{location} is ORC, which this build of pyarrow cannot read",
            code=CODE,
            facts={"expected": "an inventory in Parquet or CSV"},
        ) from fault
    with inventory_faults(location), storage.open(name) as source:
        file = orc.ORCFile(source)
        columns = InventoryColumns.choose(file.schema.names, location)
        for stripe in range(file.nstripes):
            rows = file.read_stripe(stripe, columns.names)
            for start in range(0, rows.num_rows, _ROWS_A_BATCH):
                yield rows.slice(start, _ROWS_A_BATCH), columns


def read_csv(
    storage: ReadStorage,
    name: str,
    location: str,
    *,
    is_gzip: bool,
    names: Sequence[str] | None = None,
    is_encoded: bool = False,
) -> Rows:
    """Yield the rows of a CSV file. The first line contains the column names unless `names` is given."""
    from pyarrow import csv as arrow_csv

    with inventory_faults(location):
        with storage.open(name) as source:
            head = _open_stream(source, is_gzip=is_gzip).read(_HEADER_BYTES)
        if not head and names is not None:
            return
        header = list(names) if names is not None else _parse_header(head)
        columns = InventoryColumns.choose(header, location, is_encoded=is_encoded)
        with (
            storage.open(name) as source,
            arrow_csv.open_csv(
                _open_stream(source, is_gzip=is_gzip),
                arrow_csv.ReadOptions(block_size=_CSV_BYTES, column_names=header, skip_rows=0 if names else 1),
                arrow_csv.ParseOptions(newlines_in_values=names is None),
                arrow_csv.ConvertOptions(
                    include_columns=columns.names,
                    column_types={column: pa.binary() for column in columns.names},
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            ) as reader,
        ):
            yield from ((rows, columns) for rows in reader)


def _open_stream(source: Any, *, is_gzip: bool) -> Any:  # Any: as in the storage port; pyarrow has no types
    return pa.CompressedInputStream(source, "gzip") if is_gzip else pa.input_stream(source)


def _parse_header(head: bytes) -> list[str]:
    """Return the column names in the first line."""
    lines = head.decode("utf-8-sig", "replace").splitlines()
    return next(csv.reader(lines[:1]), [])
