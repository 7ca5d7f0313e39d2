"""A healthy table of thirteen versions with real data files, and the 27 damages on which tools are compared.

Each damage is one thing that happened to the table. `docs/corruptions.md` shows what every tool makes of it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from tests.rules.data_table import DataTable, rows_of
from tests.rules.table_builder import write_rows

LOG = "_delta_log/"
HINT = f"{LOG}_last_checkpoint"
CHECKPOINT_VERSION = 7
CHECKPOINT = f"{LOG}{CHECKPOINT_VERSION:020d}.checkpoint.parquet"
LAST = 12
BEFORE_CHECKPOINT, MIDDLE, DELETION, ADDITION = 5, 9, 10, 11
"""Versions that are damaged: one before the checkpoint, and after it one that adds, one that deletes 30 rows, and the
one whose file is damaged: the newest but one, as the newest might be treated in a way of its own."""
FIRST_IDENTITY = 100
"""Rows from this `id` on are asked for with a condition: three files of eight, the damaged one among them."""

Row = tuple[int, str | None, str | None]


class DamagedTable(DataTable):
    """Partitioned by `p`; 80 rows in eight files. Three versions as in `TableBuilder`, one file more in each other, but
    for the deletion of three files; a checkpoint and its hint. There are no checksums: not every writer makes them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.checkpoint_version = CHECKPOINT_VERSION
        self.has_checksums = False
        for version in range(4, LAST + 1):
            if version == DELETION:
                removes = [self.new_remove(*self.partition_and_number(removed), version) for removed in (3, 4, 5)]
                self.commit(*removes, operation="DELETE")
                for number, removed in enumerate((3, 4, 5)):
                    self.action(version, "remove", number)["size"] = self.add(removed)["size"]
            else:
                partition, number = self.partition_and_number(version)
                add = self.new_add(partition, number, version)
                self.put_rows(add["add"], rows_of(number), version)
                self.commit(add)

    @staticmethod
    def partition_and_number(version: int) -> tuple[str, int]:
        """The partition and the number of the one file that a version from 3 on adds."""
        return "ab"[version % 2], version + 1

    def healthy_rows(self) -> list[Row]:
        """The rows of the newest version, as they are while nothing is damaged."""
        found: list[Row] = []
        for add in self.replay(LAST)["add"].values():
            rows = self.tables[unquote(add["path"])].to_pylist()
            found += [(row["id"], row["name"], add["partitionValues"]["p"]) for row in rows]
        return sorted(found)


class TableDamage(NamedTuple):
    """`apply` damages a table before, or as, it is written; `title` says what happened, in Markdown; `file` is what is
    damaged, relative to the table, and in a good message.
    """

    name: str
    title: str
    file: str
    apply: Callable[[DamagedTable], None]


TABLE_DAMAGES: list[TableDamage] = []
Apply = Callable[[DamagedTable], None]


def commit(version: int) -> str:
    return f"{LOG}{version:020d}.json"


def tables() -> Iterator[tuple[str, DamagedTable]]:
    """The healthy table, named `healthy`, and then each damaged one under the name of its damage; not written yet."""
    yield "healthy", DamagedTable()
    for damage in TABLE_DAMAGES:
        table = DamagedTable()
        damage.apply(table)
        yield damage.name, table


def damage(title: str, file: str) -> Callable[[Apply], Apply]:
    """Register a damage under the name of its function."""

    def register(apply: Apply) -> Apply:
        TABLE_DAMAGES.append(TableDamage(apply.__name__, title, file, apply))
        return apply

    return register


ADDED = DamagedTable().add(ADDITION)["path"]
"""The data file that is damaged."""


@damage("a commit after the checkpoint is missing", commit(MIDDLE))
def lose_a_commit_after_the_checkpoint(table: DamagedTable) -> None:
    table.drop(commit(MIDDLE))


@damage("a commit before the checkpoint is missing", commit(BEFORE_CHECKPOINT))
def lose_a_commit_before_the_checkpoint(table: DamagedTable) -> None:
    table.drop(commit(BEFORE_CHECKPOINT))


@damage("the last commit is cut off", commit(LAST))
def tear_the_last_commit(table: DamagedTable) -> None:
    table.edit_lines(LAST, lambda data: data[:-30])


@damage("a commit in the middle is cut off", commit(MIDDLE))
def tear_a_middle_commit(table: DamagedTable) -> None:
    table.edit_lines(MIDDLE, lambda data: data[:-30])


@damage("a commit, a DELETE, has 0 bytes", commit(DELETION))
def empty_a_commit(table: DamagedTable) -> None:
    table.edit_lines(DELETION, lambda _: b"")


@damage("`_last_checkpoint` is empty", HINT)
def empty_the_hint(table: DamagedTable) -> None:
    table.put(HINT, b"")


@damage("`_last_checkpoint` is no JSON", HINT)
def garble_the_hint(table: DamagedTable) -> None:
    table.put(HINT, b'{"version":')


