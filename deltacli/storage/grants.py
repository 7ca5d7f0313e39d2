"""Grants: credentials that a server gave for one directory, and for a time; their locations and their renewal.

A held grant belongs to this process and cannot be pickled. What executors get is a `Grant`, in the payload of a task.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import NamedTuple, NoReturn
from urllib.parse import unquote_to_bytes

from deltacli.core.errors import DeltacliError, StorageFailed
from deltacli.storage.secrets import remember_secrets


class Grant(NamedTuple):
    """Credentials for a directory and what is below it.

    `location`: the URI that they cover, without a trailing slash. `options`: the credentials by the names of storage
    options (`key`, `secret`, `token` of S3; `sas_token` of Azure; `access_token` of Google), empty for local files.
    `expires_ms`: epoch milliseconds, None where they do not end.
    """

    location: str
    options: Mapping[str, str]
    expires_ms: int | None = None

    def __repr__(self) -> str:
        return f"Grant({self.location!r})"


Renew = Callable[[bool], Grant]
"""Asks for a new grant; True where the store refused one that has not ended, so that no remembered one will do."""

# -- locations ---------------------------------------------------------------------------------------------------------

_URI = r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(/.*)?"
FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfss", "abfs", "wasbs", "wasb"), "abfss"),
    "file": "file",
}
_CLOUDS = r"core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de)"
_AUTHORITIES: Mapping[str, str] = {
    "s3": r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}",  # old buckets have capitals, which are other letters to S3
    "gs": r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]",
    "abfss": rf"(\$?[a-z0-9][a-z0-9-]{{1,62}})@([a-z0-9-]{{1,63}})\.(?:blob|dfs)\.({_CLOUDS})",
    "file": "(?:localhost)?",
}
_CONTROL = r"[\x00-\x1f\x7f\\]"
LONGEST_LOCATION = 4096
"""Characters of a location; keys of stores have at most 1,024 bytes."""


class Location(NamedTuple):
    """A directory of a store. `family`: `s3`, `gs`, `abfss` or `file`; `segments` are decoded."""

    family: str
    authority: str
    segments: tuple[str, ...]

    @property
    def uri(self) -> str:
        """The URI that a store is opened at: one spelling per directory, not encoded."""
        return "/".join((f"{self.family}://{self.authority}", *self.segments))

    def spelled(self, scheme: str) -> Iterator[str]:
        """Yield the URI, not encoded, with another scheme of its family; of Azure with each kind of host."""
        host = self.authority
        kinds = (host, host.replace(".dfs.", ".blob.")) if self.family == "abfss" else (host,)
        for authority in kinds:
            yield "/".join((f"{scheme}://{authority}", *self.segments))

    def covers(self, other: Location) -> bool:
        """Return True where another directory is this one or below it, by whole segments."""
        return self[:2] == other[:2] and self.segments == other.segments[: len(self.segments)]


def read_location(uri: str) -> Location:
    """Return a URI as values, decoded once. Raises ValueError, which says what is wrong without the URI.

    Spec: PROTOCOL.md of Delta Sharing, location; RFC 3986.
    """
    if len(uri) > LONGEST_LOCATION:
        raise ValueError(f"more than {LONGEST_LOCATION:,} characters")
    match = re.fullmatch(_URI, uri, re.DOTALL)
    family = FAMILIES.get(match[1].lower()) if match else None
    if match is None or family is None:
        scheme = uri.partition("://")[0][:20] if "://" in uri else ""
        raise ValueError(f"{scheme!r} is not the scheme of a cloud store" if scheme else "not an absolute URI")
    if re.search("[?#]", uri):
        raise ValueError("it has a query or a fragment")
    authority = re.fullmatch(_AUTHORITIES[family], match[2] if family == "s3" else match[2].lower())
    if authority is None:
        raise ValueError("it does not name a bucket, or a container and an account of Azure")
    name = authority[0] if family != "abfss" else f"{authority[1]}@{authority[2]}.dfs.{authority[3]}"
    try:
        path = unquote_to_bytes((match[3] or "").removesuffix("/").encode()).decode()
    except UnicodeError:
        raise ValueError("its path is not UTF-8") from None
    segments = tuple(path.split("/")[1:])
    if re.search(_CONTROL, path):
        raise ValueError("it has a backslash or a control character")
    if set(segments) & {"", ".", ".."} or re.search("%2f", match[3] or "", re.IGNORECASE):
        raise ValueError("a segment of its path is empty, '.', '..' or has an encoded slash")
    return Location(family, "" if family == "file" else name, segments)


# -- grants that are renewed -------------------------------------------------------------------------------------------

ASK_PROVIDER = "ask the provider of the table"
SOURCE = "given by the server of the table"
_SPARE_SECONDS, _SPARE_SHARE = 60.0, 0.1
_FLOOR_SECONDS, _LOWEST_FLOOR_SECONDS = 30.0, 5.0
_NEEDED: Mapping[str, tuple[str, ...]] = {"s3": ("key", "secret"), "gs": ("access_token",), "abfss": ("sas_token",)}
_KNOWN: Mapping[str, frozenset[str]] = {
    family: frozenset({*needed, "token"} if family == "s3" else needed) for family, needed in _NEEDED.items()
}


class HeldGrant:
    """The grant of one location, from which each request takes its credentials. Thread-safe.

    A grant is renewed before it ends, by one thread while the others wait. `clock`: epoch seconds. `ask_to_write` lets
    `renew` ask for credentials to write from then on; None: it does already, or never may.
    """

    def __init__(
        self,
        location: Location,
        renew: Renew,
        clock: Callable[[], float] = time.time,
        ask_to_write: Callable[[], None] | None = None,
    ) -> None:
        self._location, self._renew, self._clock, self._ask_to_write = location, renew, clock, ask_to_write
        self._lock = Lock()
        self._taken = self._life = 0.0
        self._grant = Grant("", {})
        self._refused_at: float | None = None
        """When other credentials were last asked for because the store had refused those before."""
        self._failure: tuple[DeltacliError | None, float] = None, 0.0
        """The last renewal that failed, and when."""
        self._take(is_forced=False)

    def __repr__(self) -> str:
        return f"HeldGrant({self._location.uri!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("vended credentials stay in this process")

    def options(self) -> Mapping[str, str]:
        """Return the credentials now. Raises StorageFailed where they have ended and no others are given."""
        if self._is_due():
            with self._lock:
                if self._is_due():
                    if self._is_too_soon():
                        raise self._fault("the credentials end too soon to be used", "storage.grant-ended")
                    self._take(is_forced=False)
        return self._grant.options

    def replace_refused(self, refused: Mapping[str, str]) -> bool:
        """Return True where other credentials are there by now, and ask for them if not.

        A store may refuse credentials right after they were given: they were revoked, or the server gave the rest of an
        older grant. So the first refusal leads to a request at any age of the credentials. Until the floor has passed
        since such a request, later refusals lead to none, because new credentials do not help then.
        """
        with self._lock:
            if self._grant.options == refused and not self._was_refused_lately():
                self._refused_at = self._clock()
                self._take(is_forced=True)
            return self._grant.options != refused

    def lasting(self) -> Grant:
        """Return the grant for another process, renewed after half of its life. Raises what `renew` raises."""
        with self._lock:
            if self._left() < self._life / 2:
                self._take(is_forced=True)
            return self._grant

    def begin_to_write(self) -> None:
        """Ask for credentials that suffice to write, once, where those so far are to read."""
        with self._lock:
            if self._ask_to_write is not None:
                self._ask_to_write()
                self._take(is_forced=True)
                self._ask_to_write = None

    def _is_due(self) -> bool:
        """Return whether less is left than min(max(60 s, 10 %), half its life)."""
        return self._left() < min(max(_SPARE_SECONDS, _SPARE_SHARE * self._life), self._life / 2)

    def _left(self) -> float:
        return math.inf if self._grant.expires_ms is None else self._grant.expires_ms / 1000 - self._clock()

    def _is_too_soon(self) -> bool:
        return 0 <= self._clock() - self._taken < self._floor_seconds()

    def _was_refused_lately(self) -> bool:
        if self._refused_at is None:
            return False
        return 0 <= self._clock() - self._refused_at < self._floor_seconds()

    def _floor_seconds(self) -> float:
        """Return how long no other credentials are asked for after the last ones."""
        if self._grant.expires_ms is None:
            return _FLOOR_SECONDS
        return max(min(_FLOOR_SECONDS, self._life / 2), _LOWEST_FLOOR_SECONDS)

    def _take(self, *, is_forced: bool) -> None:
        fault, failed = self._failure
        if fault is not None and 0 <= self._clock() - failed < _LOWEST_FLOOR_SECONDS:
            raise fault  # threads that waited for the same renewal
        try:
            grant = self._renew(is_forced)
        except DeltacliError as fault:
            self._failure = fault, self._clock()
            raise
        remember_secrets(grant.options)
        try:
            is_covered = read_location(grant.location).covers(self._location)
        except ValueError:
            is_covered = False
        if not is_covered:
            raise self._fault("the credentials are for another directory", "storage.grant-location")
        family = self._location.family
        given = {name for name, text in grant.options.items() if text}
        if family != "file" and not set(_NEEDED[family]) <= given <= _KNOWN[family]:
            raise self._fault(f"the credentials do not fit {family}://", "storage.grant-form")
        if family == "file" and grant.options:
            raise self._fault("credentials for local files", "storage.grant-form")
        now = self._clock()
        life = 0.0 if grant.expires_ms is None else grant.expires_ms / 1000 - now
        if grant.expires_ms is not None and life <= 0:
            raise self._fault("the credentials had ended when they arrived", "storage.grant-ended")
        self._grant, self._life, self._taken = grant._replace(options=dict(grant.options)), life, now

    def _fault(self, what: str, code: str) -> StorageFailed:
        preamble = f"{self._location.uri} cannot be read: "
        return StorageFailed(what, preamble=preamble, code=code, facts={"credentials": SOURCE}, hint=ASK_PROVIDER)
