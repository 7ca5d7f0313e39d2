"""Versions of objects of Google Cloud Storage and Azure: soft delete, pages, faults, and what the stores say."""

from __future__ import annotations

import pytest

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed
from deltacli.storage import Created, Existed, Unknown
from deltacli.storage.azure import calls as azure_calls
from deltacli.storage.azure import versions as azure_versions
from deltacli.storage.azure.store import open_azure
from deltacli.storage.gcs import versions as gcs_versions
from deltacli.storage.gcs.store import open_gcs
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry
from deltacli.storage.versions import ObjectVersion, VersionedObjects, VersionState
from tests.storage.stores import ODD_NAMES
from tests.support import azure as azure_server
from tests.support import gcs as gcs_server
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.cloud import CloudServer, Fault, Said, answers, breaks, loses_reply
from tests.support.gcs import GcsServer

Kind = dict[str, bool]
VERSIONED, SOFT, TREE = (
    {"is_versioned": True},
    {"deletes_softly": True},
    {"deletes_softly": True, "is_hierarchical": True},
)
CASES = [("gcs", VERSIONED), ("gcs", SOFT), ("azure", VERSIONED), ("azure", SOFT), ("azure", TREE)]


def patient() -> Retry:
    return Retry(is_explicit=True, pause=lambda _: None)


