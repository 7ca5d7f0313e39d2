"""The formats of a list of files against each other: the same table, whole processes in turn, medians, ratios.

  .venv/bin/python benchmarks/writers.py [--adds 1000000] [-n 5] [--work DIR]

Run it with the Python of the environment that has deltacli. NDJSON is the measure; each format is written once into a
file and once into a pipe. With `--wide 10000,30000` it also reads tables of so many columns, and prints the exponent
with which the time grows: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.run import write_checkpoint_table

FORMATS = {"ndjson": None, "csv": 1.5, "table": 3.0}
"""Format -> how many times the wall and processor time of NDJSON it may take."""
WIDE = (
    ("read", "--format", "table"),
    ("read", "--format", "csv"),
    ("read", "--explain", "--where", "c0 > 0"),
    ("changes", "--from", "0", "--format", "csv"),
)


class Measured(NamedTuple):
    """One process: wall and processor time in seconds."""

    wall: float
    cpu: float


def main() -> None:
    options = _options()
    work = Path(options.work or tempfile.mkdtemp(prefix="deltacli-writers-"))
    table = work / f"adds-{options.adds}"
    if not (table / "_delta_log").exists():
        write_checkpoint_table(table, options.adds)
    for sink in ("file", "pipe"):
        _compare_formats(table, work, sink, options.n)
    if options.wide:
        _compare_widths(work, [int(width) for width in options.wide.split(",")], options.n)


def _compare_formats(table: Path, work: Path, sink: str, rounds: int) -> None:
    runs: dict[str, list[Measured]] = {form: [] for form in FORMATS}
    for _ in range(rounds):
        for form, found in runs.items():
            arguments = ["snapshot", str(table), "--files", "--format", form]
            found.append(_run([*arguments, "--output", str(work / "out")] if sink == "file" else arguments))
    base = _median(runs["ndjson"])
    for form, bar in FORMATS.items():
        wall, cpu = _median(runs[form])
        ratios = f"ratio {wall / base.wall:.2f} wall, {cpu / base.cpu:.2f} cpu" + (f", bar {bar}" if bar else "")
        print(f"{sink:5} {form:7} {wall:7.2f} s wall {cpu:7.2f} s cpu   {ratios}")


def _compare_widths(work: Path, widths: list[int], rounds: int) -> None:
    for width in widths:
        if not (work / f"wide-{width}" / "_delta_log").exists():
            write_wide_table(work / f"wide-{width}", width)
    for command, *others in WIDE:
        taken = []
        for width in widths:
            arguments = [command, str(work / f"wide-{width}"), *others]
            taken.append(_median([_run(arguments) for _ in range(rounds)]).cpu)
        slope = math.log(taken[-1] / taken[0]) / math.log(widths[-1] / widths[0])
        times = ", ".join(f"{width:,}: {cpu:.2f} s" for width, cpu in zip(widths, taken, strict=True))
        print(f"{' '.join([command, *others]):35} {times}   exponent {slope:.2f}")


def write_wide_table(root: Path, width: int) -> None:
    """Write a table of one version: one file of two rows and `width` columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (root / "_delta_log").mkdir(parents=True)
    names = [f"c{number}" for number in range(width)]
    pq.write_table(pa.table({name: pa.array([1, None], pa.int64()) for name in names}), root / "part-0.parquet")
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    stats = {"numRecords": 2, "minValues": dict.fromkeys(names, 1), "maxValues": dict.fromkeys(names, 1)}
    add = {"path": "part-0.parquet", "partitionValues": {}, "size": (root / "part-0.parquet").stat().st_size}
    metadata = {
        "id": "8b8a9a1e-0000-4000-8000-000000000002",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
    }
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
        {"add": add | {"modificationTime": 0, "dataChange": True, "stats": json.dumps(stats)}},
    ]
    name = root / "_delta_log" / "00000000000000000000.json"
    name.write_text("".join(json.dumps(action) + "\n" for action in actions))


def _run(arguments: list[str]) -> Measured:
    """Run a command to its end, its output read and thrown away."""
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "deltacli", *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    while process.stdout.read(1 << 20):
        pass
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"deltacli {' '.join(arguments)} ended with {process.returncode}")
    return Measured(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime)


def _median(runs: list[Measured]) -> Measured:
    return Measured(statistics.median(run.wall for run in runs), statistics.median(run.cpu for run in runs))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adds", type=int, default=1_000_000)
    parser.add_argument("--wide", help="numbers of columns, with commas")
    parser.add_argument("--work", help="keep the tables here, and use those that are there")
    parser.add_argument("-n", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
