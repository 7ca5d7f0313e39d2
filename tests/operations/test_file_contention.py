"""Processes of ours and deltalake that add and remove files of one table at the same time: every version is the one
before it with one change, no row is lost, comes back or is there twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deltacli.storage import open_storage
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.builder import TableBuilder
from tests.support.effort import SEED, is_soaking
from tests.support.file_commits import versions
from tests.support.file_racing import check, first_files, race, rows_told
from tests.support.gcs import GcsServer
from tests.support.peers import ROOT, SCRIPTS, peer_python
from tests.support.reading import open_at
from tests.support.s3 import S3Server
from tests.support.waiting import SECONDS, in_time, run_together

COMMITS = 2_000
"""Of ours and of others in `dev.py soak`."""

_LONGEST = 3_600 if is_soaking() else 120
TRACKING = ("domainMetadata", "rowTracking", "inCommitTimestamp")


@contextmanager
def deltalake(uri: str, writers: int, count: int, options: dict[str, str], *kinds: str) -> Iterator[list[int]]:
    """Run writers of the other engine beside the block; the list has the numbers of their commits afterwards."""
    python, made = peer_python(), list[int]()
    if python is None:
        pytest.skip("no environment with peers")
    command = [python, str(SCRIPTS / "writing_with_deltalake.py"), uri]
    processes = [
        subprocess.Popen(
            [*command, str(number), str(count), json.dumps(options), *kinds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        for number in range(writers)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
        yield made
        for process in processes:
            with in_time(process, "the other engine", SECONDS):
                made.append(int(process.communicate()[0]))
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def contend(uri: str, racers: int, count: int) -> list[Any]:  # Any: (txnId, version)
    """Let our processes commit `count` times together, and return what they told."""
    each = -(-count // racers)
    targets = [(race, (uri, number, SEED, each)) for number in range(racers)]
    told = [one for found in run_together(targets, seconds=_LONGEST) for one in found]
    assert not [one for one in told if isinstance(one, str)], told[-3:]
    assert racers * each == len(told)
    return told


def verify(uri: str, told: list[Any], others: list[int], capfd: pytest.CaptureFixture[str]) -> None:  # Any: as above
    storage = open_storage(uri)
    counts = check(storage, told)
    newest = open_at(storage).snapshot()
    scanned = sorted(value for batch in newest.scan(columns=["id"]) for value in batch.column("id").to_pylist())
    assert rows_told(versions(storage)[-1], storage) == scanned
    assert sum(counts.values()) == newest.version + 1 == 1 + len(told) + sum(others)
    errors = [finding for finding in open_at(storage).validate().findings if finding.severity == "error"]
    assert [] == errors
    with capfd.disabled():
        sys.stderr.write(
            f"\n{uri.split(':', maxsplit=1)[0][:5]}: {counts}, {len(told)} ours, {sum(others)} of others\n"
        )


@pytest.mark.parametrize(
    ("racers", "others", "count"),
    [(3, 1, 28), pytest.param(8, 2, COMMITS, marks=pytest.mark.soak)],
    ids=["few", "many"],
)
def test_on_disk_beside_deltalake(
    racers: int, others: int, count: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = str(first_files().write(tmp_path / "table"))

    with deltalake(place, others, count // 8, {}) as made:
        told = contend(place, racers, count - count // 8 * others)

    verify(place, told, made, capfd)


def in_s3(s3: S3Server, builder: TableBuilder) -> str:
    bucket = s3.make_bucket()
    for path, file in builder.files.items():
        s3.put(bucket, f"table/{path}", file.data)
    return f"s3://{bucket}/table"


@pytest.mark.long
def test_on_s3_beside_deltalake(s3: S3Server, capfd: pytest.CaptureFixture[str]) -> None:
    uri, count = in_s3(s3, first_files()), COMMITS if is_soaking() else 16
    options = {"AWS_ENDPOINT_URL": s3.url, "AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}

    with deltalake(uri, 2 if is_soaking() else 1, count // 8, options) as made:
        told = contend(uri, 8 if is_soaking() else 2, count - count // 4)

    verify(uri, told, made, capfd)


@pytest.mark.long
def test_on_gcs_alone(gcs: GcsServer, capfd: pytest.CaptureFixture[str]) -> None:
    bucket = gcs.make_bucket()
    for path, file in first_files(*TRACKING).files.items():
        gcs.put(bucket, f"table/{path}", file.data, file.modified_ms)
    check_alone(f"gs://{bucket}/table", capfd)


@pytest.mark.long
def test_on_azure_alone(azure: AzureServer, capfd: pytest.CaptureFixture[str]) -> None:
    container = azure.make_container(is_hierarchical=True)
    for path, file in first_files(*TRACKING).files.items():
        azure.put(container, f"table/{path}", file.data, file.modified_ms)
    check_alone(f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/table", capfd)


def check_alone(uri: str, capfd: pytest.CaptureFixture[str]) -> None:
    told = contend(uri, 8 if is_soaking() else 2, COMMITS if is_soaking() else 16)

    verify(uri, told, [], capfd)
