"""deltacli against the floor: DuckDB's native reader answering the same questions by SQL over checkpoint and commits.

  .venv/bin/python -m benchmarks.floor --peer-python .venv-peers/bin/python [--work DIR] [--adds 1000000] [-n 5]

Run it with the Python of the environment that has deltacli; compile its bytecode before. Each answer comes from a whole
process of each side, in turn, DuckDB as a script with its import, and is compared: numbers, partitions, and every line
of a list. Ratios are of medians of wall time, processor time and peak memory; those above a bar are bold.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltacli.delta.log.file_actions import action_schemas

BARS = (1.0, 1.0, 1.5)
"""Of DuckDB's wall time, processor time and peak memory."""
CHECKPOINT, COMMITS, SIDECARS = 10, 20, 8
"""The version of the checkpoint, the number of commits after it, and of sidecars where there are some."""
ROWS_A_GROUP = 250_000
_FIRST_MS = 1_700_000_000_000
_TEXT = pa.string()
_STRINGS = pa.map_(_TEXT, _TEXT)

OURS = """
import json, sys
from deltacli import open_table
from deltacli.operations.read.file_sizes import file_sizes
sizes = file_sizes(open_table(sys.argv[1]).snapshot())
print(json.dumps({name: [count, sizes.partition_bytes[name]] for name, count in sizes.partition_files.items()}))
"""
DUCKDB = r"""
import glob, json, sys, time
import duckdb
log, question = sys.argv[1] + "/_delta_log/", sys.argv[2]
files = glob.glob(log + "_sidecars/*.parquet") or glob.glob(log + "*.checkpoint.parquet")
first = int(glob.glob(log + "*.checkpoint*")[0].rpartition("/")[2][:20])
commits = [f"{log}{version:020d}.json" for version in range(first + 1, int(sys.argv[3]) + 1)]
vector = "struct(storageType varchar, pathOrInlineDv varchar, \"offset\" int, sizeInBytes int, cardinality bigint)"
shared = f"path varchar, partitionValues map(varchar, varchar), size bigint, deletionVector {vector}"
add = f"struct({shared}, modificationTime bigint, dataChange boolean, stats varchar)"
remove = f"struct({shared}, deletionTimestamp bigint)"
vector_id = "coalesce(f.deletionVector.storageType || f.deletionVector.pathOrInlineDv || "
vector_id += "coalesce('@' || f.deletionVector.\"offset\", ''), '')"
records = "cast(regexp_extract(f.stats, '^\\{\"numRecords\":(\\d+)', 1) as bigint)"
connection = duckdb.connect()
connection.execute("set threads = 2; set enable_progress_bar = false; set preserve_insertion_order = false")
connection.execute(
    f"create temp table tail as select add, remove, f.path as path, {vector_id} as vector "
    f"from (select *, if(add is null, struct_pack(path := remove.path, deletionVector := remove.deletionVector), "
    f"struct_pack(path := add.path, deletionVector := add.deletionVector)) as f "
    f"from read_json({commits}, format = 'newline_delimited', filename = true, "
    f"columns = {{add: '{add}', remove: '{remove}'}})) where f.path is not null "
    f"qualify row_number() over (partition by path, vector order by filename desc, add is null) = 1"
)

def live(kind, columns):
    newer = f"select {columns} from (select {kind} as f from tail where {kind} is not null)"
    older = f"select {columns} from (select {kind} as f from read_parquet({files}) where {kind}.path is not null)"
    return f"({newer} union all {older} as old anti join tail on tail.path = f.path and tail.vector = {vector_id})"

def ask(query):
    return connection.execute(query).fetchall()

if question == "counts":
    columns = f"f.size as size, {records} as records, f.deletionVector.cardinality as deleted"
    totals = "count(*), sum(size), sum(records) - coalesce(sum(deleted), 0), count(deleted)"
    counted = [ask(f"select {totals} from {live('add', columns)}")[0]]
    expired = f"count(*) filter (moment <= {int(time.time() * 1000) - 7 * 86400000})"
    counted.append(ask(f"select count(*), {expired} from {live('remove', 'f.deletionTimestamp as moment')}")[0])
    print(json.dumps([int(number) for numbers in counted for number in numbers]))
elif question == "partitions":
    columns = "f.partitionValues['dt'] as dt, f.size as size"
    grouped = ask(f"select 'dt=' || dt, count(*), sum(size) from {live('add', columns)} group by all")
    print(json.dumps({name: [count, int(size)] for name, count, size in grouped}))
elif question == "paths":
    ask(f"copy {live('add', 'f.path as path')} to '/dev/stdout' (format csv, header)")
else:
    columns = "'add' as type, " + ", ".join(
        f"f.{name} as {name}"
        for name in "path partitionValues size modificationTime dataChange stats deletionVector".split()
    )
    ask(f"copy {live('add', columns)} to '/dev/stdout' (format json)")
"""


