"""Which files a z-order or clustering sorts together, and which it leaves alone."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pytest

from deltacli.delta.clustering.sorting import ChosenFiles, files_to_cluster, files_to_z_order, z_order_tag

GIB = 1 << 30
A, B, OLD = '["a","b"]', '[ "a", "b" ]', '["a"]'


class File(NamedTuple):
    gib: int
    cube: str | None = None
    columns: str | None = None
    is_excluded: bool = False


def clustered(files: list[File]) -> ChosenFiles:
    sizes, cubes, columns, excluded = (list(column) for column in zip(*files, strict=True)) if files else ([],) * 4
    return files_to_cluster(
        pa.array([size * GIB for size in sizes], pa.int64()),
        pa.array(cubes, pa.string()),
        pa.array(columns, pa.string()),
        ["a", "b"],
        pa.array(excluded, pa.bool_()),
    )


def together(chosen: ChosenFiles) -> list[list[int]]:
    return [chosen.order.slice(start, stop - start).to_pylist() for start, stop in chosen.bounds]


@pytest.mark.parametrize(
    ("files", "expected", "skipped"),
    [
        ([], [], {}),
        ([File(1), File(2)], [[0, 1]], {}),
        ([File(1)], [[0]], {}),
        ([File(1, "x", A), File(1, "x", B)], [], {"sorted": 2}),
        ([File(1, "x", A), File(1)], [[0, 1]], {}),
        ([File(60, "x", A), File(1), File(40, "x", A)], [[1]], {"sorted": 2}),
        ([File(1, "y", A), File(1, "x", A), File(1, "y", A)], [[0, 2, 1]], {}),
        ([File(1, "x", OLD), File(1, "x", OLD)], [], {"other-clustering": 2}),
        ([File(1, "x", OLD), File(1), File(1, "y", A)], [[2, 1]], {"other-clustering": 1}),
        ([File(1, "x", "{"), File(1, "x", None)], [[1]], {"other-clustering": 1}),
        ([File(1, is_excluded=True), File(1)], [[1]], {}),
        ([File(1, is_excluded=True), File(1, "x", A)], [], {"sorted": 1}),
        ([File(100), File(50), File(1), File(200), File(1)], [[0, 1], [2], [3], [4]], {}),
    ],
)
def test_small_cubes_and_new_files_are_clustered(
    files: list[File], expected: list[list[int]], skipped: dict[str, int]
) -> None:
    chosen = clustered(files)

    assert expected == together(chosen)
    assert skipped == dict(chosen.skipped)


def test_a_second_run_of_clustering_has_nothing_to_do() -> None:
    cubes = [together(clustered([File(7)] * 60))]

    files = [File(7, str(number), A) for number, places in enumerate(cubes[0]) for _ in places]

    assert [21, 21, 18] == [len(places) for places in cubes[0]]
    assert [] == together(clustered(files))


def test_a_z_order_sorts_the_partitions_in_which_a_file_lacks_the_tag() -> None:
    tag, other = z_order_tag([("a",), ("s", "b")]), z_order_tag([("a",)])
    tags = [tag, tag, other, tag, None, None, tag]
    groups = [1, 1, 0, 0, 2, 3, 3]
    excluded = [False, False, False, False, True, False, True]

    chosen = files_to_z_order(
        pa.array(groups, pa.int32()),
        pa.array([GIB] * 7, pa.int64()),
        pa.array(tags, pa.string()),
        tag,
        pa.array(excluded, pa.bool_()),
    )

    assert '["a", ["s", "b"]]' == tag
    assert [[2, 3], [5]] == together(chosen)
    assert {"sorted": 2} == dict(chosen.skipped)
