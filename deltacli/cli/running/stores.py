"""Opening the stores of tables for a command: local paths, URIs, tables of a catalog, and shared tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltacli.cli.command_table import COMMANDS, SharedTableSupport
from deltacli.cli.command_tree import get_command_path
from deltacli.cli.invocation import invocation
from deltacli.cli.options.catalog_choice import CatalogChoice, read_catalog_settings
from deltacli.cli.running.shared_table_errors import make_shared_table_error
from deltacli.cli.terminal.library_messages import capture_logging
from deltacli.cli.terminal.signals import is_interrupted
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, Storage, open_storage
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.optional_interfaces import require_writable

if TYPE_CHECKING:
    from deltacli.catalogs.unity.unity import UnityCatalog
    from deltacli.sharing.client.addresses import ShareAddress
    from deltacli.storage.retry import Retry
    from deltacli.storage.tally import HostTally

CATALOG_SCHEME = "uc://"
"""The beginning of the addresses of tables in a catalog."""


@dataclass(frozen=True)
class StoreOptions:
    """The options that determine how the stores of tables are opened.

    Attributes:
        storage_options: Options of the stores, such as credentials.
        allow_external: Prefixes of URIs. Files outside a table directory may be opened if they have one of them.
        retry_budget_ms: How long a request is retried, in milliseconds. None: the default.
        access: How files of shared tables are read: `auto`, `url` or `dir`.
        catalog: The catalog of tables `uc://…`. None: the catalog that the environment defines.
    """

    storage_options: Mapping[str, str] = field(default_factory=dict)
    allow_external: tuple[str, ...] = ()
    retry_budget_ms: int | None = None
    access: str = "auto"
    catalog: CatalogChoice | None = None

    @property
    def allowed(self) -> AllowedPrefixes:
        """The parsed prefixes of `allow_external`. Raises UsageError for an invalid prefix."""
        if not self.allow_external:
            return NO_PREFIXES
        from deltacli.work.table_files import parse_allowed_prefixes

        return parse_allowed_prefixes(self.allow_external)


class Stores:
    """Opens stores with the options of a run. All stores share one retry policy."""

    def __init__(
        self,
        options: StoreOptions,
        note: Callable[[str], None] | None = None,
        calls_per_second: float | None = None,
    ) -> None:
        """Create an opener of stores. Nothing is opened yet.

        Args:
            options: The options.
            note: Called with messages about delays and about options that have no effect. None: these messages are
                discarded.
            calls_per_second: The maximum rate of requests to each host. None: no limit.

        Raises:
            UsageError: If a prefix of `options.allow_external` is invalid.
        """
        self._storage_options = options.storage_options
        self._allowed = options.allowed
        self._access = options.access
        self._catalog_choice = options.catalog
        self._retry_budget_ms = options.retry_budget_ms
        self._note = note
        self._calls_per_second = calls_per_second
        self._retry_policy: Retry | None = None
        self._noted_options = set[str]()
        self._catalog: UnityCatalog | None = None

    def open(self, uri: str, *, writes: bool = False) -> Storage:
        """Open the store of a table.

        Args:
            uri: A path, a URI, `uc://CATALOG.SCHEMA.TABLE`, or the address of a shared table.
            writes: Whether the command changes the table.

        Raises:
            UsageError: If the command does not support a table of this kind.
            NoAtomicCreate: If the command changes tables, and the store cannot create files atomically. No request
                is sent before.
        """
        if uri[: len(CATALOG_SCHEME)].lower() == CATALOG_SCHEME:
            self.note_unused_access("a table that is not shared")
            return self._open_in_catalog(uri, writes=writes)

        if "#" in uri:
            from deltacli.sharing.client.addresses import parse_address

            # A file name may contain `#`, too. It is an address if the part before it is a profile file.
            address = parse_address(uri)
            if address is not None:
                return self._open_shared_table(uri, address, writes=writes)

        self.note_unused_access("a table that is not shared")
        if _is_local(uri):
            storage = open_storage(uri, self._storage_options, self._allowed)
            # The options may be meant for another argument, such as the target of a copy.
            if all(_is_local(word) for word in invocation.arguments):
                self._note_unused_option("--storage-option", "a table on a disk")
        else:
            capture_logging()
            storage = open_storage(uri, self._storage_options, self._allowed, retry=self.get_retry_policy())
        if writes:
            require_writable(storage)
        return storage

    def note_unused_access(self, target: str) -> None:
        """Note once that `--access` has no effect on the target, if the user has passed that option.

        No note is written if another argument is a shared table that the command reads.
        """
        has_shared_table = any("#" in word for word in invocation.arguments)
        if not (has_shared_table and _get_shared_table_support().reads_files):
            self._note_unused_option("--access", target)

    def _note_unused_option(self, option: str, target: str) -> None:
        if self._note is None or option in self._noted_options:
            return
        is_passed = any(word.partition("=")[0] == option for word in invocation.arguments)
        if is_passed:
            self._noted_options.add(option)
            self._note(f"note: {option} has no effect on {target}")

    def _open_in_catalog(self, uri: str, *, writes: bool) -> Storage:
        """Open a table by its name in a catalog, which vends the credentials for its store."""
        from deltacli.catalogs.unity.addresses import parse_table
        from deltacli.catalogs.unity.unity import open_in_catalog

        # An error in the address is reported before errors in the configuration of the catalog.
        parse_table(uri)

        capture_logging()
        note = self._note
        storage = open_in_catalog(
            self.open_catalog(),
            uri,
            options=self._storage_options,
            retry=self.get_retry_policy(),
            writes=writes,
            note=None if note is None else lambda text: note(f"note: {text}"),
        )
        invocation.record_catalog_name(storage.uri, uri)
        return storage

    def open_catalog(self) -> UnityCatalog:
        """Return the catalog of the run. Raises UsageError if none is configured."""
        from deltacli.catalogs.unity.unity import open_catalog

        if self._catalog is None:
            choice = self._catalog_choice
            source = None if choice is None else choice.description
            self._catalog = open_catalog(read_catalog_settings(choice), self.get_retry_policy(), source=source)
        return self._catalog

    def _open_shared_table(self, uri: str, address: ShareAddress, *, writes: bool) -> Storage:
        """Open a shared table for a command that supports shared tables. Raises UsageError for other commands."""
        from deltacli.sharing.client.addresses import AccessChoice, OpenOptions
        from deltacli.sharing.client.share_storage import directory_or, open_address

        support = _get_shared_table_support()
        if writes or support is SharedTableSupport.NONE:
            command = " ".join(get_command_path(invocation.arguments))
            raise make_shared_table_error(command, invocation.arguments, uri, writes=writes)

        capture_logging()
        if support is SharedTableSupport.METADATA_ONLY:
            self.note_unused_access("a command that reads metadata only")
        share = open_address(address, retry=self.get_retry_policy(), note=self._note)
        if support is SharedTableSupport.METADATA_ONLY:
            return share

        preferred_access = AccessChoice.AUTO
        if support is SharedTableSupport.PREFERS_DIRECTORY:
            preferred_access = AccessChoice.DIRECTORY
        elif support is SharedTableSupport.PREFERS_URLS:
            preferred_access = AccessChoice.URL
        options = OpenOptions(self._storage_options, self._note)
        return directory_or(share, AccessChoice(self._access), options, preferred=preferred_access)

    @property
    def tallies(self) -> list[HostTally]:
        """The calls to object stores so far, by endpoint."""
        return [] if self._retry_policy is None else [*self._retry_policy.tally.hosts]

    def get_retry_policy(self) -> Retry:
        """Return the retry policy that all stores of the run share. The first call creates it."""
        if self._retry_policy is None:
            self._retry_policy = self._create_retry_policy()
        return self._retry_policy

    def _create_retry_policy(self) -> Retry:
        """Return a new retry policy, with a rate limit if the run has one."""
        from deltacli.storage.retry import Retry, ThrottledRetry

        is_explicit = self._retry_budget_ms is not None
        budget_seconds = RETRY_BUDGET.total_seconds()
        if self._retry_budget_ms is not None:
            budget_seconds = self._retry_budget_ms / 1_000

        if self._calls_per_second is None:
            return Retry(budget_seconds, is_explicit=is_explicit, note=self._note, is_stopping=is_interrupted)
        return ThrottledRetry(
            budget_seconds,
            self._calls_per_second,
            is_explicit=is_explicit,
            note=self._note,
            is_stopping=is_interrupted,
        )


def _is_local(uri: str) -> bool:
    """Return whether a table is on a local disk. Words that are not tables count as local, too."""
    return "://" not in uri or uri.lower().startswith("file:")


def _get_shared_table_support() -> SharedTableSupport:
    """Return how the command of this run reads shared tables."""
    entry = COMMANDS.get(" ".join(get_command_path(invocation.arguments)))
    return SharedTableSupport.NONE if entry is None else entry.shared_tables
