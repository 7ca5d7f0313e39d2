"""Processes that add, mark, compact and restore the files of one table as fast as they can, and the table of rows that
its log must then tell of.

Every row has its own id. Vectors are inline and made by the small writer; the tag `deleted` names their rows once more,
so that nothing of the product is needed to know which rows a file has.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.synchronize import Barrier
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.api.table import Table
from deltacli.changing.commit import Committed, commit
from deltacli.changing.commit_options import CommitOptions
from deltacli.core.errors import ConflictLost
from deltacli.core.machine import system_clock
from deltacli.delta.log.commit_content import CommitRequest, FilesAt
from deltacli.storage import Created, Storage, open_storage
from deltacli.table.version import Snapshot
from tests.support.actions import Action, add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.committing import commits
from tests.support.file_commits import (
    Version,
    append,
    check_row_ids,
    compact,
    live_files,
    remove_of,
    request_of,
    restore,
)
from tests.support.small_vectors import inline

PARTITIONS = ("0", "1", "2", "3")
WITH_VECTORS = PARTITIONS[2:]
"""Where we mark and compact. The other engine works on the other partitions: it knows no vectors, and does not notice
that a file which it compacts was compacted before.
"""

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "p", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)
_PURPOSES: Sequence[dict[str, Any]] = ({}, {}, {"purge": True}, {"zorder": ["id"]})
_AGO = 6
_EVERY = 10


def first_files(*features: str) -> TableBuilder:
    """A table without rows, to which engines with vectors may write."""
    properties = {"delta.enableDeletionVectors": "true"}
    if "inCommitTimestamp" in features:
        properties["delta.enableInCommitTimestamps"] = "true"
    names = ["deletionVectors", *features]
    return TableBuilder().commit(
        commit_info("CREATE TABLE", inCommitTimestamp=1),
        protocol(3, 7, reader_features=["deletionVectors"], writer_features=names),
        metadata(configuration=properties, partition_columns=["p"], schema_string=SCHEMA),
    )


def parquet(ids: Sequence[int]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), out)
    return out.getvalue()


class Rows:
    """The ids in the files of a table; a file never changes."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._known = storage, dict[str, list[int]]()

    def of(self, action: Mapping[str, Any]) -> list[int]:  # Any: JSON
        """The ids of the live rows of a file, in their order."""
        path = action["path"]
        if path not in self._known:
            table = pq.read_table(io.BytesIO(self._storage.read(path)), columns=["id"])
            self._known[path] = table.column("id").to_pylist()
        gone = deleted_in(action)
        return [value for place, value in enumerate(self._known[path]) if place not in gone]


def deleted_in(action: Mapping[str, Any]) -> set[int]:  # Any: JSON
    """The places of the deleted rows of a file."""
    text = (action.get("tags") or {}).get("deleted", "")
    return {int(place) for place in text.split(",") if place}


