"""Temporary credentials for one directory ("grants"), and their renewal before they expire.

A catalog such as Unity Catalog, or a Delta Sharing server, grants access to the directory of a table
for about an hour. Long operations take longer. `RenewableGrant` therefore requests new credentials
before the old ones expire, while the store stays open:

    granted |----------- credentials are used -----------|-- margin --| expires
                                                          ^ renewed here

A `RenewableGrant` cannot be pickled. A Spark executor receives a `Grant` with its task instead.

See docs/decisions/0155-one-store-for-vended-credentials.md.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import NamedTuple, NoReturn

from deltacli.core.errors import DeltacliError, StorageFailed
from deltacli.storage.secrets import remember_secrets
from deltacli.storage.vended_locations import Location, parse_location

ASK_PROVIDER = "ask the provider of the table"
"""The hint of errors about granted credentials."""

SOURCE = "given by the server of the table"
"""The description of granted credentials in reports."""

# Credentials are renewed 60 s before they expire, or after 90 % of their lifetime if that is earlier.
# Short-lived credentials are used for at least half of their lifetime.
_MARGIN_SECONDS = 60.0
_MARGIN_SHARE = 0.1

# The minimum time between two requests for credentials. Without it, a server that grants useless
# credentials would receive a request for credentials before each request to the store. For
# short-lived credentials it is half of their lifetime, but not below the second limit.
_MIN_INTERVAL_SECONDS = 30.0
_LOWEST_MIN_INTERVAL_SECONDS = 5.0

# The credentials of each family of stores.
_REQUIRED_OPTIONS: Mapping[str, frozenset[str]] = {
    "s3": frozenset({"key", "secret"}),
    "gs": frozenset({"access_token"}),
    "abfss": frozenset({"sas_token"}),
}
_ALLOWED_OPTIONS: Mapping[str, frozenset[str]] = {**_REQUIRED_OPTIONS, "s3": frozenset({"key", "secret", "token"})}


class Grant(NamedTuple):
    """Temporary credentials for a directory and everything inside it.

    Attributes:
        location: The URI of the directory, without a trailing slash.
        options: The credentials, as storage options: `key`, `secret` and `token` for S3, `sas_token`
            for Azure, `access_token` for Google. Empty for local files.
        expires_ms: The expiry in epoch milliseconds; None if the credentials do not expire.
    """

    location: str
    options: Mapping[str, str]
    expires_ms: int | None = None

    def __repr__(self) -> str:
        # The credentials must not appear in logs.
        return f"Grant({self.location!r})"


Renew = Callable[[bool], Grant]
"""Requests a grant from the server. The argument is True if the store has rejected the last grant before
it expired. Then a cached grant must not be returned."""


class RenewableGrant:
    """The current credentials for a directory. Each request to the store calls `options`. Thread-safe.

    One thread renews the credentials while the other threads wait for it.
    """

    def __init__(
        self,
        location: Location,
        renew: Renew,
        clock: Callable[[], float] = time.time,
        ask_to_write: Callable[[], None] | None = None,
    ) -> None:
        """Request the first grant.

        Args:
            location: The directory that the credentials have to cover.
            renew: Requests a grant.
            clock: Returns the time in seconds since the epoch.
            ask_to_write: Makes later calls of `renew` request credentials for writing. None if
                `renew` already does, or if the table is read-only.

        Raises:
            StorageFailed: If the server returns credentials that cannot be used.
        """
        self._location = location
        self._renew = renew
        self._clock = clock
        self._ask_to_write = ask_to_write
        self._lock = Lock()
        self._grant = Grant("", {})
        # All times are in seconds of the clock.
        self._granted_at = 0.0
        self._lifetime_seconds = 0.0
        # When credentials were last replaced because the store had rejected them.
        self._rejected_at: float | None = None
        self._last_error: DeltacliError | None = None
        self._last_error_at = 0.0
        self._request_grant(is_forced=False)

    def __repr__(self) -> str:
        return f"RenewableGrant({self._location.uri!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("vended credentials stay in this process")

    def options(self) -> Mapping[str, str]:
        """Return the current credentials, as storage options.

        Raises:
            StorageFailed: If the credentials have expired and the server does not grant new ones.
        """
        if self._needs_renewal():
            with self._lock:
                # Another thread may have renewed the credentials while this one waited.
                if self._needs_renewal():
                    if self._is_within_min_interval(self._granted_at):
                        raise self._error("the credentials end too soon to be used", "storage.grant-ended")
                    self._request_grant(is_forced=False)
        return self._grant.options

    def replace_refused(self, refused: Mapping[str, str]) -> bool:
        """Replace credentials that the store has rejected.

        A store may reject credentials long before they expire, because they were revoked, or because
        the server returned cached credentials of an older request. The first rejection therefore
        leads to a request for new credentials. Further rejections within the minimum interval do
        not: in that case new credentials do not help.

        Args:
            refused: The rejected credentials, as `options` returned them.

        Returns:
            True if there are other credentials now. Another thread may have requested them.
        """
        with self._lock:
            was_rejected_recently = self._rejected_at is not None and self._is_within_min_interval(self._rejected_at)
            if self._grant.options == refused and not was_rejected_recently:
                self._rejected_at = self._clock()
                self._request_grant(is_forced=True)
            return self._grant.options != refused

    def get_grant_to_send(self) -> Grant:
        """Return a grant for another process. It is valid for at least half of its lifetime.

        Raises:
            DeltacliError: If a new grant was requested without success.
        """
        with self._lock:
            if self._remaining_seconds() < self._lifetime_seconds / 2:
                self._request_grant(is_forced=True)
            return self._grant

    def request_write_access(self) -> None:
        """Replace credentials for reading by credentials for writing. Later calls do nothing."""
        with self._lock:
            if self._ask_to_write is not None:
                self._ask_to_write()
                self._request_grant(is_forced=True)
                self._ask_to_write = None

    def _needs_renewal(self) -> bool:
        margin_seconds = max(_MARGIN_SECONDS, _MARGIN_SHARE * self._lifetime_seconds)
        return self._remaining_seconds() < min(margin_seconds, self._lifetime_seconds / 2)

    def _remaining_seconds(self) -> float:
        """Return the seconds until the grant expires."""
        if self._grant.expires_ms is None:
            return math.inf
        return self._grant.expires_ms / 1000 - self._clock()

    def _is_within_min_interval(self, since: float) -> bool:
        """Return whether less than the minimum interval has passed since a time.

        If the clock was set back, the time is in the future, and the result is False.
        """
        if self._grant.expires_ms is None:
            min_interval = _MIN_INTERVAL_SECONDS
        else:
            min_interval = max(min(_MIN_INTERVAL_SECONDS, self._lifetime_seconds / 2), _LOWEST_MIN_INTERVAL_SECONDS)
        return 0 <= self._clock() - since < min_interval

    def _request_grant(self, *, is_forced: bool) -> None:
        """Request a grant, check it, and use it from now on.

        Args:
            is_forced: Whether the server must not return cached credentials.

        Raises:
            DeltacliError: If the request fails.
            StorageFailed: If the grant is for another directory or store, or has expired.
        """
        # If a renewal has just failed, this thread was waiting for it: raise the same error instead
        # of sending the same request again.
        if self._last_error is not None and 0 <= self._clock() - self._last_error_at < _LOWEST_MIN_INTERVAL_SECONDS:
            raise self._last_error
        try:
            grant = self._renew(is_forced)
        except DeltacliError as error:
            self._last_error = error
            self._last_error_at = self._clock()
            raise

        remember_secrets(grant.options)
        self._require_usable(grant)

        now = self._clock()
        lifetime_seconds = 0.0
        if grant.expires_ms is not None:
            lifetime_seconds = grant.expires_ms / 1000 - now
            if lifetime_seconds <= 0:
                raise self._error("the credentials had ended when they arrived", "storage.grant-ended")
        self._grant = grant._replace(options=dict(grant.options))
        self._lifetime_seconds = lifetime_seconds
        self._granted_at = now

    def _require_usable(self, grant: Grant) -> None:
        """Check that a grant covers the directory and contains the credentials of its kind of store.

        Raises:
            StorageFailed: If it does not.
        """
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

        option_names = {name for name, value in grant.options.items() if value}
        if not _REQUIRED_OPTIONS[family] <= option_names <= _ALLOWED_OPTIONS[family]:
            raise self._error(f"the credentials do not fit {family}://", "storage.grant-form")

    def _error(self, reason: str, code: str) -> StorageFailed:
        preamble = f"{self._location.uri} cannot be read: "
        return StorageFailed(reason, preamble=preamble, code=code, facts={"credentials": SOURCE}, hint=ASK_PROVIDER)
