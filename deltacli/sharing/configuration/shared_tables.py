"""The shares, schemas and tables of `shares.yaml` and its includes, with tables that a wildcard matches."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from deltacli.core.errors import FileMissing
from deltacli.core.pools import ThreadPool
from deltacli.sharing.configuration.directory_access import (
    Inherited,
    read_about,
    read_delegation,
    read_modes,
    static_refusal,
)
from deltacli.sharing.configuration.fields import Fields, Node, fault_in_name
from deltacli.sharing.configuration.keys import SCHEMA_KEYS, SHARE_KEYS, TABLE_KEYS, read_number
from deltacli.sharing.model import Catalog, Share, SharedSchema, SharedTable
from deltacli.sharing.protocol.names import LONGEST_NAME
from deltacli.storage import Storage
from deltacli.storage.base import PathKind
from deltacli.storage.secrets import is_secret_name, remember_secrets

OpenStore = Callable[[str, Mapping[str, str]], Storage]
"""Opens the store of a location with its options."""

MOST_TABLES = 200_000
_NAMESPACE = uuid.UUID("6d5b7a0e-6a0b-4d0c-9a53-0c7b7d9f3c11")


@dataclass
class CatalogReader:
    """Collects the shares of several files.

    Attributes:
        open_store: Opens the stores in which wildcards are looked up. With None, wildcards match nothing.
        has_wildcards: Whether a wildcard was read.
        lines: The place of each table (`file:line`), by its full name in lower case.
    """

    open_store: OpenStore | None
    has_wildcards: bool = False
    lines: dict[str, str] = field(default_factory=dict)
    _shares: dict[str, Share] = field(default_factory=dict)
    _places: dict[str, str] = field(default_factory=dict)
    _ids: set[tuple[str, str]] = field(default_factory=set)

    def catalog(self) -> Catalog:
        """Return everything that was added."""
        return Catalog(tuple(self._shares.values()))

    def add_shares(self, top: Fields, inherited: Inherited) -> None:
        """Add the shares of a file. Raises UsageError, and StorageFailed for wildcards."""
        inherited = self.inherit(top, inherited)
        for node in top.items("shares"):
            fields = Fields(top.source, node, "the share")
            fields.require_known(SHARE_KEYS)
            name = self._name(fields, "share", (), may_have_dots=True)
            below = self.inherit(fields, inherited)
            schemas = tuple(self._schema(fields, name, item, below) for item in fields.items("schemas"))
            self._shares[name.casefold()] = Share(name, schemas, fields.text("id") or None, read_about(fields))

    def inherit(self, fields: Fields, above: Inherited) -> Inherited:
        """Return what is below takes from a mapping, and from what that is in. Raises UsageError."""
        options = self.options_of(fields, above.options)
        return Inherited(options, read_modes(fields, above.modes), read_delegation(fields, above.delegation))

    def options_of(self, fields: Fields, inherited: Mapping[str, str]) -> Mapping[str, str]:
        """Return the options of the store for what is below, with references to secrets resolved. Raises UsageError."""
        storage_options = fields.fields("storageOptions")
        if storage_options is None:
            return inherited

        options = dict(inherited)
        for key in storage_options:
            value, is_clear = storage_options.secret(key)
            if value is None:
                # An option that is null here is not inherited from above.
                options.pop(key, None)
                continue
            if is_clear and is_secret_name(key):
                message = f"the secret {key} is in clear text; ${{NAME}} and file:PATH refer to it elsewhere"
                storage_options.source.note(storage_options.line_of(key), message)
            options[key] = value

        remember_secrets(options)
        return options

    def _schema(self, share: Fields, share_name: str, node: Node, inherited: Inherited) -> SharedSchema:
        fields = Fields(share.source, node, "the schema")
        fields.require_known(SCHEMA_KEYS)
        name = self._name(fields, "schema", (share_name,))
        below = self.inherit(fields, inherited)
        tables: list[SharedTable] = []
        for item in fields.items("tables"):
            tables += self._tables(Fields(share.source, item, "the table"), (share_name, name), below)
        return SharedSchema(share_name, name, tuple(tables))

    def _tables(self, fields: Fields, above: tuple[str, str], inherited: Inherited) -> list[SharedTable]:
        """Return the tables of an entry: one, or those that its wildcard matches.

        Args:
            fields: The entry.
            above: The names of the share and of the schema.
            inherited: What the schema passes on.

        Raises:
            UsageError: If the entry is wrong.
            StorageFailed: If the directories of a wildcard cannot be listed.
        """
        fields.require_known(TABLE_KEYS)
        location = _location(fields)
        below = self.inherit(fields, inherited)
        if not _is_wildcard(location):
            if DIRECTORY in (fields.text("name") or ""):
                raise fields.fault("name", f"contains {DIRECTORY}, but location has no wildcard")
            return [self._table(fields, above, fields.required("name"), location, below)]

        self.has_wildcards = True
        if "id" in fields:
            raise fields.fault("id", "is the same for all tables of a wildcard", hint="omit id")
        pattern = fields.text("name") or DIRECTORY
        if DIRECTORY not in pattern:
            raise fields.fault("name", f"is the same for all tables of a wildcard; it must contain {DIRECTORY}")
        if self.open_store is None:
            return []

        tables = []
        for match in _find_directories(fields, location, below.options, self.open_store):
            name = pattern.replace(DIRECTORY, match.directory)
            if self._is_nameable(fields, name, match.location):
                tables.append(self._table(fields, above, name, match.location, below))
        return tables

    @staticmethod
    def _is_nameable(fields: Fields, name: str, location: str) -> bool:
        """Return True if the directory of a wildcard gives a valid name; others are noted and left out."""
        reason = fault_in_name(name)
        if reason is not None:
            fields.source.note(fields.line, f"{location} is not shared: the name {name!r} is refused, {reason}")
        return reason is None

    def _table(
        self, fields: Fields, above: tuple[str, str], name: str, location: str, inherited: Inherited
    ) -> SharedTable:
        self._require_name(fields, "table", above, name)
        full_name = ".".join((*above, name))
        self.lines[full_name.lower()] = f"{fields.source.path}:{fields.line}"
        if len(self.lines) > MOST_TABLES:
            raise fields.source.fault(fields.line, f"there are more than {MOST_TABLES:,} tables")
        table = SharedTable(
            share=above[0],
            schema=above[1],
            name=name,
            location=location,
            table_id=self._table_id(fields, above[0], full_name),
            history_shared=self._shares_history(fields),
            start_version=read_number(fields, TABLE_KEYS, "startVersion"),
            storage_options=inherited.options,
            access_modes=inherited.modes,
            auxiliary_locations=fields.texts("auxiliaryLocations"),
            delegation=inherited.delegation,
            is_feed_hidden=not fields.flag("cdfEnabled", default=True),
        )
        if reason := static_refusal(table):
            key = "accessModes" if "accessModes" in fields else "location"
            hint = f"accessModes: [url] for {full_name}"
            raise fields.fault(key, f"{full_name} must not be given by directory: {reason}", hint=hint)
        return table

    @staticmethod
    def _shares_history(fields: Fields) -> bool:
        """Return `historyShared`, or its former name where that is used."""
        if "cdfEnabled" in fields:
            fields.source.note(fields.line_of("cdfEnabled"), "cdfEnabled is the former name of historyShared")
        return fields.flag("historyShared", default=fields.flag("cdfEnabled"))

    def _table_id(self, fields: Fields, share: str, full_name: str) -> str:
        """Return the configured id, or one that follows from the name. Ids that a share uses twice are replaced."""
        own = fields.text("id")
        if own:
            if len(own) > LONGEST_NAME or not own.isprintable():
                raise fields.fault("id", f"has more than {LONGEST_NAME} characters, or control characters")
            if (share.casefold(), own) not in self._ids:
                self._ids.add((share.casefold(), own))
                return own
            fields.source.note(fields.line_of("id"), f"{full_name} gets another id: {own!r} is used twice in the share")
        return str(uuid.uuid5(_NAMESPACE, full_name.casefold()))

    def _name(self, fields: Fields, kind: str, above: tuple[str, ...], *, may_have_dots: bool = False) -> str:
        name = fields.required("name")
        self._require_name(fields, kind, above, name, may_have_dots=may_have_dots)
        return name

    def _require_name(
        self, fields: Fields, kind: str, above: tuple[str, ...], name: str, *, may_have_dots: bool = False
    ) -> None:
        """Raise UsageError for an invalid name, and for one that is used before, without regard to case."""
        if reason := fault_in_name(name, may_have_dots=may_have_dots):
            raise fields.fault("name", f"is {name[:60]!r}: {reason}")
        key = "/".join((*above, name)).casefold()
        if first := self._places.get(key):
            raise fields.fault("name", f"is {name!r}, and {first} has the same {kind} (names ignore case)")
        self._places[key] = f"{fields.source.path}:{fields.line_of('name')}"


def _location(fields: Fields) -> str:
    """Return the location of a table; a relative path starts at the directory of the file. Raises UsageError."""
    location = fields.required("location")
    if not location.strip() or not location.isprintable():
        raise fields.fault("location", "is empty or contains control characters", expected="a path or a URI")
    if "://" in location or location.startswith(("file:", "~")):
        return location
    return os.path.abspath(fields.source.place_of(location))


DIRECTORY = "${dir}"
"""What stands for the matching directory in the name of a table."""


class _Match(NamedTuple):
    """A directory that matches, and the location of the table at or below it."""

    directory: str
    location: str


def _is_wildcard(location: str) -> bool:
    return "*" in location


def _find_directories(fields: Fields, location: str, options: Mapping[str, str], open_store: OpenStore) -> list[_Match]:
    """Return the tables that a wildcard matches, by the name of their directory.

    Directories without a log are left out. Each takes a request, so they are looked for in parallel.

    Raises:
        UsageError: If more than one directory of the location has a wildcard.
        StorageFailed: If the store cannot be listed.
    """
    prefix, pattern, below = _split(fields, location)
    store = open_store(prefix, options)
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    try:
        directories = list(store.list_directories(""))
    except FileMissing:
        directories = []
    names = [name for name in directories if expression.fullmatch(name) and not name.startswith("_")]

    def has_log(name: str) -> bool:
        return store.kind_of(_join(name, below, "_delta_log")) is PathKind.DIRECTORY

    with ThreadPool(store.capabilities.parallel_reads) as pool:
        is_table = dict(zip(names, pool.map(has_log, names), strict=True))
    tables = [name for name in names if is_table[name]]
    if not tables:
        fields.source.note(fields.line_of("location"), f"no table matches {location}")
    return [_Match(name, _join(prefix.rstrip("/"), name, below)) for name in tables]


def _join(*parts: str) -> str:
    """Return the parts of a path that are not empty, joined."""
    return "/".join(filter(None, parts))


def _split(fields: Fields, location: str) -> tuple[str, str, str]:
    """Return the directory above the wildcard, the name with the wildcard, and the path below it."""
    scheme, separator, path = location.partition("://")
    if not separator:
        scheme, path = "", location
    parts = path.rstrip("/").split("/")
    places = [place for place, part in enumerate(parts) if _is_wildcard(part)]
    is_in_bucket = bool(separator) and places[0] == 0
    if len(places) != 1 or is_in_bucket or _is_wildcard(scheme):
        raise fields.fault("location", "must have * in one directory", expected="s3://bucket/tenant_*/orders")
    place = places[0]
    return f"{scheme}{separator}{'/'.join(parts[:place])}" or "/", parts[place], "/".join(parts[place + 1 :])
