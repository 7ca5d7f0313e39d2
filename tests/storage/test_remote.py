"""A store that is not a local disk: listings begin at the hint, and what that hides is looked for when it is needed."""

from __future__ import annotations

import uuid
from pathlib import Path

import fsspec
import pytest

import deltacli
from deltacli.operations.read.snapshot import summarize
from deltacli.table.find_log import find_log
from tests.cli.support import make_sample


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """The sample table in fsspec's memory file system."""
    sample = make_sample(tmp_path / "trips")
    name = f"/{uuid.uuid4()}/trips"
    files = fsspec.filesystem("memory")
    for path in (sample / "_delta_log").iterdir():
        files.pipe(f"{name}/_delta_log/{path.name}", path.read_bytes())
    return f"memory:/{name}"


def write(uri: str, name: str, data: bytes) -> None:
    fsspec.filesystem("memory").pipe(f"{uri.removeprefix('memory:/')}/_delta_log/{name}", data)


def remove(uri: str, name: str) -> None:
    fsspec.filesystem("memory").rm(f"{uri.removeprefix('memory:/')}/_delta_log/{name}")


def test_a_remote_table_has_the_state_of_the_local_one(uri: str, tmp_path: Path) -> None:
    local = summarize(deltacli.open_table(str(tmp_path / "trips")), digest=True, now_ms=0)

    remote = summarize(deltacli.open_table(uri), digest=True, now_ms=0)

    assert local.digests == remote.digests
    assert local.files == remote.files
    assert 15 == len(deltacli.open_table(uri).history().items)


def test_the_listing_begins_at_the_hint(uri: str) -> None:
    storage = deltacli.open_table(uri).storage

    assert 10 == min(find_log(storage).listing.commits)
    assert 0 == min(find_log(storage, 4).listing.commits)


def test_an_unreadable_checkpoint_at_the_hint_sends_the_listing_back_to_the_start(uri: str) -> None:
    write(uri, "00000000000000000010.checkpoint.parquet", b"PAR1 this is no parquet PAR1")

    summary = summarize(deltacli.open_table(uri))

    assert 21 == summary.files.count
    assert ("checkpoint.unreadable",) == summary.snapshot.problems


def test_a_dangling_hint_sends_the_listing_back_to_the_start(uri: str) -> None:
    remove(uri, "00000000000000000010.checkpoint.parquet")

    summary = summarize(deltacli.open_table(uri))

    assert 21 == summary.files.count
    assert ("hint.checkpoint-missing",) == summary.snapshot.problems


def test_an_absent_version_is_an_error_that_names_every_readable_version(uri: str) -> None:
    with pytest.raises(deltacli.DeltacliError) as caught:
        deltacli.open_table(uri).snapshot(version=40)

    assert {"readable versions": "0-14"} == caught.value.facts


def test_time_travel_below_the_hint(uri: str) -> None:
    snapshot = deltacli.open_table(uri).snapshot(version=3)

    assert (3, None) == (snapshot.version, snapshot.segment.checkpoint)


def test_a_missing_table_is_an_error(uri: str) -> None:
    with pytest.raises(deltacli.DeltacliError) as caught:
        deltacli.open_table(f"{uri}-none").snapshot()

    assert (3, "table.path-missing") == (caught.value.exit_code, caught.value.code)
