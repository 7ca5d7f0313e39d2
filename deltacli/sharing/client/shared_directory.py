"""A shared table that is read in its directory, by the ordinary reader, with credentials that the server gives.

The credentials are for one location and for a time. Files elsewhere are read only below the auxiliary locations that
the server names, with credentials for these. The user's own credentials are never used.

Tasks on a cluster get the credentials that the driver has, and no token. Where the profile is at the same path on their
host, too, they ask for new ones before these end.

Spec: PROTOCOL.md of Delta Sharing, Generate Temporary Table Credential; List Tables in a Schema.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote

from deltacli.core.errors import StorageFailed, UsageError, parameter, suggest_parameters
from deltacli.core.machine import Clock, system_clock
from deltacli.core.times import format_timestamp
from deltacli.core.typing import BinaryFile
from deltacli.sharing.client.addresses import AccessChoice, OpenOptions, ShareAddress
from deltacli.sharing.client.faults import (
    AccessRefused,
    AnswerInvalid,
    RequestRefused,
    ShareAbsent,
    invalid_answer,
    make_read_only_error,
)
from deltacli.sharing.client.table_requests import AnswerHead, TableRequests, list_tables
from deltacli.sharing.client.transport import open_profile
from deltacli.sharing.protocol.directories import (
    AccessFault,
    Faults,
    TableAccess,
    VendedCredential,
    read_access,
    read_credential,
)
from deltacli.storage import Storage
from deltacli.storage.allowed_prefixes import NO_PREFIXES, AllowedPrefixes
from deltacli.storage.base import RETRY_BUDGET, Capabilities, FileStat, PathKind, ShouldDescend, WalkEntry
from deltacli.storage.grants import Grant, RenewableGrant
from deltacli.storage.location import StoreLocation, require_sendable
from deltacli.storage.read_only import ReadOnlyFiles
from deltacli.storage.retry import Retry
from deltacli.storage.vended import open_with_grant, require_no_credentials
from deltacli.storage.vended_locations import FAMILIES, Location, parse_location

MOST_FILES_BY_URL = 10_000
"""Files of a version up to which a table that offers both is read by URLs."""
_LARGEST_SKEW_MS = 86_400_000
_LEAST_LEFT_MS = 10_000
"""Milliseconds that credentials of another process have to be valid for, so that they are worth a request."""
_LOG = "_delta_log"
_CREDENTIAL = "share.credential"


class Opening(NamedTuple):
    """How a shared table is read: the store of its directory, None by URLs. `is_large`: its list of files is long.
    `head`: the metadata of the newest version, None where the server did not answer with them.
    """

    directory: DirectoryStorage | None = None
    is_large: bool = False
    head: AnswerHead | None = None


def open_directory(
    address: ShareAddress,
    requests: TableRequests,
    choice: AccessChoice,
    options: OpenOptions,
    *,
    preferred: AccessChoice = AccessChoice.AUTO,
) -> Opening:
    """Return how a shared table is read. Asks for the metadata.

    `preferred` is chosen where the server offers both; AUTO: the directory of a large table. Raises AccessMissing where
    the table is not offered as chosen, AnswerInvalid, UsageError and what requests raise.
    """
    try:
        head = requests.metadata()
    except (RequestRefused, ShareAbsent, AnswerInvalid):
        if choice is AccessChoice.DIRECTORY:
            raise
        return Opening()  # the query says what is wrong
    files = head.metadata.get("numFiles")
    by_urls = Opening(is_large=type(files) is int and files > MOST_FILES_BY_URL, head=head)
    access = _usable(read_access(head.metadata))
    if choice is AccessChoice.URL:
        if not access.has_urls:
            raise AccessMissing("the table is not offered by URLs", facts=_stated(access), hint=_hint("dir"))
        return by_urls
    if choice is AccessChoice.DIRECTORY and (access.modes is None or access.location is None):
        access = access.intersection(_listed(requests))
    if access.modes is not None and not access.modes:
        raise AccessMissing("the table is offered neither by URLs nor as a directory", facts=_stated(access))
    is_offered = access.has_directory or (choice is AccessChoice.DIRECTORY and access.modes is None)
    if not is_offered:
        if choice is AccessChoice.DIRECTORY:
            raise AccessMissing("the table is not offered as a directory", facts=_stated(access), hint=_hint("url"))
        return by_urls
    if preferred is AccessChoice.AUTO:
        preferred = AccessChoice.DIRECTORY if by_urls.is_large else AccessChoice.URL
    if choice is AccessChoice.AUTO and access.has_urls and preferred is AccessChoice.URL:
        return by_urls
    if choice is AccessChoice.AUTO and access.has_urls:
        return _directory_or(by_urls, lambda: _opened(address, requests, head, access, options), options)
    try:
        return Opening(_opened(address, requests, head, access, options))
    except RequestRefused as refused:
        if access.has_urls:
            refused.hint = refused.hint or _hint("url")
        raise


def _directory_or(by_urls: Opening, make: Callable[[], DirectoryStorage], options: OpenOptions) -> Opening:
    """Return a directory where it can be listed from here; else, with a note where a store is the reason, by URLs."""
    try:
        directory = make()
        next(iter(directory.list_from(_LOG)), None)
    except (RequestRefused, ShareAbsent, UsageError):  # the last: without the extra of the cloud, or with other options
        return by_urls
    except StorageFailed as fault:
        if options.note is not None:
            options.note(f"note: the table is read by URLs: {fault.message} ({fault.code})")
        return by_urls
    return Opening(directory)


class AccessMissing(RequestRefused):
    """The server does not offer the table in the way that was chosen."""

    code = "share.access-mode"


def _hint(mode: str) -> str:
    return suggest_parameters(parameter("open_table.access", mode))


def _stated(access: TableAccess) -> dict[str, str]:
    return {"access modes": "none stated" if access.modes is None else ", ".join(sorted(access.modes)) or "none known"}


def _usable(read: tuple[TableAccess, Faults]) -> TableAccess:
    """Return what a server says of access. Raises AnswerInvalid for what cannot be used."""
    access, faults = read
    _require_none(faults, None)
    return access


def _require_none(faults: Sequence[AccessFault], code: str | None) -> None:
    """Raise AnswerInvalid for the first fatal fault."""
    if fatal := next((fault for fault in faults if fault.is_fatal), None):
        error = invalid_answer(fatal.message, {"rule": f"share.{fatal.rule}"})
        error.code = code or error.code
        raise error


def _listed(requests: TableRequests) -> TableAccess:
    """Return what the list of the schema says of a table."""
    name = requests.name
    for table in list_tables(requests.transport, name.share, name.schema):
        if table.name.casefold() == name.table.casefold():
            return _usable((table.access, table.faults))
    return TableAccess()


class _Vendor:
    """Asks for credentials for one location. `wanted` None: for the main one, which the first answer names."""

    def __init__(self, requests: TableRequests, wanted: str | None, asked: str | None, options: OpenOptions) -> None:
        self._requests, self.wanted, self.asked, self._options = requests, wanted, asked, options
        self._first: Grant | None = None
        self._noted = set[str]()

    def __call__(self, is_forced: bool) -> Grant:
        first, self._first = self._first, None
        return first if first is not None and not is_forced else self._vend()

    def location(self) -> str:
        """Return where the table is, as stated before or, without that, by the first answer."""
        if self.wanted is None:
            self._first = self._vend()
            self.wanted = self._first.location
        return self.wanted

    def _vend(self) -> Grant:
        body, date = self._requests.credentials(self.asked)
        skew_ms = self._skew_ms(date)
        found, faults = read_credential(body, self.wanted, self._requests.transport.clock() + skew_ms)
        _require_none(faults, _CREDENTIAL)
        assert found is not None
        self._require_usable(found)
        for fault in faults:
            if fault.rule == "credential-long-lived" and fault.rule not in self._noted:
                self._noted.add(fault.rule)
                if self._options.note is not None:
                    self._options.note(f"note: {fault.message}: ask the provider for temporary credentials")
        assert found.grant.expires_ms is not None
        return found.grant._replace(expires_ms=found.grant.expires_ms - skew_ms)

    def _skew_ms(self, date: str) -> int:
        """Return how far the clock of the server is ahead of this one, 0 where it cannot be known."""
        try:
            skew_ms = int(parsedate_to_datetime(date).timestamp() * 1000) - self._requests.transport.clock()
        except (ValueError, TypeError, IndexError, OverflowError):
            return 0
        return skew_ms if 2_000 < abs(skew_ms) <= _LARGEST_SKEW_MS else 0

    def _require_usable(self, found: VendedCredential) -> None:
        has_endpoint = any("endpoint" in name.lower() for name in self._options.storage)
        if found.member == "r2Credentials" and not has_endpoint:
            raise UsageError(
                "the table is in R2, whose endpoint no server of shares names",
                code="usage.storage-option",
                hint=f"add {parameter('storage_options.endpoint_url', 'https://ACCOUNT.r2.cloudflarestorage.com')}",
            )


# -- directories in other processes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SentGrant:
    """Credentials for one location of a table, as a value; `wanted` and `asked` as of the server's own spelling."""

    wanted: str
    asked: str | None
    location: str
    options: tuple[tuple[str, str], ...] = field(repr=False)
    expires_ms: int


