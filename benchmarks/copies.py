"""Copies of tables beside what others would do, and the memory that many files take.

  .venv/bin/python -m benchmarks.copies disk|s3|memory|convert|noop|flips [--files N] [--rounds N] [--at DIRECTORY]

`disk`: `copy` beside `cp -r` and `sync`, and `s3`: `copy` to an S3 emulator in a process of its own beside a parallel
loop over botocore, files of 1 KiB, in turn. `memory` and `convert`: files that are hard links. `noop`: a replica that
is current. `flips`: a bit is flipped in one of so many files, or it is cut, and a check has to find it, in each round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from benchmarks.synthetic import FILES_A_DIRECTORY, ROWS_A_FILE, data_file, name_of

DELTACLI = (sys.executable, "-m", "deltacli")
_AT_ONCE = 16
_LINKS_OF_A_FILE = 50_000
"""Some file systems allow 65,000."""
_LOOP = f"""
import os, sys
from concurrent.futures import ThreadPoolExecutor
from botocore.config import Config
from botocore.session import get_session
client = get_session().create_client("s3", config=Config(max_pool_connections={_AT_ONCE}))
root, bucket = sys.argv[1:]
def put(path):
    with open(path, "rb") as file:
        client.put_object(Bucket=bucket, Key="loop/" + os.path.relpath(path, root), Body=file.read())
paths = [os.path.join(at, name) for at, _, names in os.walk(root) for name in names]
with ThreadPoolExecutor({_AT_ONCE}) as pool:
    list(pool.map(put, paths))
"""


class _Run(NamedTuple):
    wall: float
    cpu: float
    peak_mb: float

    def __str__(self) -> str:
        return f"{self.wall:8.2f} s wall {self.cpu:8.2f} s CPU {self.peak_mb:6.0f} MB"


def main() -> None:
    """Measure what is asked for, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=_MEASURES)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at", metavar="DIRECTORY", help="where the tables are written")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.at) as scratch:
        _MEASURES[given.what](Path(scratch), given.files, given.rounds)


def _disk(place: Path, files: int, rounds: int) -> None:
    source, pairs = _table(place / "source", files), []
    for number in range(rounds):
        ours, theirs = place / f"ours-{number}", place / f"theirs-{number}"
        os.sync()
        pair = [_measure(*DELTACLI, "copy", str(source), str(ours), "-q")]
        os.sync()
        pair.append(_measure("sh", "-c", 'cp -r "$0" "$1" && sync', str(source), str(theirs)))
        pairs.append(_shown(pair))  # nothing is removed meanwhile: ext4 passes slowly by inodes just deleted
    _compare(pairs, 0.4)


