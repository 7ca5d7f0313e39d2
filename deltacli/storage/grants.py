"""Grants: credentials that a server gave for one directory, and for a time; and their renewal.

A held grant belongs to this process and cannot be pickled. What executors get is a `Grant`, in the payload of a task.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import NamedTuple, NoReturn

from deltacli.core.errors import DeltacliError, StorageFailed
from deltacli.storage.secrets import remember_secrets
from deltacli.storage.store_locations import Location, parse_location


class Grant(NamedTuple):
    """Credentials for a directory and what is below it.

    `location`: the URI that they cover, without a trailing slash. `options`: the credentials by the
    names of storage options (`key`, `secret`, `token` of S3; `sas_token` of Azure; `access_token`
    of Google), empty for local files. `expires_ms`: epoch milliseconds, None where they do not end.
    """

    location: str
    options: Mapping[str, str]
    expires_ms: int | None = None

    def __repr__(self) -> str:
        return f"Grant({self.location!r})"


Renew = Callable[[bool], Grant]
"""Asks for a new grant; True where the store refused one that has not ended, so that no remembered one will do."""
ASK_PROVIDER = "ask the provider of the table"
SOURCE = "given by the server of the table"
_SPARE_SECONDS = 60.0
_SPARE_SHARE = 0.1
_FLOOR_SECONDS = 30.0
_LOWEST_FLOOR_SECONDS = 5.0
_NEEDED: Mapping[str, tuple[str, ...]] = {"s3": ("key", "secret"), "gs": ("access_token",), "abfss": ("sas_token",)}
_KNOWN: Mapping[str, frozenset[str]] = {
    family: frozenset({*needed, "token"} if family == "s3" else needed) for family, needed in _NEEDED.items()
}


class RenewableGrant:
    """The grant of one location, from which each request takes its credentials. Thread-safe.

    A grant is renewed before it ends, by one thread while the others wait:

        taken |------------ life ------------|-- spare --| expires
              credentials are used            renewed here

    Other credentials are not asked for more often than every `_floor_seconds`, so that a server
    which gives useless ones is not asked before every request.
    """

    def __init__(
        self,
        location: Location,
        renew: Renew,
        clock: Callable[[], float] = time.time,
        ask_to_write: Callable[[], None] | None = None,
    ) -> None:
        """Take the first grant.

        Args:
            location: What the credentials have to cover.
            renew: Returns credentials.
            clock: Returns seconds of the epoch.
            ask_to_write: Lets `renew` ask for credentials to write from then on. None: it does
                already, or never may.
        """
        self._location = location
        self._renew = renew
        self._clock = clock
        self._ask_to_write = ask_to_write
        self._lock = Lock()
        self._grant = Grant("", {})
        # When the grant was taken, and how long it lasted from then on, in seconds.
        self._taken = 0.0
        self._life = 0.0
        # When other credentials were last asked for because the store had refused those before.
        self._refused_at: float | None = None
        # The last renewal that failed, and when.
        self._failure: tuple[DeltacliError | None, float] = (None, 0.0)
        self._take(is_forced=False)

    def __repr__(self) -> str:
        return f"RenewableGrant({self._location.uri!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("vended credentials stay in this process")

    def options(self) -> Mapping[str, str]:
        """Return the credentials now. Raises StorageFailed if they have ended and no others are given."""
        # Looked at again under the lock: another thread may have renewed them meanwhile.
        if self._is_due():
            with self._lock:
                if self._is_due():
                    if self._is_too_soon():
                        raise self._error("the credentials end too soon to be used", "storage.grant-ended")
                    self._take(is_forced=False)
        return self._grant.options

    def replace_refused(self, refused: Mapping[str, str]) -> bool:
        """Return True where other credentials are there by now, and ask for them if not.

        A store may refuse credentials right after they were given: they were revoked, or the server
        gave the rest of an older grant. So the first refusal leads to a request at any age of the
        credentials. Until the floor has passed since such a request, later refusals lead to none,
        because new credentials do not help then.
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
        """Return whether little of the grant's life is left: 60 s or a tenth, but not more than half."""
        spare_seconds = max(_SPARE_SECONDS, _SPARE_SHARE * self._life)
        return self._left() < min(spare_seconds, self._life / 2)

    def _left(self) -> float:
        """Return the seconds until the grant ends."""
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
        """Ask for a grant, and use it from now on if it fits: the directory, the cloud, and the time."""
        last_error, failed_at = self._failure
        if last_error is not None and 0 <= self._clock() - failed_at < _LOWEST_FLOOR_SECONDS:
            raise last_error  # this thread waited for the same renewal
        try:
            grant = self._renew(is_forced)
        except DeltacliError as error:
            self._failure = (error, self._clock())
            raise

        remember_secrets(grant.options)
        self._require_fitting(grant)
        now = self._clock()
        life = 0.0
        if grant.expires_ms is not None:
            life = grant.expires_ms / 1000 - now
            if life <= 0:
                raise self._error("the credentials had ended when they arrived", "storage.grant-ended")
        self._grant = grant._replace(options=dict(grant.options))
        self._life = life
        self._taken = now

    def _require_fitting(self, grant: Grant) -> None:
        """Raise StorageFailed for credentials of another directory, or of another cloud."""
        try:
            is_covered = parse_location(grant.location).covers(self._location)
        except ValueError:
            is_covered = False
        if not is_covered:
            raise self._error("the credentials are for another directory", "storage.grant-location")

        family = self._location.family
        if family == "file":
            if grant.options:
                raise self._error("credentials for local files", "storage.grant-form")
            return
        given_names = {name for name, text in grant.options.items() if text}
        if not set(_NEEDED[family]) <= given_names <= _KNOWN[family]:
            raise self._error(f"the credentials do not fit {family}://", "storage.grant-form")

    def _error(self, reason: str, code: str) -> StorageFailed:
        preamble = f"{self._location.uri} cannot be read: "
        return StorageFailed(reason, preamble=preamble, code=code, facts={"credentials": SOURCE}, hint=ASK_PROVIDER)
