"""`diff` of two versions of a large table, against two snapshots: whole processes in turn, medians, ratios.

  .venv/bin/python -m benchmarks.diff [--work DIR] [--files 1000000] [-n 5]

Run it with the Python of the environment that has deltacli. Ten commits of 100 adds and 50 removes lie between two
checkpoints. `near`: versions that start from one checkpoint. `far`: each has a checkpoint of its own, and the commits
between are there, as they are unless a clean-up of the log failed. Bar: 1.2 times both snapshots, in wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import synthetic

_BAR = 1.2
_COMMITS = 10
_ADDS, _REMOVES = 100, 50
_FIRST = 2
"""The version whose checkpoint has all files, and what follows it: see `synthetic.write_table`."""
_PAIRS = {"near": (_FIRST, _FIRST + _COMMITS - 1), "far": (_FIRST, _FIRST + _COMMITS)}


class Cost(NamedTuple):
    """The wall time and the processor time of processes in seconds, and their peak memory in bytes."""

    wall: float
    cpu: float
    peak: int


def main() -> None:
    """Make the table, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", help="keeps the table")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("-n", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(given.work or temporary) / f"diff-{given.files}"
        if not root.exists():
            _make(root, given.files)
        for name, (old, new) in _PAIRS.items():
            snapshots, diffs = [], []
            for _ in range(given.n):
                both = [_run("snapshot", str(root), "--version", str(version)) for version in (old, new)]
                snapshots.append(
                    Cost(sum(one.wall for one in both), sum(one.cpu for one in both), max(one.peak for one in both))
                )
                diffs.append(_run("diff", str(root), str(old), str(new)))
            _tell(name, snapshots, diffs)


def _make(root: Path, files: int) -> None:
    synthetic.write_table(root, files)
    size = len(synthetic.data_file())
    common = {"partitionValues": {"d": "9999999"}, "size": size, "dataChange": True}
    for number in range(_COMMITS):
        version = _FIRST + 1 + number
        lines = [{"commitInfo": {"timestamp": synthetic.MODIFIED_MS + version, "operation": "WRITE"}}]
        for place in range(_ADDS):
            path = f"d=9999999/new-{number}-{place}.parquet"
            stats = json.dumps({"numRecords": synthetic.ROWS_A_FILE})
            add = {"path": path, "modificationTime": synthetic.MODIFIED_MS, "stats": stats, **common}
            lines.append({"add": add})
        for place in range(_REMOVES):
            gone = files // (_COMMITS * _REMOVES) * (number * _REMOVES + place)
            values = {"d": f"{gone // synthetic.FILES_A_DIRECTORY:07d}"}
            remove = {"path": synthetic.name_of(gone), "deletionTimestamp": synthetic.MODIFIED_MS + version, **common}
            lines.append({"remove": remove | {"extendedFileMetadata": True, "partitionValues": values}})
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (root / "_delta_log" / f"{version:020d}.json").write_text(text)
    subprocess.run([sys.executable, "-m", "deltacli", "checkpoint", str(root)], check=True, capture_output=True)


def _run(*arguments: str) -> Cost:
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "deltacli", *arguments, "--json", "--progress", "never"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    found = json.loads(process.stdout.read())
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if arguments[0] == "diff":
        commits = int(arguments[3]) - _FIRST
        assert (process.returncode, found["files"]["added"], found["files"]["removed"]) == (
            1,
            commits * _ADDS,
            commits * _REMOVES,
        ), found["files"]
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def _tell(name: str, snapshots: list[Cost], diffs: list[Cost]) -> None:
    both, one = (Cost(*map(statistics.median, zip(*each, strict=True))) for each in (snapshots, diffs))
    print(f"{name}: two snapshots {both.wall:.2f} s wall, {both.cpu:.2f} s processor, {both.peak / (1 << 20):,.0f} MiB")
    print(f"{name}: diff          {one.wall:.2f} s wall, {one.cpu:.2f} s processor, {one.peak / (1 << 20):,.0f} MiB")
    ratio = one.wall / both.wall
    print(
        f"{name}: wall {ratio:.2f} times, at most {_BAR}  {'PASS' if ratio <= _BAR else 'FAIL'}; processor"
        f" {one.cpu / both.cpu:.2f}, memory {one.peak / both.peak:.2f}"
    )


if __name__ == "__main__":
    main()
