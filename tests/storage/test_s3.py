"""Peculiarities of S3: pages, lost answers, ignored conditions, credentials, and secrets that must not be printed."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import (
    CredentialsMissing,
    DeltacliError,
    NoAtomicCreate,
    PermissionRefused,
    StorageFailed,
    UsageError,
)
from deltacli.storage import Created, Deleted, Existed, Failed, PathKind, Unknown, is_inside, open_storage
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.retry import Retry
from deltacli.storage.s3.store import open_s3
from tests.support.s3 import Fault, S3Server, breaks, forgets_condition, half_a_body, loses_reply, page, says

SECRET = "a-secret-nobody-may-see"
CONFLICT = says("409 CONFLICT", "ConditionalRequestConflict")
SLOW_DOWN = says("503 SERVICE UNAVAILABLE", "SlowDown")


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.make_bucket()


@pytest.fixture
def store(bucket: str) -> ObjectStorage:
    """A table's store that has shown that it keeps the condition, and never waits."""
    storage = open_s3(f"s3://{bucket}/t", {}, retry=Retry(pause=lambda _: None))
    storage.put("proved", b"")
    return storage


def test_a_listing_starts_at_the_given_name_and_stops_with_its_reader(s3: S3Server, bucket: str) -> None:
    for number in range(2_500):
        s3.put(bucket, f"t/{number:05d}", b"")
    storage = open_storage(f"s3://{bucket}/t")

    first = next(storage.list_from("", "01200"))
    pages_for_the_first = s3.asked("GET", "start-after")
    rest = [stat.name for stat in storage.list_from("", "01200")]

    assert ("01200", 1) == (first.name, pages_for_the_first)
    assert [f"{number:05d}" for number in range(1_200, 2_500)] == rest
    assert 3 == s3.asked("GET", "list-type")


