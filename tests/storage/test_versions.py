"""The versions of files that stores keep: what is listed, read and brought back, and when the store says it cannot."""

from __future__ import annotations

import pytest

from deltacli.core.errors import FileMissing, Refused
from deltacli.storage import Created, Existed, Storage, open_storage
from deltacli.storage.versions import ObjectVersion, VersionState, require_versions
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.gcs import GcsServer
from tests.support.s3 import S3Server
from tests.support.versioned import VersionedMemory

PATH = "p=1/a b%20c.parquet"


def memory(request: pytest.FixtureRequest) -> Storage:
    del request
    return VersionedMemory()


def s3(request: pytest.FixtureRequest) -> Storage:
    server: S3Server = request.getfixturevalue("s3")
    return open_storage(f"s3://{server.make_bucket('Enabled')}/lake/a table")


def gcs(request: pytest.FixtureRequest) -> Storage:
    server: GcsServer = request.getfixturevalue("gcs")
    return open_storage(f"gs://{server.make_bucket(is_versioned=True)}/lake/a table")


def azure(request: pytest.FixtureRequest) -> Storage:
    server: AzureServer = request.getfixturevalue("azure")
    container = server.make_container(is_versioned=True)
    return open_storage(f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/lake/a table")


STORES = {"memory": memory, "s3": s3, "gcs": gcs, "azure": azure}
WITH_MARKERS = ("memory", "s3")


@pytest.fixture(params=STORES)
def storage(request: pytest.FixtureRequest) -> Storage:
    """Every kind of store with versions, empty."""
    return STORES[request.param](request)


def versions_of(storage: Storage, path: str = PATH) -> list[ObjectVersion]:
    return [*require_versions(storage).list(path)]


def states(storage: Storage, path: str = PATH) -> list[VersionState]:
    return [version.state for version in versions_of(storage, path)]


def deleted(storage: Storage, path: str = PATH) -> None:
    assert [path] == [each for each, _ in storage.delete_many([path])]


def test_a_deleted_file_comes_back(storage: Storage) -> None:
    """
    With its time where a delete marker is removed.
    """
    storage.put_if_absent(PATH, b"data")
    before = storage.stat(PATH)
    deleted(storage)
    *markers, gone = versions_of(storage)
    assert VersionState.NONCURRENT is gone.state
    assert gone.keeps_time == ([VersionState.DELETE_MARKER] == [marker.state for marker in markers])
    assert b"data" == require_versions(storage).read(gone)
    assert b"at" == require_versions(storage).open(gone).read()[1:3]

    assert Created() == require_versions(storage).bring_back(gone)

    assert before == storage.stat(PATH) or not gone.keeps_time
    assert b"data" == storage.read(PATH)
    assert [VersionState.CURRENT] == states(storage)[:1]


def test_all_markers_above_a_version_are_removed(storage: Storage) -> None:
    storage.put_if_absent(PATH, b"data")
    deleted(storage)
    storage.put_if_absent(PATH, b"newer")
    deleted(storage)

    newest = next(version for version in versions_of(storage) if version.is_readable)
    assert Created() == require_versions(storage).bring_back(newest)

    assert b"newer" == storage.read(PATH)


def test_a_live_file_is_not_replaced(storage: Storage) -> None:
    storage.put_if_absent(PATH, b"old")
    old = versions_of(storage)[0]
    storage.put(PATH, b"new")

    assert Existed() == require_versions(storage).bring_back(old)

    assert b"new" == storage.read(PATH)
    assert [VersionState.CURRENT, VersionState.NONCURRENT] == states(storage)


def test_a_live_file_is_replaced_where_the_caller_names_it(storage: Storage) -> None:
    storage.put_if_absent(PATH, b"whole")
    storage.put(PATH, b"whol")
    truncated, whole = versions_of(storage)
    assert not whole.keeps_time

    assert Created() == require_versions(storage).bring_back(whole, instead_of=truncated)

    assert b"whole" == storage.read(PATH)
    assert Existed() == require_versions(storage).bring_back(whole, instead_of=truncated)
    assert 3 == len(versions_of(storage))


def test_an_older_version_than_the_newest_is_copied(storage: Storage) -> None:
    storage.put_if_absent(PATH, b"whole")
    storage.put(PATH, b"whol")
    deleted(storage)
    whole = versions_of(storage)[-1]
    assert not whole.keeps_time

    assert Created() == require_versions(storage).bring_back(whole)

    assert b"whole" == storage.read(PATH)


def test_a_version_that_is_gone_is_missing(storage: Storage) -> None:
    storage.put_if_absent(PATH, b"data")
    absent = versions_of(storage)[0]._replace(path="q", version_id="77777", state=VersionState.NONCURRENT)

    with pytest.raises(FileMissing):
        require_versions(storage).read(absent)
    with pytest.raises(FileMissing):
        require_versions(storage).bring_back(absent)


def test_a_store_in_memory_can_delete_softly() -> None:
    storage = VersionedMemory(is_soft=True)
    storage.put_if_absent(PATH, b"old")
    storage.put(PATH, b"data")
    deleted(storage)
    (gone,) = versions_of(storage)
    assert VersionState.SOFT_DELETED is gone.state
    with pytest.raises(FileMissing):
        require_versions(storage).read(gone)

    assert Created() == require_versions(storage).bring_back(gone)

    assert b"data" == storage.read(PATH)


def test_stores_without_versions_say_so(tmp_path: object) -> None:
    from deltacli.storage import LocalStorage

    for storage in (LocalStorage(str(tmp_path)), VersionedMemory(keeps=False)):
        with pytest.raises(Refused, match="keeps no versions") as refused:
            require_versions(storage)
        assert "storage.no-versions" == refused.value.code
