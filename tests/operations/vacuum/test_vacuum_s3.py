"""`vacuum` on S3: 10,000 objects, requests counted, a store that is busy, and another writer that commits meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import PermissionRefused
from deltacli.core.machine import fixed_clock
from deltacli.operations.vacuum.full_plan import plan_vacuum
from deltacli.operations.vacuum.plan import VacuumPlan
from deltacli.storage import open_storage
from tests.support.actions import add, birth, commit_info, remove, to_bytes
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.s3 import Fault, S3Server, says
from tests.support.vacuuming import vacuum_request

FAR_MS = 4_102_444_800_000
"""2100: whatever a store writes now is old then."""
LIVE, GONE, LOOSE = 4_000, 5_000, 1_000
SLOW_DOWN = says("503 SERVICE UNAVAILABLE", "SlowDown")


def path_of(number: int) -> str:
    return f"day={number % 8}/part-{number:05d}.parquet"


def lake() -> TableBuilder:
    """4,000 live files, 5,000 removed ones and 1,000 uncommitted ones, in eight partitions."""
    builder = TableBuilder()
    builder.commit(commit_info(), *birth(partition_columns=("day",)), *(add(path_of(n)) for n in range(LIVE + GONE)))
    builder.commit(commit_info(), *(remove(path_of(n)) for n in range(LIVE, LIVE + GONE)))
    for number in range(LIVE + GONE + LOOSE):
        builder.file(path_of(number), b"x")
    return builder


@pytest.fixture(scope="module")
def lake_files() -> dict[str, bytes]:
    return {path: file.data for path, file in lake().files.items()}


@pytest.fixture
def uri(s3: S3Server, lake_files: dict[str, bytes]) -> str:
    bucket = s3.make_bucket()
    for path, data in lake_files.items():
        s3.put(bucket, f"lake/t/{path}", data)
    return f"s3://{bucket}/lake/t"


def bucket_of(uri: str) -> str:
    return uri.split("/")[2]


def table_at(uri: str) -> Table:
    return Table(open_storage(uri), clock=fixed_clock(FAR_MS))


def left(s3: S3Server, uri: str) -> set[str]:
    """The data files that are there."""
    keys = (key.removeprefix("lake/t/") for key in s3.keys(bucket_of(uri)))
    return {key for key in keys if not key.startswith(LOG)}


def file_listings(s3: S3Server) -> list[str]:
    """The prefixes of listings below the partitions."""
    found = ["".join(query.get("prefix", [])) for _, _, query in s3.requests]
    return [prefix for prefix in found if "day=" in prefix]


def paths(numbers: Iterable[int]) -> set[str]:
    return {path_of(number) for number in numbers}


def all_paths() -> set[str]:
    return paths(range(LIVE + GONE + LOOSE))


def rows(plan: VacuumPlan) -> list[dict[str, Any]]:  # Any: values of columns
    found: list[dict[str, Any]] = plan.candidates.drop_columns(["modificationTimeMs"]).to_pylist()
    return found


def first(action: Callable[[S3Server], None]) -> Fault:
    """Do something, then answer as usual."""

    def fault(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        action(server)
        return server.answer(environ, start_response)

    return fault


@pytest.mark.long
def test_requests_are_few_and_a_plan_is_that_of_a_local_copy(s3: S3Server, uri: str, tmp_path: Path) -> None:
    table = table_at(uri)
    plan = plan_vacuum(table, vacuum_request())

    assert GONE + LOOSE == plan.files
    assert rows(plan) == rows(plan_vacuum(table_at(str(lake().write(tmp_path))), vacuum_request()))
    assert 8 * 2 == len(file_listings(s3))  # 1,250 names each, a thousand a page
    assert s3.asked("GET", "list-type") <= 8 * 2 + 8 + 1  # the notes of clones
    assert 0 == s3.asked("HEAD", "day=")
    s3.requests.clear()

    result = table.vacuum(max_delete="100%")

    assert result.outcome is not None
    assert (GONE + LOOSE, 0, 0) == (result.outcome.deleted.files, result.outcome.failed.count, result.outcome.spared)
    assert 6 == s3.asked("POST", "delete")
    assert 0 == s3.asked("DELETE", "day=")
    assert paths(range(LIVE)) == left(s3, uri)


def busy_once(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Refuse the first listing of files, answer everything before it."""
    if "prefix=lake%2Ft%2Fday" in environ["QUERY_STRING"]:
        return SLOW_DOWN(server, environ, start_response)
    server.fail("GET", environ["PATH_INFO"].split("/")[1], busy_once)
    return server.answer(environ, start_response)


@pytest.mark.long
def test_throttled_requests_are_retried_and_files_added_again_are_kept(
    s3: S3Server, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One commit comes before START, which takes the next version; another with the second request of a deletion, so
    before any batch is done, and the log is read again for the batches from the fourth on at the latest.
    """
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    bucket = bucket_of(uri)
    s3.fail("POST", bucket, SLOW_DOWN)
    s3.fail("GET", bucket, busy_once)
    early, late = path_of(LIVE), path_of(LIVE + GONE - 1)
    candidates = sorted(paths(range(LIVE, LIVE + GONE + LOOSE)))
    again = [candidates[-1], candidates[-1_000], candidates[4_500]]

    def commit(version: int, *added: str) -> Callable[[S3Server], None]:
        data = to_bytes([commit_info("RESTORE"), *(add(path) for path in added)])
        return lambda server: server.put(bucket, f"lake/t/{commit_path(version)}", data)

    s3.fail("PUT", commit_path(2), first(commit(2, early, late)))
    s3.fail("POST", bucket, first(commit(4, *again)))

    outcome = table_at(uri).vacuum(max_delete="100%", threads=2).outcome

    assert outcome is not None
    assert (3, 5, 0) == (outcome.start_version, outcome.end_version, outcome.failed.count)
    assert 7 == s3.asked("POST", "delete")
    assert 8 * 2 + 1 == len(file_listings(s3))
    spared = {early, late, *again}
    assert (len(spared), GONE + LOOSE - len(spared)) == (outcome.spared, outcome.deleted.files)
    assert paths(range(LIVE)) | spared == left(s3, uri)
    said = [json.loads(open_storage(uri).read(commit_path(version)).splitlines()[0]) for version in range(2, 6)]
    assert ["RESTORE", "VACUUM START", "RESTORE", "VACUUM END"] == [line["commitInfo"]["operation"] for line in said]


@pytest.mark.long
def test_files_whose_deletion_is_denied_are_reported_and_deleted_next_time(s3: S3Server, uri: str) -> None:
    s3.fail("POST", bucket_of(uri), says("403 FORBIDDEN", "AccessDenied", "no s3:DeleteObject"))

    with pytest.raises(PermissionRefused) as caught:
        table_at(uri).vacuum(max_delete="100%", prefix="day=1")

    assert "no s3:DeleteObject" in caught.value.facts["why"]
    assert len(all_paths()) == len(left(s3, uri))
    outcome = table_at(uri).vacuum(max_delete="100%", prefix="day=1").outcome
    assert outcome is not None
    assert (750, 0) == (outcome.deleted.files, outcome.missing)
    assert all_paths() - left(s3, uri) == {p for p in paths(range(LIVE, LIVE + GONE + LOOSE)) if "day=1/" in p}
