"""The very edges of rules about files: their sizes, times, vectors, row ids and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.delta.log.file_actions import SMALL_FILE_BYTES
from deltacli.delta.log.state import TableConfiguration
from deltacli.rules.files.storage import MANY_SMALL_FILES, many_small_files
from deltacli.rules.framework.views import StateView
from tests.rules.corruptions_checkpoints import begin_at_checkpoint
from tests.rules.corruptions_clustering import clustered_table
from tests.rules.corruptions_deletion_vectors import VECTOR_FILE, absolute_path_into_the_table, table_with_a_vector
from tests.rules.corruptions_paths import rename
from tests.rules.corruptions_row_tracking import again, tagged, tracked_table
from tests.rules.corruptions_statistics import table_with
from tests.rules.edges import Edges, Make, assert_reports, found_by
from tests.rules.table_builder import Action, TableBuilder, set_time

EDGES = Edges()

INTERVAL = "interval year to month"


# -- the directory ---------------------------------------------------------------------------------------------------


@EDGES.reports()
def file_modified_as_late_as_may_be() -> TableBuilder:
    table = TableBuilder()
    table.touch(table.add(3)["path"], table.time_of(3) + 300_000)
    return table


def with_value(path: str, value: str) -> TableBuilder:
    """The table with one more file of a partition."""
    table = TableBuilder()
    table.commit(table.new_add("x", 5, 4, path=path, partitionValues={"p": value}))
    return table


@EDGES.reports("partition.dir-mismatch")
def directories_of_two_values_for_one_with_a_slash() -> TableBuilder:
    return with_value("p=a/p=z/part-00005.parquet", "a/p=z")


@EDGES.reports("partition.dir-mismatch")
def directory_of_the_beginning_of_a_value_with_a_slash() -> TableBuilder:
    return with_value("p=a/p=z0", "a/p=z")


@EDGES.reports()
def directory_of_a_value_with_a_slash() -> TableBuilder:
    return with_value("p=a%252Fp%253Dz/part-00005.parquet", "a/p=z")


@EDGES.reports()
def file_beside_the_directory_of_its_value() -> TableBuilder:
    return with_value("p=b0", "b")


@EDGES.reports("dv.absolute-in-root", "path.file-uri-form")
def vectors_file_of_another_name() -> TableBuilder:
    """What names it is its path alone."""
    table = absolute_path_into_the_table()

    def give_another_name(root: Path) -> None:
        (root / VECTOR_FILE).rename(root / "rows.bin")
        commit = root / "_delta_log" / f"{4:020d}.json"
        commit.write_text(commit.read_text().replace(VECTOR_FILE, "rows.bin"))
        set_time(commit, table.time_of(4))

    table.edit_files(give_another_name)
    return table


# -- statistics ------------------------------------------------------------------------------------------------------


@EDGES.reports("dv.num-records-missing")
def file_with_a_vector_and_no_count_of_records() -> TableBuilder:
    """Among statistics, not without any."""
    table = table_with_a_vector()
    stats = table.stats(4)
    del stats["numRecords"]
    table.set_stats(4, stats)
    return table


@EDGES.reports("dv.num-records-missing", "stats.num-records-missing")
def files_with_and_without_a_vector_and_no_count_of_records() -> TableBuilder:
    table = file_with_a_vector_and_no_count_of_records()
    table.commits[4].append(table.new_add("c", 9, 4, stats='{"minValues":{"id":90},"maxValues":{"id":99}}'))
    return table


@EDGES.reports("dv.empty")
def tight_bounds_beside_a_vector_of_no_row() -> TableBuilder:
    table = table_with_a_vector()
    table.add(4)["deletionVector"]["cardinality"] = 0
    table.set_stats(4, table.stats(4) | {"tightBounds": True})
    return table


@EDGES.reports()
def count_of_nulls_of_an_interval() -> TableBuilder:
    table = table_with(INTERVAL, 0, 0, nulls=3)
    stats = table.stats(3)
    del stats["minValues"]["x"], stats["maxValues"]["x"]
    table.set_stats(3, stats)
    return table


@EDGES.reports("stats.interval-bounds")
def minimum_of_an_interval_alone() -> TableBuilder:
    table = table_with(INTERVAL, "INTERVAL '1-0' YEAR TO MONTH", 0)
    stats = table.stats(3)
    del stats["nullCount"]["x"], stats["maxValues"]["x"]
    table.set_stats(3, stats)
    return table


def clustered_from_a_checkpoint(*, without: int) -> TableBuilder:
    """A log that begins with a checkpoint, some of whose two files have no statistics."""
    table = clustered_table([["id"]])

    def drop(rows: list[Action]) -> None:
        for row in [row for row in rows if "add" in row][:without]:
            row["add"]["stats"] = None

    table.edit_rows(drop)
    return begin_at_checkpoint(table)


@EDGES.reports("checkpoint.replay-unavailable", "history.restore-risk")
def checkpoint_of_a_clustered_table_without_any_statistics() -> TableBuilder:
    """They may be in columns of their own."""
    return clustered_from_a_checkpoint(without=2)


@EDGES.reports("checkpoint.replay-unavailable", "history.restore-risk", "stats.clustering-missing")
def checkpoint_of_a_clustered_table_with_statistics_of_one_file() -> TableBuilder:
    return clustered_from_a_checkpoint(without=1)


@pytest.mark.parametrize(("rules", "make"), EDGES, ids=lambda value: getattr(value, "__name__", ""))
def test_exactly_these_rules_report(rules: frozenset[str], make: Make, tmp_path: Path) -> None:
    assert_reports(rules, make, tmp_path)


# -- small files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "is_told"),
    [
        ([SMALL_FILE_BYTES - 1] * MANY_SMALL_FILES, True),
        ([SMALL_FILE_BYTES - 1] * (MANY_SMALL_FILES - 1), False),
        ([SMALL_FILE_BYTES] * MANY_SMALL_FILES, False),
        ([1] * MANY_SMALL_FILES + [SMALL_FILE_BYTES] * (MANY_SMALL_FILES - 1), True),
        ([1] * MANY_SMALL_FILES + [SMALL_FILE_BYTES] * MANY_SMALL_FILES, False),
        ([], False),
    ],
)
def test_a_hundred_small_files_are_reported_if_they_are_the_majority(sizes: Sequence[int], is_told: bool) -> None:
    live = pa.table({"size": pa.array(sizes, pa.int64())})
    view = StateView(version=7, config=TableConfiguration(), transactions={}, domains={}, live=live, now_ms=0)

    assert [str(MANY_SMALL_FILES)] * is_told == [finding.seen for finding in many_small_files(view)]


# -- places and words ------------------------------------------------------------------------------------------------


def added_first(table: TableBuilder, **changes: object) -> TableBuilder:
    """The table with one more file, added by its very first version."""
    table.commits[0].append(table.new_add("b", 7, 0, **changes))
    return table


def missing_from(version: int) -> Make:
    def make() -> TableBuilder:
        table = added_first(TableBuilder())
        table.drop(table.add(version)["path"])
        return table

    return make


@pytest.mark.parametrize(("version", "line"), [(0, 4), (3, 2)])
def test_a_missing_file_is_reported_where_it_was_added(version: int, line: int, tmp_path: Path) -> None:
    (found,) = found_by("data.file-missing", missing_from(version), tmp_path)

    assert (f"_delta_log/{version:020d}.json", line, version) == found.place[:3]


def test_a_missing_file_known_from_a_checkpoint_is_reported_there(tmp_path: Path) -> None:
    (found,) = found_by("data.file-missing", lambda: begin_at_checkpoint(missing_from(2)()), tmp_path)

    assert (f"_delta_log/{2:020d}.checkpoint.parquet", None, None) == found.place[:3]


def without_row_ids() -> TableBuilder:
    return added_first(tracked_table())


def test_a_file_without_row_ids_is_reported_where_it_was_added(tmp_path: Path) -> None:
    (found,) = found_by("rowtracking.base-row-id-missing", without_row_ids, tmp_path)

    assert (f"_delta_log/{0:020d}.json", None, 0) == found.place[:3]


def test_changed_row_ids_are_reported_with_the_change_of_the_file(tmp_path: Path) -> None:
    def change_of(kind: str) -> Make:
        def make() -> TableBuilder:
            table = tracked_table()
            if kind == "add":
                tagged(table, again(table, baseRowId=25))
            else:
                table.action(2, "remove")["baseRowId"] = 5
            return table

        return make

    (added,) = found_by("rowtracking.base-row-id-changed", change_of("add"), tmp_path / "add")
    (removed,) = found_by("rowtracking.base-row-id-changed", change_of("remove"), tmp_path / "remove")

    assert f"{added.place.key} is added again with the baseRowId 25, but had 30" == added.message
    assert f"{removed.place.key} is removed with the baseRowId 5, but had 0" == removed.message


def double_encoded(version: int) -> Make:
    """A file whose path is encoded twice, added by a version."""

    def make() -> TableBuilder:
        table = TableBuilder()
        path = "p=b/part%25205.parquet"
        if version == 0:
            added_first(table, path=path)
        else:
            table.add(version)["path"] = path
        table.edit_files(lambda root: rename(root, "p=b/part%205.parquet", b"p=b/part 5.parquet"))
        return table

    return make


@pytest.mark.parametrize(("version", "line"), [(0, 4), (2, 3), (3, 2)])
def test_a_path_encoded_twice_is_reported_where_it_was_written(version: int, line: int, tmp_path: Path) -> None:
    (found,) = found_by("path.double-encoded", double_encoded(version), tmp_path)

    assert (f"_delta_log/{version:020d}.json", line, version) == found.place[:3]


def test_a_path_encoded_twice_in_a_checkpoint_is_reported_there(tmp_path: Path) -> None:
    (found,) = found_by("path.double-encoded", lambda: begin_at_checkpoint(double_encoded(0)()), tmp_path)

    assert (f"_delta_log/{2:020d}.checkpoint.parquet", None, None) == found.place[:3]