@damage("`_last_checkpoint` names a later checkpoint that is not there", HINT)
def hint_past_the_newest_checkpoint(table: DamagedTable) -> None:
    table.edit_json("_last_checkpoint", lambda hint: hint | {"version": DELETION})


@damage("the checkpoint has 0 bytes", CHECKPOINT)
def empty_the_checkpoint(table: DamagedTable) -> None:
    table.put(CHECKPOINT, b"")


@damage("the checkpoint is cut off", CHECKPOINT)
def tear_the_checkpoint(table: DamagedTable) -> None:
    table.edit_files(lambda root: tear(root / CHECKPOINT))


@damage("one of two parts of the checkpoint is missing", f"{LOG}{CHECKPOINT_VERSION:020d}.checkpoint.0000000002.000000")
def lose_a_part(table: DamagedTable) -> None:
    table.derive(checkpoint=False, checksums=False)
    name = f"{LOG}{CHECKPOINT_VERSION:020d}.checkpoint.0000000001.0000000002.parquet"
    table.edit_files(lambda root: write_rows(root / name, table.rows(CHECKPOINT_VERSION)))


@damage("a data file is missing", ADDED)
def lose_a_data_file(table: DamagedTable) -> None:
    table.drop(ADDED)


@damage("a data file is cut off", ADDED)
def tear_a_data_file(table: DamagedTable) -> None:
    table.edit_files(lambda root: tear(root / ADDED))


@damage("an add names another size than its file has", ADDED)
def say_another_size(table: DamagedTable) -> None:
    table.add(ADDITION)["size"] += 1000


@damage("a commit adds a file twice", commit(ADDITION))
def add_twice(table: DamagedTable) -> None:
    table.commits[ADDITION].append({"add": table.add(ADDITION)})


@damage("a commit adds a file and removes it", commit(ADDITION))
def add_and_remove(table: DamagedTable) -> None:
    remove = table.new_remove(*table.partition_and_number(ADDITION), ADDITION, size=table.add(ADDITION)["size"])
    table.commits[ADDITION].append(remove)


@damage("a commit has two `metaData`", commit(ADDITION))
def two_metadata(table: DamagedTable) -> None:
    table.commits[ADDITION] += [table.change_metadata(), table.change_metadata()]


@damage("a commit has an unknown action", commit(ADDITION))
def unknown_action(table: DamagedTable) -> None:
    table.commits[ADDITION].append({"holiday": {"from": 1}})


@damage("a commit removes a file that never was", commit(ADDITION))
def remove_what_never_was(table: DamagedTable) -> None:
    table.commits[ADDITION].append(table.new_remove("b", 99, ADDITION))


@damage("the statistics of a file are no JSON", ADDED)
def statistics_that_are_no_json(table: DamagedTable) -> None:
    table.add(ADDITION)["stats"] = "{numRecords"


@damage("an add has `partitionValues` `{}`", ADDED)
def no_partition_values(table: DamagedTable) -> None:
    table.add(ADDITION)["partitionValues"] = {}


@damage("the statistics of a file have a wrong minimum and maximum", ADDED)
def wrong_bounds(table: DamagedTable) -> None:
    stats = table.stats(ADDITION)
    stats["minValues"]["id"], stats["maxValues"]["id"] = 0, 9
    table.add(ADDITION)["stats"] = json.dumps(stats, separators=(",", ":"))


@damage("the statistics of a file have a wrong `numRecords`", ADDED)
def wrong_number_of_records(table: DamagedTable) -> None:
    table.add(ADDITION)["stats"] = json.dumps(table.stats(ADDITION) | {"numRecords": 82}, separators=(",", ":"))


@damage("the protocol has `readerFeatures` at reader version 1", commit(0))
def features_at_reader_version_1(table: DamagedTable) -> None:
    table.protocol["readerFeatures"] = ["deletionVectors"]


@damage("the path of an add is badly encoded", "part%zz.parquet")
def badly_encoded_path(table: DamagedTable) -> None:
    add = table.add(ADDITION)
    path = add["path"].rpartition("/")[0] + "/part%zz.parquet"
    table.tables[path], table.bytes[path] = table.tables[add["path"]], table.bytes[add["path"]]
    add["path"] = path


@damage("the first commit is missing, and there is no checkpoint", commit(0))
def lose_the_head(table: DamagedTable) -> None:
    table.derive(checkpoint=False, checksums=False)
    table.drop(commit(0))


@damage("the whole log is missing", LOG.rstrip("/"))
def lose_the_log(table: DamagedTable) -> None:
    table.edit_files(lambda root: shutil.rmtree(root / LOG))


def tear(path: Path) -> None:
    """Cut a file in half, and leave its time as it was."""
    data, modified_ns = path.read_bytes(), path.stat().st_mtime_ns
    path.write_bytes(data[: len(data) // 2])
    os.utime(path, ns=(modified_ns, modified_ns))
