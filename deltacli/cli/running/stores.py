"""Opening the stores of tables for a command: of a path, a URI, a catalog or a share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from deltacli.cli.command_tree import path_of
from deltacli.cli.invocation import invocation
from deltacli.cli.options.configuration import CatalogChoice, catalog_profile_of, place_of_catalog
from deltacli.cli.terminal.library_messages import capture_logging
from deltacli.cli.terminal.signals import is_interrupted
from deltacli.core.errors import UsageError, quote_table
from deltacli.storage import NO_PREFIXES, AllowedPrefixes, Storage, open_storage
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.optional_interfaces import require_writable

if TYPE_CHECKING:
    from deltacli.storage.retry import Retry
    from deltacli.storage.tally import HostTally

if TYPE_CHECKING:
    from deltacli.catalogs.unity.unity import UnityCatalog


CATALOG = "uc://"
"""How addresses of tables in a catalog begin."""

_READING = frozenset(
    {
        *((name,) for name in ("changes", "features", "history", "properties", "reach", "read", "snapshot")),
        ("validate",),
        ("doctor", "table"),
        *(("share", name) for name in ("changes", "head", "pull", "schema")),
    }
)
"""Commands that read shared tables, or say themselves why they cannot. Others write to them, or plan to."""
_METADATA_ONLY = ("share", "schema")
_PREFERRED: Mapping[tuple[str, ...], str] = {("history",): "dir", ("share", "pull"): "url"}
"""How shared tables are read that are offered in both ways."""


def _only_reading(name: str, words: Sequence[str], uri: str, *, writes: bool) -> UsageError | None:
    """Return the error for a command that does not change the shared table and yet does not work on it; None for
    others. `words`: how the command was typed.
    """
    from deltacli.cli.command_loading import has_option

    hint = f"deltacli {'share schema' if name.startswith('schema ') else 'snapshot'} {quote_table(uri)}"
    if name in ("copy", "clone") and uri in words[1:2]:
        hint = f"deltacli share pull {quote_table(uri)} --to DIRECTORY --as delta"
        return UsageError(f"{name} does not read shared tables", code="share.read-only", hint=hint)
    if name in ("repair", "undelete") and (("--from", uri) in pairwise(words) or f"--from={uri}" in words):
        name, hint = f"{name} --from", f"deltacli {name} --help"
    elif name == "checkpoint" and "--verify" in words:
        name = "checkpoint --verify"
    elif writes or (has_option(tuple(name.split()), "--dry-run") and name != "log backup"):
        return None
    return UsageError(f"{name} does not work on shared tables", code="share.read-only", hint=hint)


@dataclass(frozen=True)
class StoreOptions:
    """How stores of tables are opened.

    Attributes:
        storage_options: Options of the stores, such as credentials.
        allow_external: Prefixes below which files outside a table may be opened.
        retry_budget_ms: How long a request is retried, in milliseconds. None: the default.
        access: How shared tables are read.
        catalog: The catalog of tables `uc://…`. None: that of the environment.
    """

    storage_options: Mapping[str, str] = field(default_factory=dict)
    allow_external: tuple[str, ...] = ()
    retry_budget_ms: int | None = None
    access: str = "auto"
    catalog: CatalogChoice | None = None

    @property
    def allowed(self) -> AllowedPrefixes:
        """Return the prefixes below which files outside a table may be opened. Raises UsageError."""
        if not self.allow_external:
            return NO_PREFIXES
        from deltacli.work.table_files import parse_allowed_prefixes

        return parse_allowed_prefixes(self.allow_external)


class Stores:
    """Opens stores with the options of a run. All share one policy of retries."""

    def __init__(
        self,
        options: StoreOptions,
        note: Callable[[str], None] | None = None,
        calls_per_second: float | None = None,
    ) -> None:
        """Make an opener of stores.

        Args:
            options: The options.
            note: Called with messages about delays, and about options without effect. None: nobody is told.
            calls_per_second: The largest rate of requests to each host. None: no limit.

        Raises:
            UsageError: If a prefix for files outside of tables is invalid.
        """
        self._options = options.storage_options
        self._allowed = options.allowed
        self._access = options.access
        self._catalog = options.catalog
        self._retry_budget_ms = options.retry_budget_ms
        self._note = note
        self._calls_per_second = calls_per_second
        self._policy: Retry | None = None
        self._noted = set[str]()
        self._opened_catalog: UnityCatalog | None = None

    def open(self, uri: str, *, writes: bool = False) -> Storage:
        """Open a store that the command `writes` or only reads. Raises UsageError and NoAtomicCreate at once."""
        if uri[: len(CATALOG)].lower() == CATALOG:
            self.note_needless_access("a table that is not shared")
            return self._open_in_catalog(uri, writes=writes)
        if "#" in uri and (share := self._open_share(uri, writes=writes)) is not None:
            return share
        self.note_needless_access("a table that is not shared")
        if "://" not in uri or uri.lower().startswith("file:"):
            storage = open_storage(uri, self._options, self._allowed)
            is_elsewhere = any("://" in word and not word.lower().startswith("file:") for word in invocation.arguments)
            if not is_elsewhere:
                self._note_needless("--storage-option", "a table on a disk")
        else:
            capture_logging()
            storage = open_storage(uri, self._options, self._allowed, retry=self.policy())
        if writes:
            require_writable(storage)
        return storage

    def note_needless_access(self, what: str) -> None:
        """Say once that the way to read shared tables was given for something else."""
        path = path_of(invocation.arguments)
        is_shared = path in _READING and path != _METADATA_ONLY and any("#" in word for word in invocation.arguments)
        if not is_shared:
            self._note_needless("--access", what)

    def _note_needless(self, option: str, what: str) -> None:
        is_given = any(word.partition("=")[0] == option for word in invocation.arguments)
        if self._note is not None and is_given and option not in self._noted:
            self._noted.add(option)
            self._note(f"note: {option} has no effect on {what}")

    def _open_in_catalog(self, uri: str, *, writes: bool) -> Storage:
        from deltacli.catalogs.unity.addresses import parse_table
        from deltacli.catalogs.unity.unity import open_in_catalog

        parse_table(uri)  # what is wrong with it is said before the configuration is read
        capture_logging()
        note = self._note
        storage = open_in_catalog(
            self.open_catalog(),
            uri,
            options=self._options,
            retry=self.policy(),
            writes=writes,
            note=None if note is None else lambda text: note(f"note: {text}"),
        )
        invocation.opens_in_catalog(storage.uri, uri)
        return storage

    def open_catalog(self) -> UnityCatalog:
        """Return the catalog of the run. Raises UsageError where none is configured."""
        from deltacli.catalogs.unity.unity import open_catalog

        if self._opened_catalog is None:
            source = None if self._catalog is None else place_of_catalog(self._catalog)
            self._opened_catalog = open_catalog(catalog_profile_of(self._catalog), self.policy(), source=source)
        return self._opened_catalog

    def _open_share(self, uri: str, *, writes: bool) -> Storage | None:
        """Open a shared table; None where the name is not the address of one."""
        from deltacli.sharing.client.addresses import parse_address

        address = parse_address(uri)
        if address is None:
            return None
        from deltacli.sharing.client.addresses import AccessChoice
        from deltacli.sharing.client.faults import read_only
        from deltacli.sharing.client.share_storage import open_address, open_share

        path = path_of(invocation.arguments)
        if writes or path not in _READING:
            refused = _only_reading(" ".join(path), invocation.arguments, uri, writes=writes)
            raise refused or read_only(uri)
        capture_logging()
        if path == _METADATA_ONLY:
            self.note_needless_access("a command that reads metadata only")
            return open_address(address, retry=self.policy(), note=self._note)
        return open_share(
            uri,
            access=self._access,
            preferred=AccessChoice(_PREFERRED.get(path, "auto")),
            options=self._options,
            retry=self.policy(),
            note=self._note,
        )

    @property
    def tallies(self) -> list[HostTally]:
        """Return the calls to object stores so far, by endpoint."""
        return [] if self._policy is None else [*self._policy.tally.hosts]

    def policy(self) -> Retry:
        """Return the retry policy that all stores of the run share."""
        from deltacli.storage.retry import Retry, ThrottledRetry

        if self._policy is None:
            given = self._retry_budget_ms
            seconds = RETRY_BUDGET.total_seconds() if given is None else given / 1_000
            chosen: dict[str, Any] = {  # Any: options of a policy
                "is_explicit": given is not None,
                "note": self._note,
                "is_stopping": is_interrupted,
            }
            if self._calls_per_second is None:
                self._policy = Retry(seconds, **chosen)
            else:
                self._policy = ThrottledRetry(seconds, self._calls_per_second, **chosen)
        return self._policy
