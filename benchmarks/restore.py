"""The restore of an overwritten table beside deltalake, and its check of footers beside `validate`.

  DELTACLI_PEER_PYTHON=.venv-peers/bin/python .venv/bin/python benchmarks/restore.py [--files 1000000] [--footers 20000]

Version 0 has so many files, version 1 replaces all by one; version 0 is restored. The files are hard links of one file.
deltalake checks that files exist, `--trust-listing` their sizes as well. Runs alternate; the fastest of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from benchmarks.synthetic import FILES_A_DIRECTORY, ROWS_A_FILE, data_file, name_of

_LIMIT_MB = 400
_DELTALAKE = "import sys, deltalake; print(deltalake.DeltaTable(sys.argv[1]).restore(0))"
_LINKS_OF_A_FILE = 50_000
"""Some file systems allow 65,000."""


class _Run(NamedTuple):
    wall: float
    cpu: float
    peak_mb: float


def main() -> None:
    """Build both tables, run both comparisons, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--footers", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    deltacli = [sys.executable, "-m", "deltacli"]
    with tempfile.TemporaryDirectory() as scratch:
        table = _build(Path(scratch) / "large", given.files)
        _compare(
            table,
            given.rounds,
            1.0,
            [*deltacli, "restore", str(table), "--version", "0", "--trust-listing", "--yes", "-q"],
            [os.environ["DELTACLI_PEER_PYTHON"], "-c", _DELTALAKE, str(table)],
        )
        shutil.rmtree(table)
        table = _build(Path(scratch) / "small", given.footers)
        _compare(
            table,
            given.rounds,
            1.2,
            [*deltacli, "restore", str(table), "--version", "0", "--yes", "-q"],
            [*deltacli, "validate", str(table), "--level", "footers", "-q"],
            newest=0,
        )


def _build(place: Path, files: int) -> Path:
    """Write the table: its log beside it, as `log.0` for version 0 alone and `log.1` for both."""
    data = data_file()
    log = place / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [_field("c0", "long"), _field("c1", "double"), _field("d", "string")]}
    metadata = {
        "id": "8b8a9a1e-0000-4000-8000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": ["d"],
        "configuration": {},
    }
    stats = json.dumps({"numRecords": ROWS_A_FILE, "minValues": {"c0": 0}, "maxValues": {"c0": 999}})
    with open(log / f"{0:020d}.json", "w") as first, open(log / f"{1:020d}.json", "w") as second:
        first.write(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}) + "\n")
        first.write(json.dumps({"metaData": metadata}) + "\n")
        for number in range(files + 1):
            name = name_of(number)
            where = {"path": name, "partitionValues": {"d": f"{number // FILES_A_DIRECTORY:07d}"}, "size": len(data)}
            add = {**where, "modificationTime": 1_700_000_000_000, "dataChange": True, "stats": stats}
            if number < files:
                first.write(json.dumps({"add": add}) + "\n")
                gone = {**where, "deletionTimestamp": 1_700_000_001_000, "dataChange": True}
                second.write(json.dumps({"remove": {**gone, "extendedFileMetadata": True}}) + "\n")
            else:
                second.write(json.dumps({"add": add}) + "\n")
            _link(place, number, name, data)
    subprocess.run([sys.executable, "-m", "deltacli", "checkpoint", str(place), "--version", "0", "-q"], check=True)
    shutil.move(log, place.with_suffix(".log"))
    return place


def _field(name: str, kind: str) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _link(place: Path, number: int, name: str, data: bytes) -> None:
    """Write one file in fifty thousand, and link the others to it."""
    if number % FILES_A_DIRECTORY == 0:
        (place / name).parent.mkdir(parents=True)
    if number % _LINKS_OF_A_FILE == 0:
        (place / name).write_bytes(data)
    else:
        os.link(place / name_of(number - number % _LINKS_OF_A_FILE), place / name)


def _compare(
    table: Path, rounds: int, bar: float, ours: Sequence[str], theirs: Sequence[str], *, newest: int = 1
) -> None:
    found: tuple[list[_Run], list[_Run]] = ([], [])
    for _ in range(rounds):
        for runs, command, version in ((found[0], ours, 1), (found[1], theirs, newest)):
            _reset(table, version)
            runs.append(_measure(command))
    best = [min(runs, key=lambda run: run.wall) for runs in found]
    ratio, peak = best[0].wall / best[1].wall, max(run.peak_mb for run in found[0])
    verdict = "PASS" if ratio <= bar and peak <= _LIMIT_MB else "FAIL"
    for command, run in zip((ours, theirs), best, strict=True):
        print(f"{run.wall:7.2f} s wall {run.cpu:7.2f} s CPU {run.peak_mb:7.0f} MB  {' '.join(command[1:4])[:60]}")
    print(f"wall {ratio:.2f} (bar {bar}), CPU {best[0].cpu / best[1].cpu:.2f}, {peak:.0f} MB  {verdict}", flush=True)


def _reset(table: Path, newest: int) -> None:
    """Put the log back as it was built, up to a version."""
    log = table / "_delta_log"
    if log.exists():
        shutil.rmtree(log)
    shutil.copytree(table.with_suffix(".log"), log)
    if newest == 0:
        (log / f"{1:020d}.json").unlink()


def _measure(command: Sequence[str]) -> _Run:
    """Run a command in a process of its own."""
    begun = monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = monotonic() - begun
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return _Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
