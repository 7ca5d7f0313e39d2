"""Processes that optimize while others append, mark, restore, delete, merge and overwrite: every version has the rows
of the one before it with one change, and no writer is kept from committing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.operations.test_file_contention import _LONGEST, deltalake, verify
from tests.support.effort import SEED, is_soaking
from tests.support.file_racing import first_files, optimize, race
from tests.support.waiting import run_together

GROUPS, TABLES = (2_000, 5) if is_soaking() else (60, 1)
"""Of a table, and how many of these there are, each with a seed of its own: a longer log only makes turns slower."""
DATA = "append,append,delete,merge,overwrite"


def optimize_beside(
    uri: str, seed: int, racers: int, count: int, groups: int, optimizers: int
) -> tuple[list[Any], int]:
    """Let our writers and optimizers commit together, and return what they told, and how many groups were dropped."""
    each = -(-groups // optimizers)
    targets: list[Any] = [(race, (uri, number, seed, count)) for number in range(racers)]
    targets += [(optimize, (uri, 50 + number, seed, each)) for number in range(optimizers)]
    told = [one for found in run_together(targets, seconds=_LONGEST) for one in found]
    assert not [one for one in told if isinstance(one, str)], told[-3:]
    return [one for one in told if one[0] != "dropped"], sum(one[1] for one in told if one[0] == "dropped")


@pytest.mark.long
@pytest.mark.parametrize("number", range(TABLES))
def test_beside_writers_of_the_other_engine(number: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = str(first_files().write(tmp_path / "table"))

    with deltalake(place, 2 if is_soaking() else 1, 10 * GROUPS, {}, DATA) as made:
        told, dropped = optimize_beside(place, SEED + number, 1, GROUPS // 4, GROUPS, 1)

    verify(place, told, made, capfd)
    with capfd.disabled():
        sys.stderr.write(f"{dropped} groups dropped\n")
