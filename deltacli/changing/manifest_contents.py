"""The contents of symlink manifests: one text file per partition with the URIs of its live data files.

Athena, Redshift and Presto do not read the Delta log. They read such lists, and then every file that a line names:

    _symlink_format_manifest/day=1/manifest       s3://bucket/table/day=1/part-0.parquet
                                                  s3://bucket/table/day=1/part-1.parquet

This module computes the lines that the manifests of a version should contain. `manifests.py` compares them with the
manifests in the table directory, and writes those that differ.

Spec: Delta-Spark: GENERATE symlink_format_manifest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Refusal, command
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.data_files import MANIFESTS
from deltacli.delta.partitions.values import format_partition_directory
from deltacli.delta.paths.hadoop import print_absolute, print_root
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling_columns import are_absolute, decode_column
from deltacli.storage import has_link
from deltacli.table.missing_files import encode_unencoded_paths, find_unencoded_paths
from deltacli.table.version import Snapshot

MANIFEST_NAME = "manifest"

_ADD_FIELDS = ("path", "partitionValues", "deletionVector")
_LINE_SCHEMA = pa.schema([("directory", pa.string()), ("line", pa.large_binary()), ("is_external", pa.bool_())])


class _RowRange(NamedTuple):
    """A contiguous range of rows of the table of manifest lines.

    Attributes:
        start: The index of the first row.
        length: The number of rows.
    """

    start: int
    length: int


class LiveManifests:
    """The manifests that a version should have.

    Attributes:
        file_count: The number of live files, which is also the number of lines in all manifests.
        external_file_count: The number of live files outside the table directory.
        first_external_uri: The URI of one external file, as an example for messages; None if there are none.
    """

    def __init__(self, lines: pa.Table, *, is_partitioned: bool) -> None:
        """Index the lines of all manifests.

        Args:
            lines: One row per live file in the columns of `_LINE_SCHEMA`, sorted by `directory` and `line`.
            is_partitioned: Whether the table has partition columns. An unpartitioned table without live files still
                has one manifest, which is empty.
        """
        external_lines = lines.filter(lines.column("is_external")).column("line")
        self.file_count: int = lines.num_rows
        self.external_file_count: int = len(external_lines)
        self.first_external_uri = os.fsdecode(external_lines[0].as_py()) if len(external_lines) else None
        self._lines = lines.column("line")
        self._row_ranges = _index_manifests(lines.column("directory"))
        if not is_partitioned:
            self._row_ranges.setdefault(f"{MANIFESTS}/{MANIFEST_NAME}", _RowRange(0, 0))

    @property
    def paths(self) -> Iterable[str]:
        """The paths of the manifests, relative to the table directory."""
        return self._row_ranges.keys()

    def count_files(self, path: str) -> int:
        """Return the number of files that a manifest should list."""
        return self._row_ranges[path].length

    def list_lines(self, path: str) -> list[bytes]:
        """Return the lines that a manifest should contain, sorted, without line breaks."""
        row_range = self._row_ranges[path]
        lines: list[bytes] = self._lines.slice(row_range.start, row_range.length).to_pylist()
        return lines


def _index_manifests(directories: ArrowArray) -> dict[str, _RowRange]:
    """Return the rows of each manifest by the path of the manifest.

    Args:
        directories: The partition directory of each row, sorted: `["day=1", "day=1", "day=2"]`. "" if the table is not
            partitioned.

    Returns:
        For the example `{"_symlink_format_manifest/day=1/manifest": (0, 2), …/day=2/manifest: (2, 1)}`.
    """
    row_ranges = dict[str, _RowRange]()
    counts = pc.value_counts(directories)
    start = 0
    for directory, count in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
        parent = f"{MANIFESTS}/{directory}" if directory else MANIFESTS
        row_ranges[f"{parent}/{MANIFEST_NAME}"] = _RowRange(start, count)
        start += count
    return row_ranges


def build_live_manifests(snapshot: Snapshot) -> LiveManifests | Refusal:
    """Build the manifests of a version.

    Returns:
        The manifests, or the reason why the version cannot have any. A list of files cannot express renamed columns or
        deleted rows, so its readers would return wrong results.
    """
    table = snapshot.table
    if snapshot.config.mapping_mode != "none":
        return Refusal(
            "manifests.column-mapping",
            "the files have other column names than the table (column mapping), which readers of lists do not know",
            command("features drop", "columnMapping", dry_run=True),
        )
    if has_link(table.storage, "", MANIFESTS):
        return Refusal("manifests.link", f"{MANIFESTS} is a symbolic link, through which nothing is written")

    line_builder = _LineBuilder(
        root_uri=print_root(table.storage.uri),
        path_keys=PathKeys((table.storage.uri, *table.storage.aliases)),
        partition_columns=tuple(snapshot.metadata.partition_columns),
        undecoded_paths=find_unencoded_paths(snapshot),
    )
    batches = list(snapshot.file_actions.map_actions("add", line_builder.build_lines, fields=_ADD_FIELDS))

    vector_count = sum(batch.vector_count for batch in batches)
    if vector_count:
        return Refusal(
            "manifests.vectors",
            f"{plural(vector_count, 'file')} with deleted rows, which readers of lists would show",
            command("optimize", purge=True, dry_run=True),
        )

    lines = pa.Table.from_batches([batch.lines for batch in batches], _LINE_SCHEMA)
    has_line_break = pc.match_substring_regex(lines.column("line"), "[\r\n]")
    if pc.any(has_line_break).as_py():
        message = "a path with a line break, which a list of lines cannot name"
        return Refusal("manifests.line-break", message, command("validate", select=["path.*"]))

    order = pc.sort_indices(lines, sort_keys=[("directory", "ascending"), ("line", "ascending")])
    return LiveManifests(lines.take(order), is_partitioned=bool(snapshot.metadata.partition_columns))


@dataclass(frozen=True, slots=True)
class _LineBatch:
    """The manifest lines for one batch of add actions.

    Attributes:
        lines: One row per add action, in the columns of `_LINE_SCHEMA`.
        vector_count: The number of add actions with a deletion vector.
    """

    lines: pa.RecordBatch
    vector_count: int


@dataclass(frozen=True, slots=True)
class _LineBuilder:
    """Converts add actions of one version to manifest lines.

    Attributes:
        root_uri: The URI of the table as Hadoop prints it: `s3://bucket/table`, or `file:/data/table`.
        path_keys: Decides which paths in the log are inside the table directory.
        partition_columns: The names of the partition columns.
        undecoded_paths: Paths in the log whose `%20` is part of the file name, because the writer did not encode paths.
    """

    root_uri: bytes
    path_keys: PathKeys
    partition_columns: tuple[str, ...]
    undecoded_paths: ArrowArray

    def build_lines(self, adds: pa.RecordBatch) -> _LineBatch:
        """Return one manifest line per add action.

        Example for the table `s3://bucket/table`, partitioned by `day`:

            path in the log           directory   line                                    is_external
            day=1/a%20b.parquet       day=1       s3://bucket/table/day=1/a b.parquet     false
            s3://other/c.parquet      day=1       s3://other/c.parquet                    true

        Args:
            adds: Add actions with the fields `_ADD_FIELDS`. Called by several threads at the same time.
        """
        paths = encode_unencoded_paths(adds.column("path"), self.undecoded_paths)
        is_absolute = are_absolute(paths)
        is_external = pc.and_(is_absolute, pc.is_null(self.path_keys.compute_keys(paths).keys))
        lines = self._build_uris(paths, is_absolute)
        directories = self._build_directories(adds.column("partitionValues"))
        vectors = adds.column("deletionVector")

        batch = pa.record_batch([directories, lines, is_external], _LINE_SCHEMA.names)
        return _LineBatch(batch, vector_count=len(vectors) - vectors.null_count)

    def _build_uris(self, paths: ArrowArray, is_absolute: ArrowArray) -> ArrowArray:
        """Return the URI of each file, not percent-encoded, as large binary: file names need not be UTF-8."""
        decoded_paths = pc.cast(decode_column(paths), pa.large_binary())
        root = pa.scalar(self.root_uri + b"/", decoded_paths.type)
        no_separator = pa.scalar(b"", decoded_paths.type)
        uris_below_root = pc.binary_join_element_wise(root, decoded_paths, no_separator)

        # An absolute path is kept as its writer spelled it, except for `file:///`, which Hadoop prints as `file:/`.
        return pc.if_else(is_absolute, print_absolute(decoded_paths), uris_below_root)

    def _build_directories(self, partition_values: ArrowArray) -> ArrowArray:
        """Return the partition directory of each file, such as `day=1/country=DE`; "" without partition columns."""
        if not self.partition_columns:
            return pa.repeat(pa.scalar(""), len(partition_values))
        levels = list[ArrowArray]()
        for column in self.partition_columns:
            values = pc.map_lookup(partition_values, query_key=pa.scalar(column), occurrence="first")
            levels.append(_build_directory_names(column, values))
        return pc.binary_join_element_wise(*levels, "/")


def _build_directory_names(column: str, values: ArrowArray) -> ArrowArray:
    """Return the directory name `column=value` of each value.

    Args:
        column: The name of a partition column.
        values: The values as in the log: strings, or null for a null partition.
    """
    # A partition usually has many files, so each distinct value is formatted once.
    dictionary = pc.dictionary_encode(values, null_encoding="encode")
    names = [format_partition_directory({column: value}) for value in dictionary.dictionary.to_pylist()]
    return pc.take(pa.array(names), dictionary.indices)
