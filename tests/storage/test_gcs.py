"""What Google Cloud Storage may answer: a commit is sent once, an upload in pieces knows its own object, and only the
store is believed. Against a stub that honours generation matches.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from deltacli.core.errors import (
    CredentialsMissing,
    DeltacliError,
    FileMissing,
    NoAtomicCreate,
    PermissionRefused,
    StorageFailed,
    UsageError,
)
from deltacli.storage import Created, Creation, Deleted, Existed, Failed, Missing, Storage, Unknown, open_storage
from deltacli.storage.gcs import calls as gcs_calls
from deltacli.storage.gcs import uploads as gcs_uploads
from deltacli.storage.gcs.credentials import GcsCredentials
from deltacli.storage.gcs.options import GcsOptions
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry
from tests.support.cloud import Fault, Said, answers, breaks, done_but, half_a_body, loses_reply
from tests.support.gcs import GcsServer, problem, service_account, token_answer

PAGE = Said(200, b"<!DOCTYPE html><html>Please log in</html>", {"Content-Type": "text/html"})
OTHER_SIZE = "no properties of an object of 1 bytes"


class Table(NamedTuple):
    storage: Storage
    bucket: str


def opened(server: GcsServer, **options: str) -> Table:
    """An empty table, whose first write was probed already. Nothing waits."""
    bucket = server.make_bucket()
    storage = open_storage(f"gs://{bucket}/t", options, retry=Retry(pause=lambda _: None))
    storage.put("probed", b"")
    server.requests.clear()
    return Table(storage, bucket)


@pytest.fixture
def table(gcs: GcsServer) -> Table:
    return opened(gcs)


@pytest.mark.parametrize(
    ("faults", "expected", "requests"),
    [
        ([], Created(), 1),
        ([loses_reply], Unknown("connection closed without a complete answer"), 1),
        ([breaks], Unknown("connection closed without a complete answer"), 1),
        ([done_but(problem(503, "backendError"))], Unknown("HTTP 503 backendError so it is"), 1),
        ([answers(problem(429, "rateLimitExceeded"))] * 2, Created(), 3),
        ([answers(problem(412, "conditionNotMet"))], Existed(), 1),
        ([done_but(PAGE)], Unknown("HTTP 200, text/html, no JSON object"), 1),
        ([done_but(Said(200, b'{"generation": "1", "size": "999"}'))], Unknown(f"HTTP 200, {OTHER_SIZE}"), 1),
    ],
    ids=["done", "lost", "unsent", "503", "429", "412", "portal", "other size"],
)  # fmt: skip
def test_a_creation_is_sent_again_only_if_nothing_was_done(
    faults: Sequence[Fault], expected: Creation, requests: int, gcs: GcsServer, table: Table
) -> None:
    gcs.fail("POST", "/upload/", *faults)

    outcome = table.storage.put_if_absent("_delta_log/00000000000000000001.json", b"1")

    assert expected == outcome
    assert requests == gcs.asked("POST", "ifGenerationMatch=0")


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(gcs_calls, "MAX_SINGLE_REQUEST_BYTES", 1 << 10)
    monkeypatch.setattr("deltacli.storage.gcs.uploads.MAX_SINGLE_REQUEST_BYTES", 1 << 10)
    monkeypatch.setattr(gcs_uploads, "CHUNK_BYTES", 256 << 10)
    return 256 << 10


def _published(storage: Storage, data: bytes, *, replace: bool = False) -> Creation:
    with storage.draft("big") as draft:
        Path(draft.local_path).write_bytes(data)
        return draft.publish(replace=replace)


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize(
    "fault", [loses_reply, breaks, answers(problem(503, "backendError")), done_but(problem(500, "internalError"))]
)
def test_an_upload_in_pieces_goes_on_after_a_fault_at_any_of_them(
    fault: Fault, at: int, gcs: GcsServer, table: Table, small_pieces: int
) -> None:
    data = bytes(range(256)) * (small_pieces * 3 // 256) + b"the last piece"
    passes = [lambda server, asked: server.answer(asked)] * at
    gcs.fail("PUT", "upload_id", *passes, fault)

    outcome = _published(table.storage, data)

    assert Created() == outcome
    assert data == table.storage.read("big")
    assert data == gcs.buckets[table.bucket]["t/big"].data


def test_an_upload_in_pieces_does_not_replace_and_replaces(gcs: GcsServer, table: Table, small_pieces: int) -> None:
    ours, theirs = b"o" * (2 * small_pieces + 1), b"t" * small_pieces
    gcs.put(table.bucket, "t/big", theirs)

    lost = _published(table.storage, ours)
    kept = table.storage.read("big")
    won = _published(table.storage, ours, replace=True)

    assert (Existed(), theirs, Created()) == (lost, kept, won)
    assert ours == table.storage.read("big")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (answers(problem(410, "gone")), "Unknown"),
        (answers(problem(503, "backendError")), "Unknown"),
        (answers(PAGE), "Unknown"),
    ],
    ids=["gone", "503", "portal"],
)
def test_a_lost_session_leaves_the_outcome_open(fault: Fault, expected: str, gcs: GcsServer, small_pieces: int) -> None:
    table = opened(gcs)
    table.storage._retry.budget_seconds = 0  # type: ignore[attr-defined]
    gcs.fail("PUT", "upload_id", loses_reply, *[fault] * 9)

    outcome = _published(table.storage, b"x" * (small_pieces // 2))

    assert expected == type(outcome).__name__


def test_a_session_that_takes_no_more_bytes_ends(gcs: GcsServer, table: Table, small_pieces: int) -> None:
    stuck = answers(Said(308, b"", {"Range": "bytes=0-262143"}))
    gcs.fail("PUT", "upload_id", *[stuck] * 20)

    outcome = _published(table.storage, b"x" * (2 * small_pieces))

    said = f"the upload stopped at {small_pieces} of {2 * small_pieces} bytes: the store accepts no more of it"
    assert Unknown(said) == outcome


def test_a_session_that_cannot_begin_has_created_nothing(gcs: GcsServer, table: Table, small_pieces: int) -> None:
    table.storage._retry.budget_seconds = 0  # type: ignore[attr-defined]
    gcs.fail("POST", "uploadType=resumable", answers(problem(503, "backendError")))

    with pytest.raises(StorageFailed):
        _published(table.storage, b"x" * small_pieces)

    assert ["t/probed"] == list(gcs.buckets[table.bucket])


def test_a_conditional_replace_needs_the_generation(gcs: GcsServer, table: Table) -> None:
    assert isinstance(table.storage, ObjectStorage)
    calls = table.storage._calls
    gcs.put(table.bucket, "t/hint", b"first")
    _, tag = calls.head("t/hint")

    calls.write("t/hint", Body(b"second"), tag)
    with pytest.raises(HttpError) as raised:
        calls.write("t/hint", Body(b"third"), tag)

    assert 412 == raised.value.status
    assert b"second" == table.storage.read("hint")


def test_reads_that_break_are_repeated_and_only_the_store_is_believed(gcs: GcsServer, table: Table) -> None:
    gcs.put(table.bucket, "t/file", b"0123456789")
    gcs.fail("GET", "/o/", half_a_body, answers(problem(429, "rateLimitExceeded")), breaks)
    repeated = table.storage.read_range("file", 2, 3)
    faults: list[DeltacliError] = []
    calls: tuple[Callable[[], object], ...] = (
        lambda: table.storage.read("file"),
        lambda: table.storage.stat("file"),
        lambda: list(table.storage.list_from("")),
        lambda: table.storage.read("absent"),
    )

    for call, said in zip(calls, (PAGE, PAGE, PAGE, PAGE._replace(status=404)), strict=True):
        gcs.fail("GET", "", answers(said))
        with pytest.raises(StorageFailed) as raised:
            call()
        faults.append(raised.value)

    assert b"234" == repeated
    assert ["storage.unexpected-answer"] * 4 == [fault.code for fault in faults]


def test_a_file_that_changes_while_it_is_read_is_an_error(gcs: GcsServer, table: Table) -> None:
    gcs.put(table.bucket, "t/file", b"a" * 200_000)
    opened = table.storage.open("file")
    tag = table.storage.tag("file", opened)
    gcs.put(table.bucket, "t/file", b"b" * 200_000)

    with pytest.raises(StorageFailed, match="changed while it was read"):
        opened.read(10)

    assert tag != table.storage.tag("file", table.storage.open("file"))


@pytest.mark.parametrize(
    ("said", "kind", "code"),
    [
        (problem(403, "forbidden", "no access"), PermissionRefused, "storage.permission"),
        (problem(401, "required", "anonymous"), PermissionRefused, "storage.permission"),
        (problem(404, "notFound", "The specified bucket does not exist."), StorageFailed, "storage.bucket-missing"),
        (Said(404, b"No such object: b/k", {"Content-Type": "text/html"}), FileMissing, "storage.file-missing"),
        (Said(302, b"", {"Location": "http://portal"}), StorageFailed, "storage.unexpected-answer"),
    ],
)
def test_errors_name_their_cause(
    said: Said, kind: type[StorageFailed], code: str, gcs: GcsServer, table: Table
) -> None:
    gcs.fail("GET", "/o/", answers(said))

    with pytest.raises(kind) as raised:
        table.storage.read("file")

    assert code == raised.value.code


def test_a_store_that_ignores_the_condition_is_read_only(gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs, "ignores_conditions", True)
    bucket = gcs.make_bucket()
    storage = open_storage(f"gs://{bucket}/t")

    with pytest.raises(NoAtomicCreate):
        storage.put_if_absent("_delta_log/0.json", b"")

    assert {} == gcs.buckets[bucket]
    assert not storage.capabilities.atomic_create


def test_a_lost_answer_to_the_probe_is_no_proof_and_the_bucket_is_probed_once(gcs: GcsServer) -> None:
    bucket = gcs.make_bucket()
    gcs.fail("POST", ".probe", loses_reply, lambda server, asked: server.answer(asked), breaks)

    for name in ("first", "second"):
        assert Created() == open_storage(f"gs://{bucket}/{name}").put_if_absent("_delta_log/0.json", b"")

    assert ["first/_delta_log/0.json", "second/_delta_log/0.json"] == sorted(gcs.buckets[bucket])
    assert 6 == gcs.asked("POST", ".probe")


def test_files_of_a_batch_have_their_own_outcomes(gcs: GcsServer, table: Table) -> None:
    names = [f"{number:03d}" for number in range(150)]
    for name in names:
        gcs.put(table.bucket, f"t/{name}", b"")
    gcs.fail("BATCHED", "%2F007", *[answers(problem(503, "backendError"))] * 2)
    gcs.fail("BATCHED", "%2F008", *[answers(problem(403, "forbidden", "retention policy"))] * 2)
    gcs.fail("POST", "/batch/", loses_reply)  # so that 100 of them are gone before the request that counts

    outcomes = dict(table.storage.delete_many([*names, "absent", "line\nbreak"]))

    assert isinstance(outcomes["008"], Failed)
    assert "retention policy" in outcomes["008"].reason
    assert isinstance(outcomes["008"].denied, PermissionRefused)
    assert [Missing(), Missing()] == [outcomes["absent"], outcomes["line\nbreak"]]
    assert {Deleted(), Missing()} == {outcomes[name] for name in names if name != "008"}
    assert {"t/008", "t/probed"} == gcs.buckets[table.bucket].keys()


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_be_another_address_is_never_sent(name: str, gcs: GcsServer) -> None:
    bucket = gcs.make_bucket()
    storage = open_storage(f"gs://{bucket}")
    gcs.requests.clear()

    assert [(name, Missing())] == list(storage.delete_many([name]))
    with pytest.raises(FileMissing):
        storage.stat(name)

    assert [] == gcs.requests


def test_a_token_that_the_store_refuses_is_renewed_once(
    gcs: GcsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gcs.put(bucket := gcs.make_bucket(), "t/file", b"x")
    key = tmp_path / "key.json"
    key.write_text(json.dumps(service_account(f"{gcs.url}/token")))
    tokens = iter(("token-of-before", "token-of-after", "token-of-no-use"))
    gcs.fail(
        "POST", "/token", *[lambda *_: Said(200, token_answer(next(tokens)), {"Content-Type": "application/json"})] * 3
    )
    storage = open_storage(f"gs://{bucket}/t", {"token": str(key)}, retry=Retry(pause=lambda _: None))
    gcs.requests.clear()

    monkeypatch.setattr(gcs, "token", "token-of-before")
    first = storage.read("file")
    monkeypatch.setattr(gcs, "token", "token-of-after")
    second = storage.read("file")
    monkeypatch.setattr(gcs, "token", "another")
    with pytest.raises(PermissionRefused) as raised:
        storage.read("file")

    assert (b"x", b"x") == (first, second)
    assert 3 == gcs.asked("POST", "/token")
    assert "reader@project.iam.gserviceaccount.com" in raised.value.facts["credentials"]
    assert "token-of" not in str(raised.value.facts) + str(raised.value.__cause__)


def test_credentials_that_another_thread_renewed_are_kept(
    gcs: GcsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key.json").write_text(json.dumps(service_account(f"{gcs.url}/token")))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    monkeypatch.setattr(gcs, "token", "token-of-before")
    credentials = GcsCredentials(GcsOptions(gcs.url), "t")
    refused = credentials.build_headers()
    monkeypatch.setattr(gcs, "token", "token-of-after")

    renewed = [credentials.renew(refused), credentials.renew(refused)]
    headers = credentials.build_headers()
    renewed.append(credentials.renew(refused))

    assert [True] * 3 == renewed
    assert {"Authorization": "Bearer token-of-after"} == headers == credentials.build_headers()
    assert 2 == gcs.asked("POST", "/token")


def test_without_credentials_the_error_names_the_chain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    storage = open_storage("gs://bucket/t", {"endpoint_url": "http://127.0.0.1:1"})

    with pytest.raises(CredentialsMissing) as raised:
        storage.read("file")

    assert "absent.json (absent)" in raised.value.facts["environment"]
    assert "application-default login" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("uri", "options", "code"),
    [
        ("gs://", {}, "usage.table"),
        ("gs://user:password@bucket/t", {}, "usage.secret"),
        ("gs://bucket/t", {"acces": "full"}, "usage.storage-option"),
        ("gs://bucket/t", {"anon": "maybe"}, "usage.storage-option"),
        ("gs://bucket/t", {"endpoint_url": "ftp://host"}, "usage.storage-option"),
    ],
)
def test_a_wrong_address_or_option_is_a_usage_error(uri: str, options: dict[str, str], code: str) -> None:
    with pytest.raises(UsageError) as raised:
        open_storage(uri, options)

    assert code == raised.value.code


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", None)

    with pytest.raises(UsageError, match="needs the extra 'gcs'"):
        open_storage("gs://bucket/t")


def test_an_unreachable_endpoint_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage("gs://bucket/t", {"endpoint_url": "http://127.0.0.1:1", "anon": "true"})

    with pytest.raises(StorageFailed) as raised:
        storage.read("file")
    with pytest.raises(StorageFailed):
        storage.put_if_absent("file", b"")

    assert "storage.unreachable" == raised.value.code
    assert "tried" not in raised.value.facts


def test_both_schemes_name_one_store() -> None:
    assert ("gcs://bucket/t",) == open_storage("gs://bucket/t/", {"anon": "true"}).aliases


def test_the_requester_pays_where_that_is_chosen(gcs: GcsServer) -> None:
    table = opened(gcs, requester_pays="true", project="payer")

    list(table.storage.list_from(""))
    list(table.storage.delete_many(["probed"]))

    assert all("userProject=payer" in request.target for request in gcs.requests if "/batch/" not in request.target)
    assert b"userProject=payer" in gcs.requests[-1].body


def test_a_batch_of_deletions_that_is_done_is_not_waited_for(gcs: GcsServer) -> None:
    waits: list[float] = []
    name = gcs.make_bucket()
    gcs.put(name, "t/a", b"")
    storage = open_storage(f"gs://{name}/t", retry=Retry(pause=waits.append))

    assert [("a", Deleted())] == list(storage.delete_many(["a"]))
    assert [] == waits