def test_pages_that_overlap_give_each_name_once(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    s3.fail("GET", bucket, page("a", "b", "c", token="1"), page("b", "c", "d", token="2"), page("d", "e"))

    assert ["a", "b", "c", "d", "e"] == [stat.name for stat in store.list_from("")]


def test_a_listing_out_of_order_is_an_error(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    s3.fail("GET", bucket, page("b", "c", token="1"), page("a"))

    with pytest.raises(StorageFailed) as raised:
        list(store.list_from(""))

    assert "storage.listing-disorder" == raised.value.code


def test_a_truncated_answer_is_requested_again(s3: S3Server, store: ObjectStorage) -> None:
    store.put("file", b"x" * 100_000)
    s3.fail("GET", "/t/file", half_a_body, half_a_body)

    assert 100_000 == len(store.read("file"))


@pytest.mark.parametrize(
    ("faults", "outcome", "requests"),
    [
        ([loses_reply], Unknown, 1),
        ([breaks], Unknown, 1),
        ([says("500 INTERNAL SERVER ERROR", "InternalError")], Unknown, 1),
        ([says("503 SERVICE UNAVAILABLE", "ServiceUnavailable")], Unknown, 1),
        ([CONFLICT], Created, 2),
        ([SLOW_DOWN, CONFLICT], Created, 3),
        ([says("412 PRECONDITION FAILED", "PreconditionFailed")], Existed, 1),
    ],
    ids=["reply lost", "connection lost", "500", "503 of something between", "409", "slow down", "412"],
)
def test_the_reported_outcome_of_a_creation_is_true(
    faults: list[Fault], outcome: type, requests: int, s3: S3Server, store: ObjectStorage
) -> None:
    """
    Each request that may have been carried out is sent once: a second one would meet the first and take it for
    another writer's.
    """
    s3.fail("PUT", "/t/new", *faults)

    found = store.put_if_absent("new", b"mine")

    assert outcome is type(found)
    assert requests == s3.asked("PUT", "/t/new")


def test_a_lost_reply_is_resolved_by_reading_back(s3: S3Server, store: ObjectStorage) -> None:
    s3.fail("PUT", "/t/new", loses_reply)

    store.put_if_absent("new", b"mine")

    assert b"mine" == store.read("new")


@pytest.mark.parametrize("fault", [CONFLICT, SLOW_DOWN], ids=["409", "slow down"])
def test_a_store_that_never_recovers_has_failed(fault: Fault, s3: S3Server, store: ObjectStorage) -> None:
    s3.fail("PUT", "/t/new", *[fault] * 5)

    with pytest.raises(StorageFailed):
        store.put_if_absent("new", b"mine")

    assert 5 == s3.asked("PUT", "/t/new")
    assert PathKind.MISSING is store.kind_of("new")


@pytest.mark.parametrize(
    "faults",
    [[forgets_condition] * 2, [says("501 NOT IMPLEMENTED", "NotImplemented")]],
    ids=["ignored", "refused"],
)
@pytest.mark.parametrize("verb", ["put_if_absent", "put"])
def test_a_store_that_ignores_conditions_is_read_only(
    verb: str, faults: list[Fault], s3: S3Server, bucket: str
) -> None:
    storage = open_storage(f"s3://{bucket}/t")
    s3.fail("PUT", ".probe", *faults)

    for _ in range(2):
        with pytest.raises(NoAtomicCreate) as raised:
            getattr(storage, verb)("_delta_log/0.json", b"")
        assert (4, "storage.no-atomic-create") == (raised.value.exit_code, raised.value.code)

    assert not storage.capabilities.atomic_create
    assert [] == s3.keys(bucket)
    assert len(faults) == s3.asked("PUT")


def test_conditional_writes_are_tested_once_per_bucket(s3: S3Server, bucket: str) -> None:
    for number in range(3):
        open_storage(f"s3://{bucket}/t").put_if_absent(f"_delta_log/{number}", b"")

    assert (2, 5) == (s3.asked("PUT", "/t/_delta_log/."), s3.asked("PUT"))
    assert ["t/_delta_log/0", "t/_delta_log/1", "t/_delta_log/2"] == s3.keys(bucket)


def test_conditional_writes_of_aws_are_not_tested(s3: S3Server, bucket: str) -> None:
    through = json.dumps({"proxies": {"http": s3.url}})
    options = {
        "endpoint_url": "http://s3.us-east-1.amazonaws.com",
        "config_kwargs": through,
        "addressing_style": "path",
    }

    outcome = open_storage(f"s3://{bucket}/t", options).put_if_absent("new", b"")

    assert (Created(), ["PUT"]) == (outcome, [method for method, _, _ in s3.requests])


def test_deleting_sends_a_thousand_keys_per_request_and_reports_failures(
    s3: S3Server, bucket: str, store: ObjectStorage
) -> None:
    s3.fail("POST", bucket, says("403 FORBIDDEN", "AccessDenied"))

    outcomes = [outcome for _, outcome in store.delete_many(f"{number:04d}" for number in range(2_100))]

    assert 3 == s3.asked("POST", "delete")
    assert [Failed] * 1_000 == [type(outcome) for outcome in outcomes[:1_000]]
    assert "AccessDenied" in str(outcomes[0])
    assert Failed not in {type(outcome) for outcome in outcomes[1_000:]}


def test_a_deletion_of_many_objects_has_a_digest(s3: S3Server, store: ObjectStorage, bucket: str) -> None:
    seen: list[bool] = []

    def demands_digest(server: S3Server, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(body)
        expected = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        seen.append(expected == environ.get("HTTP_CONTENT_MD5"))
        return server.answer(environ, start_response)

    s3.fail("POST", bucket, demands_digest)

    assert [("a", Deleted()), ("b", Deleted())] == list(store.delete_many(["a", "b"]))
    assert [True] == seen


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("400 BAD REQUEST", "MissingContentMD5"),
        ("400 BAD REQUEST", "InvalidRequest"),
        ("400 BAD REQUEST", "BadDigest"),
        ("405 METHOD NOT ALLOWED", "MethodNotAllowed"),
        ("501 NOT IMPLEMENTED", "NotImplemented"),
        ("400 BAD REQUEST", "NotImplemented"),
    ],
)
def test_where_many_objects_cannot_be_deleted_together_each_is_deleted_alone(
    status: str, code: str, s3: S3Server, store: ObjectStorage, bucket: str
) -> None:
    s3.put(bucket, "t/a", b"x")
    s3.fail("POST", bucket, says(status, code))
    before = s3.asked("DELETE")

    outcomes = [outcome for _, outcome in store.delete_many(f"{number}" for number in range(3))]
    again = list(store.delete_many(["a"]))

    assert ([Deleted()] * 3, [("a", Deleted())]) == (outcomes, again)
    assert (1, 4) == (s3.asked("POST", "delete"), s3.asked("DELETE") - before)
    assert ["t/proved"] == s3.keys(bucket)


def test_a_throttled_deletion_is_sent_again_later(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    storage = open_s3(f"s3://{bucket}/t", {}, retry=Retry(pause=waits.append))
    s3.fail("POST", bucket, SLOW_DOWN, SLOW_DOWN)

    assert [("a", Deleted()), ("b", Deleted())] == list(storage.delete_many(["a", "b"]))
    assert 3 == s3.asked("POST", "delete")
    assert len(waits) >= 2
    assert waits[1] > 0

    s3.fail("POST", bucket, *[SLOW_DOWN] * 3)
    for path, outcome in storage.delete_many(["a", "b"]):
        assert isinstance(outcome, Failed), path
        assert "SlowDown" in outcome.reason
    assert 6 == s3.asked("POST", "delete")


def partly(*busy: str, done: str) -> Fault:
    """A fault that deletes one object of `t/` and was too busy for others."""
    errors = "".join(f"<Error><Key>t/{name}</Key><Code>SlowDown</Code></Error>" for name in busy)
    body = f"<DeleteResult><Deleted><Key>t/{done}</Key></Deleted>{errors}</DeleteResult>".encode()

    def fault(server: object, environ: object, start_response: Callable[..., object]) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/xml")])
        return [body]

    return fault


def test_only_throttled_objects_are_deleted_again(s3: S3Server, bucket: str) -> None:
    waits: list[float] = []
    storage = open_s3(f"s3://{bucket}/t", {}, retry=Retry(pause=waits.append))
    s3.fail("POST", bucket, partly("b", "c", done="a"), partly("c", done="b"))

    outcomes = list(storage.delete_many(["a", "b", "c"]))

    assert [("a", Deleted()), ("b", Deleted()), ("c", Deleted())] == outcomes
    assert 3 == s3.asked("POST", "delete")
    assert [0.2, 0.4] == waits[:2]
    assert waits[0] < waits[1]


def test_an_object_that_is_always_throttled_is_not_deleted(s3: S3Server, store: ObjectStorage, bucket: str) -> None:
    s3.fail("POST", bucket, partly("b", done="a"), *[partly("b", done="x")] * 4)

    [(_, first), (_, second)] = store.delete_many(["a", "b"])

    assert Deleted() == first
    assert isinstance(second, Failed)
    assert "SlowDown" in second.reason
    assert 5 == s3.asked("POST", "delete")


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (says("403 FORBIDDEN", "AccessDenied"), PermissionRefused, "storage.permission"),
        (says("403 FORBIDDEN", "InvalidAccessKeyId"), PermissionRefused, "storage.permission"),
        (says("400 BAD REQUEST", "ExpiredToken"), PermissionRefused, "storage.permission"),
        (says("404 NOT FOUND", "NoSuchBucket"), StorageFailed, "storage.bucket-missing"),
        (
            says("400 BAD REQUEST", "IllegalLocationConstraintException", **{"x-amz-bucket-region": "eu-north-1"}),
            StorageFailed,
            "storage.region",
        ),
        (says("500 INTERNAL SERVER ERROR", "InternalError"), StorageFailed, "storage.failed"),
        (breaks, StorageFailed, "storage.failed"),
    ],
    ids=["denied", "key unknown", "token expired", "no bucket", "other region", "500", "connection lost"],
)
@pytest.mark.parametrize("verb", ["read", "list_from"])
def test_errors_state_the_cause_and_what_to_do(
    verb: str, fault: Fault, kind: type[DeltacliError], code: str, s3: S3Server, bucket: str
) -> None:
    storage = open_storage(f"s3://{bucket}/t")
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: storage.read("a"),
        "list_from": lambda: list(storage.list_from("")),
    }
    s3.fail("GET", bucket, fault, fault)

    with pytest.raises(kind) as raised:
        calls[verb]()

    assert (code, 7) == (raised.value.code, raised.value.exit_code)
    assert s3.url == raised.value.facts["endpoint"]
    assert (code == "storage.failed") == (raised.value.hint is None)


