"""Operations on clouds, killed before any of their requests: the table reads the same, and the next run finishes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from deltacli.storage import Storage, open_storage
from deltacli.storage.retry import Retry
from tests.cli.support import ROOT
from tests.operations.test_clouds import (  # noqa: F401  (cloud and sample are fixtures)
    COMMITS,
    OPERATIONS,
    Cloud,
    _check_property,
    _versions,
    cloud,
    files_of,
    rows,
    sample,
    table_of,
)
from tests.support.s3 import S3Server

ORPHAN = "t/day=2026-01-01/orphan.parquet"
IN_LONG = (1, -2, -1)
"""The requests that `dev.py long` kills before; `dev.py soak clouds` takes all."""


@dataclass(frozen=True)
class OnS3:
    """A copy of the sample on S3, with what the checks need of a `Cloud`."""

    server: S3Server
    bucket: str
    sample: Path

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/t"

    @property
    def objects(self) -> dict[str, bytes]:
        return self.server.objects(self.bucket)

    def storage(self) -> Storage:
        return open_storage(self.uri, retry=Retry(pause=lambda _: None))

    def reset(self) -> None:
        """Undo everything that was written."""
        self.server.clear(self.bucket)
        for path, data, modified_ms in files_of(self.sample):
            self.server.put(self.bucket, f"t/{path}", data, modified_ms)


class Killer:
    """A process that runs one operation again and again, and is killed each time."""

    def __init__(self, uri: str, operation: str) -> None:
        command = [sys.executable, "-m", "tests.support.killed_operations", uri, operation]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run(self, at: int) -> str:
        """How a run ended that is killed before a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{at}\n")
        return self._process.stdout.readline().strip()

    def stop(self) -> None:
        self._process.communicate()


def check_kills(cloud: Cloud | OnS3, operation: str, chosen: tuple[int, ...] | None) -> int:  # noqa: F811
    """Kill an operation before its requests, look at the table each time, and run it again."""
    cloud.reset()
    before = rows(table_of(cloud.storage()))
    killer = Killer(cloud.uri, operation)
    try:
        count = int(killer.run(-1))
        for at in range(count) if chosen is None else sorted({place % count for place in chosen}):
            cloud.reset()
            assert "killed" == killer.run(at)
            table = table_of(cloud.storage())
            made = table.snapshot().version - 14
            assert before == rows(table), at
            assert 0 <= made <= COMMITS[operation], at
            assert list(range(15 + made)) == _versions(cloud.objects) or operation == "expire", at
            _check_property(table, operation, made)
            _check_next_run(cloud, operation, before)
        return count
    finally:
        killer.stop()


def _check_next_run(cloud: Cloud | OnS3, operation: str, before: object) -> None:  # noqa: F811
    OPERATIONS[operation](table_of(cloud.storage()))
    table = table_of(cloud.storage())
    assert before == rows(table)
    match operation:
        case "properties":
            assert "yes" == table.snapshot().properties["kept"]
        case "vacuum":
            assert ORPHAN not in cloud.objects
        case "expire":
            assert 0 not in _versions(cloud.objects)
        case "checkpoint":
            assert any("00000000000000000014.checkpoint" in name for name in cloud.objects)


@pytest.mark.long
@pytest.mark.parametrize("cloud", ["gcs"], indirect=True)
@pytest.mark.parametrize("operation", ["properties", "vacuum"])
def test_a_kill_at_some_requests_loses_nothing(operation: str, cloud: Cloud) -> None:  # noqa: F811
    assert check_kills(cloud, operation, IN_LONG) >= 3


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_kill_before_any_request_loses_nothing(
    operation: str,
    cloud: Cloud,  # noqa: F811
    capfd: pytest.CaptureFixture[str],
) -> None:
    _tell(cloud.uri, operation, check_kills(cloud, operation, None), capfd)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_kill_before_any_request_to_s3_loses_nothing(
    operation: str,
    s3: S3Server,
    sample: Path,  # noqa: F811
    capfd: pytest.CaptureFixture[str],
) -> None:
    cloud = OnS3(s3, s3.make_bucket(), sample)  # noqa: F811

    _tell(cloud.uri, operation, check_kills(cloud, operation, None), capfd)


def _tell(uri: str, operation: str, count: int, capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        sys.stderr.write(f"\n{uri[:5]} {operation}: killed before each of {count} requests\n")
