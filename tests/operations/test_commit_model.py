"""The table as a set of (path, vector): our requests among random writers, with answers that are lost or never come.

Each commit of ours does what its request says to the version before it, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deltacli.changing.commit import Committed, Dropped, NothingToDo
from deltacli.core.errors import ConflictLost, DeltacliError, OutcomeUnknown, StorageFailed
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.table.version import Snapshot
from tests.support.actions import Action, Line, add, commit_info, deletion_vector, domain, metadata, protocol
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.committing import STAMPED, infos, run, versions_of
from tests.support.effort import examples
from tests.support.fateful import Fateful
from tests.support.file_commits import (
    MARK,
    Key,
    Version,
    append,
    check_row_ids,
    compact,
    live_files,
    remove_of,
    restore,
    rows_in,
    versions,
)
from tests.support.in_memory import MemoryStorage
from tests.support.reading import open_at

Draw = Callable[[list[Any]], Any]
FEATURES = ["domainMetadata", "inCommitTimestamp", "deletionVectors"]
SUSPENDED = {"delta.rowTrackingSuspended": "true"}
VECTORS = [deletion_vector(name, storage="p", offset=offset, rows=1) for name in "vw" for offset in (None, 1)]


class Contested(Fateful):
    """Most requests come through, and most of them after another writer."""

    CALLS = (*["well"] * 12, "rival", "down", "arrival")
    CREATIONS = ("done", "done", *["beaten"] * 5, *Fateful.CREATIONS)


class RandomWriter:
    """Another engine: it reads the newest version, and commits the next one as the protocol wants it."""

    def __init__(self, inner: MemoryStorage, draw: Draw) -> None:
        self._inner, self._draw = inner, draw

    def lines(self, version: int) -> list[Line]:
        now = versions(self._inner)[-1]
        kinds = [*["append"] * 4, "metadata", "track", "track", "suspend", "say"]
        kinds += ["delete", "vector", "optimise", "overwrite", "mark"] if now.live else []
        kind = self._draw(kinds)
        info = commit_info(kind, inCommitTimestamp=10**13 + version, txnId=f"rival-{version}", isBlindAppend=False)
        return [info, *self._changes(kind, version, now)]

    def _changes(self, kind: str, version: int, now: Version) -> list[Line]:
        live = list(now.live.values())
        match kind:
            case "append":
                return self._adds(now, version, self._new(version))
            case "delete":
                return [remove_of(self._draw(live))]
            case "vector":
                one = self._draw(live)
                others = [vector for vector in VECTORS if vector != one.get("deletionVector")]
                return [remove_of(one), *self._adds(now, version, one | {"deletionVector": self._draw(others)})]
            case "optimise":
                inputs = live[:2]
                stats = json.dumps({"numRecords": sum(map(rows_in, inputs))})
                output = self._new(version) | {"stats": stats, "dataChange": False}
                return [*(remove_of(one, data_change=False) for one in inputs), *self._adds(now, version, output)]
            case "overwrite":
                return [*map(remove_of, live), *self._adds(now, version, self._new(version))]
            case "mark" if now.gives_ids:
                return [mark(now.mark + 5)]
            case "metadata":
                return [table_metadata({**now.properties, "count": str(version)})]
            case "track":
                return [protocol_of(sorted(now.features | {"rowTracking"}))]
            case "suspend" if "rowTracking" in now.features:
                return [table_metadata({**now.properties, **SUSPENDED})]
        return []

    def _new(self, version: int) -> Action:
        return new_file(f"rival-{version}", self._draw(["1", "2"]), self._draw([0, 1, 3]))

    @staticmethod
    def _adds(now: Version, version: int, one: Action) -> list[Line]:
        if not now.gives_ids or "baseRowId" in one:
            return [{"add": one}]
        ids = {"baseRowId": now.mark + 1, "defaultRowCommitVersion": version}
        return [{"add": one | ids}, mark(now.mark + rows_in(one))]


def new_file(name: str, partition: str, rows: int) -> Action:
    action: Action = add(f"{name}.parquet", records=rows, partition_values={"p": partition})["add"]
    return action


def mark(value: int) -> Line:
    return domain(MARK, json.dumps({"rowIdHighWaterMark": value}))


def protocol_of(features: list[str]) -> Line:
    return protocol(3, 7, reader_features=["deletionVectors"], writer_features=features)


def table_metadata(properties: dict[str, str]) -> Line:
    fields: list[Action] = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("id", "p")]
    schema = json.dumps({"type": "struct", "fields": fields})
    return metadata(configuration=properties, partition_columns=["p"], schema_string=schema)


def first_versions(draw: Draw) -> TableBuilder:
    builder = TableBuilder()
    tracks = draw([False, True])
    for version in range(3):
        lines = [commit_info("WRITE", inCommitTimestamp=EPOCH_MS + version)]
        if not version:
            features = [*FEATURES, *(["rowTracking"] if tracks else [])]
            lines += [protocol_of(features), table_metadata(dict(draw([{}, STAMPED])))]
        ids = {"baseRowId": 2 * version, "defaultRowCommitVersion": version} if tracks else {}
        lines += [{"add": new_file(f"first-{version}", str(version % 2 + 1), 2) | ids}]
        builder.commit(*lines, *([mark(2 * version + 1)] if tracks else []))
    return builder


class Ours:
    """A request of ours, and what it must have done to the version before it."""

    def __init__(self, number: int, draw: Draw, known: list[Version]) -> None:
        self.txn_id = f"request-{number}"
        self._kind = draw(["append", "restore", "restore", "partition", "compact"])
        self._new = new_file(self.txn_id, draw(["1", "2"]), draw([0, 2]))
        self._target = draw(known[:-1]).live
        self._partition = draw(["1", "2"])
        live = list(known[-1].live)
        self._inputs: list[Key] = live[:2]

    @property
    def make(self) -> Callable[[Snapshot], CommitRequest | None]:
        match self._kind:
            case "append":
                return append(self._new)
            case "restore":
                return restore(self._target)
            case "partition":
                return restore(self._target, self._partition)
            case _:
                return compact(self._inputs, self._write)

    def _write(self, inputs: Any) -> Action:  # Any: adds
        return self._new | {"stats": json.dumps({"numRecords": sum(map(rows_in, inputs))})}

    def check(self, before: Version, after: Version) -> None:
        """The version that we committed is the one before with our change."""
        new = {(self._new["path"], "")}
        match self._kind:
            case "append":
                assert before.live.keys() | new == after.live.keys()
            case "restore":
                assert self._target.keys() == after.live.keys()
            case "partition":
                assert self._of(self._target) | self._of(before.live, others=True) == after.live.keys()
            case _:
                assert set(self._inputs) <= before.live.keys()
                assert before.live.keys() - set(self._inputs) | new == after.live.keys()

    def _of(self, live: dict[Key, Action], *, others: bool = False) -> set[Key]:
        return {key for key, one in live.items() if (one["partitionValues"]["p"] == self._partition) != others}


@given(st.data())
@examples(60)
def test_every_commit_does_what_its_request_says_to_the_version_before_it(data: st.DataObject) -> None:
    def draw(choices: list[Any]) -> Any:
        return data.draw(st.sampled_from(choices))

    inner = first_versions(draw).in_memory()
    storage = Contested(inner, draw, RandomWriter(inner, draw).lines)
    said: list[tuple[Ours, object]] = []
    for number in range(data.draw(st.integers(2, 6))):
        ours = Ours(number, draw, versions(inner))
        said.append((ours, outcome(storage, ours)))
    storage.arrive()

    found = versions(inner)
    check_row_ids(inner, found)
    count = 0
    for ours, answer in said:
        made = versions_of(inner, ours.txn_id)
        count += len(made)
        match answer:
            case Committed(version=version):
                assert [version] == made
            case OutcomeUnknown():
                assert len(made) <= 1
            case _:
                assert [] == made, answer
        for version in made:
            ours.check(found[version - 1], found[version])
    assert 3 + storage.rivals + count == len(found)
    if found[0].properties:
        stamps = [info["inCommitTimestamp"] for info in infos(inner)]
        assert stamps == sorted(set(stamps))
    assert found[-1].live.keys() == live_files(open_at(inner).snapshot()).keys()


def outcome(storage: Fateful, ours: Ours) -> Committed | NothingToDo | Dropped | DeltacliError:
    try:
        return run(storage, ours.make, txn_id=ours.txn_id, max_attempts=4)
    except (StorageFailed, ConflictLost, OutcomeUnknown) as fault:
        return fault