@dataclass(frozen=True, slots=True)
class SentDirectory:
    """The directory of a shared table for another process. It can be pickled, and holds credentials, which no text of
    it shows: whoever has it can read the directory until they end.
    """

    address: ShareAddress
    endpoint: str
    grants: tuple[SentGrant, ...] = field(repr=False)
    options: tuple[tuple[str, str], ...] = ()
    retry_seconds: float = RETRY_BUDGET.total_seconds()
    allowed: AllowedPrefixes = NO_PREFIXES

    @property
    def uri(self) -> str:
        return self.grants[0].wanted

    def open(self) -> Storage:
        """Return the store of the directory, with the credentials that were sent and then, if the profile is here, with
        new ones. Raises AccessRefused (`share.credential-ended`), and what requests raise.
        """
        vendors = {parse_location(grant.wanted): _SentVendor(self, grant, system_clock) for grant in self.grants}
        retry = Retry(self.retry_seconds, is_explicit=True)
        return DirectoryStorage(self.address, vendors, dict(self.options), system_clock, retry)

    def open_other(self, uri: str) -> Storage:
        """Open the store of an output, which is not the table's."""
        return StoreLocation(uri, self.options, retry_seconds=self.retry_seconds).open()


class _SentVendor:
    """Gives the credentials that were sent and, where they end, new ones by the profile of this host."""

    def __init__(self, sent: SentDirectory, grant: SentGrant, clock: Clock) -> None:
        self._sent, self._grant, self._clock = sent, grant, clock
        self._vendor: _Vendor | None = None
        self._is_first = True

    def __call__(self, is_forced: bool) -> Grant:
        is_first, self._is_first = self._is_first, False
        is_usable = self._grant.expires_ms - self._clock() >= _LEAST_LEFT_MS
        if not (is_first and is_usable and not is_forced):
            self._vendor = self._vendor or self._ask_here()
            if self._vendor is not None:
                return self._vendor(is_forced=True)
        if not is_usable:
            raise AccessRefused(
                "the credentials for the directory of the table ended before a task read it",
                code="share.credential-ended",
                facts={"table": str(self._sent.address.name), "ended": format_timestamp(self._grant.expires_ms)},
                hint="create the frame again, or restart the query: the driver gets new ones; or put the profile at "
                "its path on all hosts, which then ask for new ones themselves",
            )
        return Grant(self._grant.location, dict(self._grant.options), self._grant.expires_ms)

    def _ask_here(self) -> _Vendor | None:
        """Return what asks the server from here, None where the profile is not here, or is that of another server."""
        if not os.path.isfile(self._sent.address.profile):
            return None
        transport = open_profile(self._sent.address.profile, retry=Retry(self._sent.retry_seconds), clock=self._clock)
        if transport.endpoint != self._sent.endpoint:
            return None
        options = OpenOptions(dict(self._sent.options))
        requests = TableRequests(transport, self._sent.address.name)
        return _Vendor(requests, self._grant.wanted, self._grant.asked, options)