@pytest.mark.parametrize("refusal", ["ExpiredToken", "InvalidAccessKeyId"])
def test_credentials_that_the_store_refuses_are_looked_up_again(
    refusal: str, s3: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(place))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)

    def rotate(key: str) -> None:
        place.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {SECRET}\n")

    rotate("first")
    storage = open_storage(f"s3://{bucket}/t")
    storage.put("a", b"x")
    s3.requests.clear()

    rotate("second")
    s3.fail("PUT", bucket, says("400 BAD REQUEST", refusal))
    created = storage.put_if_absent("b", b"y")
    rotate("third")
    s3.fail("GET", bucket, says("400 BAD REQUEST", refusal))
    content = storage.read("b")
    s3.fail("GET", bucket, says("400 BAD REQUEST", refusal))
    with pytest.raises(PermissionRefused):
        storage.read("b")

    assert (Created(), b"y") == (created, content)
    assert [2, 3] == [s3.asked(method) for method in ("PUT", "GET")]


def test_an_unreachable_endpoint_is_reported(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://me:{SECRET}@127.0.0.1:1")
    storage = open_storage("s3://bucket/t")

    for call in (lambda: storage.read("a"), lambda: storage.put_if_absent("a", b"")):
        with pytest.raises(StorageFailed) as raised:
            call()
        assert "storage.unreachable" == raised.value.code
        assert "http://me:…@127.0.0.1:1" == raised.value.facts["endpoint"]
        assert SECRET not in f"{raised.value.facts}{raised.value.__cause__}"


def test_without_credentials_the_whole_chain_is_named(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")

    with pytest.raises(CredentialsMissing) as raised:
        open_storage("s3://bucket/t").read("a")

    assert ("storage.credentials", 7) == (raised.value.code, raised.value.exit_code)
    assert [
        "AWS_ACCESS_KEY_ID unset, AWS_SECRET_ACCESS_KEY set, AWS_SESSION_TOKEN unset",
        "AWS_WEB_IDENTITY_TOKEN_FILE unset, AWS_ROLE_ARN unset",
        "default",
        "/nowhere/credentials (absent), /nowhere/config (absent)",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI unset, AWS_CONTAINER_CREDENTIALS_FULL_URI unset",
        "disabled by AWS_EC2_METADATA_DISABLED",
    ] == list(raised.value.facts.values())[2:]
    assert SECRET not in str(raised.value.facts)
    assert raised.value.hint is not None


def test_a_missing_profile_is_named(s3: S3Server) -> None:
    with pytest.raises(CredentialsMissing) as raised:
        open_storage("s3://bucket/t", {"profile": "night"}).read("a")

    assert "night" == raised.value.facts["profile"]


def test_options_have_the_names_of_other_tools(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3.make_bucket()
    s3.put(bucket, "t/a", b"data")
    s3.publish(bucket, "t/a")
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    endpoint = {"endpoint_url": s3.url, "region": "eu-north-1"}

    for options in (
        {**endpoint, "anon": "true"},
        {**endpoint, "key": "k", "secret": SECRET, "use_ssl": "false"},
        {"AWS_ENDPOINT": s3.url, "aws_access_key_id": "k", "aws_secret_access_key": SECRET, "AWS_REGION": "x-y-1"},
        {"anon": "True", "client_kwargs": f'{{"endpoint_url": "{s3.url}", "region_name": "eu-north-1"}}'},
    ):
        assert b"data" == open_storage(f"s3a://{bucket}/t/", options).read("a")


def test_a_directory_is_inside_another_by_any_of_its_names() -> None:
    outer, options = open_storage("s3://bucket/a", {"anon": "true"}), {"anon": "true"}
    places = ("s3a://bucket/a/t", "s3n://bucket/a", "s3a://bucket/ab", "s3a://other/a/t")

    assert [True, True, False, False] == [is_inside(open_storage(place, options), outer) for place in places]


@pytest.mark.parametrize(
    ("uri", "options", "code"),
    [
        ("s3://bucket/t", {"anno": "true"}, "usage.storage-option"),
        ("s3://bucket/t", {"anon": "perhaps"}, "usage.storage-option"),
        ("s3://bucket/t", {"client_kwargs": "[]"}, "usage.storage-option"),
        ("s3://bucket/t", {"endpoint_url": "no-url"}, "usage.storage-option"),
        ("s3://bucket/t", {"client_kwargs": '{"colour": "blue"}'}, "usage.storage-option"),
        (f"s3://me:{SECRET}@bucket/t", {}, "usage.secret"),
        ("s3://", {}, "usage.table"),
        ("s3:///t", {}, "usage.table"),
    ],
)
def test_invalid_store_options_are_usage_errors(uri: str, options: dict[str, str], code: str, s3: S3Server) -> None:
    with pytest.raises(UsageError) as raised:
        open_storage(uri, options).read("a")

    assert (2, code) == (raised.value.exit_code, raised.value.code)
    assert SECRET not in f"{raised.value.message}{raised.value.facts}"


def test_a_file_replaced_while_open_is_not_mixed_with_the_new_one(store: ObjectStorage) -> None:
    store.put("f", b"1" * (4 << 20))
    with store.open("f") as file:
        before = file.read(10)
        store.put("f", b"2" * (4 << 20))
        file.seek(2 << 20)

        with pytest.raises(StorageFailed, match="changed while it was read"):
            file.read(10)

    assert b"1" * 10 == before