class Measured(NamedTuple):
    """One process: wall and processor time in seconds, peak memory in MB."""

    wall: float
    cpu: float
    memory: float


class Case(NamedTuple):
    """A question to one table: the arguments of the product, or None for its script, and the word for DuckDB's."""

    name: str
    ours: Sequence[str] | None
    question: str


SNAPSHOT = Case("snapshot", ("snapshot", "--json"), "counts")
CASES = {
    "plain": (
        SNAPSHOT,
        Case("files", ("snapshot", "--files", "--format", "ndjson"), "files"),
        Case("paths", ("snapshot", "--files", "--columns", "path", "--format", "csv"), "paths"),
        Case("partitions", None, "partitions"),
    ),
    "sidecars": (SNAPSHOT,),
    "vectors": (SNAPSHOT,),
}


def main() -> None:
    """Make the tables, measure, print Markdown."""
    options = _options()
    scratch = tempfile.TemporaryDirectory(prefix="deltacli-floor-")
    work = Path(options.work or scratch.name)
    snapshots: dict[int, Measured] = {}
    print(
        "| adds | table | answer | wall | CPU | memory | deltacli | DuckDB |\n|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    for adds in options.adds:
        for kind, cases in CASES.items():
            root = work / f"{kind}-{adds}"
            if not root.exists():  # in a process of its own: a child's peak memory begins with its parent's
                maker = multiprocessing.get_context("spawn").Process(target=write_table, args=(root, adds, kind))
                maker.start()
                maker.join()
            for case in cases:
                if options.only and case.name not in options.only and kind not in options.only:
                    continue
                ours, theirs = _compare(case, root, options, work)
                ratios = [_bold(mine / floor, bar) for mine, floor, bar in zip(ours, theirs, BARS, strict=True)]
                print("", f"{adds:,}", kind, case.name, *ratios, _shown(ours), _shown(theirs), "", sep="|", flush=True)
                if (kind, case) == ("plain", SNAPSHOT):
                    snapshots[adds] = ours
    for fewer, more in zip(options.adds, options.adds[1:], strict=False):
        if {fewer, more} <= {*snapshots}:
            pairs = zip(snapshots[more], snapshots[fewer], strict=True)
            wall, cpu, memory = (large / small for large, small in pairs)
            print(f"{more:,} against {fewer:,} adds: {wall:.2f} wall, {cpu:.2f} CPU, {memory:.2f} memory")


def _compare(case: Case, root: Path, options: argparse.Namespace, work: Path) -> tuple[Measured, Measured]:
    """Run both sides in turn, require equal answers, and return the medians of each."""
    product = [str(Path(sys.executable).parent / "deltacli"), *(case.ours or ())]
    product[2:2] = [str(root)]
    script = [sys.executable, "-c", OURS, str(root)]
    last = str(CHECKPOINT + COMMITS)
    commands = {
        "deltacli": product if case.ours else script,
        "DuckDB": [options.peer_python, "-c", DUCKDB, str(root), case.question, last],
    }
    runs: dict[str, list[Measured]] = {name: [] for name in commands}
    for turn in range(options.n + 1):
        for name, command in commands.items():
            measured = _run(command, work / f"answer-{name}")
            if turn:
                runs[name].append(measured)
    answers = [_answer(case.question, work / f"answer-{name}") for name in commands]
    if answers[0] != answers[1]:
        sys.exit(f"{root.name}, {case.name}: the answers differ\n{str(answers[0])[:500]}\n{str(answers[1])[:500]}")
    ours, theirs = (Measured(*map(statistics.median, zip(*each, strict=True))) for each in runs.values())
    return ours, theirs


def _run(command: Sequence[str], answer: Path) -> Measured:
    """Run a process to its end with its answer in a file."""
    with answer.open("wb") as stdout:
        begun = time.perf_counter()
        environment = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc", **os.environ}  # as the command line sets it
        process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, env=environment)
        error = process.stderr.read() if process.stderr else b""
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)[:200]} ended with {process.returncode}: {error.decode()[-600:]}")
    return Measured(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def _answer(question: str, file: Path) -> object:
    """Return what an answer says: of a list of files its length and the sum of the hashes of its lines."""
    if question in ("counts", "partitions"):
        found = orjson.loads(file.read_bytes())
        if isinstance(found, dict) and found.get("kind") == "deltacli.snapshot":
            files, tombstones = found["files"], found["tombstones"]
            numbers = [files["count"], files["sizeBytes"], files["rows"], files["deletionVectors"]["count"]]
            return [*numbers, tombstones["count"], tombstones["expired"]]
        return found
    hashes, count = 0, 0
    with file.open("rb") as lines:
        for line in lines:
            if line.startswith(b'{"type":"end","complete":true'):
                continue
            hashes += hash(line.strip() if question == "paths" else _plain(orjson.loads(line)))
            count += 1
    return count, hashes


def _plain(value: Any) -> Any:
    """Return a JSON value that can be hashed, without fields that are null."""
    if isinstance(value, dict):
        return tuple(sorted((name, _plain(one)) for name, one in value.items() if one is not None))
    return value


def _bold(ratio: float, bar: float) -> str:
    return f"**{ratio:.2f}**" if ratio > bar else f"{ratio:.2f}"


def _shown(measured: Measured) -> str:
    return f"{measured.wall:.2f} s, {measured.cpu:.2f} s CPU, {measured.memory:.0f} MB"


# -- tables ------------------------------------------------------------------------------------------------------------


def write_table(root: Path, adds: int, kind: str) -> None:
    """Write the log of a table: a checkpoint of `adds` files in 336 partitions and a tenth as many tombstones, then
    commits that each add five files and remove two. `kind`: with "sidecars", or "vectors" for a tenth of the files.
    """
    chance, log = random.Random(adds), root / "_delta_log"
    (log / "_sidecars").mkdir(parents=True) if kind == "sidecars" else log.mkdir(parents=True)
    features = {"sidecars": ["v2Checkpoint"], "vectors": ["deletionVectors"]}.get(kind, ["v2Checkpoint"])
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("dt", "c0", "c1")]
    metadata = {
        "id": "8b8a9a1e-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["dt"],
        "configuration": {},
    }
    small: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
    name = f"{CHECKPOINT:020d}.checkpoint"
    sidecars = [f"{number:08d}-0000-4000-8000-000000000000.parquet" for number in range(SIDECARS)]
    paths = [log / "_sidecars" / one for one in sidecars] if kind == "sidecars" else [log / f"{name}.parquet"]
    schema = _schema(["add", "remove"] if kind == "sidecars" else ["protocol", "metaData", "add", "remove"])
    writers = [pq.ParquetWriter(path, schema, compression="snappy") for path in paths]
    if kind != "sidecars":
        writers[0].write_table(pa.Table.from_pylist(small, schema=schema))
    first: list[dict[str, Any]] = []
    for number, rows in enumerate(_groups(adds, chance, is_vectored=kind == "vectors")):
        writers[number % len(writers)].write_table(
            pa.table([rows.get(field.name, pa.nulls(len(*rows.values()), field.type)) for field in schema], schema)
        )
        first = first or rows["add"].slice(0, 2 * COMMITS).to_pylist(maps_as_pydicts="strict")
    for writer in writers:
        writer.close()
    if kind == "sidecars":
        found = [{"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": 0} for path in paths]
        small += [{"checkpointMetadata": {"version": CHECKPOINT}}, *({"sidecar": one} for one in found)]
        (log / f"{name}.8b8a9a1e-0000-4000-8000-000000000001.json").write_text(_lines(small))
    info = {"commitInfo": {"timestamp": _FIRST_MS, "operation": "WRITE"}}
    (log / f"{CHECKPOINT:020d}.json").write_text(_lines([info]))
    now_ms = int(time.time() * 1000)
    for number in range(COMMITS):
        added = [
            {"add": _whole(one)} for one in _adds(5, chance, is_vectored=False).to_pylist(maps_as_pydicts="strict")
        ]
        keys = ("path", "partitionValues", "size", "deletionVector")
        removed = [
            {"remove": _whole({key: one[key] for key in keys}) | {"deletionTimestamp": now_ms, "dataChange": True}}
            for one in first[2 * number : 2 * number + 2]
        ]
        (log / f"{CHECKPOINT + 1 + number:020d}.json").write_text(_lines([info, *added, *removed]))


