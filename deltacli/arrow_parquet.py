"""Parquet files read by pyarrow's own reader, without the start of `pyarrow.parquet`.

Importing that module brings every file system of Arrow, TLS among them: 15 ms of a command that takes 150. What is
called here is the compiled reader that stands behind it. Where a release of pyarrow keeps that elsewhere, or opens it
otherwise, the module is imported after all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any  # pyarrow has no types

if TYPE_CHECKING:
    import pyarrow.parquet


class ParquetReader:
    """One Parquet file of an open `source`, which stays the caller's to close. Raises pyarrow's own errors.

    `settings` are those of `pyarrow.parquet.ParquetFile`.
    """

    def __init__(self, source: Any, **settings: Any) -> None:
        self._reader = _open(source, settings)

    @property
    def metadata(self) -> pyarrow.parquet.FileMetaData:
        """The footer."""
        return self._reader.metadata

    @property
    def schema_arrow(self) -> pyarrow.Schema:
        """The Arrow schema of the whole file."""
        return self._reader.schema_arrow

    def read_leaves(self, rows: int, group: int, leaves: Sequence[int]) -> Iterator[pyarrow.RecordBatch]:
        """Yield a row group, `rows` at a time: the columns that these leaves, by their numbers, belong to."""
        batches: Iterator[pyarrow.RecordBatch] = self._reader.iter_batches(rows, [group], leaves, use_threads=False)
        return batches

    def read_columns(self, rows: int, group: int, columns: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
        """The same by names, those of fields within others with dots; what the file has not is passed over."""
        return self.read_leaves(rows, group, [leaf for column in columns for leaf in self._leaves.get(column, ())])

    @cached_property
    def _leaves(self) -> dict[str, list[int]]:
        """Name of a column, or of a field within others -> its leaves."""
        found: dict[str, list[int]] = {}
        for leaf, path in enumerate(self._reader.column_paths):
            for name in accumulate(path, "{}.{}".format):
                found.setdefault(name, []).append(leaf)
        return found


def _open(source: Any, settings: dict[str, Any]) -> Any:
    settings = {"pre_buffer": False} | settings
    try:
        from pyarrow._parquet import ParquetReader as Reader

        reader = Reader()
        reader.open(source, arrow_extensions_enabled=True, **settings)
    except (ImportError, TypeError):
        import pyarrow.parquet

        return pyarrow.parquet.ParquetFile(source, **settings).reader
    return reader
