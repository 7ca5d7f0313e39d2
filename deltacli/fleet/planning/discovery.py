"""Finding the tables of all groups: directories are listed in parallel, level by level, and each at most once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from deltacli.core.errors import DeltacliError, FileMissing, NotATable
from deltacli.core.progress import SILENT, Progress
from deltacli.delta.log.segment import BACKUP_LIST, LOG_DIRECTORY
from deltacli.fleet.policy_file.model import Entry, Group, is_catalog_pattern
from deltacli.storage import LocalStorage, ReadStorage, Storage
from deltacli.table.discover import MAX_DEPTH
from deltacli.table.table_directories import is_paimon_directory, list_table_directories

if TYPE_CHECKING:
    from deltacli.engine.base import Engine

_MAGIC = re.compile(r"[*?\[]")
_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]]*\]|.", re.DOTALL)


class Pattern(NamedTuple):
    """A directory to search in, and the names of directories on the way down; `**` stands for any number of them."""

    base: str
    segments: tuple[str, ...]


def split_pattern(text: str) -> Pattern:
    """Return a glob as the directory before its first special character, and the names after it."""
    scheme, separator, path = text.partition("://") if "://" in text else ("", "", text)
    parts = path.split("/")
    first = next((number for number, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    base = f"{scheme}{separator}{'/'.join(parts[:first])}" or "/"
    segments = [part for part in parts[first:] if part]
    while segments and segments[-1] == "**":
        segments.pop()  # directories below are searched anyway
    return Pattern(base, tuple(segments))


def exclusion(entries: Iterable[Entry]) -> re.Pattern[str] | None:
    """Return an expression for the names of directories that are, or are below, one that matches; None for none."""
    texts = [_expression(text) for entry in entries for text in {entry.text: None, _resolved(entry.text): None}]
    return re.compile(f"(?:{'|'.join(texts)})(?:/.*)?", re.DOTALL) if texts else None


def _resolved(glob: str) -> str:
    """Return a glob as identities are spelled: links before its first special character are resolved."""
    if local := _FILE_URI.match(glob):
        glob = unquote(_QUOTED_MAGIC.sub(r"[\g<0>]", glob[local.end() :]), errors="surrogateescape")
    elif "://" in glob:
        return _one_spelling(glob)
    base = split_pattern(glob).base
    return os.path.realpath(base) + glob[len(base) :]


def _expression(glob: str) -> str:
    scheme, separator, path = glob.partition("://") if "://" in glob else ("", "", glob)
    return re.escape(scheme + separator) + "".join(map(_part, _PARTS.findall(path)))


def _part(part: str) -> str:
    match part:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case _ if part.startswith("[") and len(part) > 1:
            inner = part[1:-1].replace("\\", r"\\")
            return f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
        case _:
            return re.escape(part)


Opener = Callable[[str], "Storage"]
Expander = Callable[[str], Sequence[str]]
"""Returns the addresses of the tables of a catalog that match a pattern `uc://CATALOG.SCHEMA.PATTERN`."""

_FILE_URI = re.compile(r"(?i)file:(?://(?:localhost)?)?(?=/)")
_QUOTED_MAGIC = re.compile(r"(?i)%(?:2A|3F|5B)")
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_AZURE = re.compile(r"(?i)(?:abfss?|wasbs?|az)://([^/@]+)@([^/.]+)\.(?:blob|dfs)\.([^/]+)")
_AZURE_HTTPS = re.compile(r"(?i)\Ahttps://([^/.]+)\.(?:blob|dfs)\.([^/]+)/([^/]+)")


class FoundTable(NamedTuple):
    """A table of a group: its path or URI, and the directory `at` in an open store."""

    name: str
    group: Group
    store: ReadStorage
    at: str

    @property
    def base(self) -> str:
        return self.store.uri

    @property
    def identity(self) -> str:
        """Return what is the same for all names of the table."""
        return identity_of(self.store, self.at)


class Failure(NamedTuple):
    """A directory that could not be searched, or an entry of the file that leads to no table."""

    name: str
    group: str
    line: int
    fault: DeltacliError


class Discovery(NamedTuple):
    """The tables by name, each once, and what could not be searched. `others` are tables of other formats, `backups`
    those of logs; `empty` are globs and prefixes of groups that lead to no table.
    """

    tables: tuple[FoundTable, ...]
    failures: tuple[Failure, ...]
    others: tuple[str, ...]
    backups: tuple[str, ...]
    empty: tuple[tuple[str, Entry], ...]


def discover(
    groups: Sequence[Group],
    open_: Opener,
    engine: Engine,
    *,
    progress: Progress = SILENT,
    expand: Expander | None = None,
) -> Discovery:
    """Return the tables of the groups. A table that several groups include belongs to the first one. `expand` lists
    the tables of catalogs; None: a pattern for them leads to no table.
    """
    with progress.step("looking for tables", unit="directories") as step:
        search = _Search(open_, engine, step.advance, expand)
        for group in groups:
            search.add(group)
        search.run()
    return search.result(groups)


class _Place(NamedTuple):
    """A directory to look into, and the names that are still to be matched below it."""

    group: Group
    entry: Entry
    store: ReadStorage
    base: str
    at: str
    segments: tuple[str, ...]
    depth: int

    @property
    def name(self) -> str:
        return _join(self.base, self.at)


class _Look(NamedTuple):
    """The directories in a directory. `fault`: it cannot be listed; `is_paimon`: it is a table of the other format."""

    names: tuple[str, ...] = ()
    fault: DeltacliError | None = None
    is_paimon: bool = False


class _Search:
    def __init__(self, open_: Opener, engine: Engine, advance: Callable[[int], None], expand: Expander | None) -> None:
        self._open, self._engine, self._advance, self._expand = open_, engine, advance, expand
        self._stores: dict[str, Storage] = {}
        self._excluded: dict[str, re.Pattern[str] | None] = {}
        self._found: dict[str, list[FoundTable]] = {}
        self._looked: dict[str, _Look] = {}
        self._seen: set[tuple[str, str, tuple[str, ...]]] = set()
        self._level: list[_Place] = []
        self._failures: list[Failure] = []
        self._others: dict[str, None] = {}
        self._backups: dict[str, None] = {}
        self._empty: dict[tuple[str, Entry], None] = {}

    def add(self, group: Group) -> None:
        """Add the entries of a group: its tables are taken as they are, its directories are searched."""
        self._excluded[group.name] = exclusion(group.exclude)
        self._found[group.name] = []
        named = [(one, name) for one in group.tables for name in self._names(group, one)]
        for entry, name in named:
            if self._is_excluded(group, name) or not (store := self._store(group, entry, name)):
                continue
            if not any(self._is_excluded(group, one) for one in _names_of(store, "")):
                self._found[group.name].append(FoundTable(name, group, store, ""))
        for entry in (*group.globs, *group.prefixes):
            pattern = split_pattern(entry.text) if entry in group.globs else (entry.text, ())
            if store := self._store(group, entry, pattern[0]):
                self._empty[group.name, entry] = None
                self._level.append(_Place(group, entry, store, pattern[0], "", pattern[1], 0))

    def _names(self, group: Group, entry: Entry) -> Sequence[str]:
        """Return the names of the tables of an entry: itself, or those of a catalog that match it."""
        if self._expand is None or not is_catalog_pattern(entry.text):
            return [entry.text]
        try:
            return self._expand(entry.text)
        except DeltacliError as fault:
            self._failures.append(Failure(entry.text, group.name, entry.line, fault))
            return []

    def _store(self, group: Group, entry: Entry, uri: str) -> Storage | None:
        if uri not in self._stores:
            try:
                self._stores[uri] = self._open(uri)
            except DeltacliError as fault:
                self._failures.append(Failure(uri, group.name, entry.line, fault))
                return None
        return self._stores[uri]

    def run(self) -> None:
        while self._level:
            unknown = {_key(place): place for place in self._level if _key(place) not in self._looked}
            at_once = max((place.store.capabilities.parallel_reads for place in unknown.values()), default=1)
            looks = self._engine.run(self._look, unknown.values(), at_once=at_once)
            self._looked |= dict(zip(unknown, looks, strict=True))
            level, self._level = self._level, []
            for place in level:
                self._descend(place, self._looked[_key(place)])
            self._looked.clear()

    def _look(self, place: _Place) -> _Look:
        self._advance(1)
        try:
            names = list_table_directories(place.store, place.at)
            is_table = LOG_DIRECTORY in names
            return _Look(tuple(names), None, not is_table and is_paimon_directory(place.store, names, place.at))
        except DeltacliError as fault:
            return _Look((), fault)

    def _descend(self, place: _Place, look: _Look) -> None:
        if look.fault is not None:
            if place.depth == 0 or not isinstance(look.fault, FileMissing):
                self._fail(place, _nothing_at() if isinstance(look.fault, FileMissing) else look.fault)
        elif look.is_paimon:
            self._leads_somewhere(place)
            self._others[place.name] = None
        elif LOG_DIRECTORY in look.names:
            if place.segments:
                return
            self._leads_somewhere(place)
            if self._is_excluded_place(place):
                return
            if BACKUP_LIST in look.names:
                self._backups[place.name] = None
            else:
                self._found[place.group.name].append(FoundTable(place.name, place.group, place.store, place.at))
        elif place.depth == MAX_DEPTH and look.names:
            self._fail(place, NotATable(f"tables are not looked for more than {MAX_DEPTH} directories below"))
        else:
            self._level += [below for below in _below(place, look.names) if self._is_new(below)]

    def _leads_somewhere(self, place: _Place) -> None:
        self._empty.pop((place.group.name, place.entry), None)

    def _fail(self, place: _Place, fault: DeltacliError) -> None:
        self._leads_somewhere(place)
        self._failures.append(Failure(place.name, place.group.name, place.entry.line, fault))

    def _is_new(self, place: _Place) -> bool:
        """Return True for a directory that is not hidden, not excluded, and was not seen by this group before."""
        if self._is_excluded_place(place):
            return False
        key = (place.group.name, identity_of(place.store, place.at), place.segments)
        if key in self._seen:
            self._leads_somewhere(place)
            return False
        self._seen.add(key)
        return True

    def _is_excluded_place(self, place: _Place) -> bool:
        """Return True for a directory that is excluded by its name, or by the name that a link leads to."""
        return any(self._is_excluded(place.group, name) for name in (place.name, *_names_of(place.store, place.at)))

    def _is_excluded(self, group: Group, name: str) -> bool:
        expression = self._excluded[group.name]
        return expression is not None and expression.fullmatch(name) is not None

    def result(self, groups: Sequence[Group]) -> Discovery:
        tables: dict[str, FoundTable] = {}
        for group in groups:
            for found in self._found[group.name]:
                tables.setdefault(identity_of(found.store, found.at), found)
        ordered = sorted(tables.values(), key=lambda found: found.name)
        skipped = tuple(self._others), tuple(self._backups), tuple(self._empty)
        return Discovery(tuple(ordered), tuple(self._failures), *skipped)


def _below(place: _Place, names: Sequence[str]) -> Iterator[_Place]:
    first, rest = (place.segments[0], place.segments[1:]) if place.segments else ("**", ())
    for name in names:
        if name.startswith(".") and not first.startswith("."):
            continue
        below = place._replace(at=_join(place.at, name), depth=place.depth + 1)
        if first != "**":
            if fnmatchcase(name, first):
                yield below._replace(segments=rest)
            continue
        yield below
        if rest and fnmatchcase(name, rest[0]):
            yield below._replace(segments=rest[1:])


def _key(place: _Place) -> str:
    return f"{place.store.uri}/{place.at}"


def identity_of(store: ReadStorage, at: str) -> str:
    """Return the identity of a directory: on a local disk its path with links resolved, else its URI, spelled once."""
    if isinstance(store, LocalStorage):
        return os.path.realpath(os.path.join(store.root, at))
    return max(map(_one_spelling, _names_of(store, at)), key=len)  # with the account


def _names_of(store: ReadStorage, at: str) -> tuple[str, ...]:
    if isinstance(store, LocalStorage):
        return (identity_of(store, at),)
    return tuple(f"{uri}/{at}".rstrip("/") for uri in (store.uri, *store.aliases))


def _one_spelling(uri: str) -> str:
    """Return a URI with the one scheme and host of those that lead to the same place."""
    uri = _AZURE_HTTPS.sub(r"abfss://\3@\1.dfs.\2", uri, count=1)
    if azure := _AZURE.match(uri):
        container, account, suffix = azure.groups()
        return f"abfss://{container}@{account.lower()}.dfs.{suffix.lower()}{uri[azure.end() :]}"
    scheme, _, rest = uri.partition("://")
    return f"{_SCHEMES.get(scheme.lower(), scheme.lower())}://{rest}"


def _join(name: str, below: str) -> str:
    return f"{name.rstrip('/')}/{below}" if name and below else name or below


def _nothing_at() -> NotATable:
    return NotATable("no such directory", code="table.path-missing")