def _s3(place: Path, files: int, rounds: int) -> None:
    source, pairs = _table(place / "source", files), []
    for number in range(rounds):
        code = (
            "from tests.support.s3 import S3Server; s = S3Server(); print(s.url, s.make_bucket(), flush=True); input()"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            url, bucket = server.stdout.readline().decode().split()
            os.environ |= {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
            os.environ |= {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
            commands = [
                (*DELTACLI, "copy", str(source), f"s3://{bucket}/ours", "-q", "--threads", str(_AT_ONCE)),
                (sys.executable, "-c", _LOOP, str(source), bucket),
            ]
            runs = [_measure(*command) for command in (commands if number % 2 else commands[::-1])]
            pairs.append(_shown(runs if number % 2 else runs[::-1]))
            server.kill()
    _compare(pairs, 0.9)


def _memory(place: Path, files: int, _: int) -> None:
    source = _table(place / "source", files, is_linked=True)
    _limit(_measure(*DELTACLI, "copy", str(source), str(place / "target"), "-q"))
    _limit(_measure(*DELTACLI, "copy", str(source), str(place / "target"), "--check", "-q"))


def _convert(place: Path, files: int, _: int) -> None:
    source = _table(place / "source", files, is_linked=True)
    shutil.rmtree(source / "_delta_log")
    _limit(_measure(*DELTACLI, "convert", str(source), "--partition", "d string", "--yes", "-q"))


def _noop(place: Path, files: int, rounds: int) -> None:
    source = _table(place / "source", files)
    command = (*DELTACLI, "copy", str(source), str(place / "target"), "--replica", "-q")
    for _ in range(rounds + 1):
        print(_measure(*command))


def _flips(place: Path, files: int, rounds: int) -> None:
    source, target = _table(place / "source", files), place / "target"
    _measure(*DELTACLI, "copy", str(source), str(target), "-q")
    chance, found = random.Random(1), [0, 0]
    for _ in range(rounds):
        file = target / name_of(chance.randrange(files))
        data = file.read_bytes()
        for number, (level, damaged) in enumerate((("data", _flipped(data, chance)), ("storage", data[:-1]))):
            file.write_bytes(damaged)
            check = (*DELTACLI, "copy", str(source), str(target), "--check", "--level", level, "--json")
            done = subprocess.run(check, stdout=subprocess.PIPE, check=False)
            differences = [one["path"] for one in json.loads(done.stdout)["differences"]]
            found[number] += (done.returncode, differences) == (1, [str(file.relative_to(target))])
            file.write_bytes(data)
    print(f"of {rounds}: {found[0]} flipped bits found by --level data, {found[1]} cut files by --level storage")


def _flipped(data: bytes, chance: random.Random) -> bytes:
    at, bit = chance.randrange(len(data)), chance.randrange(8)
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def _table(place: Path, files: int, *, is_linked: bool = False) -> Path:
    """Write a table of files of 1 KiB of noise, or of hard links of one Parquet file."""
    log, chance = place / "_delta_log", random.Random(files)
    log.mkdir(parents=True)
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _COLUMNS]
    metadata = {
        "id": "8b8a9a1e-0000-4000-8000-000000000002",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["d"],
        "configuration": {},
    }
    data = data_file()
    with open(log / f"{0:020d}.json", "w") as commit:
        commit.write(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}) + "\n")
        commit.write(json.dumps({"metaData": metadata}) + "\n")
        for number in range(files):
            name = name_of(number)
            if number % FILES_A_DIRECTORY == 0:
                (place / name).parent.mkdir()
            if is_linked and number % _LINKS_OF_A_FILE:
                os.link(place / name_of(number - number % _LINKS_OF_A_FILE), place / name)
            else:
                (place / name).write_bytes(data if is_linked else chance.randbytes(1024))
            add = {
                "path": name,
                "partitionValues": {"d": f"{number // FILES_A_DIRECTORY:07d}"},
                "size": len(data) if is_linked else 1024,
                "modificationTime": 1_700_000_000_000,
                "dataChange": True,
                "stats": json.dumps({"numRecords": ROWS_A_FILE}),
            }
            commit.write(json.dumps({"add": add}) + "\n")
    return place


_COLUMNS = (("c0", "long"), ("c1", "double"), ("d", "string"))


def _measure(*command: str) -> _Run:
    """Run a command in a process of its own."""
    begun = monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = monotonic() - begun
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return _Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _shown(pair: Sequence[_Run]) -> Sequence[_Run]:
    print(f"deltacli {pair[0]}   the other {pair[1]}", flush=True)
    return pair


def _compare(pairs: Sequence[Sequence[_Run]], bar: float) -> None:
    """Print how fast it is by the medians of both; 2 is twice as fast."""
    middle = len(pairs) // 2
    wall = [sorted(pair[which].wall for pair in pairs)[middle] for which in (1, 0)]
    cpu = [sorted(pair[which].cpu for pair in pairs)[middle] for which in (1, 0)]
    speed = wall[0] / wall[1]
    print(f"wall {speed:.2f}, CPU {cpu[0] / cpu[1]:.2f} (bar {bar})  {'PASS' if speed >= bar else 'FAIL'}")


def _limit(run: _Run) -> None:
    print(f"{run} (bar 400)  {'PASS' if run.peak_mb <= 400 else 'FAIL'}", flush=True)


_MEASURES: dict[str, Callable[[Path, int, int], None]] = {
    "disk": _disk,
    "s3": _s3,
    "memory": _memory,
    "convert": _convert,
    "noop": _noop,
    "flips": _flips,
}

if __name__ == "__main__":
    main()
