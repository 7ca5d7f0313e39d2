"""Requests that add and remove files, and what a log must be after many writers made them: the table as a set of
(path, vector).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltacli.delta.log.commit_content import (
    CommitRequest,
    EveryFile,
    FilesAt,
    FilesOfPartitions,
    OnConflict,
    body_lines,
)
from deltacli.storage import Storage
from deltacli.table.version import Snapshot
from tests.support.actions import Action, Line
from tests.support.committing import commits

Key = tuple[str, str]
"""A path, and the id of its vector or nothing."""

ROW_TRACKING, MARK = "rowTracking", "delta.rowTracking"


def key_of(action: Mapping[str, Any]) -> Key:  # Any: JSON
    vector = action.get("deletionVector")
    return action["path"], json.dumps(vector, sort_keys=True) if vector else ""


@dataclass
class Version:
    """What a version has: live adds by key, and what row ids depend on."""

    live: dict[Key, Action] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)
    mark: int = -1

    @property
    def gives_ids(self) -> bool:
        return ROW_TRACKING in self.features and self.properties.get("delta.rowTrackingSuspended") != "true"

    def after(self, actions: Sequence[tuple[str, Action]]) -> Version:
        """The next version. No path is live twice, nothing is removed that is not live."""
        found = Version(dict(self.live), self.features, self.properties, self.mark)
        for kind, action in sorted(actions, key=lambda item: item[0] == "add"):  # the order in a commit is undefined
            match kind:
                case "remove":
                    assert key_of(action) in found.live, ("removed, but not live", action)
                    del found.live[key_of(action)]
                case "add":
                    found.live[key_of(action)] = action
                case "protocol":
                    found.features = frozenset(action.get("writerFeatures") or ())
                case "metaData":
                    found.properties = action.get("configuration") or {}
                case "domainMetadata" if action["domain"] == MARK:
                    found.mark = json.loads(action["configuration"])["rowIdHighWaterMark"]
        paths = [path for path, _ in found.live]
        assert len(set(paths)) == len(paths), ("live twice", sorted(paths))
        return found


def versions(storage: Storage) -> list[Version]:
    """Every version of a table whose log is whole."""
    found, last = list[Version](), Version()
    for actions in commits(storage):
        last = last.after(actions)
        found.append(last)
    return found


def rows_in(action: Mapping[str, Any]) -> int:  # Any: JSON
    """The rows of a file, deleted ones included."""
    return int(json.loads(action["stats"])["numRecords"])


def remove_of(add: Mapping[str, Any], *, data_change: bool = True) -> Line:  # Any: JSON
    """The remove of a live file."""
    kept = ("path", "partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion")
    fields = {name: add[name] for name in kept if add.get(name) is not None}
    return {"remove": {**fields, "deletionTimestamp": 1, "dataChange": data_change, "extendedFileMetadata": True}}


def live_files(snapshot: Snapshot) -> dict[Key, Action]:
    """The live files as the product sees them."""
    found = {}
    for batch in snapshot.files():
        for row in batch.to_pylist():
            action = {name: value for name, value in row.items() if value is not None}
            for name in ("partitionValues", "tags"):
                if name in action:
                    action[name] = dict(action[name])
            if "deletionVector" in action:
                vector = action["deletionVector"]
                action["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
            found[key_of(action)] = action
    return found


def request_of(operation: str, adds: Iterable[Action], removes: Iterable[Line], **more: Any) -> CommitRequest:
    """A request with these files; the rows of those without row ids are new."""
    fresh = list(adds)
    rows = sum(rows_in(one) for one in fresh if one.get("baseRowId") is None)
    lines: list[Line] = [*removes, *({"add": one} for one in fresh)]
    return CommitRequest(operation, body=lambda slot: body_lines(lines, slot), new_rows=rows, **more)


def append(*adds: Action) -> Callable[[Snapshot], CommitRequest]:
    """Add new files, whatever others do."""
    return lambda _snapshot: request_of("APPEND", adds, ())


def restore(
    target: Mapping[Key, Action],
    partition: str | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Callable[[Snapshot], CommitRequest | None]:
    """Let exactly these files be live, or exactly those of them that are in a partition."""

    def is_chosen(values: Mapping[str, str | None]) -> bool:
        return partition is None or values.get("p") == partition

    def make(snapshot: Snapshot) -> CommitRequest | None:
        now = live_files(snapshot)
        chosen = {key: add for key, add in target.items() if is_chosen(add["partitionValues"])}
        adds = [{**add, "dataChange": True} for key, add in chosen.items() if key not in now]
        gone = [add for key, add in now.items() if key not in target and is_chosen(add["partitionValues"])]
        if not adds and not gone:
            return None
        reads = EveryFile() if partition is None else FilesOfPartitions(is_chosen)
        removes = map(remove_of, gone)
        return request_of("RESTORE", adds, removes, reads=reads, operation_parameters=parameters or {})

    return make


def compact(
    inputs: Sequence[Key], write: Callable[[Sequence[Action]], Action]
) -> Callable[[Snapshot], CommitRequest | None]:
    """Replace files by one with the same rows, or give up where one of them is not live any more."""

    def make(snapshot: Snapshot) -> CommitRequest | None:
        now = live_files(snapshot)
        if not set(inputs) <= now.keys():
            return None
        adds = [now[key] for key in inputs]
        removes = [remove_of(add, data_change=False) for add in adds]
        reads = FilesAt(path for path, _ in inputs)
        output = write(adds) | {"dataChange": False}
        return request_of("COMPACT", [output], removes, reads=reads, on_conflict=OnConflict.DROP)

    return make


def touch(snapshot: Snapshot) -> CommitRequest | None:
    """Add a live file again, with a tag: no row changes. Nothing to do where it has the tag."""
    _, one = min(live_files(snapshot).items())
    tags = one.get("tags") or {}
    if "touched" in tags:
        return None
    again = {**one, "tags": {**tags, "touched": "yes"}, "dataChange": False}
    return request_of("TOUCH", [again], (), reads=EveryFile())


def check_row_ids(storage: Storage, found: Sequence[Version]) -> None:
    """No two files ever got the same ids, the mark covers all and never falls, and new files name their version."""
    given: dict[int, str] = {}
    mark = -1
    for version, (actions, state) in enumerate(zip(commits(storage), found, strict=True)):
        before = found[version - 1].live if version else {}
        fresh = [action for kind, action in actions if kind == "add" and action["path"] not in {p for p, _ in before}]
        assert state.mark >= mark, ("the mark fell", version)
        mark = state.mark
        for one in [action for kind, action in actions if kind == "add"] if state.gives_ids else []:
            first = one["baseRowId"]
            assert one["defaultRowCommitVersion"] <= version
            assert first + rows_in(one) - 1 <= mark, ("above the mark", version, one)
            for number in range(first, first + rows_in(one)) if one in fresh else ():
                assert given.setdefault(number, one["path"]) == one["path"], ("given twice", version, one)
        if not state.gives_ids:
            assert all("baseRowId" not in one for one in fresh), version
