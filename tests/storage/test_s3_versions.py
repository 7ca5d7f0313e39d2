"""Versions of objects of S3: each request of bringing one back fails in turn, and no live object is ever lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed
from deltacli.storage import Created, Existed, Unknown
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry
from deltacli.storage.s3 import uploads as s3_uploads
from deltacli.storage.s3 import versions
from deltacli.storage.s3.store import open_s3
from deltacli.storage.versions import ObjectVersion, VersionedObjects, VersionRetention, VersionState
from tests.storage.stores import ODD_NAMES
from tests.support.s3 import Fault, S3Server, breaks, forgets_condition, loses_reply, says, works

DENIED = says("403 FORBIDDEN", "AccessDenied")
MFA = says("403 FORBIDDEN", "AccessDenied", "Mfa Authentication must be used for this request")
ARCHIVED = says("403 FORBIDDEN", "InvalidObjectState")
BUSY = says("503 SERVICE UNAVAILABLE", "SlowDown")
CONFLICT = says("409 CONFLICT", "ConditionalRequestConflict")
UNKNOWN = says("500 INTERNAL SERVER ERROR", "InternalError")


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.make_bucket("Enabled")


@pytest.fixture
def store(bucket: str, s3: S3Server) -> ObjectStorage:
    """A store that has shown that it keeps conditions, also of copies, and never waits."""
    storage = opened(bucket)
    storage.put_if_absent("proof", b"a")
    storage.put("proof", b"b")
    newer, older = listed(storage, "proof")
    assert Created() == of(storage).bring_back(older, instead_of=newer)
    s3.requests.clear()
    return storage


def of(store: ObjectStorage) -> VersionedObjects:
    assert store.versions is not None
    return store.versions


def opened(bucket: str) -> ObjectStorage:
    return open_s3(f"s3://{bucket}/t", {}, retry=Retry(is_explicit=True, pause=lambda _: None))


def listed(store: ObjectStorage, prefix: str) -> list[ObjectVersion]:
    return [*of(store).list(prefix)]


def deleted_file(store: ObjectStorage, path: str = "a", *, times: int = 1) -> ObjectVersion:
    store.put_if_absent(path, b"data")
    for _ in range(times):
        list(store.delete_many([path]))
    return next(version for version in listed(store, path) if version.is_readable)


@pytest.mark.parametrize("limit", [1, 2, 1_000])
def test_versions_are_listed_by_pages_of_any_size(
    limit: int, store: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "PAGE", limit)
    names = [*(f"d/{name}" for name in ODD_NAMES), "d/x", "d/x/y", "d/x.y"]
    for name in names:
        store.put(name, b"1")
        store.put(name, b"22")
    list(store.delete_many(names[1::2]))
    store.put("e", b"of another prefix")

    found = listed(store, "d/")

    assert sorted(names, key=str.encode) == list(dict.fromkeys(version.path for version in found))
    assert 2 * len(names) + len(names[1::2]) == len(found)
    for name in names:
        of_name = [version for version in found if version.path == name]
        is_deleted = name in names[1::2]
        assert ([VersionState.DELETE_MARKER] if is_deleted else []) == [each.state for each in of_name[:-2]]
        assert [2, 1] == [version.size_bytes for version in of_name[-2:]]
        assert [is_deleted, False] == [version.keeps_time for version in of_name[-2:]]
    for version in found:
        if version.is_readable:
            assert version.size_bytes == len(of(store).read(version))


@pytest.mark.halved
def test_files_with_odd_names_come_back(store: ObjectStorage) -> None:
    for name in ODD_NAMES:
        gone = deleted_file(store, name)
        assert Created() == of(store).bring_back(gone)
        store.put(name, b"dat")
        truncated, *_ = listed(store, name)

        assert Created() == of(store).bring_back(gone, instead_of=truncated)

        assert b"data" == store.read(name)


def test_more_markers_than_one_are_removed(store: ObjectStorage, s3: S3Server) -> None:
    gone = deleted_file(store, times=3)
    s3.requests.clear()

    assert Created() == of(store).bring_back(gone)

    assert [VersionState.CURRENT] == [version.state for version in listed(store, "a")]
    assert (0, 3) == (s3.asked("PUT"), s3.asked("DELETE"))


def test_bringing_back_takes_three_requests(store: ObjectStorage, s3: S3Server) -> None:
    gone = deleted_file(store)
    s3.requests.clear()

    of(store).bring_back(gone)

    assert ["GET", "DELETE", "HEAD"] == [method for method, _, _ in s3.requests]


@pytest.mark.parametrize("fault", [breaks, loses_reply, BUSY], ids=["breaks", "loses reply", "503"])
@pytest.mark.parametrize("at", range(3))
def test_the_removal_of_a_marker_survives_a_fault_of_each_request(
    at: int, fault: Fault, store: ObjectStorage, s3: S3Server
) -> None:
    gone = deleted_file(store)
    s3.fail_at(at, fault)

    assert Created() == of(store).bring_back(gone)

    assert b"data" == store.read("a")
    assert [VersionState.CURRENT] == [version.state for version in listed(store, "a")]


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        ([breaks], Unknown),
        ([loses_reply], Unknown),
        ([UNKNOWN], Unknown),
        ([BUSY, CONFLICT], Created),
        ([says("412 PRECONDITION FAILED", "PreconditionFailed")], Existed),
    ],
    ids=["breaks", "loses reply", "500", "undone", "412"],
)
def test_a_copy_is_sent_once(faults: list[Fault], outcome: type, store: ObjectStorage, s3: S3Server) -> None:
    store.put("a", b"whole")
    store.put("a", b"whol")
    truncated, whole = listed(store, "a")
    s3.requests.clear()
    s3.fail("PUT", "/t/a", *faults)

    assert isinstance(of(store).bring_back(whole, instead_of=truncated), outcome)

    assert s3.asked("PUT") == len([fault for fault in faults if outcome is Created]) + 1
    assert store.read("a") in (b"whole", b"whol")


def writes_first(data: bytes) -> Fault:
    """Another writer is faster than the request."""

    def fault(server: S3Server, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        bucket, _, key = environ["PATH_INFO"][1:].partition("/")
        server.put(bucket, key, data)
        return server.answer(environ, start)

    return fault


@pytest.mark.parametrize("at", [1, 2])
def test_a_writer_between_two_requests_wins(at: int, store: ObjectStorage, s3: S3Server) -> None:
    gone = deleted_file(store)
    s3.fail_at(at, writes_first(b"of another writer"))

    assert Existed() == of(store).bring_back(gone)

    assert b"of another writer" == store.read("a")


def test_a_writer_before_a_copy_wins(store: ObjectStorage, s3: S3Server) -> None:
    store.put("a", b"whole")
    store.put("a", b"whol")
    truncated, whole = listed(store, "a")
    s3.fail("PUT", "/t/a", writes_first(b"of another writer"))

    assert Existed() == of(store).bring_back(whole, instead_of=truncated)

    assert b"of another writer" == store.read("a")


def test_a_marker_that_a_write_could_replace_is_not_removed(store: ObjectStorage, s3: S3Server) -> None:
    """
    While versioning is suspended, an object that is written takes the place of the marker, under the same version.
    """
    gone = deleted_file(store)
    (marker, _) = listed(store, "a")

    def suspended(server: S3Server, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        said = b"".join(server.answer(environ, start))
        return [said.replace(marker.version_id.encode(), b"null")]

    def listing_of_suspended(server: S3Server, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        def begin(status: str, headers: list[tuple[str, str]]) -> None:
            start(status, [each for each in headers if each[0].lower() != "content-length"])

        return suspended(server, environ, begin)

    s3.requests.clear()
    s3.fail_at(0, listing_of_suspended)

    assert Created() == of(store).bring_back(gone)

    assert (1, 0) == (s3.asked("PUT"), s3.asked("DELETE"))
    assert b"data" == store.read("a")


def test_a_store_that_ignores_the_condition_of_copies_gets_the_content_from_here(bucket: str, s3: S3Server) -> None:
    store = opened(bucket)
    store.put("a", b"whole")
    store.put("a", b"whol")
    truncated, whole = listed(store, "a")
    s3.requests.clear()
    s3.fail("PUT", ".probe", works, *[forgets_condition] * 2)

    assert Created() == of(store).bring_back(whole, instead_of=truncated)

    assert b"whole" == store.read("a")
    assert 1 == sum("versionId" in query for method, _, query in s3.requests if method == "GET")
    assert [f"{store.root}/a"] == s3.live(bucket)


@pytest.mark.parametrize("fault", [works, breaks, loses_reply, BUSY], ids=["works", "breaks", "loses reply", "503"])
def test_a_large_object_is_copied_in_parts(
    fault: Fault, store: ObjectStorage, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("MAX_PUT_BYTES", 1_000), ("COPY_PART_BYTES", 1_000)):
        monkeypatch.setattr(s3_uploads, name, size)
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    whole = bytes(range(256)) * 9
    store.put("a", whole)
    store.put("a", b"")
    truncated, old = listed(store, "a")
    s3.requests.clear()
    s3.fail("PUT", "/t/a", fault)

    assert Created() == of(store).bring_back(old, instead_of=truncated)

    assert whole == store.read("a")
    assert 3 == len({query["partNumber"][0] for _, _, query in s3.requests if "partNumber" in query})
    assert [] == s3.uploads(bucket)


def test_a_large_copy_does_not_replace_what_another_writer_created(
    store: ObjectStorage, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_uploads, "MAX_PUT_BYTES", 2)
    store.put("a", b"whole")
    store.put("a", b"whol")
    truncated, old = listed(store, "a")
    s3.fail("POST", "/t/a", works, writes_first(b"of another writer"))

    assert Existed() == of(store).bring_back(old, instead_of=truncated)

    assert b"of another writer" == store.read("a")


@pytest.mark.parametrize(
    ("method", "fault", "permission", "why"),
    [
        ("GET", DENIED, "s3:ListBucketVersions", None),
        ("DELETE", DENIED, "s3:DeleteObjectVersion", None),
        ("DELETE", MFA, None, "deleting a version needs multi-factor authentication (MFA Delete of the bucket)"),
    ],
)
def test_an_error_names_the_missing_permission(
    method: str, fault: Fault, permission: str | None, why: str | None, store: ObjectStorage, s3: S3Server
) -> None:
    gone = deleted_file(store)
    s3.fail(method, "", fault)

    with pytest.raises(PermissionRefused) as refused:
        of(store).bring_back(gone)

    assert (permission, why) == (refused.value.facts.get("permission"), refused.value.facts.get("why"))


def test_reading_a_version_names_its_permission_and_its_archive(store: ObjectStorage, s3: S3Server) -> None:
    gone = deleted_file(store)
    s3.fail("GET", "/t/a", DENIED, ARCHIVED)

    with pytest.raises(PermissionRefused) as refused:
        of(store).open(gone)
    assert "s3:GetObjectVersion" == refused.value.facts["permission"]

    with pytest.raises(StorageFailed, match="cannot be read") as archived:
        of(store).read(gone)
    assert "storage.archived" == archived.value.code


def test_a_delete_marker_is_not_read(store: ObjectStorage) -> None:
    deleted_file(store)
    marker = listed(store, "a")[0]

    with pytest.raises(FileMissing, match="has no content"):
        of(store).read(marker)


@pytest.mark.parametrize(
    ("state", "faults", "is_kept"),
    [
        ("", [], False),
        ("Enabled", [], True),
        ("Suspended", [], True),
        ("Enabled", [DENIED], None),
        ("", [says("501 NOT IMPLEMENTED", "NotImplemented")], False),
    ],
)
def test_a_bucket_says_whether_it_keeps_versions(
    state: str, faults: list[Fault], is_kept: bool | None, s3: S3Server
) -> None:
    bucket = s3.make_bucket(state)
    s3.fail("GET", f"/{bucket}", *faults)
    of_bucket = opened(bucket).versions
    assert of_bucket is not None

    assert is_kept == of_bucket.keeping().is_kept
    assert isinstance(of_bucket.keeping(), VersionRetention)
