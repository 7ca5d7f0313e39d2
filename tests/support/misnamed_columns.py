"""Tables with column mapping, and files of a writer that ignores it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltacli import open_table
from deltacli.api.table import Table
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove
from tests.support.altering import MAPPED
from tests.support.builder import TableBuilder, commit_path
from tests.support.rows import parquet_bytes, schema_of

FIRST = "first.parquet"
FOREIGN = "foreign.parquet"


def make_upgraded(root: Path, rows: pa.Table, *changes: dict[str, Any]) -> Table:
    """Write a table with rows in one file, enable column mapping by name, and alter it."""
    data = parquet_bytes(rows)
    born = metadata(schema_string=schema_of(rows))
    builder = TableBuilder().file(FIRST, data)
    builder.commit(protocol(1, 2), born, add(FIRST, size=len(data), records=rows.num_rows)).write(root)
    alter(root, MAPPED, *changes)
    return open_table(root)


def alter(root: Path, *changes: dict[str, Any]) -> None:
    """Alter a table by one commit per change."""
    for change in changes:
        open_table(root).alter([change], upgrade_protocol=True)


def append_unmapped(root: Path, rows: pa.Table, path: str = FOREIGN, stats: dict[str, Any] | None = None) -> Line:
    """Append a file whose columns are called as in `rows`, as a writer does that ignores column mapping."""
    data = parquet_bytes(rows)
    (root / path).write_bytes(data)
    statistics = {"numRecords": rows.num_rows, **(stats or {})}
    line = add(path, size=len(data), stats=json.dumps(statistics))
    commit_lines(root, commit_info(engineInfo="a writer without column mapping"), line)
    return line


def remove_file(root: Path, path: str, *others: Line) -> None:
    """Remove a file of an unpartitioned table by a commit, long ago."""
    commit_lines(root, remove(path, deleted_ms=1, size=(root / path).stat().st_size, partitionValues={}), *others)


def make_old(root: Path) -> None:
    """Give all files of a table, also those of its log, the time of a year ago."""
    long_ago = time.time() - 365 * 24 * 3600
    for path in root.rglob("*"):
        os.utime(path, (long_ago, long_ago))


def commit_lines(root: Path, *lines: Line) -> int:
    """Write the next commit of a table, and return its version."""
    version = open_table(root).snapshot().version + 1
    (root / commit_path(version)).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return version


def cut_log(root: Path) -> None:
    """Write a checkpoint of the newest version, and delete all commits before it."""
    table = open_table(root)
    table.checkpoint()
    newest = table.snapshot().version
    for version in range(newest):
        (root / commit_path(version)).unlink()
