"""A shared table that is read in its directory, by the ordinary reader, with credentials that the server gives.

The credentials are for one location and for a time. Files elsewhere are read only below the auxiliary locations that
the server names, with credentials for these. The user's own credentials are never used.

Spec: PROTOCOL.md of Delta Sharing, Generate Temporary Table Credential; List Tables in a Schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from urllib.parse import quote

from deltacli.core.errors import StorageFailed, UsageError, adding, parameter
from deltacli.sharing.client.addresses import AccessChoice, OpenOptions
from deltacli.sharing.client.faults import (
    AnswerInvalid,
    RequestRefused,
    ShareAbsent,
    invalid_answer,
    read_only,
)
from deltacli.sharing.client.table_requests import AnswerHead, TableRequests, list_tables
from deltacli.sharing.protocol.directories import (
    AccessFault,
    Faults,
    TableAccess,
    VendedCredential,
    read_access,
    read_credential,
)
from deltacli.storage.base import Allowed, Capabilities, FileStat, PathKind, ReadOnlyFiles, ShouldDescend, WalkEntry
from deltacli.storage.grants import FAMILIES, Grant, HeldGrant, Location, read_location
from deltacli.storage.vended import open_held, require_no_credentials

if TYPE_CHECKING:
    from deltacli.core.typing import BinaryFile
    from deltacli.sharing.client.addresses import ShareAddress
    from deltacli.storage import Storage

MOST_FILES_BY_URL = 10_000
"""Files of a version up to which a table that offers both is read by URLs."""
_LARGEST_SKEW_MS = 86_400_000
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
        return _directory_or(by_urls, lambda: DirectoryStorage(address, requests, head, access, options), options)
    try:
        return Opening(DirectoryStorage(address, requests, head, access, options))
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
    return adding(parameter("open_table.access", mode))


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
    """Asks the server for credentials for one location; None: for the main one, which the first answer names."""

    def __init__(self, requests: TableRequests, wanted: str | None, asked: str | None, options: OpenOptions) -> None:
        self._requests, self._wanted, self._asked, self._options = requests, wanted, asked, options
        self._first: Grant | None = None
        self._noted = set[str]()

    def __call__(self, is_forced: bool) -> Grant:
        first, self._first = self._first, None
        return first if first is not None and not is_forced else self._vend()

    def location(self) -> str:
        """Return where the table is, as stated before or, without that, by the first answer."""
        if self._wanted is None:
            self._first = self._vend()
            self._wanted = self._first.location
        return self._wanted

    def _vend(self) -> Grant:
        body, date = self._requests.credentials(self._asked)
        skew_ms = self._skew_ms(date)
        found, faults = read_credential(body, self._wanted, self._requests.transport.clock() + skew_ms)
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


class DirectoryStorage(ReadOnlyFiles):
    """The directory of a shared table as a read-only store; `uri` is its location.

    Only its location and the auxiliary ones can be opened, each with credentials of its own.
    """

    def __init__(
        self,
        address: ShareAddress,
        requests: TableRequests,
        head: AnswerHead,
        access: TableAccess,
        options: OpenOptions,
    ) -> None:
        self.address, self.requests, self._announced = address, requests, head
        self._options, self._lock = options, Lock()
        require_no_credentials(options.storage)
        vendor = _Vendor(requests, access.location, None, options)
        root = read_location(vendor.location())
        self._vendors: dict[Location, _Vendor] = {root: vendor}
        for uri in access.auxiliary:
            self._vendors.setdefault(read_location(uri), _Vendor(requests, uri, uri, options))
        self._held = dict[Location, HeldGrant]()
        self._store = self._open(root)

    def _open(self, wanted: Location) -> Storage:
        """Return the store of a directory. Raises AnswerInvalid where no location that the server named covers it."""
        covering = [location for location in self._vendors if location.covers(wanted)]
        if not covering:
            raise invalid_answer("the log names a file outside of the locations of the table", {"file": wanted.uri})
        root = max(covering, key=lambda location: len(location.segments))
        with self._lock:
            if root not in self._held:
                clock = self.requests.transport.clock
                self._held[root] = HeldGrant(root, self._vendors[root], lambda: clock() / 1000)
        return open_held(wanted, self._held[root], options=self._options.storage, retry=self.requests.transport.retry)

    # -- what the table may open ----------------------------------------------------------------------------------

    def open_within(self, uri: str) -> Storage:
        """Return the store of a directory, given decoded, at or below one of the locations of the table."""
        try:
            wanted = read_location(quote(uri, safe="/:@"))
        except ValueError:
            raise invalid_answer("the log names a file outside of the locations of the table", {"file": uri}) from None
        return self._open(wanted)

    def allowed_within(self) -> Allowed:
        """Return the locations of the table in every spelling of their schemes."""
        return Allowed.of(
            uri
            for location in self._vendors
            for scheme, family in FAMILIES.items()
            if family == location.family
            for uri in location.spelled(scheme)
        )

    def require_announced(self, table_id: str | None, newest: int) -> None:
        """Raise AnswerInvalid unless the log is that of the table that the server announced, and not older."""
        announced = self._announced.delta_metadata.get("id")
        if table_id is not None and isinstance(announced, str) and announced != table_id:
            raise invalid_answer("the log is that of another table", {"announced": announced, "found": table_id})
        if newest < self._announced.version:
            facts = {"announced": self._announced.version, "newest of the log": newest}
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
        return read_only(self.address.uri)

    def _refuse(self) -> NoReturn:
        raise self.refusal()