# -- the store of a directory ------------------------------------------------------------------------------------------


def _opened(
    address: ShareAddress, requests: TableRequests, head: AnswerHead, access: TableAccess, options: OpenOptions
) -> DirectoryStorage:
    """Return the store of a table at the locations that the server states. Raises UsageError for credentials of the
    user, AnswerInvalid, and what requests raise.
    """
    require_no_credentials(options.storage)
    vendor = _Vendor(requests, access.location, None, options)
    vendors = {parse_location(vendor.location()): vendor}
    for uri in access.auxiliary:
        vendors.setdefault(parse_location(uri), _Vendor(requests, uri, uri, options))
    transport = requests.transport
    return DirectoryStorage(address, vendors, options.storage, transport.clock, transport.retry, (requests, head))


class DirectoryStorage(ReadOnlyFiles):
    """The directory of a shared table as a read-only store; `uri` is its location.

    Only its location, the first one of `vendors`, and the auxiliary ones can be opened, each with credentials of its
    own. `announced`: what asks the server, and the metadata it sent; None in a process that got the credentials.
    """

    def __init__(
        self,
        address: ShareAddress,
        vendors: Mapping[Location, _Vendor] | Mapping[Location, _SentVendor],
        options: Mapping[str, str],
        clock: Clock,
        retry: Retry,
        announced: tuple[TableRequests, AnswerHead] | None = None,
    ) -> None:
        self.address, self._vendors, self._announced = address, vendors, announced
        self._options, self._clock, self._retry, self._lock = options, clock, retry, Lock()
        self._held = dict[Location, RenewableGrant]()
        self._store = self._open(next(iter(vendors)))

    def _open(self, wanted: Location) -> Storage:
        """Return the store of a directory. Raises AnswerInvalid where no location that the server named covers it."""
        covering = [location for location in self._vendors if location.covers(wanted)]
        if not covering:
            raise invalid_answer("the log names a file outside of the locations of the table", {"file": wanted.uri})
        held = self._held_at(max(covering, key=lambda location: len(location.segments)))
        return open_with_grant(wanted, held, options=self._options, retry=self._retry)

    def _held_at(self, location: Location) -> RenewableGrant:
        with self._lock:
            if location not in self._held:
                self._held[location] = RenewableGrant(location, self._vendors[location], lambda: self._clock() / 1000)
            return self._held[location]

    @property
    def requests(self) -> TableRequests:
        """What asks the server, where that sent the metadata."""
        assert self._announced is not None
        return self._announced[0]

    # -- another process ------------------------------------------------------------------------------------------

    def get_openable(self) -> SentDirectory:
        """Return what a task needs to open the directory, with credentials of which at least a half of the time is
        left. Raises what the server raises, and UsageError for options that are not sent.
        """
        require_sendable(self._options)
        address = replace(self.address, profile=os.path.abspath(os.path.expanduser(self.address.profile)))
        grants = tuple(self._sent(location) for location in self._vendors)
        options = tuple(sorted(self._options.items()))
        return SentDirectory(address, self.requests.transport.endpoint, grants, options, self._retry.budget_seconds)

    def _sent(self, location: Location) -> SentGrant:
        vendor, grant = self._vendors[location], self._held_at(location).get_grant_to_send()
        assert isinstance(vendor, _Vendor)
        assert vendor.wanted is not None
        assert grant.expires_ms is not None
        options = tuple(sorted(grant.options.items()))
        return SentGrant(vendor.wanted, vendor.asked, grant.location, options, grant.expires_ms)

    # -- what the table may open ----------------------------------------------------------------------------------

    def open_granted(self, uri: str) -> Storage:
        """Return the store of a directory, given decoded, at or below one of the locations of the table."""
        try:
            wanted = parse_location(quote(uri, safe="/:@"))
        except ValueError:
            raise invalid_answer("the log names a file outside of the locations of the table", {"file": uri}) from None
        return self._open(wanted)

    def list_granted_prefixes(self) -> AllowedPrefixes:
        """Return the locations of the table in every spelling of their schemes."""
        return AllowedPrefixes.of(
            uri
            for location in self._vendors
            for scheme, family in FAMILIES.items()
            if family == location.family
            for uri in location.list_uris(scheme)
        )

    def require_announced(self, table_id: str | None, newest: int) -> None:
        """Raise AnswerInvalid unless the log is that of the table that the server announced, and not older."""
        assert self._announced is not None
        head = self._announced[1]
        announced = head.delta_metadata.get("id")
        if table_id is not None and isinstance(announced, str) and announced != table_id:
            raise invalid_answer("the log is that of another table", {"announced": announced, "found": table_id})
        if newest < head.version:
            facts = {"announced": head.version, "newest of the log": newest}
            raise invalid_answer("the log is older than the version that the server announced", facts)

    # -- the port -------------------------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        return self._store.uri

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._store.aliases

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities._replace(atomic_create=False)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        return self._store.list_from(directory, start)

    def list_directories(self, directory: str) -> list[str]:
        return self._store.list_directories(directory)

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        return self._store.walk(directory, enter)

    def read(self, path: str) -> bytes:
        return self._store.read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._store.read_range(path, offset, length)

    def open(self, path: str) -> BinaryFile:
        return self._store.open(path)

    def tag(self, path: str, opened: Any) -> str:  # Any: of the port
        return self._store.tag(path, opened)

    def kind_of(self, path: str) -> PathKind:
        return self._store.kind_of(path)

    def stat(self, path: str) -> FileStat:
        return self._store.stat(path)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        return self._store.stat_many(paths)

    def refusal(self) -> UsageError:
        """Return the error for operations that write."""
        return make_read_only_error(self.address.uri)

    def _refuse(self) -> NoReturn:
        raise self.refusal()
