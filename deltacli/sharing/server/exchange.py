"""One request and its answer: who asked for what, what the application needs for it, and what is logged.

The application adds what it finds out. The audit log has a JSON object per line for each request that is served,
written before its first byte.

Several processes append to one file. Each line is written under a lock on the file, so that a full disk leaves no part
of a line, and no line is written to a file that another process is rotating away.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, Protocol

from deltacli.core.times import format_timestamp
from deltacli.core.typing import Json, JsonObject
from deltacli.sharing.configuration.secrets import MODE
from deltacli.sharing.configuration.settings import Audit
from deltacli.sharing.model import Catalog, SharedTable
from deltacli.sharing.protocol.parameters import invalid_parameter
from deltacli.sharing.signing.choose import SignedUrls
from deltacli.sharing.signing.keys import Bound, Seal, TokenRefused
from deltacli.storage.os_errors import translate_write_errors
from deltacli.storage.secrets import mask_secrets

# -- what the application needs from others ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Caller:
    """A recipient at the time of a request. `epoch` is the recipient's, for page tokens. `expires_ms` is the end of the
    token that was used, in epoch milliseconds; None if it has none. `token_id` names the token in the audit log, and
    `token_epoch` in URLs of files.
    """

    name: str
    epoch: int = 0
    expires_ms: int | None = None
    token_id: str | None = None
    token_epoch: int = 0


@dataclass(frozen=True)
class Access:
    """What a caller sees."""

    caller: Caller
    catalog: Catalog


@dataclass(frozen=True)
class TokenSeal:
    """Makes tokens that nobody can change or make, and opens them. `clock` is in epoch milliseconds."""

    inner: Seal
    clock: Callable[[], int]

    def seal(self, kind: str, payload: Mapping[str, Any], *, bound: Bound, expires_ms: int) -> str:
        """Return a token of letters, digits, `-` and `_`."""
        return self.inner.seal(kind, payload, bound=bound, expires_ms=expires_ms, now_ms=self.clock())

    def open(self, kind: str, token: str, *, bound: Bound) -> Mapping[str, Any]:
        """Return the payload of a token. Raises WireError for another `kind` or `bound`, and for one that expired."""
        try:
            return self.inner.open(kind, token, bound=bound, now_ms=self.clock())
        except TokenRefused as refused:
            if refused.reason == "expired":
                raise invalid_parameter("the token has expired; begin again without it") from None
            raise invalid_parameter("the token is invalid, or belongs to another request") from None


class TableUrlSigner(Protocol):
    """Makes URLs of the files of one table for one recipient. `waits`: every URL takes a request to another machine."""

    @property
    def waits(self) -> bool: ...

    @property
    def identity(self) -> Hashable:
        """Equal for signers that make the same URLs, now."""

    def sign(self, paths: Sequence[str], expires_ms: int) -> SignedUrls:
        """Return a URL for each path, relative to the table and decoded. They expire at `expires_ms` or before."""


OpenSigner = Callable[[SharedTable, Caller], TableUrlSigner]
"""Returns the signer of a table for a recipient. Raises WireError where the store of the table cannot be signed for."""


# -- the log of the server, on stderr ----------------------------------------------------------------------------------

NAME = "deltacli.share"
"""The logger of everything in the server."""


class _Lines(logging.Formatter):
    """Formats events as text, with a traceback below where there is one, or as one JSON object. Where several processes
    answer, each event has the id of its process.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        level, message = record.levelname.lower(), record.getMessage()
        worker = record.process if parent_process() is not None else None
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        if not self._as_json:
            source = "" if worker is None else f"worker {worker}: "
            return f"{moment} {level} {source}{message}" + (f"\n{trace}" if trace else "")
        fields = {"type": "log", "time": moment, "level": level, "worker": worker, "message": message}
        fields["traceback"] = trace
        return json.dumps({name: value for name, value in fields.items() if value})


