"""Answers that S3 does not give: of captive portals, of redirects that lead nowhere, and of chance."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import StorageFailed
from deltacli.storage import Failed, Storage, Unknown, open_storage
from fuzz.run import run_target
from tests.support.s3 import Fault, S3Server, page, says

_LOGIN_PAGE = b"<html><head><title>Sign in</title></head><body>Welcome</body></html>"
_READS: dict[str, Callable[[Storage], object]] = {
    "read": lambda store: store.read("a"),
    "read_range": lambda store: store.read_range("a", 0, 4),
    "open": lambda store: store.open("a"),
    "stat": lambda store: store.stat("a"),
    "stat_many": lambda store: store.stat_many(["a"]),
    "kind_of": lambda store: store.kind_of("a"),
    "list_from": lambda store: list(store.list_from("")),
    "list_directories": lambda store: store.list_directories(""),
    "walk": lambda store: list(store.walk("", lambda _, names: names)),
}


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.make_bucket()


@pytest.fixture
def store(bucket: str) -> Storage:
    storage = open_storage(f"s3://{bucket}/t")
    storage.put("proved", b"")
    return storage


def portal(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A fault that answers as a captive portal does: with a web page, and as if all were well."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", str(len(_LOGIN_PAGE)))])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [_LOGIN_PAGE]


@pytest.mark.parametrize("verb", _READS)
def test_the_page_of_a_captive_portal_is_a_storage_error(verb: str, s3: S3Server, bucket: str, store: Storage) -> None:
    for method in ("GET", "HEAD"):
        s3.fail(method, bucket, portal)

    with pytest.raises(StorageFailed) as raised:
        _READS[verb](store)

    s3.forget_faults()
    assert ("storage.unexpected-answer", 7) == (raised.value.code, raised.value.exit_code)
    assert s3.url == raised.value.facts.get("endpoint", s3.url)


def test_a_captive_portal_creates_replaces_and_deletes_nothing(s3: S3Server, bucket: str, store: Storage) -> None:
    for method, faults in (("PUT", 2), ("DELETE", 1), ("POST", 1)):
        s3.fail(method, bucket, *[portal] * faults)

    created = store.put_if_absent("new", b"mine")
    with pytest.raises(StorageFailed) as raised:
        store.put("hint", b"mine")
    outcomes = [outcome for _, outcome in store.delete_many(["a", "line\nbreak"])]

    assert Unknown is type(created)
    assert "storage.unexpected-answer" == raised.value.code
    assert [Failed, Failed] == [type(outcome) for outcome in outcomes]


@pytest.mark.parametrize("status", ["301 MOVED PERMANENTLY", "307 TEMPORARY REDIRECT", "302 FOUND"])
@pytest.mark.parametrize("verb", ["read", "list_from"])
def test_a_redirect_without_a_region_is_an_error(verb: str, status: str, s3: S3Server, bucket: str) -> None:
    storage = open_storage(f"s3://{bucket}/t")
    for method in ("GET", "HEAD"):
        s3.fail(method, bucket, *[says(status, "PermanentRedirect")] * 200)

    with pytest.raises(StorageFailed) as raised:
        _READS[verb](storage)

    s3.forget_faults()
    assert ("storage.region", 7) == (raised.value.code, raised.value.exit_code)
    assert len(s3.requests) <= 3


def entry(text: str) -> Fault:
    """A page of a listing with one entry."""
    body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{text}</ListBucketResult>".encode()

    def fault(server: object, environ: object, start_response: Callable[..., object]) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/xml")])
        return [body]

    return fault


_TIME = "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"


@pytest.mark.parametrize(
    "text",
    [
        "<Contents><Key>t/a</Key><Size>1</Size></Contents>",
        f"<Contents><Key>t/a</Key>{_TIME}</Contents>",
        f"<Contents><Size>1</Size>{_TIME}</Contents>",
        f"<Contents><Key>elsewhere/a</Key><Size>1</Size>{_TIME}</Contents>",
        f"<Contents><Key>t/a</Key><Size>many</Size>{_TIME}</Contents>",
        f"<Contents><Key>t/a</Key><Size>-1</Size>{_TIME}</Contents>",
        "<Contents><Key>t/a</Key><Size>1</Size><LastModified>soon</LastModified></Contents>",
        "<CommonPrefixes></CommonPrefixes>",
        "<CommonPrefixes><Prefix>elsewhere/</Prefix></CommonPrefixes>",
    ],
)
@pytest.mark.parametrize("verb", ["list_from", "walk"])
def test_an_entry_that_lacks_something_is_an_error(verb: str, text: str, s3: S3Server, bucket: str) -> None:
    storage = open_storage(f"s3://{bucket}/t")
    s3.fail("GET", bucket, entry(text))

    with pytest.raises(StorageFailed) as raised:
        _READS[verb](storage)

    assert "storage.unexpected-answer" == raised.value.code


def test_a_repeated_page_is_an_error(s3: S3Server, bucket: str) -> None:
    storage = open_storage(f"s3://{bucket}/t")
    s3.fail("GET", bucket, page("a", token="1"), page("b", token="1"))

    with pytest.raises(StorageFailed) as raised:
        list(storage.list_from(""))

    assert "storage.unexpected-answer" == raised.value.code


@pytest.mark.parametrize("span", ["bytes 0-3/2", "bytes 1-4/100", "bytes 0-1/100", "bytes", "bytes 0-99/100"])
def test_bytes_of_another_range_are_rejected(span: str, s3: S3Server, bucket: str, store: Storage) -> None:
    def other_range(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("206 PARTIAL CONTENT", [("Content-Range", span), ("ETag", '"x"'), ("Content-Length", "4")])
        return [b"1234"]

    s3.fail("GET", bucket, other_range)

    with pytest.raises(StorageFailed) as raised:
        store.read_range("a", 0, 4)

    assert "storage.unexpected-answer" == raised.value.code


@pytest.mark.long
def test_random_answers_are_results_or_own_errors(tmp_path: Path) -> None:
    """
    A short round of the fuzz target, with the same inputs each time.
    """
    outcome = run_target("s3-answers", tmp_path, inputs=60, seed=2)

    assert (60, []) == (outcome.inputs, sorted(place.read_text() for place in tmp_path.glob("*.txt")))


def test_a_key_deleted_alone_is_not_missing_where_its_bucket_is(s3: S3Server, bucket: str, store: Storage) -> None:
    s3.fail("DELETE", bucket, says("404 NOT FOUND", "NoSuchBucket"))

    assert [Failed] == [type(outcome) for _, outcome in store.delete_many(["line\nbreak"])]
