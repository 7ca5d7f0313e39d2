"""Queries that a server answers later: cases of the reference as data, against a server that plays one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from deltacli.sharing.client.faults import DEFAULTS, NotReadyError, wait_for
from deltacli.sharing.client.share_storage import ShareStorage
from deltacli.sharing.client.table_requests import ChangeQuery
from deltacli.sharing.protocol.parameters import Point
from deltacli.storage.retry import Retry
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.served import shared
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.rows import parquet_bytes, schema_of

ROWS = [pa.table({"id": pa.array([number])}) for number in range(5)]
NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    builder = TableBuilder()
    for number, rows in enumerate(ROWS):
        path, data = f"part-{number}.parquet", parquet_bytes(rows)
        builder.file(path, data)
        head = [protocol(1, 2), metadata(schema_string=schema_of(rows))] if not number else []
        builder.commit(commit_info(), *head, add(path, size=len(data)))
    with proxied(tmp_path, shared(builder.write(tmp_path / "t")), page_size=10_000) as found:
        yield found


@dataclass
class Later:
    """A server that answers queries later: `says` are the answers to a submission and to each poll, then comes the true
    one. `serves` is the request whose answer is the result, by default the one that was submitted.
    """

    proxy: Proxy
    says: list[Any] = field(default_factory=list)
    query_id: str = "q-1"
    serves: dict[str, Any] | None = None
    submitted: list[Asked] = field(default_factory=list)
    polled: list[Asked] = field(default_factory=list)

    def plant(self, asked: Asked, truly: Callable[[], Sent]) -> Sent | None:
        path = asked.target.partition("?")[0]
        if "/queries/" in path:
            self.polled.append(asked)
        elif path.endswith("/query") and "asyncquery=true" in asked.headers.get("delta-sharing-capabilities", ""):
            self.submitted.append(asked)
        else:
            return truly()
        if self.says:
            said = self.says.pop(0)
            return said if isinstance(said, Sent) or said is None else status(**said)
        body = json.loads(self.submitted[-1].body) if self.serves is None else self.serves
        body = {name: value for name, value in body.items() if not name.startswith("idempotency")}
        body |= asked.json if "/queries/" in path else {}
        target = self.submitted[-1].target
        return self.proxy.true_answer(replace(asked, target=target, body=json.dumps(body).encode()))


def status(**fields: Any) -> Sent:
    headers = {name.replace("_", "-"): str(fields.pop(name)) for name in ("retry_after",) if name in fields}
    return Sent(200, {**NDJSON, **headers}, json.dumps({"queryStatus": fields}).encode() + b"\n")


PENDING = {"queryId": "q-1", "status": "pending"}


@pytest.fixture
def later(proxy: Proxy) -> Later:
    found = Later(proxy)
    proxy.plant = found.plant
    return found


def rows_of(store: ShareStorage, version: int | None = None) -> list[int]:
    return sorted(Table(store).snapshot(version=version).scan().to_reader().read_all()["id"].to_pylist())


def opened(later: Later, **query: Any) -> ShareStorage:
    return later.proxy.store(may_wait=True, **query)


@pytest.mark.parametrize("word", ["pending", "PENDING"])
def test_a_query_is_polled_until_its_result_is_there(later: Later, word: str) -> None:
    later.says = [{"queryId": "q-1", "status": word}] * 4

    assert [0, 1, 2, 3, 4] == rows_of(opened(later))

    (submitted,) = later.submitted
    assert submitted.json["idempotencyKey"] == submitted.json["idempotency_key"] != ""
    assert ["/queries/q-1"] * 4 == [asked.target[asked.target.index("/queries") :] for asked in later.polled]
    assert all(low <= waited <= high for waited, low, high in zip(
        later.proxy.waited, (0.25, 0.5, 1, 2), (0.5, 1, 2, 4), strict=True
    ))  # fmt: skip


def test_a_result_has_pages_of_its_own(later: Later) -> None:
    later.says = [PENDING]

    assert [0, 1, 2, 3, 4] == rows_of(opened(later, max_files=2))

    assert 1 == len(later.submitted)
    assert [2, 2, 2] == [asked.json["maxFiles"] for asked in later.polled]
    assert [False, True, True] == ["pageToken" in asked.json for asked in later.polled]


def test_a_server_that_answers_at_once_is_not_polled(later: Later) -> None:
    assert [0, 1, 2, 3, 4] == rows_of(opened(later))
    assert (1, 0) == (len(later.submitted), len(later.polled))


def test_a_refusal_of_the_capability_is_answered_by_a_query_without(later: Later) -> None:
    later.says = [Sent(400, {}, b'{"errorCode":"INVALID_PARAMETER_VALUE","message":"asyncquery"}')]

    assert [0, 1, 2, 3, 4] == rows_of(opened(later))
    assert (1, 0) == (len(later.submitted), len(later.polled))


def test_the_result_of_another_version_is_not_taken(later: Later) -> None:
    later.says, later.serves = [PENDING], {}

    assert [0, 1] == rows_of(opened(later), version=1)
    assert (1, 1) == (len(later.submitted), len(later.polled))


def test_a_time_is_asked_for_at_once(later: Later) -> None:
    Table(opened(later)).snapshot(timestamp_ms=1_700_000_002_000)

    assert not later.submitted


def test_an_answer_that_is_cut_or_a_server_that_is_busy_gets_the_same_key(later: Later) -> None:
    later.says = [None, Sent(503, {}, b""), PENDING, Sent(404, {}, b'{"errorCode":"RESOURCE_DOES_NOT_EXIST"}'), PENDING]

    assert [0, 1, 2, 3, 4] == rows_of(opened(later))
    assert [4, 1] == [len(later.submitted), len({asked.json["idempotencyKey"] for asked in later.submitted})]


def test_an_id_is_encoded(later: Later) -> None:
    later.says = [{"queryId": "a/b?c#d e", "status": "pending"}]

    rows_of(opened(later))

    assert later.polled[0].target.endswith("/queries/a%2Fb%3Fc%23d%20e")


def test_the_wait_that_a_server_asks_for_is_kept(later: Later) -> None:
    later.says = [{**PENDING, "retry_after": 7}]

    rows_of(opened(later))

    assert [7.0] == later.proxy.waited


def test_a_user_is_told_what_is_waited_for_and_for_how_long() -> None:
    now, notes = [0.0], list[str]()
    retry = Retry(note=notes.append, clock=lambda: now[0], pause=lambda s: now.append(now.pop() + s), is_watching=False)

    def ask(_query_id: str | None) -> str:
        raise NotReadyError({"queryId": "q-1", "status": "pending"}, 40.0)

    with pytest.raises(DeltacliError, match="did not complete the list of files in 80 s") as caught:
        wait_for(ask, retry, 100.0, "the list of files")

    assert [
        "note: the server is preparing the list of files",
        "note: the server has been preparing the list of files for 40 s",
    ] == notes
    assert {"query": "q-1", "asked to wait": "40 s", "limit": "100 s"} == caught.value.facts


BOTOCORE_ERRORS: dict[str, tuple[list[Any], str, int]] = {
    "failed": ([PENDING, {"queryId": "q-1", "status": "failed", "errorMessage": "too large"}], ": too large", 3),
    "FAILED at once": ([{"queryId": "q-1", "status": "FAILED", "message": "no\x1b[31m"}], "could not complete", 3),
    "done": ([{"queryId": "q-1", "status": "done"}], "neither pending nor failed", 3),
    "null": ([{"queryId": "q-1", "status": None}], "neither pending nor failed", 3),
    "no id": ([{"status": "pending"}], "no queryId", 3),
    "empty id": ([{"queryId": "", "status": "pending"}], "no queryId", 3),
    "changed id": ([PENDING, {"queryId": "q-2", "status": "pending"}], "another query", 3),
    "for ever": ([PENDING] * 1_000, "did not complete", 7),
    "forgotten twice": ([PENDING, Sent(404, {}, b"{}"), PENDING, Sent(404, {}, b"{}")], "no such share", 3),
    "revoked": ([PENDING, Sent(403, {}, b"{}")], "refused access", 7),
    "asks for an hour": ([{**PENDING, "retry_after": 3_600}], "did not complete", 7),
}


@pytest.mark.parametrize("case", BOTOCORE_ERRORS)
def test_faults_end_the_waiting(later: Later, case: str) -> None:
    later.says, words, code = BOTOCORE_ERRORS[case]

    with pytest.raises(DeltacliError, match=words) as caught:
        rows_of(opened(later))

    assert code == caught.value.exit_code
    assert sum(later.proxy.waited) <= DEFAULTS.query_seconds
    assert "\x1b" not in str(caught.value)


def test_a_repeated_page_token_is_a_fault(later: Later) -> None:
    later.says = [PENDING]
    truth, pages = later.plant, list[Sent]()

    def repeat(asked: Asked, truly: Callable[[], Sent]) -> Sent | None:
        sent = pages[0] if pages else truth(asked, truly)
        if sent is None or "/queries/" not in asked.target:
            return sent
        pages.append(sent.with_lines([*sent.lines[:2], {"endStreamAction": {"nextPageToken": "again"}}]))
        return pages[-1]

    later.proxy.plant = repeat
    with pytest.raises(DeltacliError, match="repeats a page token"):
        rows_of(opened(later))


def test_a_change_data_feed_is_not_waited_for(later: Later) -> None:
    later.proxy.plant = lambda asked, truly: status(**PENDING) if "/changes" in asked.target else truly()

    with pytest.raises(DeltacliError, match="not asked for"):
        opened(later).requests.changes(ChangeQuery(Point(0)), lambda pages: pages.head)


def test_an_interrupted_run_does_not_wait_on(later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    later.says = [PENDING] * 10
    store = opened(later)
    monkeypatch.setattr(store.requests.transport.retry, "_is_stopping", lambda: True)

    with pytest.raises(DeltacliError, match="did not complete"):
        rows_of(store)

    assert not later.proxy.waited
