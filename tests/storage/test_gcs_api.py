"""Google Cloud Storage against an emulator that was written by the text of the JSON API: generations, sessions that
keep a part of what they get, pages that are short or empty, batches that are answered out of order, and anonymous
callers.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed
from deltacli.storage import Created, Creation, Deleted, Existed, Failed, Missing, Storage, Unknown, open_storage
from deltacli.storage.gcs import calls as gcs_calls
from deltacli.storage.gcs import uploads as gcs_uploads
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry
from tests.support.cloud import answers, done_but, half_a_body, loses_reply
from tests.support.gcs_api import QUANTUM, GcsApi, problem

PIECE = 4 * QUANTUM
ODD = ("a/b", "a-b", "a0", "ä", "\uff21", "😀", "a/b/c", "a//b", "%2F", "a b")


@pytest.fixture
def bucket(gcs_api: GcsApi) -> str:
    return gcs_api.make_bucket()


def opened(bucket: str, path: str = "t", **options: str) -> Storage:
    """A store in a bucket whose endpoint was probed. Nothing waits."""
    storage = open_storage(f"gs://{bucket}/{path}", options, retry=Retry(pause=lambda _: None))
    storage.put("probed", b"")
    return storage


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs_calls, "MAX_SINGLE_REQUEST_BYTES", 1 << 10)
    monkeypatch.setattr("deltacli.storage.gcs.uploads.MAX_SINGLE_REQUEST_BYTES", 1 << 10)
    monkeypatch.setattr(gcs_uploads, "CHUNK_BYTES", PIECE)


def published(storage: Storage, data: bytes, *, replace: bool = False) -> Creation:
    with storage.draft("big") as draft:
        Path(draft.local_path).write_bytes(data)
        return draft.publish(replace=replace)


def test_of_sixteen_writers_one_creates_a_commit(gcs_api: GcsApi, bucket: str) -> None:
    storage = opened(bucket)

    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda n: storage.put_if_absent("_delta_log/1.json", b"%d" % n), range(16)))

    won = [number for number, outcome in enumerate(outcomes) if outcome == Created()]
    assert 1 == len(won)
    assert [Existed()] * 15 == [outcome for outcome in outcomes if outcome != Created()]
    assert b"%d" % won[0] == gcs_api.buckets[bucket]["t/_delta_log/1.json"].data


def test_a_creation_whose_answer_is_lost_is_unknown_and_one_that_was_throttled_is_sent_again(
    gcs_api: GcsApi, bucket: str
) -> None:
    storage = opened(bucket)
    gcs_api.fail("POST", "name=t%2Flost", loses_reply)
    gcs_api.fail("POST", "name=t%2Fdone", done_but(problem(503, "backendError")))
    gcs_api.fail("POST", "name=t%2Fbusy", *[answers(problem(429, "rateLimitExceeded"))] * 2)

    outcomes = {name: storage.put_if_absent(name, b"x") for name in ("lost", "done", "busy", "lost", "busy")}

    assert isinstance(storage.put_if_absent("lost", b"y"), Existed)
    assert (Existed(), Unknown("HTTP 503 backendError so it is"), Existed()) == tuple(outcomes.values())
    assert b"x" == storage.read("lost") == storage.read("done") == storage.read("busy")
    assert 2 == gcs_api.asked("POST", "name=t%2Flost") - 1 == gcs_api.asked("POST", "name=t%2Fdone") + 1


@pytest.mark.parametrize("keeps", [None, QUANTUM, 3 * QUANTUM])
@pytest.mark.parametrize("at", range(3))
def test_an_upload_in_pieces_creates_its_object_once_however_much_a_session_keeps(
    keeps: int | None, at: int, gcs_api: GcsApi, bucket: str, small_pieces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gcs_api, "keeps", keeps)
    data = bytes(range(256)) * (5 * PIECE // 512) + b"the end"
    passes = [lambda server, asked: server.answer(asked)] * at
    gcs_api.fail("PUT", "upload_id", *passes, loses_reply, answers(problem(503, "backendError")))
    storage = opened(bucket)

    outcomes = [published(storage, data), published(storage, b"other" * 1_000)]

    assert [Created(), Existed()] == outcomes
    assert data == gcs_api.buckets[bucket]["t/big"].data


def test_an_object_that_appears_during_an_upload_is_another_writer_s(
    gcs_api: GcsApi, bucket: str, small_pieces: None
) -> None:
    storage = opened(bucket)

    def taken(server: GcsApi, asked: object) -> object:
        server.put(bucket, "t/big", b"theirs")
        return server.answer(asked)  # type: ignore[arg-type]

    gcs_api.fail("PUT", "upload_id", taken)  # type: ignore[arg-type]

    assert Existed() == published(storage, b"o" * (PIECE + 1))
    assert b"theirs" == storage.read("big")


def test_a_conditional_replacement_needs_the_generation_that_was_read(gcs_api: GcsApi, bucket: str) -> None:
    storage = opened(bucket)
    assert isinstance(storage, ObjectStorage)
    gcs_api.put(bucket, "t/hint", b"first")
    _, generation = storage._calls.head("t/hint")
    assert str(gcs_api.buckets[bucket]["t/hint"].generation) == generation

    storage._calls.write("t/hint", Body(b"second"), generation)
    with pytest.raises(HttpError) as raised:
        storage._calls.write("t/hint", Body(b"third"), generation)

    assert (412, "conditionNotMet") == (raised.value.status, raised.value.reason)
    assert b"second" == storage.read("hint")


def test_a_file_of_another_generation_is_not_read_on(gcs_api: GcsApi, bucket: str) -> None:
    storage = opened(bucket)
    gcs_api.put(bucket, "t/file", b"a" * 200_000)
    gcs_api.put(bucket, "t/gone", b"a" * 200_000)
    file, gone = storage.open("file"), storage.open("gone")
    storage.tag("file", file), storage.tag("gone", gone)
    gcs_api.put(bucket, "t/file", b"a" * 200_000)
    del gcs_api.buckets[bucket]["t/gone"]

    with pytest.raises(StorageFailed, match="changed while it was read"):
        file.read(10)
    with pytest.raises(FileMissing):
        gone.read(10)


@pytest.mark.parametrize("short_pages", [False, True])
@pytest.mark.parametrize("size", [1, 2, 1_000])
def test_listings_are_complete_in_the_order_of_bytes_over_pages_of_any_size(
    size: int, short_pages: bool, gcs_api: GcsApi, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = opened(bucket)
    gcs_api.put(bucket, "t/d", b"a file, and a directory of this name")
    gcs_api.put(bucket, "tt/outside", b"")
    for name in ODD:
        gcs_api.put(bucket, f"t/d/{name}", b"x")
    monkeypatch.setattr("deltacli.storage.gcs.calls._PAGE", size)
    monkeypatch.setattr(gcs_api, "short_pages", short_pages)

    direct = sorted((name for name in ODD if "/" not in name), key=str.encode)
    assert direct == [stat.name for stat in storage.list_from("d")]
    assert [name for name in direct if name >= "a0"] == [stat.name for stat in storage.list_from("d", "a0")]
    assert ["a"] == storage.list_directories("d")
    walked = [
        f"{entry.directory}/{name}".lstrip("/")
        for entry in storage.walk("", lambda _, names: names)
        for name in entry.names
    ]
    assert sorted(["d", "probed", *(f"d/{name}" for name in ODD)]) == sorted(walked)


def test_a_batch_that_is_answered_out_of_order_deletes_what_it_says(gcs_api: GcsApi, bucket: str) -> None:
    storage = opened(bucket)
    names = [f"{number:03d}" for number in range(250)]
    for name in names:
        gcs_api.put(bucket, f"t/{name}", b"")
    gcs_api.fail("BATCHED", "%2F007", answers(problem(429, "rateLimitExceeded")))
    gcs_api.fail("BATCHED", "%2F120", answers(problem(503, "backendError")))
    gcs_api.fail("BATCHED", "%2F008", *[answers(problem(403, "retentionPolicyNotMet", "retention policy"))] * 3)
    gcs_api.fail("POST", "/batch/", loses_reply, half_a_body)

    outcomes = dict(storage.delete_many([*names, "absent"]))

    assert isinstance(failed := outcomes.pop("008"), Failed)
    assert isinstance(failed.denied, PermissionRefused)
    assert Missing() == outcomes.pop("absent")
    assert {Deleted(), Missing()} >= set(outcomes.values())
    assert {"t/008", "t/probed"} == gcs_api.buckets[bucket].keys()


def test_a_bucket_whose_requester_pays_is_read_and_written_for_a_project(
    gcs_api: GcsApi, bucket: str, small_pieces: None
) -> None:
    gcs_api.payers.add(bucket)
    with pytest.raises(StorageFailed, match="cannot be"):
        open_storage(f"gs://{bucket}/t").put("file", b"")

    storage = opened(bucket, requester_pays="true", project="ours")

    assert Created() == published(storage, b"x" * 2_000)
    assert b"x" * 2_000 == storage.read("big")
    assert [("big", Deleted())] == list(storage.delete_many(["big"]))
