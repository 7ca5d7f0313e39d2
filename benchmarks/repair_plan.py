"""The plan of a repair of a large table, against `validate --level storage`: whole processes in turn, medians, ratios.

  .venv/bin/python -m benchmarks.repair_plan [--work DIR] [--files 1000000] [--missing 10] [-n 3]

Run it with the Python of the environment that has deltacli. The table is synthetic: its data files have their sizes and
no content, and some are missing. Bars: 1.3 times the processor time and the memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks import synthetic

_BAR = 1.3
_COMMANDS = {
    "validate": ("validate", "--level", "storage", "--exit-zero"),
    "repair": ("repair", "--dry-run", "--accept-loss", "--allow-in-use"),
}


class Cost(NamedTuple):
    """The processor time of a process in seconds, and its peak memory in bytes."""

    seconds: float
    peak: int


def main() -> None:
    """Make the table, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", help="keeps the table")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--missing", type=int, default=10)
    parser.add_argument("-n", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(given.work or temporary) / f"repair-{given.files}-{given.missing}"
        if not root.exists():
            _make(root, given.files, given.missing)
        costs: dict[str, list[Cost]] = {name: [] for name in _COMMANDS}
        for _ in range(given.n):
            for name, arguments in _COMMANDS.items():
                costs[name].append(_run(root, arguments))
        _tell(costs)


def _make(root: Path, files: int, missing: int) -> None:
    synthetic.write_table(root, files)
    size = len(synthetic.data_file())
    lost = {files // missing * number + 7 for number in range(missing)}
    for number in range(files):
        path = root / synthetic.name_of(number)
        if number % synthetic.FILES_A_DIRECTORY == 0:
            path.parent.mkdir()
        if number not in lost:
            path.touch()
            os.truncate(path, size)


def _run(root: Path, arguments: tuple[str, ...]) -> Cost:
    command, *options = arguments
    process = subprocess.Popen(
        [sys.executable, "-m", "deltacli", command, str(root), *options, "--json", "--progress", "never"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    found = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or found.count(b'"data.file-missing"') < 1:
        raise SystemExit(f"{command} ended with {process.returncode}: {found[-500:]!r}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def _tell(costs: dict[str, list[Cost]]) -> None:
    medians = {
        name: Cost(statistics.median(one.seconds for one in each), int(statistics.median(one.peak for one in each)))
        for name, each in costs.items()
    }
    for name, one in medians.items():
        print(f"{name:<10} {one.seconds:6.1f} s of processor time  {one.peak / (1 << 20):7,.0f} MiB")
    validate, repair = medians["validate"], medians["repair"]
    for name, ratio in (("time", repair.seconds / validate.seconds), ("memory", repair.peak / validate.peak)):
        print(f"{name:<10} {ratio:6.2f} times, at most {_BAR}  {'PASS' if ratio <= _BAR else 'FAIL'}")


if __name__ == "__main__":
    main()
