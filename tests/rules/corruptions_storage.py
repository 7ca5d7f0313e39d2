"""Damages of a table's files: missing, overwritten, left over, or of somebody else."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq

from tests.rules.corruptions import damage
from tests.rules.corruptions_log_files import DAY_MS, OldTable
from tests.rules.table_builder import NOW_MS, Action, TableBuilder

WEEK_MS = 7 * DAY_MS


class RecentTable(OldTable):
    """Its tombstones are expired, its log is not."""

    days = 20


@damage("data.file-missing")
def live_file_is_missing() -> TableBuilder:
    table = TableBuilder()
    table.drop(table.add(3)["path"])
    return table


# With the older commits gone there is nothing to compare the checkpoint with.
@damage("data.file-missing", also=("checkpoint.replay-unavailable",))
def live_file_of_the_checkpoint_is_missing() -> TableBuilder:
    table = TableBuilder()
    for version in (0, 1):
        table.drop(f"_delta_log/{version:020d}.json")
        table.drop(f"_delta_log/{version:020d}.crc")
    table.drop(table.add(2)["path"])
    return table


@damage("data.size-mismatch")
def live_file_lacks_a_byte() -> TableBuilder:
    table = TableBuilder()
    add = table.add(3)
    table.put(add["path"], b"x" * (add["size"] - 1), modified_ms=table.time_of(3) - 1000)
    return table


@damage("data.modified-after-add")
def live_file_is_newer_than_its_commit() -> TableBuilder:
    table = TableBuilder()
    table.touch(table.add(3)["path"], table.time_of(3) + 300_001)
    return table


def manifest(table: TableBuilder, *paths: str, root: str = "s3://lake/t") -> TableBuilder:
    lines = "".join(f"{root}/{path}\n" for path in paths)
    table.put("_symlink_format_manifest/p=a/manifest", lines.encode(), modified_ms=NOW_MS)
    return table


@damage("data.manifest-stale")
def manifest_names_a_removed_file() -> TableBuilder:
    table = TableBuilder()
    return manifest(table, *(table.path_of(*file) for file in (("a", 1), ("b", 2), ("a", 3), ("b", 4))))


@damage("data.manifest-stale")
def manifest_lacks_a_live_file() -> TableBuilder:
    table = TableBuilder()
    return manifest(table, *(table.path_of(*file) for file in (("b", 2), ("a", 3))))


@damage("data.orphan")
def unknown_file_of_last_week() -> TableBuilder:
    table = TableBuilder()
    table.put("p=a/part-00099.parquet", b"PAR1", modified_ms=NOW_MS - WEEK_MS - 1)
    return table


@damage("data.orphan-young")
def unknown_file_just_within_the_retention() -> TableBuilder:
    table = TableBuilder()
    table.put("p=a/part-00099.parquet", b"PAR1", modified_ms=NOW_MS - WEEK_MS)
    return table


@damage("data.expired-tombstone-present")
def removed_file_outlives_its_tombstone() -> TableBuilder:
    return RecentTable()


# Such a file is exactly what a version before its removal lacks, and then older versions can't be read whole.
@damage("data.file-missing-tombstoned", also=("history.time-travel-broken", "history.restore-risk"))
def removed_file_is_gone_too_early() -> TableBuilder:
    table = TableBuilder()
    table.drop(table.action(2, "remove")["path"])
    return table


@damage("data.small-files")
def hundred_small_files() -> TableBuilder:
    table = TableBuilder()
    table.commits[3] += [table.new_add("c", 100 + number, 3) for number in range(97)]
    for version, actions in table.commits.items():
        for add in [action["add"] for action in actions if "add" in action]:
            data = _rows_of(json.loads(add["stats"]))
            add["size"] = len(data)
            table.put(add["path"], data, modified_ms=table.time_of(version) - 1000)
    return table


def _rows_of(stats: Action) -> bytes:
    """A data file with these statistics."""
    first, last = stats["minValues"]["id"], stats["maxValues"]["id"]
    names = ["a", None, *["z"] * (last - first - 1)]
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(first, last + 1), pa.int64()), "name": names}), sink)
    return sink.getvalue()


# That the path is absolute, and that another table may own the file, is said of each such file.
@damage("data.unreachable", also=("data.shared-file", "path.absolute"))
def live_file_on_another_store() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["path"] = "s3://elsewhere/part-00001.parquet"
    return table


@damage("data.shared-file", also=("path.absolute",))
def live_file_outside_the_table() -> TableBuilder:
    table = TableBuilder()
    table.add(3)["path"] = "file:///dev/null"
    return table
