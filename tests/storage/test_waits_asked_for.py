"""A store that says how long it wants to be left alone is, as long as the retry budget permits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from deltacli.core.errors import StorageFailed
from deltacli.storage import Created, Deleted, Storage, open_storage
from deltacli.storage.fsspec_errors import read_fsspec_retry_after
from deltacli.storage.retry_after import parse_retry_after, read_retry_after
from tests.support import azure as azure_words
from tests.support import gcs as gcs_words
from tests.support.azure import AzureServer
from tests.support.clocks import FakeClock
from tests.support.cloud import CloudServer, Said, answers
from tests.support.gcs import GcsServer
from tests.support.s3 import S3Server, says

SENT_AT = "Mon, 30 Nov 2026 12:00:00 GMT"
BUDGET_SECONDS = 60.0


class Throttled(NamedTuple):
    """A store of some cloud, the clock of its policy, and what makes the next requests of a method throttled."""

    storage: Storage
    clock: FakeClock
    throttle: Callable[[str, Mapping[str, str], int], None]
    requests: Callable[[str], int]


def throttle_s3(server: S3Server, method: str, headers: Mapping[str, str], times: int) -> None:
    server.fail(method, "", *[says("503 SLOW DOWN", "SlowDown", **headers)] * times)


def throttle_cloud(server: CloudServer, said: Said, method: str, headers: Mapping[str, str], times: int) -> None:
    answer = said._replace(headers={**said.headers, **headers})
    server.fail(method, "", *[answers(answer)] * times)


@pytest.fixture(params=["s3", "gcs", "azure", "a page of a proxy"])
def throttled(request: pytest.FixtureRequest) -> Throttled:
    clock = FakeClock()
    retry = clock.retry(BUDGET_SECONDS)
    if request.param == "s3":
        s3: S3Server = request.getfixturevalue("s3")
        storage = open_storage(f"s3://{s3.make_bucket()}/t", retry=retry)
        storage.put("a", b"content")
        return Throttled(storage, clock, lambda *given: throttle_s3(s3, *given), s3.asked)
    server: CloudServer
    if request.param == "azure":
        azure: AzureServer = request.getfixturevalue("azure")
        storage = open_storage(f"az://{azure.make_container()}/t", retry=retry)
        server, said = azure, azure_words.problem(429, "TooManyRequests")
    else:
        gcs: GcsServer = request.getfixturevalue("gcs")
        storage = open_storage(f"gs://{gcs.make_bucket()}/t", retry=retry)
        server, said = gcs, gcs_words.problem(429, "rateLimitExceeded")
    if request.param == "a page of a proxy":
        said = Said(429, b"<!DOCTYPE html><html>later</html>", {"Content-Type": "text/html"})
    storage.put("a", b"content")
    return Throttled(storage, clock, lambda *given: throttle_cloud(server, said, *given), server.asked)


@pytest.mark.parametrize("headers", [{"Retry-After": "17"}, {"retry-after": "0000000000017"}])
def test_a_read_waits_as_long_as_the_store_asks_for(throttled: Throttled, headers: Mapping[str, str]) -> None:
    throttled.throttle("GET", headers, 1)

    assert throttled.storage.read("a") == b"content"
    assert throttled.clock.waits == [17]


@pytest.mark.parametrize("text", ["0", "-5", "soon", "1e3", "Sun, 29 Nov 2026 12:00:00 GMT", "9" * 400 + "x"])
def test_a_text_that_asks_for_nothing_leaves_the_usual_wait(throttled: Throttled, text: str) -> None:
    throttled.throttle("GET", {"Retry-After": text}, 1)

    assert throttled.storage.read("a") == b"content"
    assert len(throttled.clock.waits) == 1
    assert throttled.clock.waits[0] < 1


@pytest.mark.parametrize("text", ["61", "86400", "9" * 400])
def test_a_wait_beyond_the_budget_fails_at_once_and_is_named(throttled: Throttled, text: str) -> None:
    throttled.throttle("GET", {"Retry-After": text}, 1)

    with pytest.raises(StorageFailed) as raised:
        throttled.storage.read("a")

    assert throttled.clock.waits == []
    assert f"{float(text[:9]):,.0f} s" in raised.value.facts["tried"]


def test_repeated_waits_end_with_the_budget(throttled: Throttled) -> None:
    throttled.throttle("GET", {"Retry-After": "25"}, 9)

    with pytest.raises(StorageFailed):
        throttled.storage.read("a")

    assert throttled.clock.waits == [25, 25]


def test_a_creation_waits_as_long_as_the_store_asks_for(throttled: Throttled) -> None:
    method = "POST" if throttled.storage.uri.startswith("gs:") else "PUT"
    throttled.throttle(method, {"Retry-After": "7"}, 2)

    assert throttled.storage.put_if_absent("new", b"mine") == Created()
    assert throttled.clock.waits == [7, 7]


def test_a_creation_ends_with_the_budget(throttled: Throttled) -> None:
    method = "POST" if throttled.storage.uri.startswith("gs:") else "PUT"
    before = throttled.requests(method)
    throttled.throttle(method, {"Retry-After": "40"}, 2)

    with pytest.raises(StorageFailed):
        throttled.storage.put_if_absent("new", b"mine")

    assert (throttled.clock.waits, throttled.requests(method) - before) == ([40], 2)


def test_a_bulk_deletion_waits_as_long_as_the_store_asks_for_its_objects(azure: AzureServer) -> None:
    clock = FakeClock()
    storage = open_storage(f"az://{azure.make_container()}/t", retry=clock.retry())
    for name in ("a", "b"):
        storage.put(name, b"")
    busy = azure_words.problem(503, "ServerBusy")
    # A batch is answered with 202, and each of its deletions by a part with headers of its own.
    azure.fail("BATCHED", "/b", answers(busy._replace(headers={**busy.headers, "Retry-After": "11"})))

    assert [outcome for _, outcome in storage.delete_many(["a", "b"])] == [Deleted(), Deleted()]
    assert clock.waits == [11]


def test_a_date_is_compared_with_that_of_the_answer_else_with_the_clock() -> None:
    later = "Mon, 30 Nov 2026 12:00:30 GMT"

    assert read_retry_after({"retry-after": later, "date": SENT_AT}, now=lambda: 0.0) == 30
    noon = parse_retry_after(SENT_AT, 0.0)
    assert read_retry_after({"retry-after": later}, now=lambda: noon + 10) == 20
    assert read_retry_after({"retry-after": later, "date": "no date"}, now=lambda: noon + 10) == 20
    assert read_retry_after({"retry-after": later.replace("GMT", "-0000"), "date": SENT_AT}) == 30


class HeaderError(OSError):
    """As libraries below fsspec raise it: headers on the error, or on its answer."""

    def __init__(self, **attributes: object) -> None:
        super().__init__("throttled")
        self.__dict__.update(attributes)


def test_headers_on_errors_of_other_file_systems_count() -> None:
    own = HeaderError(headers={"Retry-After": "5"})
    of_answer = HeaderError(response=HeaderError(headers={"Retry-After": "6"}))
    behind = OSError("outer")
    behind.__cause__ = own

    assert [read_fsspec_retry_after(fault) for fault in (own, of_answer, behind, OSError())] == [5, 6, 5, 0]
