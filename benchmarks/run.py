"""deltacli against deltalake on the same tables in the same run: whole processes, medians, ratios.

  .venv/bin/python benchmarks/run.py --peer-python .venv-peers/bin/python [--adds 1000000] [--commits 10000] [-n 5]

Run it with the Python of the environment that has deltacli. The tables are synthetic and kept in a temporary directory.
Absolute times say little on a shared machine; the ratios are steady to about a tenth.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
SCHEMA = '{"type":"struct","fields":[{"name":"c0","type":"long","nullable":true,"metadata":{}}]}'
NAME_END = "-7d1c6c1e-3c5b-4b8e-9b5e-1a2b3c4d5e6f-c000.snappy.parquet"
STATS_END = ',"minValues":{"c0":1},"maxValues":{"c0":9},"nullCount":{"c0":0}}'
METADATA = {
    "id": "8b8a9a1e-0000-4000-8000-000000000000",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": SCHEMA,
    "partitionColumns": [],
    "configuration": {},
    "createdTime": 0,
}
PEER = """
import sys
from deltalake import DeltaTable
table = DeltaTable(sys.argv[2])
if sys.argv[1] == "count":
    import pyarrow, pyarrow.compute
    adds = pyarrow.table(table.get_add_actions())
    print(adds.num_rows, pyarrow.compute.sum(adds["size_bytes"]))
elif sys.argv[1] == "files":
    sys.stdout.write("\\n".join(table.file_uris()))
elif sys.argv[1] == "history":
    print(len(table.history()))
elif sys.argv[1] == "checkpoint":
    table.create_checkpoint()
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison; without a peer's command it is measured against an empty Python process."""

    name: str
    ours: Sequence[str]
    peer: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Run:
    seconds: float
    peak_kib: int


def write_checkpoint_table(root: Path, adds: int) -> None:
    """A table whose state is one classic checkpoint of `adds` files, and one commit."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from deltacli.delta.log.file_actions import action_schemas

    log = root / "_delta_log"
    log.mkdir(parents=True)
    write_commit(log, 0, [{"protocol": PROTOCOL}, {"metaData": METADATA}])
    write_commit(log, 1, [{"add": file_action("new", 1)}])
    text, strings = pa.string(), pa.map_(pa.string(), pa.string())
    add = pa.struct(list(action_schemas().add))
    versions = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    form = pa.struct([("provider", text), ("options", strings)])
    meta = pa.struct(
        [
            ("id", text),
            ("format", form),
            ("schemaString", text),
            ("partitionColumns", pa.list_(text)),
            ("configuration", strings),
            ("createdTime", pa.int64()),
        ]
    )
    schema = pa.schema([("protocol", versions), ("metaData", meta), ("add", add)])
    with pq.ParquetWriter(log / f"{1:020d}.checkpoint.parquet", schema, compression="snappy") as writer:
        writer.write_table(pa.Table.from_pylist([{"protocol": PROTOCOL}, {"metaData": METADATA}], schema=schema))
        for start in range(0, adds, 250_000):
            numbers = pa.array(range(start, min(start + 250_000, adds)), pa.int64())
            names = numbers.cast(text)
            known = {
                "path": pc.binary_join_element_wise("part-", names, NAME_END, ""),
                "partitionValues": pa.array([[]] * len(numbers), strings),
                "size": numbers,
                "modificationTime": numbers,
                "dataChange": pa.repeat(False, len(numbers)),
                "stats": pc.binary_join_element_wise('{"numRecords":', names, STATS_END, ""),
            }
            columns = [known.get(field.name, pa.nulls(len(numbers), field.type)) for field in add]
            rows = pa.StructArray.from_arrays(columns, fields=list(add))
            empty = [pa.nulls(len(numbers), field.type) for field in schema][:2]
            writer.write_table(pa.table([*empty, rows], schema=schema))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 1, "size": adds + 2}))


def write_commit_table(root: Path, commits: int) -> None:
    """A table of `commits` small commits and no checkpoint."""
    log = root / "_delta_log"
    log.mkdir(parents=True)
    write_commit(log, 0, [{"protocol": PROTOCOL}, {"metaData": METADATA}])
    for version in range(1, commits):
        actions = [{"add": file_action(f"{version}-{part}", part)} for part in range(5)]
        write_commit(log, version, [{"commitInfo": {"timestamp": version, "operation": "WRITE"}}, *actions])


def file_action(name: str, size: int) -> dict[str, object]:
    """One add action."""
    return {
        "path": f"part-{name}{NAME_END}",
        "partitionValues": {},
        "size": size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": f'{{"numRecords":10{STATS_END}',
    }


def write_commit(log: Path, version: int, actions: list[dict[str, object]]) -> None:
    """One commit file."""
    lines = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    (log / f"{version:020d}.json").write_text(lines)


def measure(command: Sequence[str]) -> Run:
    """Run a command to its end and return its wall time and peak memory."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}: {error.decode()[-400:]}")
    return Run(time.perf_counter() - start, usage.ru_maxrss)


