"""Uploads to S3 in parts: each of their requests fails in turn, and nothing is left of an upload that failed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from deltacli.core.errors import PermissionRefused, StorageFailed
from deltacli.storage import Created, Existed, Unknown, open_storage
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry
from deltacli.storage.s3 import uploads as s3_uploads
from deltacli.storage.s3.store import open_s3
from tests.support.s3 import Fault, S3Server, breaks, forgets_condition, loses_reply, says, works

DATA = bytes(range(256)) * 9
"""Three parts: two of 1,000 bytes, and a rest."""
DENIED = says("403 FORBIDDEN", "AccessDenied")
CONFLICT = says("409 CONFLICT", "ConditionalRequestConflict")
TAKEN = says("412 PRECONDITION FAILED", "PreconditionFailed")
SLOW_DOWN = says("503 SERVICE UNAVAILABLE", "SlowDown")
BUSY = says("500 INTERNAL SERVER ERROR", "InternalError")
NO_PLACE = says("501 NOT IMPLEMENTED", "NotImplemented")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_uploads, "MAX_SINGLE_REQUEST_BYTES", 1_000)
    monkeypatch.setattr(s3_uploads, "PART_BYTES", 1_000)
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.make_bucket()


@pytest.fixture
def store(s3: S3Server, bucket: str) -> ObjectStorage:
    """A store that has shown that it keeps both conditions, never waits, and repeats a call for as long as needed."""
    storage = open_s3(f"s3://{bucket}/t", {}, retry=Retry(is_explicit=True, pause=lambda _: None))
    storage.put_if_absent("proved", DATA)
    s3.requests.clear()
    return storage


@pytest.mark.parametrize(
    ("method", "faults", "outcome", "completions"),
    [
        ("POST", [loses_reply], Created, 1),
        ("POST", [BUSY, breaks], Created, 1),
        ("PUT", [breaks, BUSY, loses_reply, SLOW_DOWN], Created, 1),
        ("POST", [works, loses_reply], Created, 1),
        ("POST", [works, breaks], Unknown, 1),
        ("POST", [works, BUSY], Unknown, 1),
        ("POST", [works, SLOW_DOWN], Created, 2),
        ("POST", [works, CONFLICT], Created, 2),
        ("POST", [works, TAKEN], Existed, 1),
    ],
    ids=[
        "begin, reply lost", "begin, busy", "part", "reply lost", "connection lost", "500", "slow down", "409", "412",
    ],
)  # fmt: skip
def test_the_reported_outcome_of_an_upload_is_true(
    method: str, faults: list[Fault], outcome: type, completions: int, s3: S3Server, bucket: str, store: ObjectStorage
) -> None:
    """
    A completion that may have been executed is sent once. The mark of the object shows whether it was.
    """
    begun_before = len(s3.uploads(bucket))
    s3.fail(method, "/t/new", *faults)

    found = store.put_if_absent("new", DATA)

    assert outcome is type(found)
    assert (outcome is Created) == ("t/new" in s3.keys(bucket))
    assert completions == sum("uploadId" in query for verb, _, query in s3.requests if verb == "POST")
    assert len(s3.uploads(bucket)) <= begun_before + (faults == [loses_reply])  # an upload without parts


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_nothing_is_left_of_a_refused_upload(method: str, s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    s3.fail(method, "/t/new", DENIED)

    with pytest.raises(PermissionRefused) as raised:
        store.put_if_absent("new", DATA)

    assert ([], ["t/proved"]) == (s3.uploads(bucket), s3.keys(bucket))
    assert "left behind" not in raised.value.facts


def test_parts_that_cannot_be_removed_are_reported(s3: S3Server, store: ObjectStorage) -> None:
    s3.fail("PUT", "/t/new", DENIED)
    s3.fail("DELETE", "/t/new", DENIED)

    with pytest.raises(PermissionRefused) as raised:
        store.put_if_absent("new", DATA)

    assert "unfinished upload" in raised.value.facts["left behind"]


def test_a_draft_is_sent_in_parts_and_replaced(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    for is_replaced in (False, True):
        with store.draft("new") as draft:
            Path(draft.local_path).write_bytes(DATA[is_replaced:])
            draft.publish(replace=is_replaced)

    assert DATA[1:] == store.read("new")
    assert (6, []) == (s3.asked("PUT", "partNumber"), s3.uploads(bucket))
    assert Existed() == store.put_if_absent("new", DATA)


def test_a_replacement_that_was_not_completed_has_failed(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    s3.fail("POST", "/t/proved", works, breaks)

    with pytest.raises(StorageFailed):
        store.put("proved", DATA[1:])

    assert (DATA, []) == (store.read("proved"), s3.uploads(bucket))


@pytest.mark.parametrize(
    "faults", [[works, forgets_condition] * 2, [works, NO_PLACE], [NO_PLACE]], ids=["ignored", "refused", "no parts"]
)
def test_a_store_that_cannot_complete_on_a_condition_gets_one_request(
    faults: list[Fault], s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(f"s3://{bucket}/t")
    s3.fail("POST", ".probe", *faults)

    outcome = storage.put_if_absent("new", DATA)
    monkeypatch.setattr(s3_uploads, "MAX_PUT_BYTES", 2_000)
    with pytest.raises(StorageFailed, match="5 GiB"):
        storage.put_if_absent("newer", DATA)

    assert (Created(), ["t/new"], []) == (outcome, s3.keys(bucket), s3.uploads(bucket))
    assert not any(path.endswith("/new") and "partNumber" in query for _, path, query in s3.requests)


def test_parts_grow_with_the_object(monkeypatch: pytest.MonkeyPatch, s3: S3Server, store: ObjectStorage) -> None:
    monkeypatch.setattr(s3_uploads, "MAX_PARTS", 2)

    store.put_if_absent("new", DATA)

    assert (2, DATA) == (s3.asked("PUT", "partNumber"), store.read("new"))


def test_a_part_of_a_file_is_read_and_measured_like_a_file(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"0123456789")

    with Body(str(place)).slice(3, 5).open() as part:
        size = part.seek(0, io.SEEK_END)
        part.seek(1)
        rest = part.read()

    assert (5, b"4567") == (size, rest)
