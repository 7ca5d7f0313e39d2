"""Why commits are not believed more than a checkpoint that differs from them.

A checkpoint is written anew only from commits that nothing speaks against: one that was damaged and can still be parsed
would put a wrong state in the place of the right one. What differs is looked at where it can be seen: in the store, in
the names of directories, in the rows of files, in checksums of the version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.delta.log.state import read_metadata, read_protocol
from deltacli.delta.paths import decode
from deltacli.delta.rules.actions.commit_contents import REMOVE_OF_UNKNOWN, UNKNOWN_ACTION
from deltacli.delta.rules.checkpoints.contents import ADD_DIFFERS, EXTRA_ADD, MISSING_ADD, PARSED_PARTITION_DIFFERS
from deltacli.delta.rules.checkpoints.state import METADATA_DIFFERS
from deltacli.delta.rules.log.configuration_differences import metadata_differences, protocol_differences
from deltacli.errors import DeltacliError
from deltacli.operations.log.version_checksum import checksum_path
from deltacli.operations.repair.true_statistics import is_true, true_statistics

if TYPE_CHECKING:
    from deltacli.delta.rules.framework.base import Finding, Rule
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.version import Snapshot
    from deltacli.typing import RecordBatch

DOUBTS = (REMOVE_OF_UNKNOWN.id, UNKNOWN_ACTION.id)
"""The rules about commits that may be damaged."""
_DAMAGED = "a commit may be damaged"
_ROW_IDS = ("baseRowId", "defaultRowCommitVersion")
_MOST_READ = 20
"""Files of which the rows are read to prove their statistics."""


def why_doubted(
    table: TableHandle, snapshot: Snapshot, findings: Sequence[Finding], others: Sequence[Finding]
) -> str | None:
    """Return why the commits, of which `snapshot` was rebuilt, are not believed; None where they are.

    `findings` are about the checkpoint, `others` are those of which some raise doubts about commits. A commit whose
    remove was damaged would bring deleted rows back, and one whose add was damaged would lose rows, name a file that
    does not exist, or give rows to another partition.
    """
    lacking, extra, differing = (_keys_of(findings, rule) for rule in (MISSING_ADD, EXTRA_ADD, ADD_DIFFERS))
    gone = next((key for key in lacking if not _sizes(table, key)), None)
    if gone is not None:
        return f"{_DAMAGED}: it adds {gone}, which the checkpoint does not have, and which does not exist"
    both = next((key for key in lacking if key in extra), None)
    if both is not None:
        return f"{_DAMAGED}: it gives {both} another deletion vector than the checkpoint"
    doubt = next((one for one in others if one.rule.id in DOUBTS), None)
    if doubt is not None and (lacking or extra):
        return f"{_DAMAGED}: {doubt.message}, and the checkpoint does not agree on {[*lacking, *extra][0]}"
    named = dict(_column(snapshot, "size", [*extra, *differing])) | dict(_column(snapshot, "size", extra, "remove"))
    unnamed = next((key for key in extra if key not in named and _sizes(table, key)), None)
    if unnamed is not None:
        return f"{_DAMAGED}: none removes {unnamed}, which the checkpoint has, and which exists"
    found = {key: _sizes(table, key) for key in differing}
    other = next((key for key, sizes in found.items() if sizes and not {named.get(key), None} & sizes), None)
    if other is not None:
        return f"{_DAMAGED}: {other} does not have the size that the commits record"
    return _of_fields(table, snapshot, findings) or _of_configuration(table, snapshot, findings)


def _of_fields(table: TableHandle, snapshot: Snapshot, findings: Sequence[Finding]) -> str | None:
    """Return which differing field of an add is not known to be right in the commits."""
    fields: dict[str, set[str]] = {}
    for one in findings:
        if one.rule.id == ADD_DIFFERS.id and one.place.key:
            fields.setdefault(one.message.partition(" ")[0], set()).add(one.place.key)
    for name in _ROW_IDS:
        for path in sorted(fields.get(name, ())):
            return f"{_DAMAGED}: it records another {name} of {path} than the checkpoint"
    with_values = sorted(fields.get("partitionValues", ()))
    for path, values in _column(snapshot, "partitionValues", with_values):
        if not _says(path, values):
            return (
                f"{_DAMAGED}: it gives {path} other partition values than the checkpoint, and its directory does not "
                "name those of the commit"
            )
    with_statistics = sorted(fields.get("stats", ()))
    if len(with_statistics) > _MOST_READ:
        return f"{_DAMAGED}: the statistics of {len(with_statistics):,} files differ from those in the checkpoint"
    for path, stats in _column(snapshot, "stats", with_statistics):
        try:
            true = true_statistics(table.files(), snapshot.config, path, has_vector=False)
        except DeltacliError as fault:
            return f"the statistics of {path} differ from those in the checkpoint, and it cannot be read: {fault}"
        if not is_true(stats, true):
            return f"{_DAMAGED}: its statistics of {path} are not those of the rows"
    return None


def contradicted_map(snapshot: Snapshot, findings: Sequence[Finding]) -> str | None:
    """Return which map of partition values is not believed more than the parsed values beside it, in a checkpoint that
    alone has them; None where no directory contradicts it.
    """
    for path, values in _column(snapshot, "partitionValues", _keys_of(findings, PARSED_PARTITION_DIFFERS)):
        if "=" in path.rpartition("/")[0] and not _says(path, values):
            return f"the directory of {path} names other partition values than its map in the checkpoint"
    return None


def _says(path: str, values: object) -> bool:
    """Return whether the directories of a path name the partition values, as most writers name them."""
    parts = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    named = {decode(decode(name)): decode(decode(value)) for name, _, value in parts}
    stated = {key: "__HIVE_DEFAULT_PARTITION__" if value in (None, "") else value for key, value in _pairs(values)}
    return bool(stated) and named == {key: decode(value) for key, value in stated.items()}


def _pairs(values: object) -> list[tuple[str, str]]:
    """Return a map as Arrow gives it."""
    return list(values.items()) if isinstance(values, dict) else list(values or ())  # type: ignore[call-overload]


def _of_configuration(table: TableHandle, snapshot: Snapshot, findings: Sequence[Finding]) -> str | None:
    """Return why the protocol and the metaData of the commits are not believed, where those of the checkpoint differ:
    the checksum of the version has to confirm them.
    """
    if not any(one.rule.id == METADATA_DIFFERS.id for one in findings):
        return None
    why = f"{_DAMAGED}: its protocol or metaData differs from that of the checkpoint"
    try:
        checksum = json.loads(table.storage.read(checksum_path(snapshot.version)))
        source = checksum_path(snapshot.version)
        protocol, metadata = read_protocol(checksum["protocol"], source), read_metadata(checksum["metadata"], source)
    except (DeltacliError, ValueError, KeyError, TypeError):
        return f"{why}, and no checksum of version {snapshot.version} confirms it"
    differing = [
        *protocol_differences(snapshot.protocol, protocol),
        *metadata_differences(snapshot.metadata, metadata),
    ]
    return f"{why}, and the checksum of version {snapshot.version} has another {differing[0]}" if differing else None


def _keys_of(findings: Sequence[Finding], rule: Rule) -> list[str]:
    return [one.place.key for one in findings if one.rule.id == rule.id and one.place.key]


def _column(snapshot: Snapshot, name: str, paths: Sequence[str], kind: str = "add") -> Iterator[tuple[str, Any]]:
    """Yield the paths among these of the adds or the removes of a version, with one of their fields (Any: its type)."""
    import pyarrow as pa

    wanted = pa.array(paths, pa.string())

    def chosen(rows: RecordBatch) -> RecordBatch:
        return rows.filter(pc.is_in(rows.column("path"), value_set=wanted))

    if paths:
        for rows in snapshot.file_actions.map_actions(kind, chosen, fields=("path", name)):
            yield from zip(rows.column("path").to_pylist(), rows.column(name).to_pylist(), strict=True)


def _sizes(table: TableHandle, path: str) -> set[int | None]:
    """Return the sizes of a file that the table may mean, one or none below the table; None if it is elsewhere."""
    inside = table.files().inside(path)
    if inside is None:
        return {None}
    sizes, _ = table.storage.stat_many(list(dict.fromkeys((inside, path))))
    return {size for size in sizes if size >= 0}
