"""The first row of a large shared table: in its directory with vended credentials, by path, and by URLs.

  PYTHONPATH=. .venv/bin/python benchmarks/sharing/directory.py [--adds 1000000] [-n 5] [--work DIR]

Server and store (moto) are in this process. Each answer comes from a whole `deltacli read --limit 1`, in turn; ratios
are those of medians. The directory may take 1.3 of the path.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.synthetic import data_file, name_of, write_table
from tests.sharing.client.vending import vending
from tests.support.s3 import S3Server

BAR = 1.3
_FILES = 100
"""Data files that exist: those that a reader may begin with."""


def main() -> int:
    """Measure, and return 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adds", type=int, default=1_000_000)
    parser.add_argument("-n", type=int, default=5)
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        table, cloud = Path(work, "t"), S3Server()
        write_table(table, options.adds)
        for number in range(_FILES):
            place = table / name_of(number)
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(data_file())
        try:
            with vending(Path(work), table, cloud) as server:
                found = _measure(server.address, server.root, cloud, options.n)
        finally:
            cloud.stop()
    medians = {name: statistics.median(times) for name, times in found.items()}
    for name, seconds in medians.items():
        print(f"{name:10} {seconds:7.2f} s  {seconds / medians['path']:5.2f} of the path")
    return int(medians["directory"] > BAR * medians["path"])


def _measure(address: str, root: str, cloud: S3Server, rounds: int) -> Mapping[str, Sequence[float]]:
    where = ("--storage-option", f"endpoint_url={cloud.url}", "--storage-option", "region=us-east-1")
    lines = {
        "path": ("read", root, *where),
        "directory": ("read", address, "--access", "dir", *where),
        "urls": ("read", address, "--access", "url"),
    }
    environment, rows = {**os.environ, **cloud.environment}, dict[str, str]()
    times: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(rounds):
        for name, words in lines.items():
            begun = time.perf_counter()
            command = (str(Path(sys.executable).with_name("deltacli")), *words, "--limit", "1", "--format", "csv")
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            times[name].append(time.perf_counter() - begun)
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr}")
            rows[name] = done.stdout
    if len(set(rows.values())) != 1:
        raise SystemExit(f"the rows differ: {rows}")
    return times


if __name__ == "__main__":
    sys.exit(main())
