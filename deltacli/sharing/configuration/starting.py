"""Sharing without a configuration: the catalog of local directories that the server is tried out with, and the
configuration that `share init` writes.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Sequence
from itertools import chain, count
from typing import NamedTuple

import orjson

from deltacli.core.errors import NotATable, UsageError, command
from deltacli.sharing.configuration.fields import CODE, USUAL
from deltacli.sharing.configuration.keys import FORMAT_VERSION
from deltacli.sharing.configuration.settings import Settings
from deltacli.sharing.model import Catalog, Share, SharedSchema, SharedTable
from deltacli.storage import LocalStorage, PathKind

SHARE, DEFAULT_SCHEMA = "local", "default"
_LOG = "_delta_log"
_DEEPEST = 3
_NOT_IN_NAMES = re.compile(r"[\s/\\.#\x00-\x1f\x7f-\x9f]+")
"""`#` because it ends the profile in the address of a table."""


def make_catalog_of_directories(directories: Sequence[str]) -> Catalog:
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
            table_id = str(uuid.uuid5(uuid.NAMESPACE_URL, LocalStorage(path).uri))
            tables[name] = SharedTable(SHARE, schema, name, path, table_id, history_shared=True)
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
    if directory[:5].lower() == "uc://":
        message = f"{directory}: a table of a catalog is shared by a configuration, not by its address"
        return NotATable(message, code="table.path-missing", hint=command("share init", directory))
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
    spellings = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(free for free in spellings if free.casefold() not in used)


_FILE = """\
{schema}# What a Delta Sharing server shares: {serve}
# A running server applies a change of this file within a second. To open every table before:
# {check}
version: {version}
host: {host}   # for other machines the server needs ssl, or a proxy with https
port: 8080
# publicUrl: https://share.example.com   # the address in profiles, where it is another one
# To add a recipient: {add}
recipients: recipients.json
# The key that signs URLs of files, so that they stay valid when the server starts again.
keyFile: keys.json

shares:
{shares}"""
_TABLE = """\
    - name: {name}
      location: {location}
      # historyShared: true   # older versions and changes, too
"""


class StartedTable(NamedTuple):
    """A table that was found, and the names it is shared by."""

    share: str
    schema: str
    name: str
    location: str

    @property
    def full_name(self) -> str:
        return f"{self.share}.{self.schema}.{self.name}"


def name_shared_tables(found: Sequence[tuple[str, Sequence[str]]]) -> list[StartedTable]:
    """Return names for the tables below directories: a share per directory, a schema per directory of tables in it."""
    named: list[StartedTable] = []
    shares: set[str] = set()
    for directory, tables in found:
        root = directory.rstrip("/")
        share = free_name(name_of(root.rpartition("/")[2]), shares)
        shares.add(share)
        taken: dict[str, set[str]] = {}
        for location in tables:
            *above, last = location.removeprefix(root).strip("/").split("/")
            schema = name_of("_".join(above)) if above else DEFAULT_SCHEMA
            names = taken.setdefault(schema, set())
            name = free_name(name_of(last or share), names)
            names.add(name)
            named.append(StartedTable(share, schema, name, location))
    return named


def make_starting_configuration(file: str, tables: Sequence[StartedTable], schema: str | None = None) -> str:
    """Return the text of a configuration. `schema` is the name of the schema beside it, for editors. Raises UsageError
    for a location that it cannot name.
    """
    home = os.path.dirname(os.path.abspath(file))
    config = {} if file == USUAL else {"config": file}
    return _FILE.format(
        schema="" if schema is None else f"# yaml-language-server: $schema=./{schema}\n",
        version=FORMAT_VERSION,
        host=Settings.host,
        serve=_one_line(command("share serve", config=file)),
        check=_one_line(command("share check", **config)),
        add=_one_line(command("share recipient add", "NAME", grant=tables[0].share, **config)),
        shares="".join(_shares(tables, home)),
    )


def _shares(tables: Sequence[StartedTable], home: str) -> Iterable[str]:
    share = schema = None
    for table in sorted(tables, key=lambda one: one[:2]):
        place = _quoted(_place(table.location, home))
        if table.share != share:
            share, schema = table.share, None
            yield f"- name: {_quoted(share)}\n  schemas:\n"
        if table.schema != schema:
            schema = table.schema
            yield f"  - name: {_quoted(schema)}\n    tables:\n"
        yield _TABLE.format(name=_quoted(table.name), location=place)


def _place(location: str, home: str) -> str:
    """Return a URI as it is, and a path relative to the directory of the file if it is below it."""
    if not location.isprintable() or "*" in location:
        raise UsageError(f"{location!r} has characters that a configuration cannot name", code=CODE)
    if "://" in location or location.startswith("file:"):
        return location
    below = os.path.relpath(location, home)
    return location if below.startswith("..") else f"./{below}"


def _quoted(text: str) -> str:
    """Return a scalar of YAML: as it is where it is plainly a text, else as JSON writes it."""
    if re.fullmatch(r"[./]*[A-Za-z][A-Za-z0-9_./=-]*", text) and text.lower() not in _WORDS:
        return text
    return orjson.dumps(text).decode()


_WORDS = frozenset({"false", "no", "null", "off", "on", "true", "y", "yes", "n"})
"""Scalars of YAML that are no texts, in one of its versions."""


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
