"""Make data files of adds, each with what its rows need, and stream the rows of data files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable
from deltacli.core.hints import command
from deltacli.core.progress import SILENT, Progress
from deltacli.core.spelling import DoubleQuoted
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import StructField
from deltacli.engine.base import Engine
from deltacli.table.selection import Selection
from deltacli.work.rows.data_files import DataFile, ReadSpec, split_file
from deltacli.work.rows.row_reader import read_rows
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    import pyarrow

_FEW_FILES = 8
_LARGE_FILE_BYTES = 16 << 20
"""Limits below which few but large files are read in pieces, to keep all threads busy."""


def build_live_data_files(
    adds: pyarrow.RecordBatch, config: TableConfiguration, selection: Selection, *, version: int | None = None
) -> list[DataFile]:
    """Return the files of adds of a version.

    Args:
        adds: The adds.
        config: The configuration of the version.
        selection: The columns and rows that are read.
        version: The version of the commit that the files are attributed to, if any.

    Raises:
        DataUnreadable: `partition.*`, and `rowtracking.base-row-id-missing` for an add without the row ids
            that are wanted.
    """
    if selection.row_ids:
        has_no_ids = pc.or_(pc.is_null(adds.column("baseRowId")), pc.is_null(adds.column("defaultRowCommitVersion")))
        if pc.any(has_no_ids).as_py():
            raise DataUnreadable(
                f"{pc.filter(adds.column('path'), has_no_ids)[0]} has no row ids although row tracking is on",
                code="rowtracking.base-row-id-missing",
                hint=command("validate", select=[DoubleQuoted("rowtracking.*")]),
            )
    return build_data_files(adds, config, selection.needed, version=version)


def build_data_files(
    actions: pyarrow.RecordBatch,
    config: TableConfiguration,
    needed: Sequence[StructField],
    *,
    version: int | None = None,
) -> list[DataFile]:
    """Return the files of file actions with their partition values.

    Args:
        actions: Adds or removes.
        config: The configuration that they belong to.
        needed: The columns that are read. Values of other partition columns are not looked at.
        version: The version of the commit that the files are attributed to, if any.

    Raises:
        DataUnreadable: `partition.*`, for a partition value that is not one of its type.
    """
    names = {config.physical_name(column): column.name for column in needed}
    physical_names = [name for name in config.partition_columns if name in names]
    values = _read_partition_values(actions, config, physical_names)
    paths = actions.column("path").to_pylist()
    sizes = actions.column("size").to_pylist()
    vectors = actions.column("deletionVector")
    has_vectors = vectors.null_count < len(vectors)
    base_row_ids = actions.column("baseRowId").to_pylist()
    row_commit_versions = actions.column("defaultRowCommitVersion").to_pylist()
    return [
        DataFile(
            path,
            sizes[row],
            {names[name]: values[name][row] for name in physical_names},
            vectors[row].as_py() if has_vectors else None,
            version=version,
            base_row_id=base_row_ids[row],
            row_commit_version=row_commit_versions[row],
        )
        for row, path in enumerate(paths)
    ]


def _read_partition_values(
    actions: pyarrow.RecordBatch, config: TableConfiguration, names: Sequence[str]
) -> dict[str, pyarrow.Array]:
    if not names:  # a table without partitions is read before all of that would be loaded
        return {}
    from deltacli.delta.partitions.values import partition_columns

    return partition_columns(actions, config, names)


class OddPartitionValues:
    """Notes which partition columns have values in the log that other engines read otherwise."""

    def __init__(self) -> None:
        self._empty_texts: dict[str, None] = {}
        self._respelled_keys: dict[str, None] = {}

    @property
    def empty_texts(self) -> tuple[str, ...]:
        """The columns of text with an empty one, which is read as null."""
        return tuple(self._empty_texts)

    @property
    def respelled_keys(self) -> tuple[str, ...]:
        """The columns whose name has another letter case beside a value. The value is read."""
        return tuple(self._respelled_keys)

    def take(self, actions: pyarrow.RecordBatch, config: TableConfiguration, needed: Sequence[StructField]) -> None:
        """Look at the values that file actions have for the needed columns."""
        names = {config.physical_name(column): column.name for column in needed}
        partitions = [name for name in config.partition_columns if name in names]
        if not partitions:  # a table without partitions is read before all of that would be loaded
            return
        from deltacli.delta.partitions.values import find_empty_texts, find_respelled_keys

        empty_texts = find_empty_texts(actions, config, partitions)
        self._empty_texts.update(dict.fromkeys(names[name] for name in empty_texts))
        respelled_keys = find_respelled_keys(actions, partitions)
        self._respelled_keys.update(dict.fromkeys(names[name] for name in respelled_keys))


def stream_rows(
    engine: Engine,
    files: TableFiles,
    read_spec: ReadSpec,
    data_files: Iterable[DataFile],
    *,
    progress: Progress = SILENT,
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of data files, several files at a time; of few large files, several row groups of each.

    Args:
        engine: The engine whose threads read.
        files: Opens the files that a log names.
        read_spec: The columns and rows to read.
        data_files: The files. They are planned while the first ones are read.
        progress: Where the files are reported.
    """
    # One file more than few tells whether there are few, without planning all of them.
    remaining = iter(data_files)
    first_files = list(islice(remaining, _FEW_FILES + 1))
    if 0 < len(first_files) <= _FEW_FILES and max(file.size_bytes or 0 for file in first_files) >= _LARGE_FILE_BYTES:
        split = partial(split_file, files, parts=_FEW_FILES // len(first_files))
        first_files = list(chain.from_iterable(engine.run(split, first_files)))

    with progress.step("reading rows", unit="files") as step:

        def read_file(file: DataFile) -> Iterator[pyarrow.RecordBatch]:
            yield from read_rows(files, read_spec, file)
            step.advance(1)

        yield from engine.stream(read_file, chain(first_files, remaining))
