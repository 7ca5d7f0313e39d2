"""Probing a store of objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from deltacli.core.errors import StorageFailed, UsageError
from deltacli.storage.objects.calls import ABSENT
from deltacli.storage.objects.contents import Body
from deltacli.storage.objects.faults import passing
from deltacli.storage.objects.http import Fate, HttpFault
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.outcomes import Deletion
from deltacli.storage.probing.subject import Identity, Permit, ProbedCalls, Reply, Said
from deltacli.storage.retry import CREATE_FIRST_WAIT

_PAGE = 3
"""Names per page of a listing of scratch files, so that several pages are listed."""

Answer = TypeVar("Answer")


class ObjectSubject:
    """Objects below a prefix of a bucket or container."""

    def __init__(self, storage: ObjectStorage, calls: ProbedCalls) -> None:
        self._storage, self._root, self._calls, self._retry = storage, storage.root, calls, storage.retry

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

    def create(self, name: str, data: bytes) -> Said:
        return self._write(name, data, ABSENT)

    def replace(self, name: str, data: bytes, tag: str | None) -> Said:
        return self._write(name, data, tag)

    def tag(self, name: str) -> str:
        return self._ask(lambda: self._calls.calls.look(self._key(name)), name)[1]

    def read(self, name: str, first: int | None = None, last: int | None = None, tag: str = "") -> Said:
        span = "" if first is None else f"bytes={first}-{last}"
        try:
            found = self._again(lambda: self._calls.calls.get(self._key(name), span, tag))
        except HttpFault as fault:
            if fault.status == 416:
                return Said(Reply.DONE)
            return self._said(fault, name)
        return Said(Reply.DONE, "", found.data, found.offset)

    def modified_ms(self, name: str) -> int:
        return self._ask(lambda: self._calls.calls.look(self._key(name)), name)[0].modified_ms

    def names(self, prefix: str, start: str = "") -> list[str]:
        found, token, whole = list[str](), "", self._key(prefix)
        first = self._key(start) if start else ""
        while True:
            page = self._ask(lambda token=token: self._calls.calls.page(whole, "", token, first, _PAGE), prefix)  # type: ignore[misc]  # a lambda with a default
            found += [entry.key.removeprefix(f"{self._root}/" if self._root else "") for entry in page.entries]
            if not page.token or page.token == token:
                return [name for name in found if name >= start]
            token = page.token

    def delete(self, names: Sequence[str]) -> list[tuple[str, Deletion]]:
        return list(self._storage.delete_many(names))

    def deletes_alone(self, name: str) -> bool:
        return not self._calls.calls.can_delete_together(self._key(name))

    def _write(self, name: str, data: bytes, condition: str | None) -> Said:
        """Send one request; repeat it only after an answer that nothing was done."""
        said = Said(Reply.UNKNOWN)
        for _ in self._retry.rounds(CREATE_FIRST_WAIT):
            try:
                self._calls.calls.write(self._key(name), Body(data), condition)
                return Said(Reply.DONE)
            except HttpFault as fault:
                said = self._said(fault, name, self._calls.calls.dialect.exists)
                if fault.status != 429:
                    break
        return said

    def _said(self, fault: HttpFault, name: str, exists: frozenset[str] = frozenset()) -> Said:
        """Return the answer of a fault. Raises StorageFailed where no request was sent."""
        if fault.fate is Fate.UNSENT:
            raise self._translated(fault, name)
        if fault.fate is not Fate.ANSWERED:
            return Said(Reply.UNKNOWN, str(fault))
        if fault.status == 412 or fault.reason in exists:
            return Said(Reply.REFUSED, str(fault))
        known = {404: Reply.ABSENT, 401: Reply.DENIED, 403: Reply.DENIED, 501: Reply.UNSUPPORTED}
        doubtful = fault.status >= 500 or fault.status in (408, 409)
        return Said(known.get(fault.status, Reply.UNKNOWN if doubtful else Reply.FAILED), str(fault))

    def _again(self, call: Callable[[], Answer]) -> Answer:
        return self._retry.call(call, host=self.endpoint, faults=(HttpFault,), passing=passing)

    def _ask(self, call: Callable[[], Answer], name: str) -> Answer:
        try:
            return self._again(call)
        except HttpFault as fault:
            raise self._translated(fault, name) from fault

    def _translated(self, fault: HttpFault, name: str) -> StorageFailed | UsageError:
        return self._calls.calls.translated(fault, f"{self._storage.uri}/{name}", "probed")

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}" if self._root else name
