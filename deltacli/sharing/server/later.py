"""Queries that are answered later: `asyncquery`, and what is kept of them in files that all workers see.

A query is answered at once unless that takes too long. Else its version is pinned, and what was asked is kept under an
id that cannot be guessed: the name of its file, which follows from recipient, table and idempotency key, and a random
part. So the same key leads every worker to the same query, also after a restart. Its answer is not kept: each page is
made when it is asked for, with URLs that are signed then.

Spec: Read Data from a Table (asyncquery, idempotencyKey); Poll for Query Status.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

from deltacli.core.errors import DeltacliError, StorageFailed
from deltacli.sharing.configuration.secrets import locked, write_private
from deltacli.sharing.configuration.settings import AsyncQueries
from deltacli.sharing.model import SharedTable
from deltacli.sharing.protocol import parameters as wire
from deltacli.sharing.protocol.lines import json_line
from deltacli.sharing.protocol.parameters import (
    PagedRequest,
    QueryRequest,
    WireError,
    invalid_parameter,
    missing,
    of_fault,
    parse_query,
)
from deltacli.sharing.server.connections import too_many
from deltacli.sharing.server.exchange import NAME, Access, Caller
from deltacli.sharing.server.table_answers import (
    HASH_HEADER,
    Answer,
    Pinned,
    TableAnswers,
    Wishes,
    digest_parameters,
    headers_of,
    read_wishes,
)
from deltacli.sharing.signing.keys import to_text

_LOG = logging.getLogger(NAME)

ABANDONED_MS = 20 * 60_000
"""After this time without a poll a query that is pending is given up: twice the limit of clients."""
_LEAST_KEPT_MS, _USUALLY_KEPT_MS = 15 * 60_000, 60 * 60_000
_KEPT_PER_PENDING = 10
_LARGEST_KEPT = 64 << 10
"""Bytes of a body. Larger queries are answered at once: answers that are kept must not fill a disk."""
_ID = re.compile(r"([A-Za-z0-9_-]{43})[A-Za-z0-9_-]{22}")
_RETRY_SECONDS = 1


@dataclass(frozen=True)
class KeptQuery:
    """A query as it was submitted, and the version that it has got."""

    query_id: str
    owner: str
    """The recipient with its epoch, and the table with a digest of its place, as one text."""
    digest: str
    version: int
    body: str
    headers: Mapping[str, str]

    @property
    def wishes(self) -> Wishes:
        return read_wishes(self.headers)

    def request(self, most_levels: int) -> QueryRequest:
        return parse_query(self.body.encode(), most_levels)


@dataclass
class QueryStore:
    """Keeps queries, a file for each in a directory for each recipient. `clock` is in epoch milliseconds. All methods
    raise StorageFailed where the directory cannot be used.

    The time of a file is that of the last poll. The file beside it says how and when the query ended, which never
    changes.
    """

    directory: Path
    most_pending: int
    kept_ms: int
    clock: Callable[[], int]
    _swept_ms: int = 0

    def find_by_key(self, access: Access, table: SharedTable, key: str, digest: str) -> KeptQuery | None:
        """Return the query that was submitted with a key. Raises WireError where that was another one."""
        return self._same(self._read(self._place(access.caller, table, key)), digest)

    def find(self, access: Access, table: SharedTable, query_id: str) -> KeptQuery | None:
        """Return a query of this recipient about this table, and note that it was asked about."""
        match = _ID.fullmatch(query_id)
        if match is None:
            return None
        place = self._home(access.caller) / f"{match[1]}.json"
        kept = self._read(place)
        if kept is None or kept.owner != _owner(access.caller, table):
            return None
        if not hmac.compare_digest(kept.query_id, query_id):
            return None
        self._stamp(place)
        return kept

    def submit(self, access: Access, table: SharedTable, key: str, draft: KeptQuery) -> KeptQuery:
        """Keep a query and return it, or the one that was kept with its key before. Raises WireError (429)."""
        place = self._place(access.caller, table, key)
        try:
            os.makedirs(place.parent, 0o700, exist_ok=True)
        except OSError as fault:
            raise StorageFailed(f"queries cannot be kept in {self.directory}: {fault.strerror}") from fault
        with locked(place.parent / "queries"):
            self._sweep_all()
            known = self._same(self._read(place), draft.digest)
            if known is not None:
                return known
            kept = list(self._records(place.parent))
            if sum(not is_ended for _, is_ended in kept) >= self.most_pending:
                raise too_many(f"{self.most_pending} queries are pending", 10 * _RETRY_SECONDS)
            if len(kept) >= self.most_pending * _KEPT_PER_PENDING:
                raise too_many(f"the results of {len(kept)} queries are kept", 60 * _RETRY_SECONDS)
            made = replace(draft, query_id=place.stem + secrets.token_urlsafe(16), owner=_owner(access.caller, table))
            write_private(place, json.dumps(vars(made)).encode())
            self._stamp(place)
            return made

    def end(self, caller: Caller, kept: KeptQuery, failure: str = "") -> None:
        """Note how a query ended: without a failure, it has an answer."""
        place = self._home(caller) / f"{kept.query_id[:43]}.end"
        write_private(place, json.dumps({"failure": failure, "atMs": self.clock()}).encode(), replace=False)

    def is_wanted(self, caller: Caller, kept: KeptQuery) -> bool:
        """Return whether a query is still asked about."""
        with suppress(OSError):
            return not self._is_over(self._home(caller) / f"{kept.query_id[:43]}.json")
        return False

    def failure_of(self, caller: Caller, kept: KeptQuery) -> str | None:
        """Return why a query failed, '' for one that has an answer, None for one that is pending."""
        found = _end_of(self._home(caller) / f"{kept.query_id[:43]}.json")
        return None if found is None else str(found["failure"])

    def _home(self, caller: Caller) -> Path:
        return self.directory / sha256(caller.name.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _place(self, caller: Caller, table: SharedTable, key: str) -> Path:
        name = json.dumps([_owner(caller, table), key]).encode()
        return self._home(caller) / f"{to_text(sha256(name).digest())}.json"

    def _read(self, place: Path) -> KeptQuery | None:
        try:
            if self._is_over(place):
                return None
            return KeptQuery(**json.loads(place.read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError) as fault:
            raise StorageFailed(f"the query {place} cannot be read") from fault

    @staticmethod
    def _same(kept: KeptQuery | None, digest: str) -> KeptQuery | None:
        if kept is not None and kept.digest != digest:
            raise invalid_parameter("idempotencyKey was used for another query of this table; use a new one")
        return kept

    def _stamp(self, place: Path) -> None:
        with suppress(OSError):
            os.utime(place, ns=(self.clock() * 1_000_000,) * 2)

    def _is_over(self, place: Path) -> bool:
        """Return whether a query is kept no longer. Raises OSError."""
        polled_ms = os.stat(place).st_mtime_ns // 1_000_000
        end = _end_of(place)
        since_ms, kept_ms = (polled_ms, ABANDONED_MS) if end is None else (int(end["atMs"]), self.kept_ms)
        return self.clock() - since_ms > kept_ms

    def _records(self, home: Path) -> Iterator[tuple[Path, bool]]:
        """Yield the queries of a recipient, with whether they have ended, and delete those that are over."""
        names = set(os.listdir(home))
        for name in names:
            place = home / name
            if place.suffix != ".json":
                continue
            with suppress(FileNotFoundError):
                if not self._is_over(place):
                    yield place, f"{place.stem}.end" in names
                    continue
                for one in (place, place.with_suffix(".end")):
                    one.unlink(missing_ok=True)

    def _sweep_all(self) -> None:
        """Delete what is over of all recipients, now and then."""
        if 0 <= self.clock() - self._swept_ms < _LEAST_KEPT_MS:
            return
        self._swept_ms = self.clock()
        with suppress(OSError):
            for home in list(os.scandir(self.directory)):
                if home.is_dir(follow_symlinks=False):
                    list(self._records(Path(home.path)))


def _end_of(place: Path) -> dict[str, Any] | None:
    """Return how the query of a file ended, None for one that is pending."""
    try:
        found: dict[str, Any] = json.loads(place.with_suffix(".end").read_bytes())
    except (OSError, ValueError):
        return None
    return found


def _owner(caller: Caller, table: SharedTable) -> str:
    place = sha256(table.location.encode("utf-8", "surrogatepass")).hexdigest()  # a version is one of this place
    return json.dumps([caller.name, caller.epoch, table.full_name, table.table_id, place])


_THREADS = 4


class _Abandoned(Exception):
    """A query has not been asked about for too long."""


@dataclass
class LaterQueries:
    """Answers queries at once or later. Without a store, always at once."""

    tables: TableAnswers
    store: QueryStore | None
    after_ms: int
    _jobs: dict[str, Future[None]] = field(default_factory=dict)
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_THREADS, "share-query"))

    @classmethod
    def of(cls, tables: TableAnswers, settings: AsyncQueries) -> LaterQueries:
        token_ms = tables.settings.page_token_lifetime_seconds * 1_000
        kept_ms = max(_LEAST_KEPT_MS, min(_USUALLY_KEPT_MS, token_ms))
        place, most = settings.directory, settings.pending_per_recipient
        store = None if place is None else QueryStore(place, most, kept_ms, tables.clock)
        return cls(tables, store, settings.after_ms)

    async def submit(
        self, access: Access, table: SharedTable, body: bytes, headers: Mapping[str, str], key: str
    ) -> Answer | Pinned | None:
        """Return where a query stands; or the version to answer now, None for the one that it asks for.

        Raises WireError, and what reading the table raises.
        """
        store, wishes = self.store, read_wishes(headers)
        query = parse_query(body, self.tables.settings.limits.json_depth)
        if store is None or len(body) > _LARGEST_KEPT:
            return None
        digest = digest_parameters(query, wishes)
        try:
            known = await run_in_threadpool(store.find_by_key, access, table, key, digest)
        except StorageFailed as fault:
            _LOG.error("a query is answered at once: %s", fault)
            return None
        if known is not None:
            return await run_in_threadpool(self._standing, access.caller, known)
        version = await run_in_threadpool(self.tables.begin, access, table, query, wishes)
        if self.after_ms and self.tables.snapshots.is_kept(table, version):
            return Pinned(version)
        job = self._threads.submit(self.tables.prepare, table, version, wishes)
        if self.after_ms and await self._is_done(job):
            job.result()
            return Pinned(version)
        kept_headers = {name: headers[name] for name in (wire.HEADER, HASH_HEADER) if name in headers}
        draft = KeptQuery("", "", digest, version, body.decode(), kept_headers)
        try:
            kept = await run_in_threadpool(store.submit, access, table, key, draft)
        except StorageFailed as fault:
            _LOG.error("a query is answered at once: %s", fault)
            await asyncio.wrap_future(job)
            return Pinned(version)
        if kept.version == version and kept.query_id not in self._jobs:
            self._follow(access, table, kept, job)
        return self._status(kept, "pending")

    async def poll(
        self, access: Access, table: SharedTable, query_id: str, page: PagedRequest, headers: Mapping[str, str]
    ) -> Answer:
        """Return where a query stands, or a page of its answer. Raises WireError."""
        store = self.store
        kept = None if store is None else await run_in_threadpool(store.find, access, table, query_id)
        if store is None or kept is None:
            raise missing("query", query_id[:80])
        failure = await run_in_threadpool(store.failure_of, access.caller, kept)
        if failure is None:
            job = self._jobs.get(query_id)
            if job is None:
                job = self._threads.submit(self._run, access.caller, table, kept)
                self._follow(access, table, kept, job)
            if not await self._is_done(job):
                return self._status(kept, "pending")
            failure = await run_in_threadpool(store.failure_of, access.caller, kept)
        if failure is None:
            return self._status(kept, "pending")
        if failure:
            return self._status(kept, "failed", failure)
        return await run_in_threadpool(self._answer, access, table, kept, page, headers)

    async def _is_done(self, job: Future[None]) -> bool:
        """Wait for a job as long as queries are answered at once."""
        if job.done():
            return True
        done, _ = await asyncio.wait({asyncio.wrap_future(job)}, timeout=self.after_ms / 1_000)
        for one in done:
            one.exception()  # seen, so that the loop does not report it
        return bool(done)

    def _follow(self, access: Access, table: SharedTable, kept: KeptQuery, job: Future[None]) -> None:
        self._jobs[kept.query_id] = job
        job.add_done_callback(lambda job: self._end(access.caller, table, kept, job))

    def _run(self, caller: Caller, table: SharedTable, kept: KeptQuery) -> None:
        assert self.store is not None
        if not self.store.is_wanted(caller, kept):
            raise _Abandoned
        self.tables.prepare(table, kept.version, kept.wishes)

    def _end(self, caller: Caller, table: SharedTable, kept: KeptQuery, job: Future[None]) -> None:
        """Note how a job ended, for all workers."""
        assert self.store is not None
        fault, failure = job.exception(), ""
        if isinstance(fault, _Abandoned):
            self._jobs.pop(kept.query_id, None)
            return
        if isinstance(fault, DeltacliError):
            _LOG.warning("%s: %s: %s", table.full_name, fault.code, fault.message)
            fault = of_fault(fault, table.full_name)
        if isinstance(fault, WireError):
            failure = fault.message
        elif fault is not None:
            _LOG.error("a query failed", exc_info=fault)
            failure = "the server failed; its log has the reason"
        try:
            self.store.end(caller, kept, failure)
        except StorageFailed as unwritten:
            _LOG.error("the end of a query was not noted, so it remains pending: %s", unwritten)
        finally:
            self._jobs.pop(kept.query_id, None)

    def _standing(self, caller: Caller, kept: KeptQuery) -> Answer:
        assert self.store is not None
        failure = self.store.failure_of(caller, kept)
        return self._status(kept, "failed", failure) if failure else self._status(kept, "pending")

    @staticmethod
    def _status(kept: KeptQuery, status: str, failure: str = "") -> Answer:
        wishes = kept.wishes
        form = wishes.capabilities.formats[0]
        header = wire.answer_header(form, end_stream_action=wishes.capabilities.end_stream_action, is_later=True)
        headers = headers_of(kept.version, form, wishes) | {wire.HEADER: header}
        headers |= {"Retry-After": str(_RETRY_SECONDS)} if status == "pending" else {}
        about = {"queryId": kept.query_id, "status": status} | ({"errorMessage": failure} if failure else {})
        return Answer(headers, [json_line({"queryStatus": about})], {"version": kept.version, "asyncQuery": status})

    def _answer(
        self, access: Access, table: SharedTable, kept: KeptQuery, page: PagedRequest, headers: Mapping[str, str]
    ) -> Answer:
        query = kept.request(self.tables.settings.limits.json_depth)
        if not query.choice.is_newest:
            self.tables.begin(access, table, query, kept.wishes)  # its history may be shared no longer
        query = replace(query, max_files=page.max_files or query.max_files, page_token=page.page_token)
        given = headers.get(wire.HEADER, "")
        answer = self.tables.query(access, table, query, kept.wishes, Pinned(kept.version, kept.query_id))
        if "responseformat" in given.lower():
            chosen = answer.headers[wire.HEADER].partition(";")[0].partition("=")[2]
            if chosen not in wire.parse_capabilities(given).formats:
                raise invalid_parameter(f"the query was submitted for responseformat={chosen}, which its answer has")
        return answer
