"""Read the rows of data files.

A row of a table consists of the columns in a Parquet file, the partition values in the add action,
and possibly row ids. `DataFile` combines them for one file. Build the data files of file actions
with `build_live_data_files` or `build_data_files`, then read their rows with `stream_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from deltacli.core.command_calls import DoubleQuoted
from deltacli.core.errors import DataUnreadable
from deltacli.core.hints import command
from deltacli.core.progress import SILENT, Progress
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
"""Up to this number of files, large files are split by row group, so that no thread is idle."""
_LARGE_FILE_BYTES = 16 << 20
"""Minimum size of the largest file for which splitting is worthwhile."""


def build_live_data_files(
    adds: pyarrow.RecordBatch, config: TableConfiguration, selection: Selection, *, version: int | None = None
) -> list[DataFile]:
    """Build the data files of live files.

    Args:
        adds: The add actions, with the fields that `build_data_files` needs.
        config: The configuration of the version.
        selection: The columns and rows to read. With `selection.row_ids`, every file needs a base
            row id.
        version: The version of a commit, for changes: the rows report that they were changed in
            this version. None for rows of a table.

    Raises:
        DataUnreadable: `rowtracking.base-row-id-missing`, if row ids are requested and a file has
            none. Otherwise as `build_data_files`.
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
    """Build the data files of file actions, with the values of their partition columns.

    Args:
        actions: Adds or removes, with the fields `path`, `size`, `partitionValues`,
            `deletionVector`, `baseRowId` and `defaultRowCommitVersion`.
        config: The configuration of the version that contains the actions.
        needed: The columns to read. Other partition columns are left out, so their values need not be
            valid.
        version: The version of a commit, for changes. None for rows of a table.

    Raises:
        DataUnreadable: `partition.*`, if a partition value cannot be parsed as the type of its
            column.
    """
    # Partition values use physical names, rows use logical names (see Column Mapping).
    logical_names = {config.physical_name(column): column.name for column in needed}
    physical_names = [name for name in config.partition_columns if name in logical_names]
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
            {logical_names[name]: values[name][row] for name in physical_names},
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
    # Importing the parsers of partition values takes longer than reading a small table without
    # partitions.
    if not names:
        return {}
    from deltacli.delta.partitions.values import parse_partition_columns

    return parse_partition_columns(actions, config, names)


class PartitionValueWarnings:
    """Collects the partition columns whose values other engines read differently.

    Call `inspect` for each batch of file actions. Both properties contain logical column names, in
    the order in which they were first seen.
    """

    def __init__(self) -> None:
        self._empty_texts: dict[str, None] = {}
        self._respelled_keys: dict[str, None] = {}

    @property
    def empty_texts(self) -> tuple[str, ...]:
        """String columns with a partition value "", which is read as null."""
        return tuple(self._empty_texts)

    @property
    def respelled_keys(self) -> tuple[str, ...]:
        """Columns whose name has another letter case in `partitionValues` than in the schema.

        deltacli reads their values. Spark returns null.
        """
        return tuple(self._respelled_keys)

    def inspect(self, actions: pyarrow.RecordBatch, config: TableConfiguration, needed: Sequence[StructField]) -> None:
        """Inspect the partition values of file actions.

        Args:
            actions: Adds or removes, with the field `partitionValues`.
            config: The configuration of the version that contains the actions.
            needed: The columns to read. Values of other partition columns are not inspected.
        """
        logical_names = {config.physical_name(column): column.name for column in needed}
        physical_names = [name for name in config.partition_columns if name in logical_names]
        if not physical_names:
            return
        # Imported here because tables without partitions are read faster without the parsers.
        from deltacli.delta.partitions.values import find_empty_texts, find_respelled_keys

        empty_texts = find_empty_texts(actions, config, physical_names)
        self._empty_texts.update(dict.fromkeys(logical_names[name] for name in empty_texts))
        respelled_keys = find_respelled_keys(actions, physical_names)
        self._respelled_keys.update(dict.fromkeys(logical_names[name] for name in respelled_keys))


def stream_rows(
    engine: Engine,
    files: TableFiles,
    read_spec: ReadSpec,
    data_files: Iterable[DataFile],
    *,
    progress: Progress = SILENT,
) -> Iterator[pyarrow.RecordBatch]:
    """Read the rows of data files in parallel, and yield them in batches.

    Each thread reads one file at a time. If there are fewer files than threads, large files are
    split by row group.

    Args:
        engine: Provides the threads that read.
        files: Opens files by their path in the log.
        read_spec: The columns and rows to read.
        data_files: The files. An iterator is consumed while the first files are already being read.
        progress: Receives the number of files read.
    """
    # Fetch just enough files to find out if there are few.
    remaining = iter(data_files)
    first_files = list(islice(remaining, _FEW_FILES + 1))
    has_few_files = 0 < len(first_files) <= _FEW_FILES
    if has_few_files and max(file.size_bytes or 0 for file in first_files) >= _LARGE_FILE_BYTES:
        split = partial(split_file, files, parts=_FEW_FILES // len(first_files))
        first_files = list(chain.from_iterable(engine.run(split, first_files)))

    with progress.step("reading rows", unit="files") as step:

        def read_file(file: DataFile) -> Iterator[pyarrow.RecordBatch]:
            yield from read_rows(files, read_spec, file)
            step.advance(1)

        yield from engine.stream(read_file, chain(first_files, remaining))
