"""A catalog of local directories, for trying the server out: one share, a schema per directory of tables."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Sequence

from deltacli.errors import NotATable
from deltacli.hints import command
from deltacli.sharing.model import Catalog, Share, SharedSchema, SharedTable
from deltacli.storage import LocalStorage, PathKind

SHARE, DEFAULT_SCHEMA = "local", "default"
_LOG = "_delta_log"
_DEEPEST = 3
_NOT_IN_NAMES = re.compile(r"[\s/\\.\x00-\x1f\x7f-\x9f]+")


def catalog_of(directories: Sequence[str]) -> Catalog:
    """Return tables as `local.default.NAME`, and tables below other directories as `local.DIRECTORY.NAME`, with their
    whole history. Raises NotATable for a directory without a table.
    """
    schemas: dict[str, dict[str, SharedTable]] = {}
    for directory in directories:
        root = os.path.abspath(directory)
        found = list(_tables_below(root, _DEEPEST))
        if not found:
            raise _nothing_in(directory)
        schema = DEFAULT_SCHEMA if found == [root] else name_of(os.path.basename(root))
        tables = schemas.setdefault(schema, {})
        for path in found:
            relative = os.path.basename(root) if path == root else os.path.relpath(path, root).replace(os.sep, "_")
            name = free_name(name_of(relative), tables)
            tables[name] = _table(schema, name, path)
    shared = tuple(SharedSchema(SHARE, name, tuple(tables.values())) for name, tables in schemas.items())
    return Catalog((Share(SHARE, shared),))


def _tables_below(directory: str, depth: int) -> Iterable[str]:
    """Yield the directory if it is a table, else the tables below it. Hidden directories are skipped."""
    storage = LocalStorage(directory)
    if storage.kind_of(_LOG) is PathKind.DIRECTORY:
        yield directory
    elif depth and storage.kind_of("") is PathKind.DIRECTORY:
        for name in storage.list_directories(""):
            if not name.startswith((".", "_")):
                yield from _tables_below(os.path.join(directory, name), depth - 1)


def _nothing_in(directory: str) -> NotATable:
    kind = LocalStorage(os.path.abspath(directory)).kind_of("")
    if kind is PathKind.MISSING:
        return NotATable(f"{directory}: no such directory", code="table.path-missing", hint=command("share serve", "."))
    return NotATable(
        f"no Delta table found in {directory} or the {_DEEPEST} levels below it", hint=command("share serve", help=True)
    )


def name_of(text: str) -> str:
    """Return a name: a text with the characters replaced that names cannot have."""
    return _NOT_IN_NAMES.sub("_", text)[:200].strip("_") or "table"


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, with a number behind it where it is taken in any case."""
    used = {other.casefold() for other in taken}
    return next(free for free in _spellings(name) if free.casefold() not in used)


def _spellings(name: str) -> Iterable[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def _table(schema: str, name: str, path: str) -> SharedTable:
    table_id = str(uuid.uuid5(uuid.NAMESPACE_URL, LocalStorage(path).uri))
    return SharedTable(SHARE, schema, name, path, table_id, history_shared=True)
