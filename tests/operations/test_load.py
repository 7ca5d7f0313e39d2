"""Sixteen processes that write one table while its log is taken care of: no update is lost, and none made twice."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.storage import open_storage
from tests.cli.support import make_sample
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.azurite import PROGRAM, Azurite
from tests.support.clouds import files_of, rows
from tests.support.gcs import GcsServer
from tests.support.load import load
from tests.support.s3 import S3Server

WRITERS, COMMITS = 16, 2_000
SECONDS = float(os.environ.get("LOAD_SECONDS", "600"))
"""`LOAD_SECONDS=120 python3 dev.py soak load` for a shorter run."""


def on_disk(request: pytest.FixtureRequest, sample: Path) -> str:
    place: Path = request.getfixturevalue("tmp_path")
    shutil.copytree(sample, place / "t")
    return str(place / "t")


def in_s3(request: pytest.FixtureRequest, sample: Path) -> str:
    server: S3Server = request.getfixturevalue("s3")
    bucket = server.make_bucket()
    for path, data, _ in files_of(sample):
        server.put(bucket, f"t/{path}", data)
    return f"s3://{bucket}/t"


def in_gcs(request: pytest.FixtureRequest, sample: Path) -> str:
    server: GcsServer = request.getfixturevalue("gcs")
    bucket = server.make_bucket()
    for path, data, modified_ms in files_of(sample):
        server.put(bucket, f"t/{path}", data, modified_ms)
    return f"gs://{bucket}/t"


def in_azure(request: pytest.FixtureRequest, sample: Path) -> str:
    server: AzureServer = request.getfixturevalue("azure")
    container = server.make_container(is_hierarchical=True)
    for path, data, modified_ms in files_of(sample):
        server.put(container, f"t/{path}", data, modified_ms)
    return f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t"


def in_azurite(request: pytest.FixtureRequest, sample: Path) -> str:
    server: Azurite = request.getfixturevalue("own_azurite")
    container = server.make_container()
    for path, data, _ in files_of(sample):
        server.put(container, f"t/{path}", data)
    return f"az://{container}/t"


STORES: dict[str, Callable[[pytest.FixtureRequest, Path], str]] = {
    "local": on_disk,
    "s3": in_s3,
    "gcs": in_gcs,
    "azure tree": in_azure,
    **({"azurite": in_azurite} if PROGRAM else {}),
}


@pytest.mark.soak
@pytest.mark.parametrize("store", STORES)
def test_sixteen_writers_lose_no_update(
    store: str,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    capfd: pytest.CaptureFixture[str],
) -> None:
    sample = make_sample(tmp_path_factory.mktemp("sample") / "t")
    uri = STORES[store](request, sample)
    before = rows(Table(open_storage(uri)))
    first = Table(open_storage(uri)).snapshot().version

    loaded = load(uri, writers=WRITERS, commits=COMMITS, seconds=SECONDS)

    table = Table(open_storage(uri))
    snapshot = table.snapshot()
    done, unknown = loaded.done, [key for told in loaded.writers for key in told.unknown]
    made = {key for key in snapshot.properties if key.startswith("load.")}
    versions = sorted([*done.values(), *loaded.care.done.values()])
    figures = f"{len(done)} commits in {loaded.seconds:.0f} s, {len(done) / loaded.seconds:.1f}/s"
    care = dict(loaded.care.cares + loaded.care.codes)
    with capfd.disabled():
        sys.stderr.write(f"\n{store}: {figures}; failures {dict(loaded.codes)}; care {care}\n")
    assert set(done) <= made <= {*done, *unknown}
    assert len(versions) == len(set(versions))
    assert len(made) - len(done) == snapshot.version - first - len(versions)
    assert before == rows(table)
    assert done