def opened(request: pytest.FixtureRequest, cloud: str, kind: Kind) -> tuple[ObjectStorage, CloudServer]:
    """A store that has shown that it keeps conditions, and never waits."""
    store: ObjectStorage
    server: CloudServer
    if cloud == "gcs":
        gcs: GcsServer = request.getfixturevalue("gcs")
        server, store = gcs, open_gcs(f"gs://{gcs.make_bucket(**kind)}/t", {}, retry=patient())
    else:
        azure: AzureServer = request.getfixturevalue("azure")
        container = azure.make_container(**kind)
        server = azure
        store = open_azure(f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/t", {}, retry=patient())
    store.put_if_absent("proof", b"a")
    store.copy_within("proof", "proof of copies")
    server.forget()
    return store, server


@pytest.fixture(params=CASES, ids=["gcs", "gcs soft", "azure", "azure soft", "azure tree"])
def place(request: pytest.FixtureRequest) -> tuple[ObjectStorage, CloudServer]:
    return opened(request, *request.param)


def of(store: ObjectStorage) -> VersionedObjects:
    assert store.versions is not None
    return store.versions


def newest(store: ObjectStorage, path: str = "a") -> ObjectVersion:
    return next(of(store).list(path))


def deleted_file(store: ObjectStorage, path: str = "a") -> ObjectVersion:
    store.put_if_absent(path, b"data")
    list(store.delete_many([path]))
    return newest(store, path)


def test_a_deleted_file_comes_back(place: tuple[ObjectStorage, CloudServer]) -> None:
    store, _ = place
    for name in ("a", *ODD_NAMES):
        gone = deleted_file(store, name)
        assert gone.is_readable == (gone.state is VersionState.NONCURRENT)

        assert Created() == of(store).bring_back(gone)

        assert b"data" == store.read(name)
        assert not gone.is_readable or Existed() == of(store).bring_back(gone)
    assert of(store).keeping().is_kept


def test_what_another_writer_created_stays(place: tuple[ObjectStorage, CloudServer]) -> None:
    store, _ = place
    gone = deleted_file(store)
    store.put_if_absent("a", b"of another writer")

    assert Existed() == of(store).bring_back(gone)

    assert b"of another writer" == store.read("a")


def test_a_version_that_is_gone_is_missing(place: tuple[ObjectStorage, CloudServer]) -> None:
    store, server = place
    gone = deleted_file(store)
    assert isinstance(server, GcsServer | AzureServer)
    server.history.clear()

    with pytest.raises(FileMissing, match=r"version .* does not exist"):
        of(store).bring_back(gone)


@pytest.mark.parametrize("fault", [breaks, loses_reply], ids=["breaks", "loses reply"])
@pytest.mark.parametrize("at", range(4))
def test_each_request_may_fail(at: int, fault: Fault, place: tuple[ObjectStorage, CloudServer]) -> None:
    """
    The outcome is true, and a second run ends the work.
    """
    store, server = place
    gone = deleted_file(store)
    server.forget()
    server.fail_at(at, fault)

    outcome = of(store).bring_back(gone)

    server.forget()
    is_there = "a" in {stat.name for stat in store.list_from("")}
    assert is_there or isinstance(outcome, Unknown)
    if not is_there:
        assert Created() == of(store).bring_back(newest(store))
    assert b"data" == store.read("a")


@pytest.mark.parametrize("limit", [1, 2, 1_000])
def test_versions_are_listed_by_pages_of_any_size(
    limit: int, place: tuple[ObjectStorage, CloudServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, server = place
    monkeypatch.setattr(gcs_versions, "PAGE", limit)
    if isinstance(server, AzureServer):
        monkeypatch.setattr(server, "page_size", limit)
    names = [*(f"d/{name}" for name in ODD_NAMES), "d/x", "d/x.y"]
    for name in names:
        store.put(name, b"1")
    list(store.delete_many(names[1::2]))
    for name in names[::4]:
        store.put(name, b"22")
    store.put("e", b"of another prefix")

    found = list(of(store).list("d/"))

    paths = [version.path for version in found]
    assert sorted(names) == sorted(dict.fromkeys(paths))
    assert sum(before != path for before, path in zip([None, *paths], paths, strict=False)) == len(names)
    live = {name for name in names if name not in names[1::2]}
    assert live == {version.path for version in found if version.state is VersionState.CURRENT}
    for name in live:
        assert VersionState.CURRENT is newest(store, name).state


def test_an_overwritten_file_comes_back_where_it_is_named(request: pytest.FixtureRequest) -> None:
    for cloud, kind in CASES[:4]:
        store, _ = opened(request, cloud, kind)
        store.put("a", b"whole")
        store.put("a", b"whol")
        truncated, whole = of(store).list("a")

        assert Created() == of(store).bring_back(whole, instead_of=truncated)

        assert b"whole" == store.read("a")
        assert Existed() == of(store).bring_back(whole, instead_of=truncated) or not whole.is_readable
        assert b"whole" == store.read("a")


def test_overwriting_is_not_kept_by_hierarchical_namespaces(request: pytest.FixtureRequest) -> None:
    store, _ = opened(request, "azure", TREE)
    store.put("a", b"whole")
    store.put("a", b"whol")

    assert [VersionState.CURRENT] == [version.state for version in of(store).list("a")]


GCS_DENIED = answers(gcs_server.problem(403, "forbidden"))
AZURE_DENIED = answers(azure_server.problem(403, "AuthorizationPermissionMismatch"))


@pytest.mark.parametrize(
    ("cloud", "kind", "method", "part", "fault", "permission"),
    [
        ("gcs", VERSIONED, "GET", "versions=true", GCS_DENIED, "storage.objects.list"),
        ("gcs", VERSIONED, "POST", "rewriteTo", GCS_DENIED, "storage.objects.get, storage.objects.create"),
        ("gcs", SOFT, "POST", "restore", GCS_DENIED, "storage.objects.restore, storage.objects.create"),
        ("azure", VERSIONED, "GET", "comp=list", AZURE_DENIED, "blobs/read"),
        ("azure", VERSIONED, "PUT", "/t/a", AZURE_DENIED, "blobs/write"),
        ("azure", SOFT, "PUT", "comp=undelete", AZURE_DENIED, "blobs/write"),
    ],
)
def test_an_error_names_the_missing_permission(
    cloud: str, kind: Kind, method: str, part: str, fault: Fault, permission: str, request: pytest.FixtureRequest
) -> None:
    store, server = opened(request, cloud, kind)
    gone = deleted_file(store)
    server.fail(method, part, fault)

    call = (lambda: newest(store)) if method == "GET" else (lambda: of(store).bring_back(gone))

    with pytest.raises(PermissionRefused) as refused:
        call()

    assert refused.value.facts["permission"].endswith(permission)


def test_a_store_says_whether_it_keeps_versions(request: pytest.FixtureRequest) -> None:
    for cloud, denied in (("gcs", GCS_DENIED), ("azure", AZURE_DENIED)):
        store, server = opened(request, cloud, {})
        part = "fields=versioning" if cloud == "gcs" else "restype=service"
        assert isinstance(server, GcsServer | AzureServer)
        server.soft.clear()
        assert of(store).keeping().is_kept is False, cloud
        server.fail("GET", part, denied)
        assert of(store).keeping().is_kept is None, cloud
        versioned, _ = opened(request, cloud, VERSIONED)
        deleted_file(versioned)
        server.versioned.clear()  # versioning was disabled meanwhile
        assert of(versioned).keeping().is_kept, cloud


def test_a_copy_of_google_may_take_several_requests(request: pytest.FixtureRequest) -> None:
    store, server = opened(request, "gcs", VERSIONED)
    assert isinstance(server, GcsServer)
    gone = deleted_file(store)
    server.copied_at_once = 1
    try:
        assert Created() == of(store).bring_back(gone)
    finally:
        server.copied_at_once = 1 << 30

    assert b"data" == store.read("a")
    assert 2 == server.asked("POST", "rewriteTo")


def test_a_large_object_of_azure_is_copied_in_blocks(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_calls, "MAX_SINGLE_COPY_BYTES", 3)
    store, server = opened(request, "azure", VERSIONED)
    store.put("a", b"12345678")
    list(store.delete_many(["a"]))
    server.fail("PUT", "comp=block", loses_reply)

    assert Created() == of(store).bring_back(newest(store))

    assert b"12345678" == store.read("a")


def test_a_page_that_is_repeated_is_an_error(request: pytest.FixtureRequest) -> None:
    store, server = opened(request, "gcs", VERSIONED)
    page = Said(200, b'{"kind": "storage#objects", "nextPageToken": "again"}', gcs_server.JSON)
    server.fail("GET", "versions=true", *[answers(page)] * 2)

    with pytest.raises(StorageFailed, match="repeats a page"):
        newest(store)


def test_archived_objects_of_azure_are_named(request: pytest.FixtureRequest) -> None:
    store, server = opened(request, "azure", VERSIONED)
    gone = deleted_file(store)
    server.fail("GET", "versionid", answers(azure_server.problem(409, "BlobArchived")))

    with pytest.raises(StorageFailed) as archived:
        of(store).read(gone)

    assert "storage.archived" == archived.value.code
    assert azure_versions.SNAPSHOT == "snapshot="
