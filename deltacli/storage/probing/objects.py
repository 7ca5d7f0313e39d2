"""Probing a store of objects, and Google and Azure as subjects; S3 has a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from deltacli.core.errors import StorageFailed, UsageError
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.calls import ABSENT
from deltacli.storage.objects.http_calls import repeat_call
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.outcomes import Deletion
from deltacli.storage.probing.subject import (
    Identity,
    Permit,
    ProbeAnswer,
    ProbedCalls,
    Reply,
)
from deltacli.storage.retry import CREATE_FIRST_WAIT

_PAGE = 3
"""Names per page of a listing of scratch files, so that several pages are listed."""
Answer = TypeVar("Answer")


class ObjectSubject:
    """Objects below a prefix of a bucket or container."""

    def __init__(self, storage: ObjectStorage, calls: ProbedCalls) -> None:
        self._storage = storage
        self._root = storage.root
        self._calls = calls
        self._retry = storage.retry

    @property
    def kind(self) -> str:
        return self._calls.kind

    @property
    def endpoint(self) -> str:
        return self._calls.calls.endpoint

    @property
    def names_of_permissions(self) -> dict[str, str]:
        return self._calls.names_of_permissions

    def identity(self) -> Identity:
        return self._calls.identity()

    def permits(self) -> dict[str, Permit]:
        return self._calls.permits()

    def create(self, name: str, data: bytes) -> ProbeAnswer:
        return self._write(name, data, ABSENT)

    def replace(self, name: str, data: bytes, tag: str | None) -> ProbeAnswer:
        return self._write(name, data, tag)

    def tag(self, name: str) -> str:
        return self._ask(lambda: self._calls.calls.head(self._key(name)), name)[1]

    def read(self, name: str, first: int | None = None, last: int | None = None, tag: str = "") -> ProbeAnswer:
        span = "" if first is None else f"bytes={first}-{last}"
        try:
            content = self._again(lambda: self._calls.calls.get(self._key(name), span, tag))
        except HttpError as error:
            if error.status == 416:
                return ProbeAnswer(Reply.DONE)
            return self._said(error, name)
        return ProbeAnswer(Reply.DONE, "", content.data, content.offset)

    def modified_ms(self, name: str) -> int:
        return self._ask(lambda: self._calls.calls.head(self._key(name)), name)[0].modified_ms

    def names(self, prefix: str, start: str = "") -> list[str]:
        names = list[str]()
        token = ""
        whole = self._key(prefix)
        first = self._key(start) if start else ""
        while True:
            page = self._ask(lambda token=token: self._calls.calls.page(whole, "", token, first, _PAGE), prefix)  # type: ignore[misc]  # a lambda with a default
            names += [entry.key.removeprefix(f"{self._root}/" if self._root else "") for entry in page.entries]
            if not page.token or page.token == token:
                return [name for name in names if name >= start]
            token = page.token

    def delete(self, names: Sequence[str]) -> list[tuple[str, Deletion]]:
        return list(self._storage.delete_many(names))

    def deletes_alone(self, name: str) -> bool:
        return not self._calls.calls.can_delete_in_bulk(self._key(name))

    def _write(self, name: str, data: bytes, condition: str | None) -> ProbeAnswer:
        """Send one request; repeat it only after an answer that nothing was done."""
        answer = ProbeAnswer(Reply.UNKNOWN)
        for this_round in self._retry.rounds(CREATE_FIRST_WAIT):
            try:
                self._calls.calls.write(self._key(name), Body(data), condition)
                return ProbeAnswer(Reply.DONE)
            except HttpError as error:
                this_round.retry_after_seconds = error.wait_seconds
                answer = self._said(error, name, self._calls.calls.dialect.exists_codes)
                if error.status != 429:
                    break
        return answer

    def _said(self, error: HttpError, name: str, exists: frozenset[str] = frozenset()) -> ProbeAnswer:
        """Return the answer of an error. Raises StorageFailed where no request was sent."""
        if error.outcome is RequestOutcome.UNSENT:
            raise self._translate_error(error, name)
        if error.outcome is not RequestOutcome.ANSWERED:
            return ProbeAnswer(Reply.UNKNOWN, str(error))
        if error.status == 412 or error.reason in exists:
            return ProbeAnswer(Reply.REFUSED, str(error))
        known = {404: Reply.ABSENT, 401: Reply.DENIED, 403: Reply.DENIED, 501: Reply.UNSUPPORTED}
        doubtful = error.status >= 500 or error.status in (408, 409)
        return ProbeAnswer(known.get(error.status, Reply.UNKNOWN if doubtful else Reply.FAILED), str(error))

    def _again(self, call: Callable[[], Answer]) -> Answer:
        return repeat_call(self._retry, call, host=self.endpoint)

    def _ask(self, call: Callable[[], Answer], name: str) -> Answer:
        try:
            return self._again(call)
        except HttpError as error:
            raise self._translate_error(error, name) from error

    def _translate_error(self, error: HttpError, name: str) -> StorageFailed | UsageError:
        return self._calls.calls.translate_error(error, f"{self._storage.uri}/{name}", "probed")

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}" if self._root else name
