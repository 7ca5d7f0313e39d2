"""`deltacli share pull` of many small files from our server on loopback, beside curl in parallel on the same URLs.

  PYTHONPATH=. .venv/bin/python benchmarks/sharing/pull.py [--files 10000] [--bytes 100000] [-n 3] [--work DIR]

Both fetch from one server process, and take turns. The pull also lists the table, verifies every file, syncs it, and
commits. The ratio is that of the fastest runs: throughput of the pull divided by that of curl; the goal is 0.8. Memory
is the peak of the whole pull process; the goal is 200 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.sharing.client.addresses import TableName
from deltacli.sharing.client.share_storage import open_profile
from deltacli.sharing.client.shared_version import read_version
from deltacli.sharing.client.table_requests import Query, TableRequests
from deltacli.sharing.protocol.parameters import ResponseFormat

PARALLEL = 16
LONGEST_START_SECONDS = 30


def write_table(path: Path, files: int, size: int) -> None:
    """Write a table of files with random content, so that no file is another's copy."""
    log = path / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "b", "type": "binary", "nullable": True, "metadata": {}}]}
    metadata = {
        "id": "5b0f5f7e-6d9e-4f0b-8a55-0f6c2f1f9a10",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {},
    }
    lines = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    for number in range(files):
        name = f"part-{number:05}.parquet"
        rows = pa.table({"b": [os.urandom(size - 500)]})
        pq.write_table(rows, path / name, compression="none", use_dictionary=False, write_statistics=False)
        add = {
            "path": name,
            "partitionValues": {},
            "size": (path / name).stat().st_size,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": '{"numRecords":1}',
        }
        lines.append({"add": add})
    (log / f"{0:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


def curl_seconds(profile: Path, table: str, work: Path) -> float:
    """Return how long curl takes for all files of the table. Their URLs are listed before."""
    transport = open_profile(profile)
    name = TableName("local", "default", table)
    shared = read_version(TableRequests(transport, name), Query(formats=(ResponseFormat.DELTA,)))
    target = work / "curl"
    target.mkdir()
    config = work / "curl.txt"
    found = ((file, shared.urls.find(file)) for file in shared.urls.names())
    config.write_text("".join(f'url="{url.url}"\noutput="{target / file}"\n' for file, url in found if url))
    command = [
        "curl",
        "--fail",
        "--silent",
        "--no-progress-meter",
        "--parallel",
        "--parallel-max",
        str(PARALLEL),
        "--config",
        str(config),
    ]
    began = time.perf_counter()
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - began
    shutil.rmtree(target)
    return seconds


def pull_seconds(profile: Path, table: str, work: Path) -> tuple[float, float]:
    """Return how long a pull takes as a process, and its peak of memory in MB."""
    target = work / "pulled"
    command = [
        sys.executable,
        "-m",
        "deltacli",
        "share",
        "pull",
        f"{profile}#local.default.{table}",
        "--to",
        str(target),
    ]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the pull failed with exit code {process.returncode}")
    shutil.rmtree(target)
    return seconds, usage.ru_maxrss / 1_000


def wait_for(profile: Path) -> None:
    end = time.monotonic() + LONGEST_START_SECONDS
    while not profile.exists():
        if time.monotonic() > end:
            raise SystemExit("the server did not start")
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=100_000)
    parser.add_argument("-n", type=int, default=3)
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="share-pull-", dir=options.work))
    try:
        table, profile = work / "t", work / "p.share"
        write_table(table, options.files, options.bytes)
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "deltacli",
                "share",
                "serve",
                str(table),
                "--profile",
                str(profile),
                "--port",
                "0",
                "-q",
            ],
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_for(profile)
            runs = []
            for _ in range(options.n):
                curl = curl_seconds(profile, "t", work)
                pulled, memory = pull_seconds(profile, "t", work)
                runs.append((curl, pulled, memory))
                print(f"curl {curl:.2f} s   pull {pulled:.2f} s   {memory:.0f} MB   load {os.getloadavg()[0]:.1f}")
        finally:
            server.terminate()
            server.wait()
    finally:
        shutil.rmtree(work)
    curl, pulled, memory = min(run[0] for run in runs), min(run[1] for run in runs), max(run[2] for run in runs)
    ratio = curl / pulled
    print(f"ratio {ratio:.2f} (goal 0.80), peak {memory:.0f} MB (goal 200)")
    return 0 if ratio >= 0.8 and memory <= 200 else 1


if __name__ == "__main__":
    sys.exit(main())
