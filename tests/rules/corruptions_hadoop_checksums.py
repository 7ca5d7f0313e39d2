"""Damages of the checksum files that Spark leaves beside files of local disks: stale, cut off, or right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.rules.corruptions import damage
from tests.rules.corruptions_checkpoints import CHECKPOINT, v2
from tests.rules.data_table import DataTable
from tests.rules.table_builder import NOW_MS, TableBuilder, set_time
from tests.support.hadoop import write_checksum


def edited(edit: Callable[[Path], Path], table: TableBuilder | None = None) -> TableBuilder:
    """A table with a checksum file that `edit` writes and returns; it is not new."""
    table = table or TableBuilder()
    table.edit_files(lambda root: set_time(edit(root), NOW_MS - 3_600_000))
    return table


@damage("storage.hadoop-checksum")
def checksum_file_of_a_checkpoint_before() -> TableBuilder:
    return edited(lambda root: write_checksum(root / CHECKPOINT, b"other bytes"))


@damage("storage.hadoop-checksum")
def checksum_file_of_a_sidecar_before() -> TableBuilder:
    def edit(root: Path) -> Path:
        sidecar = next((root / "_delta_log" / "_sidecars").glob("*.parquet"))
        return write_checksum(sidecar, b"other bytes")

    return edited(edit, v2())


@damage("storage.hadoop-checksum")
def checksum_file_of_a_data_file_before() -> TableBuilder:
    def edit(root: Path) -> Path:
        first, second = sorted(path for path in root.rglob("*.parquet") if "_delta_log" not in path.parts)[:2]
        return write_checksum(first, second.read_bytes()[1:])

    return edited(edit, DataTable())


@damage("storage.hadoop-checksum")
def checksum_file_that_was_cut_off() -> TableBuilder:
    def edit(root: Path) -> Path:
        checksum = write_checksum(root / "_delta_log" / "_last_checkpoint")
        checksum.write_bytes(checksum.read_bytes()[:-1])
        return checksum

    return edited(edit)


@damage("storage.hadoop-checksum")
def data_file_that_was_damaged_behind_its_beginning() -> TableBuilder:
    def edit(root: Path) -> Path:
        file = min(path for path in root.rglob("*.parquet") if "_delta_log" not in path.parts)
        written = file.read_bytes()
        return write_checksum(file, written[:-1] + bytes([written[-1] ^ 1]))

    return edited(edit, DataTable())
