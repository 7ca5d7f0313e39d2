"""Pulls that are killed before each call that changes the disk: the next one finishes the table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.sharing.pulling import downloading
from tests.sharing.client.serving import proxied
from tests.sharing.pulling.origin import Origin, pull, rows_of
from tests.sharing.served import shared
from tests.support.effort import InTurn

pytestmark = pytest.mark.long
ENDLESS = 10**9
RANGE = 128 << 10


def _pull_until(address: str, target: Path, *numbers: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.sharing.pulling.killed", address, str(target), *map(str, numbers)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_pull_that_was_killed_anywhere_is_finished_by_the_next_one(
    tmp_path: Path, is_first: bool, in_turn: InTurn
) -> None:
    """
    No finished file is downloaded again, and the directory of unfinished downloads is removed.
    """
    origin = Origin(tmp_path / "origin").append(range(10)).append(range(10, 13))
    with proxied(tmp_path, shared(origin.path)) as proxy:
        bases = []
        for name in ("whole", *map(str, range(1, 60))):
            if not is_first:
                pull(proxy, tmp_path / name, version=0)
            bases.append(tmp_path / name)
        whole = _pull_until(proxy.address(), bases[0], ENDLESS)
        calls = int(whole.stdout)

        for number in in_turn(range(1, calls + 1)):
            target = bases[number]
            killed = _pull_until(proxy.address(), target, number)
            finished = {path.name for path in target.glob("*.parquet")}
            before = len(proxy.asked)
            result = pull(proxy, target)

            asked = [one for one in proxy.asked[before:] if one.is_for_file]
            wanted = {file.name for file in result.difference.wanted}
            assert -signal.SIGKILL == killed.returncode, killed.stderr
            assert len(wanted) == len(asked)
            assert set() == finished & wanted
            assert list(range(13)) == rows_of(target)
            assert [] == [path.name for path in target.iterdir() if path.name == ".deltacli-pull"]
            assert open_table(target).snapshot().version <= 1

    assert calls > 10


def test_a_pull_in_ranges_that_was_killed_anywhere_is_finished_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    No recorded range is downloaded again.
    """
    monkeypatch.setattr(downloading, "_RANGE_BYTES", RANGE)
    monkeypatch.setattr(downloading, "LEAST_BYTES", 3 * RANGE)
    origin = Origin(tmp_path / "origin").append(range(50_000))
    with proxied(tmp_path, shared(origin.path)) as proxy:
        calls = int(_pull_until(proxy.address(), tmp_path / "whole", ENDLESS, RANGE).stdout)

        for number in range(1, calls + 1, 2):  # each takes a second
            target = tmp_path / str(number)
            killed = _pull_until(proxy.address(), target, number, RANGE)
            records = [path.read_text().split("\n")[1:-1] for path in target.glob(".deltacli-pull/*.ranges")]
            recorded = {int(line) * RANGE for record in records for line in record}
            is_there = bool(list(target.glob("*.parquet")))
            before = len(proxy.asked)
            pull(proxy, target)

            asked = [int(one.headers["range"][6:].partition("-")[0]) for one in proxy.asked[before:] if one.is_for_file]
            assert -signal.SIGKILL == killed.returncode, killed.stderr
            assert not recorded & set(asked)
            assert not (is_there and asked)
            assert list(range(50_000)) == rows_of(target)

    assert calls > 12