def log_to_stderr(*, as_json: bool = False, level: int = logging.INFO) -> None:
    """Write the events of the server from `level` on, and warnings of libraries, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(as_json=as_json))
    handler.addFilter(Scrubbing())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(NAME).setLevel(level)


_BLANK = "…"
_TOKEN = re.compile(r"dct_[0-9A-Za-z]{4,}")
_BEARER = re.compile(r"(bearer\s+)[^\s\"',;]+", re.IGNORECASE)
_PARAMETER = re.compile(
    r"((?:sig|signature|pageToken|nextPageToken|refreshToken|token|x-amz-[a-z-]+|x-goog-[a-z-]+|se|sp)"
    r"(?:=|\"?\s*:\s*\"))[^&\s\"']+",
    re.IGNORECASE,
)


def scrubbed(text: str) -> str:
    """Return a text without bearer tokens, signatures, page tokens, credentials of stores, and control characters."""
    text = mask_secrets(text)
    text = _PARAMETER.sub(rf"\1{_BLANK}", _BEARER.sub(rf"\1{_BLANK}", _TOKEN.sub(f"dct_{_BLANK}", text)))
    return "".join(character if character.isprintable() or character in "\n\t" else "?" for character in text)


class Scrubbing(logging.Filter):
    """Removes secrets from the records of a handler, tracebacks included."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # a faulty call of a library
            message = str(record.msg)
        record.msg, record.args = scrubbed(message), ()
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = scrubbed("".join(traceback.format_exception(*record.exc_info)).rstrip())
            record.exc_info = None
        return True


# -- one request and its answer ----------------------------------------------------------------------------------------

Scope = MutableMapping[str, Any]  # Any: ASGI
Message = MutableMapping[str, Any]  # Any: ASGI
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_KEY = "deltacli.exchange"


