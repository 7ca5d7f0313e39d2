"""What of the log has the changes of a commit that is gone: a checkpoint from its version on, or a compaction.

Spec: Checkpoints; Log Compaction Files; Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltacli.delta.log.commit_lines import Action, read_actions
from deltacli.delta.log.file_actions import action_schemas, whole_actions
from deltacli.delta.log.log_path import LogFileKind
from deltacli.delta.log.segment import CheckpointInstance, LogListing
from deltacli.delta.protocol.protocol_action import require_committable
from deltacli.operations.log.compact_log import reconcile
from deltacli.operations.log.log_copy import log_location
from deltacli.table.find_log import Log
from deltacli.table.rebuild import rebuild
from deltacli.work.commits.reading import stream_commit

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.log.log_copy import StoredFile
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


class UnknownError(Exception):
    """What of a commit the rest of the log does not determine, in words."""


class After(NamedTuple):
    """What a checkpoint or a compaction has of the versions up to `version`."""

    name: str
    version: int
    adds: pyarrow.Table
    removes: pyarrow.Table
    protocol: Action | None
    metadata: Action | None
    transactions: Mapping[str, Action]
    domains: Mapping[str, Action]
    is_whole: bool
    """It has every live file, as a checkpoint, and not only what commits of a range changed."""


def find_sources(
    version: int, files: Mapping[str, StoredFile], listing: LogListing
) -> Iterator[tuple[str, Callable[[TableHandle], After]]]:
    """Yield what has the changes of a commit: a checkpoint of its version, compactions, and the next checkpoint."""
    found: list[tuple[int, int, str, Callable[[TableHandle], After]]] = []
    for one in listing.checkpoints:
        if one.version >= version:
            found.append((one.version, 0, f"the checkpoint of version {one.version}", _reader_of(one)))
    for name, file in files.items():
        path = file.path
        is_of_it = path.kind is LogFileKind.COMPACTED_COMMIT and path.version <= version <= path.last_version
        if is_of_it:
            found.append((path.last_version, 1, name, _compaction(name, path.version, path.last_version, listing)))
    for last, _, name, read in sorted(found, key=lambda one: one[:3]):
        if all(later in listing.commits for later in range(version + 1, last + 1)):
            yield name, read


def of_several(version: int, files: Mapping[str, StoredFile]) -> str:
    """Return what stays unknown where a compaction has the changes of several missing commits together."""
    for name, file in files.items():
        path = file.path
        if path.kind is LogFileKind.COMPACTED_COMMIT and path.version <= version <= path.last_version:
            return (
                f"{name} has what versions {path.version} to {path.last_version} changed together, but more than one "
                "of these commits is missing, and it does not record which of them changed what"
            )
    return ""


def version_at(table: TableHandle, listing: LogListing, version: int) -> Snapshot:
    """Return a version that was rebuilt without anything newer."""
    commits = {one: file for one, file in listing.commits.items() if one <= version}
    checkpoints = tuple(one for one in listing.checkpoints if one.version <= version)
    return rebuild(table, Log(LogListing(commits, checkpoints)), version)


def _reader_of(checkpoint: CheckpointInstance) -> Callable[[TableHandle], After]:
    def read(table: TableHandle) -> After:
        found = rebuild(table, Log(LogListing({}, (checkpoint,))), checkpoint.version)
        require_committable(found.protocol, found.properties, found.version)
        return After(
            f"the checkpoint of version {checkpoint.version}",
            checkpoint.version,
            whole_files(found, "add"),
            whole_files(found, "remove"),
            dict(found.raw_protocol),
            dict(found.raw_metadata),
            {one.app_id: transaction_of(one.app_id, one.version, one.last_updated) for one in found.transactions},
            {one.domain: domain_of(one.domain, one.configuration) for one in found.domains},
            is_whole=True,
        )

    return read


def _compaction(name: str, first: int, last: int, listing: LogListing) -> Callable[[TableHandle], After]:
    def read(table: TableHandle) -> After:
        kept = reconcile(read_actions(table.storage.read(log_location(name)), name))
        for version in range(first, last + 1):
            if version in listing.commits:
                _require_within(table, listing, version, kept)
        of_kind: dict[str, dict[str, Action]] = {}
        for (kind, key), action in kept.items():
            of_kind.setdefault(kind, {})[key] = action
        schemas = action_schemas()
        return After(
            name,
            last,
            table_of(list(of_kind.get("add", {}).values()), schemas.add, name),
            table_of(list(of_kind.get("remove", {}).values()), schemas.remove, name),
            of_kind.get("protocol", {}).get(""),
            of_kind.get("metaData", {}).get(""),
            of_kind.get("txn", {}),
            of_kind.get("domainMetadata", {}),
            is_whole=False,
        )

    return read


def _require_within(
    table: TableHandle, listing: LogListing, version: int, kept: Mapping[tuple[str, str], Action]
) -> None:
    """Raise UnknownError where a compaction lacks something that a commit of its range did."""
    for kind, key in reconcile(stream_commit(table.storage, listing.commits[version])):
        kinds = ("add", "remove") if kind in ("add", "remove") else (kind,)
        if not any((each, key) in kept for each in kinds):
            raise UnknownError(f"it lacks a {kind} of commit {version}, so it may be incomplete")


def transaction_of(app_id: str, version: int, last_updated: int | None) -> Action:
    updated: Action = {} if last_updated is None else {"lastUpdated": last_updated}
    return {"appId": app_id, "version": version, **updated}


def domain_of(domain: str, configuration: str, *, removed: bool = False) -> Action:
    return {"domain": domain, "configuration": configuration, "removed": removed}


def whole_files(snapshot: Snapshot, kind: str) -> pyarrow.Table:
    import pyarrow as pa

    schema = action_schemas().add if kind == "add" else action_schemas().remove
    found = [pa.Table.from_batches([one]) for one in snapshot.file_actions.map_actions(kind, lambda rows: rows)]
    return pa.concat_tables([schema.empty_table(), *(one.select(schema.names).cast(schema) for one in found)])


def table_of(actions: Sequence[Action], schema: pyarrow.Schema, source: str) -> pyarrow.Table:
    import pyarrow as pa

    return pa.Table.from_batches([whole_actions(actions, schema, source)], schema)
