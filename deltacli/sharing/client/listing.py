"""Lists of shares, schemas and tables, page by page. Spec: List Shares; List Schemas in a Share; List Tables in a
Schema; List all Tables in a Share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from deltacli.core.typing import Json
from deltacli.sharing.client.addresses import TableName
from deltacli.sharing.client.faults import ShareAbsent, clean, invalid, too_much
from deltacli.sharing.client.transport import Request, Transport

_A_PAGE = 500


@dataclass(frozen=True, slots=True)
class ListedShare:
    """A share, and its id where the server has one."""

    name: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ListedSchema:
    """A schema of a share."""

    share: str
    name: str


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table, and the ids of it and of its share where the server has some. `access_modes` are what it is read by:
    `url`, which is meant by none, and `dir`, its directory with temporary credentials, which this client does not read.
    """

    share: str
    schema: str
    name: str
    id: str | None = None
    share_id: str | None = None
    access_modes: tuple[str, ...] = ()

    @property
    def full_name(self) -> TableName:
        """The three names."""
        return TableName(self.share, self.schema, self.name)


def list_shares(transport: Transport) -> Iterator[ListedShare]:
    """Yield the shares that the recipient may read."""
    for item in _items(transport, "/shares"):
        yield ListedShare(_name(item, "name"), _optional(item, "id"))


def list_schemas(transport: Transport, share: str) -> Iterator[ListedSchema]:
    """Yield the schemas of a share."""
    for item in _items(transport, f"/shares/{quote(share, safe='')}/schemas"):
        yield ListedSchema(share, _name(item, "name"))


def list_tables(transport: Transport, share: str, schema: str | None = None) -> Iterator[ListedTable]:
    """Yield the tables of a share, or of a schema. Servers without `all-tables` are asked schema by schema."""
    below = f"/shares/{quote(share, safe='')}"
    if schema is not None:
        path = f"{below}/schemas/{quote(schema, safe='')}/tables"
        yield from (_table(item, share, schema) for item in _items(transport, path))
        return
    try:
        yield from (_table(item, share, None) for item in _items(transport, f"{below}/all-tables"))
    except ShareAbsent:
        for found in list(list_schemas(transport, share)):
            yield from list_tables(transport, share, found.name)


def _items(transport: Transport, path: str) -> Iterator[dict[str, Json]]:
    """Yield the items of all pages. Raises AnswerInvalid where a page token comes again."""
    limits, seen, count = transport.limits, set[str](), 0
    token: str | None = None
    while True:
        query: dict[str, str | int] = {"maxResults": _A_PAGE}
        _, document = transport.document(Request("GET", path, query if token is None else query | {"pageToken": token}))
        items = document.get("items") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(items or [], list):
            raise invalid("a list is not an object with items", {"path": path})
        for item in items or []:
            if not isinstance(item, dict):
                raise invalid("an item of a list is not an object", {"path": path})
            count += 1
            if count > limits.items:
                raise too_much("a list", f"{limits.items:,} items")
            yield item
        token = document.get("nextPageToken") or None
        if token is None:
            return
        if not isinstance(token, str) or token in seen:
            raise invalid("a list repeats a page token", {"path": path, "pages": len(seen) + 1})
        seen.add(token)
        if len(seen) >= limits.pages:
            raise too_much("a list", f"{limits.pages:,} pages")


def _table(item: dict[str, Json], share: str, schema: str | None) -> ListedTable:
    found = _optional(item, "schema") or schema
    if found is None:
        raise invalid("a table of a list has no schema")
    share_id = _optional(item, "shareId")
    own = _optional(item, "share") or share
    return ListedTable(own, found, _name(item, "name"), _optional(item, "id"), share_id, _access_modes(item))


def _access_modes(item: dict[str, Json]) -> tuple[str, ...]:
    given = item.get("accessModes")
    if given is None:
        return ()
    if not isinstance(given, list):
        raise invalid("the accessModes of a table are not an array")
    return tuple(clean(one).lower() for one in given if isinstance(one, str))


def _name(item: dict[str, Json], name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise invalid(f"an item of a list has no {name}")
    return clean(value)


def _optional(item: dict[str, Json], name: str) -> str | None:
    value = item.get(name)
    return clean(value) if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """A table; or a schema without tables, or a share without schemas, whose other names are None."""

    share: str
    schema: str | None = None
    table: str | None = None
    id: str | None = None
    share_id: str | None = None
    access_modes: tuple[str, ...] = ()

    @property
    def is_readable(self) -> bool:
        """Return whether this client can read the table: by URLs of its files, unless modes without them are named."""
        return self.table is not None and (not self.access_modes or "url" in self.access_modes)

    @property
    def full_name(self) -> str:
        """The names, joined by dots."""
        return ".".join(name for name in (self.share, self.schema, self.table) if name is not None)


def list_entries(transport: Transport, names: str | None = None) -> list[ListedEntry]:
    """Return everything that a profile gives access to, or what is below a share or a schema: `SHARE[.SCHEMA]`.

    The name of a share may contain dots. Raises ShareAbsent.
    """
    shares = list(list_shares(transport))
    if names is None:
        return [entry for share in shares for entry in _entries_of(transport, share, None)]
    whole = _find(shares, names)
    if whole is not None:
        return _entries_of(transport, whole, None)
    name, dot, schema = names.rpartition(".")
    share = _find(shares, name) if dot else None
    if share is None:
        facts = {"shares": ", ".join(one.name for one in shares[:_FEW])} if shares else {}
        raise ShareAbsent(f"no share of the profile is named {clean(names)}", facts=facts)
    return _entries_of(transport, share, schema)


_FEW = 20


def _find(shares: list[ListedShare], name: str) -> ListedShare | None:
    return next((share for share in shares if share.name.casefold() == name.casefold()), None)


def _entries_of(transport: Transport, share: ListedShare, schema: str | None) -> list[ListedEntry]:
    tables = list(list_tables(transport, share.name, schema))
    known = {table.schema.casefold() for table in tables}
    found = [
        ListedEntry(share.name, one.schema, one.name, one.id, one.share_id or share.id, one.access_modes)
        for one in tables
    ]
    if schema is not None:
        return found or [ListedEntry(share.name, schema, share_id=share.id)]
    schemas = [one.name for one in list_schemas(transport, share.name) if one.name.casefold() not in known]
    found += [ListedEntry(share.name, name, share_id=share.id) for name in schemas]
    return found or [ListedEntry(share.name, share_id=share.id)]
