"""Lists of shares, schemas and tables, page by page. Names have the spelling of the configuration.

Spec: List Shares; Get Share; List Schemas in a Share; List Tables in a Schema; List all Tables in a Share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from deltacli.core.typing import Json
from deltacli.sharing.model import Share, SharedSchema, SharedTable
from deltacli.sharing.protocol.parameters import ListRequest, require_name
from deltacli.sharing.protocol.wire_errors import missing
from deltacli.sharing.server.interfaces import Access, TokenSeal
from deltacli.sharing.signing.tokens import Bound

PAGE_LIFETIME_MS = 24 * 3_600_000
_KIND = "list"

Item = TypeVar("Item")
Document = dict[str, Json]


@dataclass(frozen=True)
class Lists:
    """Answers lists; page tokens name the last item seen, so that changes between pages lose or repeat nothing else."""

    seal: TokenSeal
    clock: Callable[[], int]

    def shares(self, access: Access, request: ListRequest) -> Document:
        """Return a page of the shares."""
        return self._page(access, "", access.catalog.shares, request, lambda share: share.name, _share_item)

    def share(self, access: Access, name: str) -> Document:
        """Return one share."""
        return {"share": _share_item(find_share(access, name))}

    def schemas(self, access: Access, share: str, request: ListRequest) -> Document:
        """Return a page of the schemas of a share."""
        found = find_share(access, share)
        return self._page(access, found.name, found.schemas, request, lambda schema: schema.name, _schema_item)

    def tables(self, access: Access, share: str, schema: str, request: ListRequest) -> Document:
        """Return a page of the tables of a schema."""
        found, within = find_share(access, share), find_schema(access, share, schema)
        scope = f"{found.name}/{within.name}"
        return self._page(access, scope, within.tables, request, _full_name, lambda one: _table_item(one, found))

    def all_tables(self, access: Access, share: str, request: ListRequest) -> Document:
        """Return a page of all tables of a share."""
        found = find_share(access, share)
        tables = [table for schema in found.schemas for table in schema.tables]
        return self._page(access, f"{found.name}/*", tables, request, _full_name, lambda one: _table_item(one, found))

    def _page(
        self,
        access: Access,
        scope: str,
        items: Sequence[Item],
        request: ListRequest,
        name_of: Callable[[Item], str],
        show: Callable[[Item], Document],
    ) -> Document:
        bound = Bound(access.caller.name, access.caller.epoch, parameters=scope)
        ordered = sorted(items, key=lambda item: name_of(item).casefold())
        if request.page_token is not None:
            opened = self.seal.open(_KIND, request.page_token, bound=bound)
            ordered = [item for item in ordered if name_of(item).casefold() > opened["after"]]
            before = str(opened["after"])
        else:
            before = ""
        shown = ordered[: request.max_results]
        document: Document = {"items": [show(item) for item in shown]}
        if len(ordered) > len(shown):
            after = name_of(shown[-1]).casefold() if shown else before
            expires_ms = self.clock() + PAGE_LIFETIME_MS
            document["nextPageToken"] = self.seal.seal(_KIND, {"after": after}, bound=bound, expires_ms=expires_ms)
        return document


def find_share(access: Access, name: str) -> Share:
    """Return a share that the caller may see. Raises WireError."""
    found = access.catalog.find_share(require_name(name))
    if found is None:
        raise missing("share", name)
    return found


def find_schema(access: Access, share: str, name: str) -> SharedSchema:
    """Return a schema that the caller may see. Raises WireError."""
    found = find_share(access, share).find_schema(require_name(name))
    if found is None:
        raise missing("schema", f"{share}.{name}")
    return found


def find_table(access: Access, share: str, schema: str, name: str) -> SharedTable:
    """Return a table that the caller may read. Raises WireError."""
    found = find_schema(access, share, schema).find_table(require_name(name))
    if found is None:
        raise missing("table", f"{share}.{schema}.{name}")
    return found


def _share_item(share: Share) -> Document:
    return {"name": share.name} | ({} if share.share_id is None else {"id": share.share_id})


def _schema_item(schema: SharedSchema) -> Document:
    return {"name": schema.name, "share": schema.share}


def _table_item(table: SharedTable, share: Share) -> Document:
    item = {"name": table.name, "schema": table.schema, "share": table.share, "id": table.table_id}
    return item | ({} if share.share_id is None else {"shareId": share.share_id})


def _full_name(table: SharedTable) -> str:
    return f"{table.schema}/{table.name}"