def _whole(action: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in action.items() if value is not None}


def _lines(actions: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)


def _schema(kinds: Sequence[str]) -> pa.Schema:
    names = pa.list_(_TEXT)
    of_kind = {
        "protocol": pa.struct(
            [(f"min{who}Version", pa.int32()) for who in ("Reader", "Writer")]
            + [(f"{who}Features", names) for who in ("reader", "writer")]
        ),
        "metaData": pa.struct(
            {"id": _TEXT, "format": pa.struct({"provider": _TEXT, "options": _STRINGS}), "schemaString": _TEXT}
            | {"partitionColumns": names, "configuration": _STRINGS}
        ),
        "add": pa.struct(list(action_schemas().add)),
        "remove": pa.struct(list(action_schemas().remove)),
    }
    return pa.schema([(kind, of_kind[kind]) for kind in kinds])


def _groups(adds: int, chance: random.Random, *, is_vectored: bool) -> Iterator[dict[str, Any]]:
    """Yield the actions of each row group, by their kind."""
    rows = min(ROWS_A_GROUP, adds // SIDECARS)
    for first in range(0, adds, rows):
        yield {"add": _adds(min(rows, adds - first), chance, is_vectored=is_vectored)}
    for first in range(0, adds // 10, rows):
        files = _adds(min(rows, adds // 10 - first), chance, is_vectored=False)
        deleted = pa.repeat(pa.scalar(_FIRST_MS, pa.int64()), len(files))
        known = {"deletionTimestamp": deleted, "extendedFileMetadata": pa.repeat(True, len(files))}
        yield {
            "remove": _struct("remove", len(files), known | dict(zip(files.type.names, files.flatten(), strict=True)))
        }


def _adds(rows: int, chance: random.Random, *, is_vectored: bool) -> Any:
    """Return live files with random names, sizes and statistics of four columns."""
    digits, offsets = chance.randbytes(16 * rows).hex(), pa.array(range(0, 32 * rows + 1, 32), pa.int32())
    hexes = pa.StringArray.from_buffers(rows, offsets.buffers()[1], pa.py_buffer(digits.encode()))
    numbers = pa.Array.from_buffers(pa.uint32(), rows, [None, pa.py_buffer(chance.randbytes(4 * rows))])
    numbers = pc.add(pc.shift_right(numbers.cast(pa.int64()), 8), 10_000)
    days = pa.array([f"2026-{month:02d}-{day:02d}" for month in range(1, 13) for day in range(1, 29)])
    day = pc.take(days, pc.subtract(numbers, pc.multiply(pc.divide(numbers, len(days)), len(days))))
    names = [*(pc.utf8_slice_codeunits(hexes, start, end) for start, end in ((0, 8), (8, 12), (12, 16), (16, 32))), ""]
    path = pc.binary_join_element_wise("dt=", day, "/part-", pc.utf8_slice_codeunits(hexes, 0, 5), "-", "")
    path = pc.binary_join_element_wise(path, pc.binary_join_element_wise(*names[:4], "-"), "-c000.snappy.parquet", "")
    text = numbers.cast(_TEXT)
    stats = pc.binary_join_element_wise(
        '{"numRecords":',
        text,
        ',"minValues":{"c0":1',
        text,
        ',"c1":"a-',
        names[0],
        '","c2":1',
        text,
        ',"c3":"a-',
        names[1],
        '"},"maxValues":{"c0":9',
        text,
        ',"c1":"z-',
        names[2],
        '","c2":9',
        text,
        ',"c3":"z-',
        names[3],
        '"},"nullCount":{"c0":0,"c1":0,"c2":0,"c3":0}' + (',"tightBounds":false}' if is_vectored else "}"),
        "",
    )
    known = {
        "path": path,
        "partitionValues": pa.MapArray.from_arrays(pa.array(range(rows + 1), pa.int32()), pa.repeat("dt", rows), day),
        "size": numbers,
        "modificationTime": pa.repeat(pa.scalar(_FIRST_MS, pa.int64()), rows),
        "dataChange": pa.repeat(False, rows),
        "stats": stats,
    }
    if is_vectored:
        one = {"storageType": "u", "offset": 1, "sizeInBytes": 40, "cardinality": 3}
        kind = action_schemas().add.field("deletionVector").type
        parts = [
            pc.utf8_slice_codeunits(hexes, 0, 22)
            if field.name == "pathOrInlineDv"
            else pa.repeat(pa.scalar(one.get(field.name), field.type), rows)
            for field in kind
        ]
        known["deletionVector"] = pa.StructArray.from_arrays(
            parts, fields=list(kind), mask=pc.not_equal(pc.bit_wise_and(numbers, 7), 0)
        )
    return _struct("add", rows, known)


def _struct(kind: str, rows: int, known: dict[str, Any]) -> Any:
    fields = list(action_schemas().add if kind == "add" else action_schemas().remove)
    columns = [
        known[field.name].cast(field.type) if field.name in known else pa.nulls(rows, field.type) for field in fields
    ]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True, help="a Python with duckdb")
    parser.add_argument("--work", help="keep the tables here, and use those that are there")
    parser.add_argument("--adds", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000])
    parser.add_argument("--only", nargs="+", help="answers or kinds of tables")
    parser.add_argument("-n", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
