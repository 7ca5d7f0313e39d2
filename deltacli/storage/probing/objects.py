"""Probe an object store with single HTTP requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from deltacli.core.errors import StorageFailed, UsageError
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.calls import ABSENT, ListedObject
from deltacli.storage.objects.http_calls import repeat_call
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.outcomes import Deletion
from deltacli.storage.probing.interface import Identity, Permission, ProbeAnswer, Reply, StoreCaller
from deltacli.storage.retry import CREATE_FIRST_WAIT

Result = TypeVar("Result")

# Names per page of a listing. The probes create more files than that, to test several pages.
_PAGE_SIZE = 3

_TOO_MANY_REQUESTS = 429
_RANGE_NOT_SATISFIABLE = 416
_REPLIES = {401: Reply.DENIED, 403: Reply.DENIED, 404: Reply.ABSENT, 412: Reply.REFUSED, 501: Reply.UNSUPPORTED}


class ProbedObjects:
    """The objects below a prefix of a bucket or container. Implements `ProbedStore`."""

    def __init__(self, storage: ObjectStorage, caller: StoreCaller) -> None:
        """Probe a store.

        Args:
            storage: The store. Deletions use its methods, all other requests go to the bucket directly.
            caller: The identity that sends the requests.
        """
        self._storage = storage
        self._caller = caller
        self._calls = caller.calls
        self._retry = storage.retry
        self._prefix = f"{storage.root}/" if storage.root else ""

    @property
    def kind(self) -> str:
        return self._caller.kind

    @property
    def endpoint(self) -> str:
        return self._calls.endpoint

    @property
    def permission_names(self) -> dict[str, str]:
        return self._caller.permission_names

    def identity(self) -> Identity:
        return self._caller.identity()

    def permissions(self) -> dict[str, Permission]:
        return self._caller.permissions()

    def create(self, name: str, data: bytes) -> ProbeAnswer:
        return self._write(name, data, ABSENT)

    def replace(self, name: str, data: bytes, tag: str | None) -> ProbeAnswer:
        return self._write(name, data, tag)

    def read_tag(self, name: str) -> str:
        _, tag = self._read_properties(name)
        return tag

    def read_modified_ms(self, name: str) -> int:
        properties, _ = self._read_properties(name)
        return properties.modified_ms

    def read(self, name: str, first: int | None = None, last: int | None = None, tag: str = "") -> ProbeAnswer:
        byte_range = "" if first is None else f"bytes={first}-{last}"
        try:
            content = self._repeat(partial(self._calls.get, self._key(name), byte_range, tag))
        except HttpError as error:
            # The range begins after the end of the object: it contains no bytes.
            if error.status == _RANGE_NOT_SATISFIABLE:
                return ProbeAnswer(Reply.DONE)
            return self._classify_error(error, name)
        return ProbeAnswer(Reply.DONE, "", content.data, content.offset)

    def list_names(self, prefix: str, start: str = "") -> list[str]:
        key_prefix = self._key(prefix)
        start_key = self._key(start) if start else ""
        names = list[str]()
        token = ""
        while True:
            request_page = partial(self._calls.page, key_prefix, "", token, start_key, _PAGE_SIZE)
            page = self._request(request_page, prefix)
            names += [entry.key.removeprefix(self._prefix) for entry in page.entries]
            if not page.token or page.token == token:
                # Not every store supports a start key.
                return [name for name in names if name >= start]
            token = page.token

    def delete(self, names: Sequence[str]) -> list[tuple[str, Deletion]]:
        return list(self._storage.delete_many(names))

    def has_refused_bulk_deletion(self, name: str) -> bool:
        return not self._calls.can_delete_in_bulk(self._key(name))

    def _write(self, name: str, data: bytes, condition: str | None) -> ProbeAnswer:
        """Write an object with a single request.

        The request is only sent again if the store was too busy (429) and has certainly not executed
        it. After any other error, a second request could be answered differently because of the first.
        """
        answer = ProbeAnswer(Reply.UNKNOWN)
        for this_round in self._retry.rounds(CREATE_FIRST_WAIT):
            try:
                self._calls.write(self._key(name), Body(data), condition)
                return ProbeAnswer(Reply.DONE)
            except HttpError as error:
                this_round.retry_after_seconds = error.wait_seconds
                answer = self._classify_error(error, name, self._calls.dialect.exists_codes)
                if error.status != _TOO_MANY_REQUESTS:
                    break
        return answer

    def _classify_error(self, error: HttpError, name: str, exists_codes: frozenset[str] = frozenset()) -> ProbeAnswer:
        """Return the answer that an HTTP error stands for.

        Args:
            error: The error of the request.
            name: The file.
            exists_codes: Error codes of the store for a file that exists, such as `BlobAlreadyExists`.

        Raises:
            StorageFailed: If the request was not sent.
        """
        if error.outcome is RequestOutcome.UNSENT:
            raise self._translate_error(error, name)

        message = str(error)
        if error.outcome is not RequestOutcome.ANSWERED:
            return ProbeAnswer(Reply.UNKNOWN, message)
        if error.reason in exists_codes:
            return ProbeAnswer(Reply.REFUSED, message)
        if error.status in _REPLIES:
            return ProbeAnswer(_REPLIES[error.status], message)
        is_doubtful = error.status >= 500 or error.status in (408, 409)
        return ProbeAnswer(Reply.UNKNOWN if is_doubtful else Reply.FAILED, message)

    def _read_properties(self, name: str) -> tuple[ListedObject, str]:
        """Return the properties and the tag of an object."""
        return self._request(partial(self._calls.head, self._key(name)), name)

    def _request(self, call: Callable[[], Result], name: str) -> Result:
        """Send a request with retries.

        Raises:
            StorageFailed: If it fails.
        """
        try:
            return self._repeat(call)
        except HttpError as error:
            raise self._translate_error(error, name) from error

    def _repeat(self, call: Callable[[], Result]) -> Result:
        """Send a request with retries. Raises HttpError."""
        return repeat_call(self._retry, call, host=self.endpoint)

    def _translate_error(self, error: HttpError, name: str) -> StorageFailed | UsageError:
        return self._calls.translate_error(error, f"{self._storage.uri}/{name}", "probed")

    def _key(self, name: str) -> str:
        return f"{self._prefix}{name}"
