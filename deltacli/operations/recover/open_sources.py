"""Opening the sources that a caller names: the versions of the store, a copy, a clone, a backup, a quarantine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from deltacli.core.errors import Refused
from deltacli.core.hints import adding, parameter
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.delta.paths import canonical
from deltacli.operations.log.log_copy import StoredFile, find_table_id, list_whole_log, read_list
from deltacli.operations.recover.copies import copy_within_store
from deltacli.operations.recover.log_files import cut_commits, require_same_commits
from deltacli.operations.recover.object_versions import VERSIONS, Overwritten, versions_of_files, versions_of_log
from deltacli.operations.recover.quarantine_layout import (
    NotedChecksums,
    address_of,
    manifest_of,
    newest_first,
    plan_directories,
)
from deltacli.operations.recover.sources import CopySource, Source, open_copy
from deltacli.storage import PathKind, ReadStorage, is_address_of
from deltacli.storage.versions import VersionedObjects, require_versions
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.needed import NeededFiles
from deltacli.work.commits.provenance import read_provenance


class OpenedSource(NamedTuple):
    """A source as the caller named it: `kept` for the versions of the store, else `copy`. `has_log`: its log is one of
    this table. `is_same`: its table is known to be this one. `refusal`: the store keeps no versions.
    """

    name: str
    copy: CopySource | None = None
    kept: VersionedObjects | None = None
    has_log: bool = False
    is_same: bool = False
    refusal: Refused | None = None
    cut: Mapping[str, StoredFile] = MappingProxyType({})
    """Commits of the table that are cut off, which this source has completely."""


def open_sources(
    table: TableHandle, names: Sequence[str], present: Mapping[str, StoredFile], table_id: str | None
) -> list[OpenedSource]:
    """Open sources. `present` is the log of the table, `table_id` its id, None where that is not known.

    Raises Refused for the source of another table and for a log that has another history; UsageError, Unreadable and
    StorageFailed for what cannot be opened.
    """
    found: list[OpenedSource] = []
    for name in dict.fromkeys(names):
        if name == VERSIONS:
            found.append(_versions_of(name, table.storage))
            continue
        copy = _with_copier(table, open_copy(name, table.open_other(name), table.storage))
        opened = _checked(table, copy, present, table_id)
        if table_id is None and opened.has_log:
            table_id = find_table_id(copy.files, table.engine)  # the first log tells which table it is
        found.append(opened)
    return found


def require_usable(opened: Sequence[OpenedSource]) -> tuple[str, ...]:
    """Return a note for a store that keeps no versions. Raises Refused where there is no other source."""
    without = [one.refusal for one in opened if one.refusal is not None]
    if without and len(without) == len(opened):
        raise without[0]
    return tuple(f"{one.message}: {one.facts['why']}" for one in without)


def _versions_of(name: str, storage: ReadStorage) -> OpenedSource:
    try:
        return OpenedSource(name, kept=require_versions(storage), has_log=True, is_same=True)
    except Refused as refused:
        refused.hint = refused.hint or adding(parameter("undelete.sources", "COPY"))
        return OpenedSource(name, refusal=refused)


def _checked(
    table: TableHandle, copy: CopySource, present: Mapping[str, StoredFile], table_id: str | None
) -> OpenedSource:
    if copy.files.kind_of(LOG_DIRECTORY) is not PathKind.DIRECTORY:
        return OpenedSource(copy.name, copy)
    if _is_clone_of(copy.files, table):
        return OpenedSource(copy.name, copy, is_same=True)
    listed = read_list(copy.files)
    theirs = listed.table_id if listed is not None and listed.table_id else find_table_id(copy.files, table.engine)
    if None not in (theirs, table_id) and theirs != table_id:
        raise other_table(copy.name, theirs, table_id)
    theirs_listed = list_whole_log(copy.files) or {}
    cut = cut_commits((table.storage, present), (copy.files, theirs_listed))
    sound = [file for name, file in present.items() if name not in cut]
    require_same_commits(("the log", table.storage, sound), (copy.name, copy.files, theirs_listed.values()))
    return OpenedSource(copy.name, copy, has_log=True, is_same=theirs is not None and theirs == table_id, cut=cut)


def other_table(name: str, theirs: str | None, ours: str | None) -> Refused:
    """Return the refusal of a source that has files of another table."""
    return Refused(
        f"{name} has the files of another table",
        code="recover.other-table",
        facts={"table id there": str(theirs), "table id of this table": str(ours)},
    )


def _is_clone_of(storage: ReadStorage, table: TableHandle) -> bool:
    """Return True for a table that was cloned from this one: its log is its own, its files may be of this table."""
    commits = list_log(storage).commits
    for version in sorted(commits)[:1]:
        info = read_provenance(storage, commits[version]).commit_info or {}
        parameters = info.get("operationParameters")
        source = parameters.get("source") if isinstance(parameters, dict) else None
        if info.get("operation") == "CLONE" and isinstance(source, str):
            place = canonical(source.removeprefix("delta.").strip("`")).rstrip("/")
            return place in {canonical(uri).rstrip("/") for uri in (table.storage.uri, *table.storage.aliases)}
    return False


def data_copies(table: TableHandle, opened: OpenedSource, table_id: str | None) -> list[CopySource]:
    """Return where a copy has data files: itself, or each directory of a quarantine, the newest first. Copies of a
    table have its id, so of a quarantine only the directories with the address of this table are used; all of them
    where the caller named the directory of the id.

    Raises Refused for a quarantine without files of this table.
    """
    copy = opened.copy
    assert copy is not None
    if opened.has_log or opened.is_same:
        return [copy]
    directories = copy.files.list_directories("")
    if table_id is not None and table_id in directories:
        addresses = {one: address_of(copy.files, one, table_id) for one in newest_first(copy.files, table_id)}
        own = [one for one, uri in addresses.items() if uri is None or is_address_of(table.storage, uri)]
        if addresses and not own:
            raise _other_address(copy.name, table, table_id, str(next(iter(addresses.values()))))
        return [_below(table, copy, directory) for directory in own]
    above, _, last = copy.name.rstrip("/").rpartition("/")
    if (
        table_id is not None
        and last == table_id
        and any(copy.files.kind_of(manifest_of(one)) is PathKind.FILE for one in directories)
    ):
        quarantine = copy._replace(name=above or ".", files=table.open_other(above or "."))
        return [_below(table, quarantine, one) for one in newest_first(quarantine.files, table_id)]
    held = [name for name in directories if "=" not in name and _has_manifest(copy.files, name)]
    if held:
        raise other_table(copy.name, ", ".join(held[:3]), table_id)
    return [copy]


def _other_address(name: str, table: TableHandle, table_id: str, address: str) -> Refused:
    named = f"{name.rstrip('/')}/{table_id}"
    return Refused(
        f"{name} has the files of another table with the same id",
        code="recover.other-table",
        facts={"table there": address, "this table": table.uri, "why": "a copy of a table has its id"},
        hint=f"where the table was moved, add {parameter('undelete.sources', named)}",
    )


def _has_manifest(storage: ReadStorage, directory: str) -> bool:
    return any(storage.kind_of(manifest_of(plan)) is PathKind.FILE for plan in plan_directories(storage, directory)[:1])


def _below(table: TableHandle, copy: CopySource, path: str) -> CopySource:
    below = CopySource(copy.name, table.open_other(f"{copy.name.rstrip('/')}/{path}"))
    return _with_copier(table, below._replace(digests=NotedChecksums(copy.files, path)))


def _with_copier(table: TableHandle, copy: CopySource) -> CopySource:
    """Return a copy whose files a store copies by itself, where an object store has both places."""
    if copy.files.capabilities.has_directories or table.storage.capabilities.has_directories:
        return copy
    return copy._replace(within=copy_within_store(table, copy.files, table.writable()))


def log_sources(table: TableHandle, opened: Sequence[OpenedSource]) -> tuple[list[Source], tuple[Overwritten, ...]]:
    """Return the sources of log files, in the order in which they were named, and the commits of which the store has
    several contents.
    """
    found: list[Source] = []
    overwritten: list[Overwritten] = []
    for one in opened:
        if one.kept is not None:
            kept, several = versions_of_log(table.storage, one.kept, table.engine)
            found += kept
            overwritten += several
        elif one.has_log and one.copy is not None:
            found.append(one.copy)
    return found, tuple(overwritten)


def data_sources(
    table: TableHandle, opened: Sequence[OpenedSource], missing: NeededFiles, table_id: str | None
) -> list[Source]:
    """Return the sources of some data files, in the order in which they were named. Raises Refused."""
    found: list[Source] = []
    for one in opened:
        if one.kept is not None:
            found += versions_of_files(table.storage, one.kept, missing) if missing.files.num_rows else []
        elif one.copy is not None:
            found += data_copies(table, one, table_id)
    return found
