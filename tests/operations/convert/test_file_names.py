"""Names of files that plain Spark gives, and those that only writers of Delta tables give."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from deltacli.api.table import open_table
from deltacli.core.errors import Refused
from tests.support.parquet_lake import put

A = "c687bbce-eeaa-4d98-8db9-bb0270467b56"
B = "9d4c3fcd-b083-4e90-8c3d-e86484fe3eb9"
C = "1d2c3fcd-b083-4e90-8c3d-e86484fe3eb9"
ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
JOB_END_MS = 1_796_000_000_000


def flat(name_id: str, number: int = 0) -> str:
    return f"part-{number:05}-{name_id}-c000.snappy.parquet"


def in_partition(value: int, name_id: str, number: int = 0) -> str:
    return f"p={value}/part-{number:05}-{name_id}.c000.snappy.parquet"


def output(
    root: Path, names: Sequence[str], *, success: Sequence[str] = ("_SUCCESS",), newer: Sequence[str] = ()
) -> Path:
    """A directory with these files, each `_SUCCESS` as old as they are, and the `newer` ones written later."""
    for place, name in enumerate([*names, *newer]):
        put(root, name, id=[place])
    for name in success:
        (root / name).touch()
    for name in [*names, *success]:
        os.utime(root / name, (JOB_END_MS / 1_000, JOB_END_MS / 1_000))
    for name in newer:
        os.utime(root / name, (JOB_END_MS / 1_000 + 1, JOB_END_MS / 1_000 + 1))
    return root


@pytest.mark.parametrize(
    ("names", "success"),
    [
        pytest.param([flat(A, 0), flat(A, 1)], ["_SUCCESS"], id="flat"),
        pytest.param([flat(A), flat(B)], ["_SUCCESS"], id="flat, appended"),
        pytest.param([flat(A)], [], id="one file"),
        pytest.param([flat(A, 0), flat(A, 1)], [], id="flat, without _SUCCESS"),
        pytest.param([in_partition(0, A), in_partition(1, A)], [], id="partitioned, without _SUCCESS"),
        pytest.param([in_partition(0, A), in_partition(1, B)], ["_SUCCESS"], id="partitioned, a job each"),
        pytest.param([in_partition(p, job) for p in (0, 1) for job in (A, B)], [], id="partitioned, appended"),
        pytest.param(
            [in_partition(0, A), in_partition(1, B)], ["p=0/_SUCCESS", "p=1/_SUCCESS"], id="a job for each partition"
        ),
        pytest.param([f"part-00000-{job}_00003.c000.snappy.parquet" for job in (A, B)], ["_SUCCESS"], id="buckets"),
        pytest.param([f"part-{n}-{A}_0000{n % 2}.c001.parquet" for n in (99_999, 100_000)], [], id="many tasks"),
        pytest.param([f"p={p}/q=x/part-00000-{p}{A[1:]}.c000.parquet" for p in (0, 1)], ["_SUCCESS"], id="two levels"),
    ],
)
def test_output_of_plain_spark_becomes_a_table(names: list[str], success: list[str], tmp_path: Path) -> None:
    root = output(tmp_path / "out", names, success=success)

    plan = open_table(root).convert()

    assert () == plan.unknowable
    counts = Counter(found[0] for name in names if (found := re.search(ID, name)))
    needs_success = list(counts.values()).count(1) > 1
    assert needs_success == any("_SUCCESS" in caution for caution in plan.base_version.warnings)
    assert list(range(len(names))) == sorted(open_table(root).snapshot().scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize(
    ("names", "success", "newer"),
    [
        pytest.param([flat(A), flat(B)], [], [], id="an id each"),
        pytest.param([in_partition(0, A), in_partition(1, B)], [], [], id="an id each, in partitions"),
        pytest.param([flat(A, 0), flat(A, 1), flat(B), flat(C)], [], [], id="an id each, beside those of a job"),
        pytest.param([in_partition(0, A), in_partition(1, B)], ["p=2/_SUCCESS"], [], id="another partition"),
        pytest.param([flat(A), flat(B)], [".tmp/_SUCCESS"], [], id="hidden directory"),
        pytest.param([flat(A, 0), flat(A, 1)], ["_SUCCESS"], [flat(B)], id="written behind the job"),
        pytest.param([], ["_SUCCESS"], [flat(A), flat(B)], id="all written behind the job"),
        pytest.param([flat(A), flat(B)], ["_SUCCESS"], [flat(C, 0), flat(C, 1)], id="a copy, in any order"),
        pytest.param([flat(A), flat(B)], ["_SUCCESS"], [flat(C)], id="appended behind the job"),
    ],
)
def test_files_with_an_id_each_are_in_doubt(
    names: list[str], success: list[str], newer: list[str], tmp_path: Path
) -> None:
    for name in success:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
    root = output(tmp_path / "out", names, success=success, newer=newer)

    with pytest.raises(Refused) as refused:
        open_table(root).convert()

    assert "convert.lost-log" == refused.value.code
    assert not (root / "_delta_log").exists()


@pytest.mark.parametrize("exclude", [(), ("*.snappy.parquet",)])
def test_excluded_files_tell_about_the_directory_as_well(exclude: tuple[str, ...], tmp_path: Path) -> None:
    root = output(tmp_path / "out", [flat(A, 0), flat(A, 1), "kept.parquet"], newer=[flat(B)])

    plan = open_table(root).plan_convert(exclude=exclude)

    assert ["removed-files"] == [loss.kind for loss in plan.unknowable]


def test_a_copy_whose_files_are_all_newer_is_no_table(tmp_path: Path) -> None:
    root = output(tmp_path / "out", [], newer=[flat(A, 0), flat(A, 1), flat(B)])

    assert () == open_table(root).plan_convert().unknowable


@pytest.mark.parametrize("sign", ["deletion_vector_8dbd0cda-2618-42ef-b175-2beb5cf562da.bin", "_change_data/x"])
def test_other_signs_of_a_table_count_beside_a_finished_job(sign: str, tmp_path: Path) -> None:
    root = output(tmp_path / "out", [flat(A, 0), flat(A, 1)])
    put(root, sign, id=[1])

    assert open_table(root).plan_convert().unknowable