class Racer:
    """One of our writers. What it does follows from its seed, and from what it finds."""

    def __init__(self, uri: str, number: int, seed: int) -> None:
        self._table = Table(open_storage(uri), clock=system_clock)
        self._random = random.Random(f"{seed} {number}")
        self._rows = Rows(self._table.writable())
        self._next_id = (number + 1) * 10_000_000

    def turn(self) -> tuple[str, int] | None:
        """Make a request; return its txnId and version, or None where there was nothing to do or another was first."""
        kinds = ("append", "append", "append", "mark", "mark", "compact", "restore", "partition")
        make = self._request(self._random.choice(kinds))
        if make is None:
            return None
        try:
            done = commit(self._table, make, options=CommitOptions(max_attempts=1_000))
        except ConflictLost:
            return None
        if not isinstance(done, Committed):
            return None
        if done.version % _EVERY == 0:
            self._table.checkpoint()
        return done.txn_id, done.version

    def _request(self, kind: str) -> Callable[[Snapshot], CommitRequest | None] | None:
        now = self._table.snapshot()
        live = live_files(now)
        partition = self._random.choice(PARTITIONS)
        match kind:
            case "append":
                ids = range(self._next_id, self._next_id + self._random.randint(1, 4))
                self._next_id = ids.stop
                return append(self._written(ids, partition))
            case "mark":
                return self._mark([one for one in live.values() if one["partitionValues"]["p"] in WITH_VECTORS])
            case "compact":
                part = self._random.choice(WITH_VECTORS)
                chosen = [key for key, one in live.items() if one["partitionValues"]["p"] == part][:5]
                return compact(chosen, self._compacted) if len(chosen) > 1 else None
        version = max(1, now.version - self._random.randint(1, _AGO))
        if version >= now.version:
            return None
        target = live_files(self._table.snapshot(version=version))
        restored = partition if kind == "partition" else None
        return restore(target, restored, {"version": version, "partition": restored})

    def _mark(self, candidates: Sequence[Action]) -> Callable[[Snapshot], CommitRequest | None] | None:
        candidates = [one for one in candidates if len(self._rows.of(one)) > 1]
        if not candidates:
            return None
        chosen = self._random.choice(candidates)
        row = self._random.choice(self._rows.of(chosen))

        def make(snapshot: Snapshot) -> CommitRequest | None:
            """Delete the row from its file as it is now."""
            one = next((one for one in live_files(snapshot).values() if one["path"] == chosen["path"]), None)
            if one is None or row not in self._rows.of(one):
                return None
            whole = self._rows.of({"path": one["path"]})
            gone = sorted({*deleted_in(one), whole.index(row)})
            tags = {"deleted": ",".join(map(str, gone))}
            marked = {**one, "deletionVector": inline(gone), "tags": tags, "dataChange": True}
            reads = FilesAt([one["path"]])
            return request_of("MARK", [marked], [remove_of(one)], operation_parameters={"id": row}, reads=reads)

        return make

    def _written(self, ids: Sequence[int], partition: str) -> Action:
        """Write a file, and return its add."""
        data, path = parquet(ids), f"p={partition}/{uuid4()}.parquet"
        assert isinstance(self._table.writable().put_if_absent(path, data), Created)
        values = {"p": partition}
        action: Action = add(path, size=len(data), records=len(ids), partition_values=values)["add"]
        return action

    def _compacted(self, inputs: Sequence[Action]) -> Action:
        ids = [value for one in inputs for value in self._rows.of(one)]
        return self._written(ids, inputs[0]["partitionValues"]["p"])


class _Telling:
    """Sends what a process found, also an error: it would only be seen in the stderr of that process."""

    def __init__(self, together: Barrier, answers: Any) -> None:  # Any: a queue
        self._together, self._answers = together, answers
        self._found: list[object] = []

    def __enter__(self) -> list[object]:
        return self._found

    def __exit__(self, _: object, fault: BaseException | None, __: object) -> bool:
        if fault is not None:
            self._together.abort()
            self._found.append(f"{fault!r} {getattr(fault, 'facts', '')}")
        self._answers.put(self._found)
        return True


def optimize(uri: str, number: int, seed: int, count: int, together: Barrier, answers: Any) -> None:  # Any: a queue
    """Optimize, each bin in a commit of its own, until so many commits are made, and tell which."""
    from deltacli.operations.optimize import plan

    vars(plan)["COMMIT_BINS"] = 1
    with _Telling(together, answers) as found:
        chance, dropped = random.Random(f"{seed} {number}"), 0
        table = Table(open_storage(uri), clock=system_clock)
        together.wait()
        for _ in range(20 * count):
            how = chance.choice(_PURPOSES)
            done = table.optimize(**how, commit_metadata={"of": str(number)})
            dropped += done.dropped
            found += [(_txn_id(table.writable(), version), version) for version in done.versions]
            if len(found) >= count:
                break
        found.append(("dropped", dropped))


def compute_stats(
    uri: str, number: int, seed: int, count: int, together: Barrier, answers: Any
) -> None:  # Any: a queue
    """Compute statistics, a few files per commit, until so many commits are made, and tell which."""
    from deltacli.operations.change import stats

    vars(stats)["COMMIT_FILES"] = 2
    with _Telling(together, answers) as found:
        chance = random.Random(f"{seed} {number}")
        table = Table(open_storage(uri), clock=system_clock)
        together.wait()
        for _ in range(20 * count):
            done = table.stats(read=chance.choice(("footers", "rows")), all=chance.random() < 0.5)
            found += [(_txn_id(table.writable(), version), version) for version in done.versions]
            if len(found) >= count:
                break


def _txn_id(storage: Storage, version: int) -> str:
    lines = storage.read(f"_delta_log/{version:020}.json").splitlines()
    found: str = json.loads(lines[0])["commitInfo"]["txnId"]
    return found