def compare(case: Case, runs: int) -> str:
    """Run both sides in turn and return a row of the table."""
    bare = [sys.executable, "-c", "pass"]
    pairs = [(measure(case.ours), measure(case.peer or bare)) for _ in range(runs + 1)][1:]
    wall = statistics.median(ours.seconds / peer.seconds for ours, peer in pairs)
    memory = statistics.median(ours.peak_kib / peer.peak_kib for ours, peer in pairs)
    seconds = statistics.median(ours.seconds for ours, _ in pairs)
    peak = statistics.median(ours.peak_kib for ours, _ in pairs) / 1024
    against = "deltalake" if case.peer else "python -c pass"
    return f"| {case.name} | {against} | {wall:.2f} | {memory:.2f} | {seconds:.2f} s | {peak:.0f} MiB |"


def main() -> None:
    """Make the tables, measure, print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True, help="a Python with deltalake and pyarrow")
    parser.add_argument("--adds", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("-n", type=int, default=5)
    options = parser.parse_args()
    ours = [str(Path(sys.executable).parent / "deltacli")]
    with tempfile.TemporaryDirectory(prefix="deltacli-bench-") as directory:
        checkpoint, commits, few = (Path(directory) / name for name in ("checkpoint", "commits", "few"))
        # In a process of its own: a child's peak memory begins with its parent's.
        makers = multiprocessing.get_context("spawn")
        for target, arguments in (
            (write_checkpoint_table, (checkpoint, options.adds)),
            (write_commit_table, (commits, options.commits)),
            (write_commit_table, (few, 100)),
        ):
            maker = makers.Process(target=target, args=arguments)
            maker.start()
            maker.join()
        peer = [options.peer_python, "-c", PEER]
        cases = [
            Case("--version", [*ours, "--version"], None),
            Case("--help", [*ours, "--help"], None),
            Case("history, 100 commits", [*ours, "history", str(few)], None),
            Case(
                f"snapshot, {options.adds:,} adds",
                [*ours, "snapshot", str(checkpoint), "--json"],
                [*peer, "count", str(checkpoint)],
            ),
            Case(
                f"validate, {options.adds:,} adds, against merely opening it",
                [*ours, "validate", str(checkpoint), "--exit-zero", "--json"],
                [*peer, "load", str(checkpoint)],
            ),
            Case(
                f"every file of {options.adds:,}, as NDJSON",
                [*ours, "snapshot", str(checkpoint), "--files", "--format", "ndjson"],
                [*peer, "files", str(checkpoint)],
            ),
            Case(
                f"snapshot, {options.commits:,} commits",
                [*ours, "snapshot", str(commits), "--json"],
                [*peer, "count", str(commits)],
            ),
            Case(
                f"history, {options.commits:,} commits",
                [*ours, "history", str(commits), "--json"],
                [*peer, "history", str(commits)],
            ),
            Case(  # the last one: each side replaces the checkpoint that the other has written
                f"checkpoint, {options.adds:,} adds",
                [*ours, "checkpoint", str(checkpoint), "--force", "--json"],
                [*peer, "checkpoint", str(checkpoint)],
            ),
        ]
        print("| case | against | wall ratio | memory ratio | ours | peak |\n|---|---|---|---|---|---|")
        for case in cases:
            print(compare(case, options.n), flush=True)


if __name__ == "__main__":
    main()
