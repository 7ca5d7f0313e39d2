"""The damages on which other readers were measured: each is found, and in the right file.

Two of the 27 (wrong minima and maxima, a wrong number of records) show only in the footers of data files, which are
real there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rules.data_table import DataTable
from tests.rules.table_builder import TableBuilder, write_rows
from tests.rules.test_corruptions import inspect

LOG = "_delta_log/"


def commit(version: int) -> str:
    return f"{LOG}{version:020d}.json"


CHECKPOINT = f"{LOG}00000000000000000002.checkpoint.parquet"
HINT = f"{LOG}_last_checkpoint"
Damage = Callable[[TableBuilder], None]


def lose_a_commit_after_the_checkpoint(table: TableBuilder) -> None:
    table.commit(table.new_add("b", 5, 4))
    table.drop(commit(3))


def lose_a_commit_before_the_checkpoint(table: TableBuilder) -> None:
    table.drop(commit(1))


def tear_the_last_commit(table: TableBuilder) -> None:
    table.edit_lines(3, lambda data: data[:-30])


def tear_a_middle_commit(table: TableBuilder) -> None:
    table.edit_lines(2, lambda data: data[:-30])


def empty_a_commit(table: TableBuilder) -> None:
    table.edit_lines(3, lambda _: b"")


def empty_the_hint(table: TableBuilder) -> None:
    table.put(HINT, b"")


def garble_the_hint(table: TableBuilder) -> None:
    table.put(HINT, b'{"version":')


def hint_past_the_newest_checkpoint(table: TableBuilder) -> None:
    table.edit_json("_last_checkpoint", lambda hint: hint | {"version": 3})


def empty_the_checkpoint(table: TableBuilder) -> None:
    table.put(CHECKPOINT, b"")


def tear_the_checkpoint(table: TableBuilder) -> None:
    def tear(root: Path) -> None:
        (root / CHECKPOINT).write_bytes((root / CHECKPOINT).read_bytes()[:-200])

    table.edit_files(tear)


def lose_a_part(table: TableBuilder) -> None:
    table.derive(checkpoint=False)
    name = f"{LOG}00000000000000000002.checkpoint.0000000001.0000000002.parquet"
    table.edit_files(lambda root: write_rows(root / name, table.rows(2)))


def lose_a_data_file(table: TableBuilder) -> None:
    table.drop(table.add(3)["path"])


def tear_a_data_file(table: TableBuilder) -> None:
    table.put(table.add(3)["path"], b"short", modified_ms=table.time_of(3))


def say_another_size(table: TableBuilder) -> None:
    path = table.add(3)["path"]
    table.put(path, b"x" * 1004, modified_ms=table.time_of(3))
    table.add(3)["size"] = 2000


def add_twice(table: TableBuilder) -> None:
    table.commits[3].append({"add": table.add(3)})


def add_and_remove(table: TableBuilder) -> None:
    table.commits[3].append(table.new_remove("b", 4, 3))


def two_metadata(table: TableBuilder) -> None:
    table.commits[3] += [table.change_metadata(), table.change_metadata()]


def unknown_action(table: TableBuilder) -> None:
    table.commits[3].append({"holiday": {"from": 1}})


def remove_what_never_was(table: TableBuilder) -> None:
    table.commits[3].append(table.new_remove("b", 99, 3))


def statistics_that_are_no_json(table: TableBuilder) -> None:
    table.add(3)["stats"] = "{numRecords"


def no_partition_values(table: TableBuilder) -> None:
    table.add(3)["partitionValues"] = {}


def features_at_reader_version_1(table: TableBuilder) -> None:
    table.protocol["readerFeatures"] = ["deletionVectors"]


def badly_encoded_path(table: TableBuilder) -> None:
    table.add(3)["path"] = "p=b/part%zz.parquet"


def lose_the_head(table: TableBuilder) -> None:
    table.derive(checkpoint=False)
    table.drop(commit(0))


def lose_the_log(table: TableBuilder) -> None:
    import shutil

    table.edit_files(lambda root: shutil.rmtree(root / LOG))


def claim_other_bounds(table: DataTable) -> None:
    table.set_stats(3, table.stats(3) | {"minValues": {"id": 900}, "maxValues": {"id": 999}})


def claim_other_records(table: DataTable) -> None:
    table.set_stats(3, table.stats(3) | {"numRecords": 5})


MATRIX: list[tuple[Damage, str, str]] = [
    (lose_a_commit_after_the_checkpoint, "log.gap", commit(3)),
    (lose_a_commit_before_the_checkpoint, "log.gap", commit(1)),
    (tear_the_last_commit, "commit.bad-json", commit(3)),
    (tear_a_middle_commit, "commit.bad-json", commit(2)),
    (empty_a_commit, "commit.empty", commit(3)),
    (empty_the_hint, "hint.bad-json", HINT),
    (garble_the_hint, "hint.bad-json", HINT),
    (hint_past_the_newest_checkpoint, "hint.checkpoint-missing", HINT),
    (empty_the_checkpoint, "checkpoint.zero-length", CHECKPOINT),
    (tear_the_checkpoint, "checkpoint.unreadable", CHECKPOINT),
    (lose_a_part, "checkpoint.multipart-incomplete", "00000000000000000002.checkpoint.000000000"),
    (lose_a_data_file, "data.file-missing", commit(3)),
    (tear_a_data_file, "data.size-mismatch", commit(3)),
    (say_another_size, "data.size-mismatch", commit(3)),
    (add_twice, "action.duplicate-path", commit(3)),
    (add_and_remove, "action.add-remove-same-key", commit(3)),
    (two_metadata, "commit.duplicate-metadata", commit(3)),
    (unknown_action, "commit.unknown-action", commit(3)),
    (remove_what_never_was, "action.remove-of-unknown", commit(3)),
    (statistics_that_are_no_json, "stats.bad-json", commit(3)),
    (no_partition_values, "partition.key-missing", commit(3)),
    (features_at_reader_version_1, "protocol.features-on-legacy", commit(0)),
    (badly_encoded_path, "path.bad-encoding", commit(3)),
    (lose_the_head, "log.start-missing", LOG.rstrip("/")),
    (lose_the_log, "log.not-a-table", LOG.rstrip("/")),
]


OF_FOOTERS: list[tuple[Callable[[DataTable], None], str]] = [
    (claim_other_bounds, "stats.bounds-not-covering"),
    (claim_other_records, "stats.num-records-mismatch"),
]


@pytest.mark.parametrize(("damage", "rule", "place"), MATRIX, ids=lambda value: getattr(value, "__name__", None))
def test_a_measured_damage_is_found(damage: Damage, rule: str, place: str, tmp_path: Path) -> None:
    table = TableBuilder()
    damage(table)

    found = inspect(table.write(tmp_path / "t"))

    places = [finding.place.path for finding in found.findings if finding.rule.id == rule]
    assert any(place in path for path in places), (places, [f.rule.id for f in found.findings])


@pytest.mark.parametrize("level", ["footers", "data"])
@pytest.mark.parametrize(("damage", "rule"), OF_FOOTERS, ids=lambda value: getattr(value, "__name__", None))
def test_a_measured_damage_is_found_in_footers(
    damage: Callable[[DataTable], None], rule: str, level: str, tmp_path: Path
) -> None:
    table = DataTable()
    damage(table)

    found = inspect(table.write(tmp_path / "t"), level)

    assert {rule} == {finding.rule.id for finding in found.findings}
    assert {commit(3)} == {finding.place.path for finding in found.findings}