def race(uri: str, number: int, seed: int, count: int, together: Barrier, answers: Any) -> None:  # Any: a queue
    """Take turns until so many commits are made, and tell which."""
    with _Telling(together, answers) as found:
        racer = Racer(uri, number, seed)
        together.wait()
        for _ in range(20 * count):
            if (done := racer.turn()) is not None:
                found.append(done)
            if len(found) == count:
                break


def check(storage: Storage, told: Sequence[Any]) -> dict[str, int]:  # Any: (txnId, version)
    """Each version has the rows of the one before it, changed as its commit says, each row once. Count the commits."""
    rows, live_rows = Rows(storage), set[int]()
    states, counts = list[Version](), dict[str, int]()
    infos = list[Mapping[str, Any]]()  # Any: JSON
    for version, actions in enumerate(commits(storage)):
        before = states[-1] if states else Version()
        after = before.after(actions)
        info = dict(actions).get("commitInfo", {})
        gone = {value for key in before.live.keys() - after.live for value in rows.of(before.live[key])}
        new = [value for key in after.live.keys() - before.live for value in rows.of(after.live[key])]
        place = (version, info)
        assert len(set(new)) == len(new), ("a row is in two new files", place)
        assert not (live_rows - gone) & set(new), ("a row is live twice", place)
        check_change(info, before, after, states, (gone - set(new), set(new) - gone), rows, place)
        live_rows = live_rows - gone | set(new)
        states.append(after)
        infos.append(info)
        counts[info["operation"]] = counts.get(info["operation"], 0) + 1
    assert sorted(told) == sorted(
        (info["txnId"], version) for version, info in enumerate(infos) if "deltacli" in info.get("engineInfo", "")
    )
    if states[-1].gives_ids:
        check_row_ids(storage, states)
    return counts


def _without_stats(action: Mapping[str, Any]) -> dict[str, Any]:  # Any: JSON
    return {name: value for name, value in action.items() if name not in ("stats", "dataChange")}


def check_change(
    info: Mapping[str, Any],  # Any: JSON
    before: Version,
    after: Version,
    states: Sequence[Version],
    change: tuple[set[int], set[int]],
    rows: Rows,
    place: object,
) -> None:
    """A commit took the rows `change[0]` away and brought `change[1]`, and that is what its operation says."""
    lost, won = change
    parameters = info.get("operationParameters", {})
    match info["operation"]:
        case "CREATE TABLE":
            assert not after.live
        case "COMPACT" | "OPTIMIZE" | "REORG":
            assert (set(), set()) == (lost, won), ("rows were lost or came", place)
        case "COMPUTE STATS":
            assert [_without_stats(one) for one in before.live.values()] == [
                _without_stats(after.live[key]) for key in before.live
            ], place
            assert before.live.keys() == after.live.keys(), place
        case "APPEND":
            assert not lost, place
        case "MARK":
            assert ({parameters["id"]}, set()) == (lost, won), place
        case "RESTORE":
            then, partition = states[parameters["version"]].live, parameters["partition"]
            restored = {key for key, one in then.items() if partition in (None, one["partitionValues"]["p"])}
            others = {key for key, one in before.live.items() if partition not in (None, one["partitionValues"]["p"])}
            assert restored | others == after.live.keys(), ("not what was restored", place)
        case "DELETE" | "MERGE":
            doomed = set(json.loads(info["ids"]))
            kept = {value for one in before.live.values() for value in rows.of(one)}
            assert (doomed & kept, set()) == (lost, won), ("not the rows to delete", place)
        case "WRITE" if info.get("replaces") is not None:
            others = {key for key, one in before.live.items() if one["partitionValues"]["p"] != info["replaces"]}
            assert others <= after.live.keys(), place
            now = {value for key in after.live.keys() - others for value in rows.of(after.live[key])}
            assert set(json.loads(info["ids"])) == now, ("not the rows that were written", place)
        case "WRITE":
            assert (set(), set(json.loads(info["ids"]))) == (lost, won), ("not the rows that were written", place)
        case other:
            raise AssertionError((other, place))


def rows_told(version: Version, storage: Storage) -> list[int]:
    """The ids of the rows of a version, in order."""
    rows = Rows(storage)
    return sorted(value for one in version.live.values() for value in rows.of(one))
