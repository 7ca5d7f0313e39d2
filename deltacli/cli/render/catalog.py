"""What the commands of `catalog` show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.cli.render.columns import Column, Section
from deltacli.cli.results import Listing
from deltacli.core.documents import SCHEMA_VERSION

if TYPE_CHECKING:
    from deltacli.catalogs.base import Listed
    from deltacli.core.typing import Json, JsonObject


def listing_result(address: str, tables: Sequence[Listed]) -> Listing[JsonObject]:
    """Return the tables of a catalog or a schema, with their whole names."""
    items: list[dict[str, Json]] = [
        {
            "name": str(one.name).removeprefix("uc://"),
            "type": one.table_type,
            "format": one.data_format,
            "managed": one.is_managed,
        }
        for one in tables
    ]
    columns: list[Column[JsonObject]] = [
        Column("name", lambda one: one["name"], priority=1),
        Column("type", lambda one: one["type"], priority=2),
        Column("format", lambda one: one["format"], priority=3),
        Column("managed", lambda one: one["managed"], on_screen=False),
    ]
    fields = {"kind": "deltacli.catalog-ls", "schemaVersion": SCHEMA_VERSION, "complete": True, "address": address}
    said = [] if items else [Section("tables", ["none"])]
    return Listing(fields, "catalog-table", items, columns, items, said=lambda _: said)
