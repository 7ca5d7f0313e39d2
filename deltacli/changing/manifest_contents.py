"""The contents of symlink manifests: a file per partition, with the URI of each live file of a version.

    _symlink_format_manifest/day=1/manifest       s3://bucket/table/day=1/part-0.parquet
                                                  s3://bucket/table/day=1/part-1.parquet

Engines that read such lists (Athena, Redshift, Presto) open what the lines name, and read nothing of the log.

Spec: Delta-Spark: GENERATE symlink_format_manifest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Refusal, command
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.data_files import MANIFESTS
from deltacli.delta.partitions.values import directory_of
from deltacli.delta.paths.hadoop import print_absolute, print_root
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling_columns import are_absolute, decode_column
from deltacli.storage import has_link
from deltacli.table.missing_files import encode_undecoded_paths, find_undecoded_paths
from deltacli.table.version import Snapshot

MANIFEST_NAME = "manifest"

_ADD_FIELDS = ("path", "partitionValues", "deletionVector")
_LINE_SCHEMA = pa.schema([("directory", pa.string()), ("line", pa.large_binary()), ("is_outside", pa.bool_())])


class LiveManifests:
    """The manifests that a version should have.

    Attributes:
        files: The number of files that they name.
        files_outside: How many of these are not in the directory of the table.
        first_outside: The URI of the first of these; None without any.
    """

    def __init__(self, lines: pa.Table, *, is_partitioned: bool) -> None:
        """Index the lines of all manifests.

        Args:
            lines: A row per live file with the directory of its manifest, its line, and whether it is outside of the
                table, sorted by directory and line.
            is_partitioned: Whether the table has partitions. Without them there is a manifest even if no file is live.
        """
        outside_lines = lines.filter(lines.column("is_outside")).column("line")
        self.files: int = lines.num_rows
        self.files_outside: int = len(outside_lines)
        self.first_outside = os.fsdecode(outside_lines[0].as_py()) if len(outside_lines) else None
        self._lines = lines.column("line")
        self._ranges = _index_directories(lines.column("directory"))
        if not is_partitioned:
            self._ranges.setdefault(f"{MANIFESTS}/{MANIFEST_NAME}", (0, 0))

    @property
    def paths(self) -> Iterable[str]:
        """The paths of the manifests below the table."""
        return self._ranges.keys()

    def count_files(self, path: str) -> int:
        """Return the number of files that a manifest names."""
        _, count = self._ranges[path]
        return count

    def list_lines(self, path: str) -> list[bytes]:
        """Return the URIs of the files that a manifest names."""
        start, count = self._ranges[path]
        lines: list[bytes] = self._lines.slice(start, count).to_pylist()
        return lines


def _index_directories(directories: ArrowArray) -> dict[str, tuple[int, int]]:
    """Return the first row and the number of rows of each manifest, for a sorted column of directories."""
    ranges = dict[str, tuple[int, int]]()
    counts = pc.value_counts(directories)
    start = 0
    for directory, count in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
        path = "/".join(filter(None, (MANIFESTS, directory, MANIFEST_NAME)))
        ranges[path] = (start, count)
        start += count
    return ranges


def build_live_manifests(snapshot: Snapshot) -> LiveManifests | Refusal:
    """Return the manifests of a version, or the reason why it cannot have any.

    A list of files can say nothing about renamed columns and deleted rows, so readers would get wrong results.
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

    list_lines = partial(
        _list_manifest_lines,
        print_root(table.storage.uri),
        PathKeys((table.storage.uri, *table.storage.aliases)),
        tuple(snapshot.metadata.partition_columns),
        find_undecoded_paths(snapshot),
    )
    batches = list(snapshot.file_actions.map_actions("add", list_lines, fields=_ADD_FIELDS))
    files_with_vectors = sum(batch.files_with_vectors for batch in batches)
    if files_with_vectors:
        return Refusal(
            "manifests.vectors",
            f"{plural(files_with_vectors, 'file')} with deleted rows, which readers of lists would show",
            command("optimize", purge=True, dry_run=True),
        )
    lines = pa.Table.from_batches([batch.lines for batch in batches], _LINE_SCHEMA)
    if pc.any(pc.match_substring_regex(lines.column("line"), "[\r\n]")).as_py():
        message = "a path with a line break, which a list of lines cannot name"
        return Refusal("manifests.line-break", message, command("validate", select=["path.*"]))

    order = pc.sort_indices(lines, sort_keys=[("directory", "ascending"), ("line", "ascending")])
    return LiveManifests(lines.take(order), is_partitioned=bool(snapshot.metadata.partition_columns))


@dataclass(frozen=True, slots=True)
class _ManifestLines:
    """The lines of a batch of live files.

    Attributes:
        lines: A row per file, in the columns of `_LINE_SCHEMA`.
        files_with_vectors: How many of the files have deleted rows.
    """

    lines: pa.RecordBatch
    files_with_vectors: int


def _list_manifest_lines(
    root: bytes, path_keys: PathKeys, columns: tuple[str, ...], undecoded: ArrowArray, adds: pa.RecordBatch
) -> _ManifestLines:
    """Return the lines of a batch of live files.

    Args:
        root: The URI of the table as Hadoop prints it.
        path_keys: Tells which paths are below the table.
        columns: The partition columns.
        undecoded: The paths of live files whose escapes are part of their names.
        adds: Their adds, with the fields `_ADD_FIELDS`.
    """
    # The lines have the paths as they are in the store: decoded, and below the root of the table.
    paths = encode_undecoded_paths(adds.column("path"), undecoded)
    decoded_paths = pc.cast(decode_column(paths), pa.large_binary())
    text_type = decoded_paths.type
    lines_below = pc.binary_join_element_wise(
        pa.scalar(root + b"/", text_type), decoded_paths, pa.scalar(b"", text_type)
    )
    # An absolute path is in the log as its writer spelled it, also with the empty authority that Hadoop does not print.
    absolute_lines = print_absolute(decoded_paths)
    is_absolute = are_absolute(paths)
    lines = pc.if_else(is_absolute, absolute_lines, lines_below)
    is_outside = pc.and_(is_absolute, pc.is_null(path_keys.of_log(paths).keys))

    partition_values = adds.column("partitionValues")
    levels = list[ArrowArray]()
    for name in columns:
        values = pc.map_lookup(partition_values, query_key=pa.scalar(name), occurrence="first")
        levels.append(_name_partition_directories(name, values))
    if levels:
        directories = pc.binary_join_element_wise(*levels, "/")
    else:
        directories = pa.repeat(pa.scalar(""), len(lines))

    vectors = adds.column("deletionVector")
    batch = pa.record_batch([directories, lines, is_outside], _LINE_SCHEMA.names)
    return _ManifestLines(batch, files_with_vectors=len(vectors) - vectors.null_count)


def _name_partition_directories(column: str, values: ArrowArray) -> ArrowArray:
    """Return the directory name `column=value` of each value. Equal values are formatted once."""
    distinct = pc.dictionary_encode(values, null_encoding="encode")
    names = [directory_of({column: value}) for value in distinct.dictionary.to_pylist()]
    return pc.take(pa.array(names), distinct.indices)
