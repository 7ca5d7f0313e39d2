"""Why a version of a table must not be given by its directory, and why none of them must, by what is stored.

A credential shows everything below the directory, and no other file: a reader must find all files of the table there,
and only these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.core.errors import DeltacliError, PermissionRefused
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.spelling_columns import locate
from deltacli.delta.protocol.features import stable_name
from deltacli.sharing.configuration.directory_access import NoDirectory, roots_of, static_refusal
from deltacli.sharing.model import SharedTable
from deltacli.sharing.tables.snapshots import SharedSnapshot, SharedSnapshots, vector_place, vectors_of
from deltacli.storage import ReadStorage, open_storage
from deltacli.storage.base import PathKind
from deltacli.storage.signing.delegation import CannotMint
from deltacli.storage.vended_locations import Location, parse_location

if TYPE_CHECKING:
    import pyarrow


_OF_CATALOGS = frozenset({"catalogManaged", "catalogOwned"})


def refusal_now(snapshots: SharedSnapshots, table: SharedTable, version: int) -> str | None:
    """Return why a version of a table must not be given by directory, None if it may; without a location.

    Raises what reading the table raises, and CannotMint where the cloud does not answer.
    """
    try:
        roots = roots_of(table)
    except NoDirectory as fault:
        return str(fault)
    if reason := static_refusal(table):
        return reason
    snapshot = snapshots.at(table, version)
    features = {*(snapshot.protocol.reader_features or ()), *(snapshot.protocol.writer_features or ())}
    if _OF_CATALOGS & set(map(stable_name, features)):
        return "a catalog manages it, so its log in the store may lack commits"
    uri = snapshots.handle(table).storage.uri
    if snapshot.fault is not None and (reason := _outside(snapshot, uri, roots[1:])):
        return reason
    return _of_account(table, roots[0])


def _of_account(table: SharedTable, root: Location) -> str | None:
    if root.family != "abfss":
        return None
    from deltacli.storage.signing.azure_sas import is_hierarchical, make_delegated_source

    try:
        make_delegated_source(table.location, table.storage_options)
        if not is_hierarchical(table.location, table.storage_options):
            return "its storage account has no hierarchical namespace, so no credential can be cut to a directory"
    except CannotMint as fault:
        if fault.is_transient:
            raise
        return str(fault)
    return None


def _outside(snapshot: SharedSnapshot, uri: str, others: tuple[Location, ...]) -> str | None:
    """Return why readers would not get all files: one is neither below the table nor below its auxiliary locations."""
    for batch in snapshot.files.to_batches():
        if not all(_is_below(path, others) for path in _strangers(batch, uri)):
            return "its log names files outside the table and its auxiliaryLocations"
    return None


def _strangers(batch: pyarrow.RecordBatch, uri: str) -> Iterator[str]:
    """Yield the paths in the log of files and of vectors that are not below the table."""
    paths = batch.column("path")
    keys = locate(paths, uri)[0]
    if keys.null_count:
        yield from (str(path) for path, key in zip(paths.to_pylist(), keys.to_pylist(), strict=True) if key is None)
    for descriptor in vectors_of(batch):
        if descriptor is not None and descriptor["storageType"] != "i":
            try:
                vector_place(descriptor, uri)
            except DeltacliError:
                yield str(descriptor["pathOrInlineDv"])


def _is_below(path: str, others: tuple[Location, ...]) -> bool:
    try:
        found = parse_location(path)
    except ValueError:
        return False
    return any(other.covers(found) for other in others)


MOST_LISTED = 10_000_000
"""Files of a table that are listed before a credential for its directory is given: some minutes of a store."""


def nested_refusal(table: SharedTable, storage: ReadStorage) -> str | None:
    """Return why the directory of a table holds another table, or is in one; lists all of it. None for neither.

    Raises what listing raises.
    """
    return table_below(storage) or table_above(table)


def nested_while_served(table: SharedTable, storage: ReadStorage) -> str | None:
    """Return the same, or that too many files would have to be listed. Directories above the table may be closed to a
    server: a credential for the table does not show them either.
    """
    if reason := table_below(storage, MOST_LISTED):
        return reason
    try:
        return table_above(table)
    except PermissionRefused:
        return None


def table_below(storage: ReadStorage, most: int | None = None) -> str | None:
    """Return that a directory holds another table, or more than `most` files; lists all of it but its log."""
    count = 0
    for entry in storage.walk("", lambda at, names: [name for name in names if at or name != LOG_DIRECTORY]):
        count += len(entry.names)
        if most is not None and count > most:
            return f"it has more than {most:,} files, too many to look for tables below it"
        for name in entry.names:
            path = f"{entry.directory}/{name}"
            if f"/{LOG_DIRECTORY}/" in path and not path.lstrip("/").startswith(f"{LOG_DIRECTORY}/"):
                return f"another table is below it, at {path.lstrip('/').partition(f'/{LOG_DIRECTORY}/')[0]}"
    return None


def table_above(table: SharedTable) -> str | None:
    """Return that a table is inside another one."""
    root = roots_of(table)[0]
    above = table.location.rstrip("/")
    for _ in root.segments:
        above = above.rpartition("/")[0]
        outer = open_storage(above, dict(table.storage_options))
        if outer.kind_of(LOG_DIRECTORY) is PathKind.DIRECTORY:
            return "it is inside another table, whose directory shows this one, too"
    return None