@dataclass
class Exchange:
    """One request. `route` is the name of the endpoint, not its URL; `details` go to the audit log (share, schema,
    table, version, files, filesTotal, hints). Both are set before the answer starts.
    """

    scope: Scope
    request_id: str
    begun_at: float
    route: str = "other"
    caller: Caller | None = None
    details: dict[str, Json] = field(default_factory=dict)
    on_end: list[Callable[[], None]] = field(default_factory=list)
    status: int | None = None
    sent_bytes: int = 0
    is_stream: bool = False
    """The size of the answer was unknown when it began."""

    first_byte_at: float | None = None
    is_complete: bool = False
    is_replaced: bool = False
    is_cut: bool = False
    """The answer took too long, or the client did not read it."""

    time_limit: asyncio.Timeout | None = None

    def __post_init__(self) -> None:
        self.scope[_KEY] = self

    @property
    def name(self) -> str:
        """Return who asked for what, for the log."""
        return f"{self.route} of {self.caller.name if self.caller else 'a stranger'} ({self.request_id})"

    def limit_time(self, seconds: float) -> None:
        """Cut the answer unless it is complete in so many seconds."""
        if self.time_limit is not None:
            self.time_limit.reschedule(asyncio.get_running_loop().time() + seconds)

    def note_sent(self, message: Message) -> None:
        """Count a part of the answer that was sent."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.sent_bytes += len(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)

    def end(self) -> None:
        """Release what the request held."""
        while self.on_end:
            self.on_end.pop()()

    def first_entry(self, status: int, now_ms: int, headers: Iterable[tuple[bytes, bytes]]) -> dict[str, Any]:
        """Return the line of the audit log that is written before the first byte. It has no query string: page tokens
        and signatures are secrets.
        """
        client = self.scope.get("client")
        length = next((value for name, value in headers if name.lower() == b"content-length"), None)
        self.is_stream = length is None
        known = {
            "recipient": self.caller.name if self.caller else None,
            "token": self.caller.token_id if self.caller else None,
            "client": client[0] if client else None,
            "bytes": int(length) if length is not None and length.isdigit() else None,
        }
        return {
            **self._head("request", now_ms),
            "method": self.scope["method"],
            "route": self.route,
            "status": status,
            **{name: value for name, value in known.items() if value is not None},
            **self.details,
        }

    def _head(self, event: str, now_ms: int) -> dict[str, Any]:
        time = format_timestamp(now_ms)
        return {"event": event, "timeMs": now_ms, "time": time, "request": self.request_id}

    def last_entry(self, now_ms: int, now_seconds: float) -> dict[str, Json]:
        """Return the line of the audit log about the end of a stream."""
        return {
            **self._head("end", now_ms),
            "bytes": self.sent_bytes,
            "milliseconds": round((now_seconds - self.begun_at) * 1_000),
            "complete": self.is_complete,
        }


def note_route(scope: Scope, route: str | None, **details: Any) -> None:
    """Add what the application finds out to the exchange of a request, if any, for the audit log and the metrics."""
    exchange = exchange_of(scope)
    if exchange is not None:
        exchange.route = route or exchange.route
        exchange.details |= details


def exchange_of(scope: Scope) -> Exchange | None:
    """Return the exchange of a request; None where the guard does not wrap the application."""
    found = scope.get(_KEY)
    return found if isinstance(found, Exchange) else None


Entry = JsonObject


class AuditTrail(Protocol):
    """Where requests are recorded."""

    def write(self, entry: Entry) -> None:
        """Record an entry durably enough to survive the process. Raises StorageFailed."""


class NoAudit:
    """Records nothing: no audit log is configured."""

    def write(self, entry: Entry) -> None:
        """Do nothing."""


class AuditFile:
    """An audit log in a file that is rotated at a size: `audit.log.1` is the newest old one."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._descriptor = -1
        self._lock = threading.Lock()

    def open(self) -> None:
        """Open or create the file, to find faults before the first request. Raises StorageFailed."""
        with self._lock, self._faults():
            self._reopen()

    def close(self) -> None:
        with self._lock:
            self._close()

    def write(self, entry: Entry) -> None:
        """Append an entry, completely or not at all. Raises StorageFailed."""
        line = json.dumps(entry, separators=(",", ":")).encode("ascii") + b"\n"  # some readers split at U+2028
        with self._lock, self._faults(), self._exclusive() as descriptor:
            if os.fstat(descriptor).st_size + len(line) > self._audit.rotate_bytes and os.fstat(descriptor).st_size:
                self._rotate()
                descriptor = self._descriptor
            _append(descriptor, line)

    @contextmanager
    def _exclusive(self) -> Iterator[int]:
        """Hold the lock of the file that has the name at the moment."""
        while True:
            if self._descriptor < 0:
                self._reopen()
            locked = self._descriptor
            fcntl.flock(locked, fcntl.LOCK_EX)
            if _has_name(locked, self._audit.file):
                break
            self._close()  # rotated by another process, or moved: releases the lock
        try:
            yield locked
        finally:
            if self._descriptor >= 0:  # else a rotation failed
                with suppress(OSError):
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _rotate(self) -> None:
        """Rename the file and its older ones, drop the oldest, and begin an empty one, whose lock is then held."""
        name = os.fspath(self._audit.file)
        for number in range(self._audit.keep - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{name}.{number}", f"{name}.{number + 1}")
        os.replace(name, f"{name}.1")
        old, self._descriptor = self._descriptor, -1
        try:
            self._reopen()
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        finally:
            os.close(old)  # only now others may continue, with the file that has the name

    def _reopen(self) -> None:
        self._close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._audit.file, flags, MODE)

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        place = os.path.abspath(self._audit.file)
        with translate_write_errors(place, f"the audit log {place}"):
            yield


def open_audit(audit: Audit | None, *, must_open: bool = True) -> AuditTrail:
    """Return the audit log of a configuration. Raises StorageFailed where it cannot be opened; without `must_open`, the
    requests that cannot be recorded are refused instead.
    """
    if audit is None:
        return NoAudit()
    file = AuditFile(audit)
    if must_open:
        file.open()
    return file


def _append(descriptor: int, line: bytes) -> None:
    """Write a line; on a fault, remove the part that was written. Raises OSError."""
    before = os.fstat(descriptor).st_size
    rest = memoryview(line)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, before)
        raise


def _has_name(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
