"""`validate` down to footers and rows, whole processes in turn, medians, ratios.

  .venv/bin/python -m benchmarks.validate [--work DIR] [--footers 20000] [--files 200] [-n 5] [--only footers,rows]

Run it with the Python of the environment that has deltacli. `footers`: `--level footers` of a table of small files
against a bare loop over `pyarrow.parquet.read_metadata`, bar 1.3. `rows`: `--level data` of a table of 2 GB, statistics
of all its columns in the log, against our own full scan, bar 1.5.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.scan import ROWS_A_FILE, _columns, _commit, _compact, _ids, _run

LOOP = """
import glob, sys
import pyarrow.parquet as pq
print(sum(pq.read_metadata(path).num_rows for path in glob.glob(sys.argv[1] + "/*.parquet")))
"""
SCAN = """
import sys
from deltacli import open_table
print(sum(batch.num_rows for batch in open_table(sys.argv[1]).snapshot().scan()))
"""
VALIDATE = """
import sys
from deltacli.__main__ import main
sys.argv = ["deltacli", "validate", sys.argv[1], "--level", sys.argv[2], "--progress", "never", "--exit-zero", "--json"]
try:
    main()
except SystemExit as ended:
    print()
    raise
"""
ROWS_A_SMALL_FILE = 20


def main() -> None:
    """Make the tables, and measure."""
    options = _options()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(options.work or temporary)
        for name, make, files, level, peer in (
            ("footers", _small_files, options.footers, "footers", LOOP),
            ("rows", _large_files, options.files, "data", SCAN),
        ):
            if options.only and name not in options.only.split(","):
                continue
            table = work / f"{name}-{files}"
            if not table.exists():
                make(table, files)
            _compare(name, table, level, peer, options.n)


def _compare(name: str, table: Path, level: str, peer: str, runs: int) -> None:
    ours, theirs = [], []
    for _ in range(runs):
        ours.append(_measured([sys.executable, "-c", VALIDATE, str(table), level]))
        theirs.append(_measured([sys.executable, "-c", peer, str(table)]))
    wall, memory = (statistics.median(run[field] for run in ours) for field in (0, 1))
    bare, bare_memory = (statistics.median(run[field] for run in theirs) for field in (0, 1))
    print(f"{name:8} deltacli {wall:6.2f} s {memory:5.0f} MB   bare {bare:6.2f} s {bare_memory:5.0f} MB", end="   ")
    print(f"ratio {wall / bare:.2f} wall, {memory / bare_memory:.2f} memory")


def _measured(command: list[str]) -> tuple[float, float]:
    found = _run(command)
    if found is None:
        raise SystemExit(f"failed: {command}")
    return found[0], found[2]


# -- the tables -------------------------------------------------------------------------------------------------------


def _small_files(table: Path, files: int) -> None:
    """Files of twenty rows and ten columns."""
    rows = _columns().slice(0, ROWS_A_SMALL_FILE)
    _write(table, files, rows, [_ids(0).slice(0, ROWS_A_SMALL_FILE)] * files)


def _large_files(table: Path, files: int) -> None:
    """Files of 10 MB."""
    _write(table, files, _columns(), None)


def _write(table: Path, files: int, base: Any, ids: list[Any] | None) -> None:  # Any: an Arrow table, arrays
    import pyarrow.parquet

    (table / "_delta_log").mkdir(parents=True)
    adds: list[dict[str, object]] = []
    known = _statistics(base)
    for number in range(files):
        of_file = _ids(number) if ids is None else ids[number]
        rows = base.set_column(0, "id", of_file)
        path = table / f"part-{number:05}.parquet"
        pyarrow.parquet.write_table(rows, path, row_group_size=ROWS_A_FILE, store_decimal_as_integer=True)
        of_id = {"minValues": {"id": of_file[0].as_py()}, "maxValues": {"id": of_file[-1].as_py()}}
        bounds = {part: known[part] | of_id[part] for part in of_id}
        stats = {"numRecords": rows.num_rows, **bounds, "nullCount": dict.fromkeys(rows.schema.names, 0)}
        adds.append(
            {
                "path": path.name,
                "partitionValues": {},
                "size": path.stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
                "stats": _compact(stats),
            }
        )
    _commit(table, {"minReaderVersion": 1, "minWriterVersion": 2}, adds)


def _statistics(rows: Any) -> dict[str, dict[str, object]]:  # Any: an Arrow table
    """Bounds of every column that has an order, as they stand in JSON."""
    import pyarrow.compute as pc

    found: dict[str, dict[str, object]] = {"minValues": {}, "maxValues": {}}
    for name in rows.schema.names:
        if name == "is_open":
            continue
        ends = pc.min_max(rows.column(name)).as_py()
        for part, end in (("minValues", "min"), ("maxValues", "max")):
            value = ends[end]
            if name == "moment":
                value = value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            found[part][name] = float(value) if name == "amount" else str(value) if name == "day" else value
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", help="keep the tables here, and use those that are there")
    parser.add_argument("--footers", type=int, default=20_000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--only", help="cases, with commas")
    parser.add_argument("-n", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
