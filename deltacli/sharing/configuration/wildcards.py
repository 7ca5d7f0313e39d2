"""Locations with a wildcard: one entry of the configuration that shares every table below matching directories."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from deltacli.errors import FileMissing
from deltacli.sharing.configuration.fields import Fields
from deltacli.storage.base import PathKind

if TYPE_CHECKING:
    from deltacli.storage import Storage

DIRECTORY = "${dir}"
"""What stands for the matching directory in the name of a table."""


class Match(NamedTuple):
    """A directory that matches, and the location of the table at or below it."""

    directory: str
    location: str


def is_wildcard(location: str) -> bool:
    """Return True for a location with a `*`."""
    return "*" in location


def find_directories(
    fields: Fields, location: str, options: Mapping[str, str], open_store: Callable[[str, Mapping[str, str]], Storage]
) -> list[Match]:
    """Return the tables that a wildcard matches, by the name of their directory. Directories without a log are left
    out.

    Raises UsageError for more than one directory with a wildcard, and StorageFailed where the store cannot be listed.
    """
    prefix, pattern, rest = _split(fields, location)
    store = open_store(prefix, options)
    matches = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    try:
        names = [name for name in store.list_directories("") if matches.fullmatch(name) and not name.startswith("_")]
    except FileMissing:
        names = []

    def has_log(name: str) -> bool:
        return store.kind_of("/".join(filter(None, (name, rest, "_delta_log")))) is PathKind.DIRECTORY

    with ThreadPoolExecutor(store.capabilities.parallel_reads) as pool:
        found = [name for name, is_table in zip(names, pool.map(has_log, names), strict=True) if is_table]
    if not found:
        fields.source.note(fields.line_of("location"), f"no table matches {location}")
    return [Match(name, "/".join(filter(None, (prefix.rstrip("/"), name, rest)))) for name in found]


def _split(fields: Fields, location: str) -> tuple[str, str, str]:
    """Return the directory above the wildcard, the name with the wildcard, and the path below it."""
    scheme, separator, path = location.partition("://")
    if not separator:
        scheme, path = "", location
    parts = path.rstrip("/").split("/")
    places = [place for place, part in enumerate(parts) if is_wildcard(part)]
    is_in_bucket = bool(separator) and places[0] == 0
    if len(places) != 1 or is_in_bucket or is_wildcard(scheme):
        raise fields.fault("location", "must have * in one directory", expected="s3://bucket/tenant_*/orders")
    place = places[0]
    return f"{scheme}{separator}{'/'.join(parts[:place])}" or "/", parts[place], "/".join(parts[place + 1 :])
