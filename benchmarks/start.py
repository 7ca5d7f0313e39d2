"""`python benchmarks/start.py [-n RUNS]`: processor time of short commands against that of a bare interpreter.

It makes a table of ten commits, runs each command several times, and prints medians: seconds, and how many bare
interpreters the same time would start. Times depend on the machine, the ratios hardly do. The modules are compiled
to bytecode first, as they are in an installation.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = {
    "--version": 12,
    "--help": 18,
    "history TABLE": 20,
    "snapshot TABLE": 28,
    "vacuum TABLE --dry-run": 32,
    "validate TABLE": 36,
}
"""Command -> interpreters that it may take."""


def main() -> int:
    """Print a line for each command, and return 1 where one takes more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=15, help="runs of each command")
    runs: int = parser.parse_args().n

    package = importlib.util.find_spec("deltacli")
    if package is None or not package.submodule_search_locations:
        parser.error("deltacli is not installed for this interpreter")
    compileall.compile_dir(package.submodule_search_locations[0], quiet=1)
    with tempfile.TemporaryDirectory() as directory:
        table = Path(directory, "table")
        write_table(table)
        bare = median_cpu_seconds(["-c", "pass"], runs)
        print(f"{'a bare interpreter':26} {bare:6.3f} s")
        is_slower = False
        for command, limit in COMMANDS.items():
            arguments = [str(table) if word == "TABLE" else word for word in command.split()]
            seconds = median_cpu_seconds(["-m", "deltacli", *arguments], runs)
            ratio = seconds / bare
            is_slower = is_slower or ratio > limit
            print(f"{command:26} {seconds:6.3f} s {ratio:6.1f} interpreters (at most {limit})")
    return int(is_slower)


def write_table(table: Path) -> None:
    """Write a Delta table of ten commits with one small file each."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {},
    }
    for version in range(10):
        name = f"part-{version:05d}.parquet"
        (table / name).write_bytes(bytes(100))
        add = {"path": name, "partitionValues": {}, "size": 100, "modificationTime": 1_700_000_000_000}
        actions: list[dict[str, object]] = [{"add": {**add, "dataChange": True}}]
        if version == 0:
            actions[:0] = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
        lines = "".join(f"{json.dumps(action)}\n" for action in actions)
        (log / f"{version:020d}.json").write_text(lines)


def median_cpu_seconds(arguments: list[str], runs: int) -> float:
    """Return the median of the processor time, user and system, of so many runs of Python with these arguments."""
    return statistics.median(cpu_seconds(arguments) for _ in range(runs))


def cpu_seconds(arguments: list[str]) -> float:
    """Return the processor time of one process."""
    # With PYTHONDONTWRITEBYTECODE a module that was edited since would be compiled in each run.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
