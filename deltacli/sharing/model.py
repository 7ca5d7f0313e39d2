"""What is shared with whom: shares, schemas, tables, and the recipients who may read them.

Names are compared without regard to case; answers have the spelling of the configuration. Spec: Delta Sharing,
Concepts; Names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from deltacli.core.lock_free_property import cached_property
from deltacli.storage.signing.delegation import Delegation


class AccessMode(StrEnum):
    """How recipients may read a table: by the URLs of its files, or by credentials for its directory."""

    URL = "url"
    DIR = "dir"


URL_ONLY = (AccessMode.URL,)


@dataclass(frozen=True)
class SharedTable:
    """A table under its shared name.

    `table_id` stays the same as long as the table is shared under this name, or is what the configuration says.
    Without `history_shared` only the newest version is readable; no version before `start_version` ever is.
    `access_modes` are the configured ones: a table that must not be given by directory loses that one. `is_feed_hidden`
    is `cdfEnabled: false`.
    """

    share: str
    schema: str
    name: str
    location: str
    table_id: str
    history_shared: bool = False
    start_version: int = 0
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    access_modes: tuple[AccessMode, ...] = URL_ONLY
    auxiliary_locations: tuple[str, ...] = ()
    delegation: Delegation = field(default_factory=Delegation)
    is_feed_hidden: bool = False

    @property
    def full_name(self) -> str:
        """`share.schema.table`."""
        return f"{self.share}.{self.schema}.{self.name}"


@dataclass(frozen=True)
class SharedSchema:
    """A schema of a share, with its tables in the order of the configuration."""

    share: str
    name: str
    tables: tuple[SharedTable, ...]

    def find_table(self, name: str) -> SharedTable | None:
        return self._by_name.get(name.casefold())

    @cached_property
    def _by_name(self) -> Mapping[str, SharedTable]:
        return {table.name.casefold(): table for table in self.tables}


@dataclass(frozen=True)
class Share:
    """A share, with its schemas in the order of the configuration. `share_id` is None where none is configured.
    `about`: the members of its item that are for people (`displayName`, `comment`, `properties`).
    """

    name: str
    schemas: tuple[SharedSchema, ...]
    share_id: str | None = None
    about: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)

    def find_schema(self, name: str) -> SharedSchema | None:
        return self._by_name.get(name.casefold())

    @cached_property
    def _by_name(self) -> Mapping[str, SharedSchema]:
        return {schema.name.casefold(): schema for schema in self.schemas}


@dataclass(frozen=True)
class Grant:
    """What a recipient may read: a share, one schema of it, or one table. None means everything below."""

    share: str
    schema: str | None = None
    table: str | None = None

    def covers(self, table: SharedTable) -> bool:
        """Return True if the table may be read."""
        return (
            _same(self.share, table.share)
            and (self.schema is None or _same(self.schema, table.schema))
            and (self.table is None or _same(self.table, table.name))
        )


@dataclass(frozen=True)
class Catalog:
    """Everything that one recipient, or the whole server, sees."""

    shares: tuple[Share, ...]

    def find_share(self, name: str) -> Share | None:
        return self._by_name.get(name.casefold())

    def find_table(self, share: str, schema: str, table: str) -> SharedTable | None:
        """Return the table of these names, or None."""
        found = self.find_share(share)
        within = found.find_schema(schema) if found else None
        return within.find_table(table) if within else None

    def granted(self, grants: Sequence[Grant]) -> Catalog:
        """Return what the grants cover. What they do not cover is not there at all, so it looks like missing."""
        shares = []
        for share in self.shares:
            schemas = (_covered(schema, grants) for schema in share.schemas)
            kept = tuple(schema for schema in schemas if schema.tables or _names_schema(grants, schema))
            if kept or any(grant == Grant(grant.share) and _same(grant.share, share.name) for grant in grants):
                shares.append(replace(share, schemas=kept))
        return Catalog(tuple(shares))

    @cached_property
    def _by_name(self) -> Mapping[str, Share]:
        return {share.name.casefold(): share for share in self.shares}


def _covered(schema: SharedSchema, grants: Sequence[Grant]) -> SharedSchema:
    tables = tuple(table for table in schema.tables if any(grant.covers(table) for grant in grants))
    return SharedSchema(schema.share, schema.name, tables)


def _names_schema(grants: Sequence[Grant], schema: SharedSchema) -> bool:
    """Return True if a grant covers the whole schema, which is visible then although it has no table."""
    return any(
        grant.table is None
        and _same(grant.share, schema.share)
        and (grant.schema is None or _same(grant.schema, schema.name))
        for grant in grants
    )


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


@dataclass(frozen=True)
class Problem:
    """What is wrong with a profile or with what is shared. A warning keeps nobody from connecting or reading."""

    code: str
    message: str
    is_error: bool = True

    @property
    def severity(self) -> str:
        return "error" if self.is_error else "warning"

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "severity": self.severity, "message": self.message}
