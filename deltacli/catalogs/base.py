"""The port of catalogs: a table by its name, credentials for it, and the ratification of its commits.

Spec: Catalog-managed tables.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from deltacli.core.errors import CatalogAnswerInvalid, CatalogDenied

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deltacli.core.typing import Json, JsonObject
    from deltacli.storage.grants import Grant


SHOWN = 120


def invalid(name: object, what: str, seen: object = None) -> CatalogAnswerInvalid:
    """Return the error for an answer about a table that breaks the interface."""
    facts = {} if seen is None else {"found": ascii(seen)[:SHOWN]}
    return CatalogAnswerInvalid(f"{name}: invalid answer of the catalog: {what}", facts=facts)


class TableName(NamedTuple):
    """The three names of a table of a catalog."""

    catalog: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"uc://{self.catalog}.{self.schema}.{self.table}"


class Maintenance(StrEnum):
    """What a catalog may permit its clients; their own names in its answer, compared by case."""

    DATA_REORGANIZATION = "DATA_REORGANIZATION"
    DATA_CLEANUP = "DATA_CLEANUP"
    METADATA_CLEANUP = "METADATA_CLEANUP"


class Ratified(NamedTuple):
    """A commit that the catalog chose for a version and that may not be published yet. Times are epoch milliseconds."""

    version: int
    file_name: str
    """One path segment below `_delta_log/_staged_commits`."""
    size_bytes: int
    modified_ms: int
    timestamp_ms: int
    """Its in-commit timestamp, as the catalog knows it; that of the file counts."""


class CatalogTable(NamedTuple):
    """A table as one answer of a catalog describes it, one consistent state.

    `commits`: ratified ones that may not be published, ascending; empty where all are published. `latest`: the
    newest ratified version; None for a table whose versions the catalog does not decide. `permissions`: None where the
    catalog names none, which permits nothing.
    """

    name: TableName
    uuid: str
    location: str
    is_managed: bool
    """Whether the catalog decides the versions, by the property of the feature catalogManaged."""
    table_type: str = ""
    latest: int | None = None
    commits: tuple[Ratified, ...] = ()
    permissions: frozenset[Maintenance] | None = None
    columns: Json = None
    """The schema as the catalog has it, in the spelling of the log (camel case); None where it has none."""
    partition_columns: tuple[str, ...] | None = None
    properties: Mapping[str, str] = {}
    """Configuration without the keys that the catalog makes up."""
    features: frozenset[str] = frozenset()
    """Names of `delta.feature.*` that it lists as supported."""
    domains: Mapping[str, JsonObject] = {}
    has_uniform: bool = False
    takes_commits: bool = True
    """Whether the interface of the catalog takes commits of clients; older ones are read only."""


class Operation(StrEnum):
    """What credentials are asked for."""

    READ = "READ"
    READ_WRITE = "READ_WRITE"


class Verdict(StrEnum):
    """What an answer to a proposed commit proves. `UNKNOWN` proves nothing: it may be ratified now or later.

    `RATIFIED`: this file is the version. `LOST`: another file may have the version; only a reload proves it.
    `PUBLISH_FIRST`: not ratified, too many commits are not published. `AGAIN`: not ratified; the same bytes may be sent
    again. `REFUSED`: not ratified, and never will be in this form.
    """

    RATIFIED = "ratified"
    LOST = "lost"
    PUBLISH_FIRST = "publish-first"
    AGAIN = "again"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Answer(NamedTuple):
    """The answer to a proposal: what it proves, the state of the table where the catalog sent one, its words, how long
    it asks to be left alone before the next request, and the error for a refusal for lack of rights.
    """

    verdict: Verdict
    table: CatalogTable | None = None
    said: str = ""
    wait_seconds: float = 0.0
    denial: CatalogDenied | None = None


class Proposal(NamedTuple):
    """A staged commit to be ratified, with the changes of metadata that its file carries: `updates` are the actions of
    the request beside `add-commit`, as the catalog spells them.
    """

    commit: Ratified
    updates: tuple[JsonObject, ...] = ()


class Catalog(Protocol):
    """A catalog. Methods raise CatalogUnavailable (7), CatalogDenied (7), CatalogNameUnknown (3), NotATable for what is
    no Delta table (3), CatalogAnswerInvalid for answers that are none (3); no other errors. Thread-safe.
    """

    def load(self, name: TableName) -> CatalogTable:
        """Return the table now, by one request (the first one of a process asks for the configuration, too)."""

    def grant(self, table: CatalogTable, operation: Operation) -> Grant:
        """Return credentials for the location of a table."""

    def request_of(self, table: CatalogTable, proposal: Proposal) -> bytes:
        """Return the body of a proposal, made once: repetitions send the same bytes."""

    def ratify(self, table: CatalogTable, body: bytes) -> Answer:
        """Send a proposal once, without repetition by any layer below. Raises where nothing was sent, and not for what
        the catalog answers.
        """

    def report_published(self, table: CatalogTable, version: int) -> CatalogTable:
        """Tell the catalog that all versions up to one are published and proven."""

    def list_catalogs(self) -> Sequence[str]:
        """Return the names of the catalogs that the caller may see, all pages, in order."""

    def tables_of(self, catalog: str, schema: str | None) -> Sequence[Listed]:
        """Return the tables of a catalog or of one of its schemas, all pages, by name."""


class Listed(NamedTuple):
    """A table in a listing, its type and format as the catalog calls them."""

    name: TableName
    table_type: str
    data_format: str

    @property
    def is_managed(self) -> bool:
        """Return True for the catalog's own type of tables whose files it owns."""
        return self.table_type == "MANAGED"
