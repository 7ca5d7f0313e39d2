"""Shares, schemas and tables: a tree on a terminal, a line per table elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from deltacli.cli.render.columns import Column
from deltacli.cli.render.sharing.recipients import share_fields
from deltacli.cli.results import Listing
from deltacli.typing import Json, JsonObject

if TYPE_CHECKING:
    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.sharing.client.listing import ListedEntry

_NAMES = ("share", "schema", "table")


def listing_result(profile: str, entries: Sequence[ListedEntry]) -> Listing[JsonObject]:
    """Return what a profile gives access to. A share without schemas, and a schema without tables, has an entry."""
    items = [_as_json(entry) for entry in entries]
    columns: list[Column[JsonObject]] = [Column(name, lambda one, name=name: one.get(name)) for name in _NAMES]  # type: ignore[misc]
    columns.append(Column("id", lambda one: one.get("id"), on_screen=False))
    return Listing(
        share_fields("share-ls", profile=profile),
        "share-entry",
        items,
        columns,
        items,
        drawn=partial(_draw, profile, entries),
    )


def _as_json(entry: ListedEntry) -> dict[str, Json]:
    found = {
        "share": entry.share,
        "schema": entry.schema,
        "table": entry.table,
        "id": entry.id,
        "shareId": entry.share_id,
    }
    return {name: value for name, value in found.items() if value is not None}


def _draw(profile: str, entries: Sequence[ListedEntry], canvas: Canvas) -> None:
    """Draw the names as a tree."""
    from rich.tree import Tree

    from deltacli.cli.terminal.term import Style

    root = Tree(canvas.text(profile, Style.HEADING), guide_style=str(Style.FRAME))
    branches: dict[tuple[str, ...], Tree] = {(): root}
    for entry in entries:
        path: tuple[str, ...] = ()
        for name in (entry.share, entry.schema, entry.table):
            if name is None:
                break
            if (*path, name) not in branches:
                style = Style.TYPE if len(path) == 2 else Style.HEADING
                branches[(*path, name)] = branches[path].add(canvas.text(name, style))
            path = (*path, name)
    canvas.draw(root)
