"""A vacuum of a table with a million files in 5,000 partitions, on an S3 that takes 200 ms for each call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.synthetic import write_table
from deltacli.storage.base import PARALLEL_READS
from tests.support.s3 import ENVIRONMENT
from tests.support.waiting import in_time

ROOT = Path(__file__).resolve().parents[2]
FILES = int(os.environ.get("DELTACLI_LOAD_FILES", "1000000"))
FILES_A_DIRECTORY = 200
GARBAGE = FILES // 10
LATENCY = 0.2
MOST_MEMORY = 600 << 20
"""Bytes, of which 130 MiB are the interpreter with Arrow, and the rest are the paths of the log and the candidates."""
PAGE = 1_000


class Stub(NamedTuple):
    """A running stub of S3."""

    url: str

    def ask(self, what: str) -> dict[str, list[float]]:
        """Send a request to the stub itself; return the calls since the last one."""
        with urllib.request.urlopen(f"{self.url}/-/{what}") as answer:
            found: dict[str, list[float]] = json.loads(answer.read())
        return found


class Run(NamedTuple):
    """What a run took."""

    seconds: float
    memory: int
    calls: dict[str, list[float]]


@contextmanager
def serving(log: Path) -> Iterator[Stub]:
    """The stub in a process of its own, so that its work does not slow down the client."""
    command = [sys.executable, str(ROOT / "benchmarks" / "s3_stub.py"), "--files", str(FILES), "--log", str(log)]
    command += ["--files-a-directory", str(FILES_A_DIRECTORY), "--latency-ms", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            with in_time(process, "the address of the stub"):
                address = process.stdout.readline().strip()
            yield Stub(address)
        finally:
            process.terminate()


def measured(stub: Stub, latency: float, report: Path) -> Run:
    """A dry run of vacuum with a latency of each call."""
    stub.ask(f"latency?ms={latency * 1_000}")
    command = [sys.executable, "-m", "tests.support.peak", str(report)]
    command += ["vacuum", "s3://lake/t", "--dry-run", "--json"]
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, **ENVIRONMENT, "AWS_ENDPOINT_URL": stub.url},
    )
    seconds = time.monotonic() - began
    json.loads(done.stdout)
    return Run(seconds, int(report.read_text()), stub.ask("calls"))


@pytest.mark.soak
def test_a_vacuum_lists_a_million_files_in_few_calls_at_full_speed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path, FILES - GARBAGE, files_a_directory=FILES_A_DIRECTORY)

    with serving(tmp_path) as stub:
        alone = measured(stub, 0.0, tmp_path / "peak")
        found = measured(stub, LATENCY, tmp_path / "peak")

    calls, service = found.calls["LIST"]
    every_call = sum(count for count, _ in found.calls.values())
    all_service = sum(seconds for _, seconds in found.calls.values())
    waiting = (every_call * LATENCY + all_service) / PARALLEL_READS
    figures = (
        f"{FILES:,} files: {calls:.0f} listings of {every_call:.0f} calls, {1_000 * service / calls:.1f} ms of service "
        f"each; {found.seconds:.1f} s, without latency {alone.seconds:.1f} s, of waiting {waiting:.1f} s; "
        f"{found.memory >> 20} MiB, without latency {alone.memory >> 20} MiB\n"
    )
    with capsys.disabled():
        sys.stderr.write(figures)
    assert calls <= 1.2 * max(FILES / PAGE, FILES / FILES_A_DIRECTORY)
    assert found.seconds <= 1.3 * waiting + alone.seconds
    assert found.memory <= MOST_MEMORY
