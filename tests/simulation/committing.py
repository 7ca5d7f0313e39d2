"""How the model writers commit: files first, then the next version, behind those who were faster."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from deltacli.core.errors import DeltacliError, FileMissing
from deltacli.storage.base import Storage
from deltacli.storage.outcomes import Created, Unknown
from tests.simulation.promises import Answer, Intent, Witness
from tests.simulation.reading import (
    Column,
    Rows,
    Tracked,
    columns_of,
    has_feature,
    is_mapped,
    is_on,
    lines_of,
    row_of,
)
from tests.simulation.snapshots import Snapshot
from tests.simulation.stored import (
    Stored,
    Values,
    data_file,
    statistics_of,
    with_row_ids,
)
from tests.support.actions import Action, Line, commit_info, to_bytes
from tests.support.actions import add as add_line
from tests.support.actions import remove as remove_line
from tests.support.builder import LOG, commit_path
from tests.support.checkpoints import CheckpointKind
from tests.support.model import State, identity
from tests.world.oracle import Damaged

DAY_MS = 24 * 3_600_000
_V2 = (CheckpointKind.V2_PARQUET, CheckpointKind.V2_JSON, CheckpointKind.V2_PARQUET_INLINE)
_CLASSIC = (CheckpointKind.CLASSIC, CheckpointKind.MULTI_PART)


class Clock(Protocol):
    """The time of an actor."""

    def now_ms(self) -> int: ...


@dataclass
class Change:
    """What a commit is about."""

    operation: str
    lines: list[Line] = field(default_factory=list)
    reads: frozenset[bytes] = frozenset()
    """The files that nobody may have removed since."""
    reads_all: bool = False
    """No file may have been added since."""
    is_blind: bool = False
    data_change: bool = True
    features: tuple[str, ...] = ()
    """That the table has from this commit on."""


class Committer:
    """An engine that commits."""

    def __init__(
        self,
        clock: Clock,
        storage: Storage,
        chance: random.Random,
        *,
        name: str = "writer",
        witness: Witness | None = None,
        checksums: bool = False,
    ) -> None:
        self.name = name
        self._clock, self._storage, self._random = clock, storage, chance
        self._witness, self._checksums = witness, checksums

    def _run(self, steps: Callable[[], Answer]) -> Answer:
        """The answer of some steps; what stops them is an answer, too, but for a crash."""
        self._txn_id = str(self._uuid())
        self._say(Intent("writer", is_trusting=True))
        try:
            answer = steps()
        except (Damaged, DeltacliError):
            answer = Answer.GAVE_UP
        if self._witness is not None:
            self._witness.judge_answer(self.name, answer)
        return answer

    def _say(self, intent: Intent) -> None:
        if self._witness is not None:
            self._witness.intends(self.name, intent)

    def _intend(
        self, change: Change, *, adds: Rows | None = None, removes: Rows | None = None, alters: bool = False
    ) -> None:
        self._say(
            Intent(
                change.operation,
                adds or Counter(),
                removes or Counter(),
                commits=True,
                alters=alters,
                is_trusting=True,
                txn_id=self._txn_id,
            )
        )

    def _commit(self, read: Snapshot, change: Change, born: State | None = None) -> Answer:
        """Create the next version, behind those who were faster, unless they touched what this one read."""
        while True:
            lines = self._lines(read, change, born)
            data = to_bytes(lines)
            path = commit_path(read.version + 1)
            try:
                outcome = self._storage.put_if_absent(path, data)
            except DeltacliError:
                outcome = Unknown("failed")
            if isinstance(outcome, Created):
                self._committed(read, lines)
                return Answer.DONE
            try:
                winner = self._storage.read(path)
            except FileMissing:
                return Answer.UNKNOWN
            except DeltacliError:
                return Answer.UNKNOWN if isinstance(outcome, Unknown) else Answer.GAVE_UP
            if winner == data:
                self._committed(read, lines)
                return Answer.DONE
            theirs = lines_of(winner)
            if _is_conflict(change, theirs):
                return Answer.GAVE_UP
            read = read.after(theirs, self._storage.stat(path).modified_ms)

    def _lines(self, read: Snapshot, change: Change, born: State | None) -> list[Line]:
        version, now_ms = read.version + 1, self._clock.now_ms()
        lines = [dict(line) for line in change.lines]
        after = read.state.after(lines)
        info: Action = {
            "timestamp": now_ms,
            "operationParameters": {},
            "isBlindAppend": change.is_blind,
            "engineInfo": "model",
            "txnId": self._txn_id,
        }
        if is_on(after, "delta.enableInCommitTimestamps"):
            time_ms = max(now_ms, read.time_ms + 1)
            info = {"inCommitTimestamp": time_ms, **info}
            if "inCommitTimestamp" in change.features:
                for line in lines:
                    if metadata := line.get("metaData"):
                        since = {"Version": str(version), "Timestamp": str(time_ms)}
                        said = {f"delta.inCommitTimestampEnablement{name}": value for name, value in since.items()}
                        line["metaData"] = {**metadata, "configuration": {**metadata["configuration"], **said}}
        if has_feature(after, "rowTracking"):
            lines = with_row_ids(lines, read.state, version)
        if not change.data_change:
            lines = [
                {kind: {**action, "dataChange": False} if kind in ("add", "remove") else action}
                for line in lines
                for kind, action in line.items()
            ]
        assert born is None or version == 0
        return [commit_info(change.operation, **info), *lines]

    def _committed(self, read: Snapshot, lines: Sequence[Line]) -> None:
        """Write the checksum, where it does that."""
        if not self._checksums:
            return
        made = read.after(tuple(lines), 0)
        live = made.live
        said: Action = {
            "txnId": self._txn_id,
            "tableSizeBytes": sum(add["size"] for add in live),
            "numFiles": len(live),
            "numMetadata": 1,
            "numProtocol": 1,
            "setTransactions": [],
            "domainMetadata": list(made.state.live_domains.values()),
            "metadata": made.state.metadata,
            "protocol": made.state.protocol,
        }
        if is_on(made.state, "delta.enableInCommitTimestamps"):
            said["inCommitTimestampOpt"] = made.time_ms
        self._storage.put_if_absent(f"{LOG}/{made.version:020d}.crc", json.dumps(said).encode())

    def _new_rows(self, state: State) -> Rows:
        count = self._random.randint(1, 5)
        part = self._random.choice("ab")
        return Counter(row_of(self._values(columns_of(state), part)) for _ in range(count))

    def _values(self, columns: Sequence[Column], part: str) -> Values:
        found: Values = {}
        for column in columns:
            match column.name:
                case "id":
                    found[column.physical] = self._random.getrandbits(40)
                case "p":
                    found[column.physical] = part
                case _ if column.type == "string":
                    found[column.physical] = self._random.choice((None, "x", "yy"))
                case _:
                    found[column.physical] = self._random.choice((None, self._random.randrange(100)))
        return found

    def _changed(self, old: Tracked, state: State) -> Values:
        """A row with another value."""
        values = dict(old.row)
        for column in columns_of(state):
            if column.name not in ("id", "p") and column.type != "string":
                values[column.physical] = self._random.randrange(100, 1_000)
        return values

    def _write(self, state: State, rows: Rows) -> list[Line]:
        return self._write_stored(state, [Stored(dict(row)) for row in rows.elements()])

    def _write_stored(self, state: State, rows: Sequence[Stored]) -> list[Line]:
        """Write files of rows, one for each partition, and return their adds."""
        assert state.metadata is not None
        columns = columns_of(state)
        of_partition = [column for column in columns if column.name in state.metadata["partitionColumns"]]
        stored = [column for column in columns if column not in of_partition]
        groups: dict[tuple[Any, ...], list[Stored]] = {}  # Any: values of columns
        for one in rows:
            groups.setdefault(tuple(one.values.get(column.physical) for column in of_partition), []).append(one)
        lines: list[Line] = []
        for key, group in groups.items():
            values = {column.physical: value for column, value in zip(of_partition, key, strict=True)}
            directory = "".join(f"{column.name}={value}/" for column, value in zip(of_partition, key, strict=True))
            if is_mapped(state):  # names in files are not those of now
                directory = f"{self._random.choice('abc')}{self._random.choice('XYZ')}/"
            path = f"{directory}part-00000-{self._uuid()}.c000.parquet"
            data = data_file(stored, group, state)
            self._storage.put(path, data)
            stats = statistics_of(stored, group)
            now_ms = self._clock.now_ms()
            name = quote(path, safe="/=")
            lines.append(add_line(name, size=len(data), stats=stats, partition_values=values, modified_ms=now_ms))
        return lines

    def _remove(self, add: Action) -> Line:
        kept = ("partitionValues", "size", "baseRowId", "defaultRowCommitVersion")
        others = {name: add[name] for name in kept if name in add}
        return remove_line(
            add["path"],
            vector=add.get("deletionVector"),
            deleted_ms=self._clock.now_ms(),
            extendedFileMetadata=True,
            **others,
        )

    def _field(self, name: str, kind: str, number: int, mapped: bool) -> Action:
        metadata: Action = {}
        if mapped:
            physical = f"col-{self._uuid()}"
            metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
        return {"name": name, "type": kind, "nullable": True, "metadata": metadata}

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)


def paths_of_files(adds: Iterable[Action]) -> frozenset[bytes]:
    return frozenset(identity(add["path"]) for add in adds)


def _is_conflict(change: Change, theirs: Sequence[Line]) -> bool:
    """Whether a commit that was faster touched what this one read. Spark: ConflictChecker."""
    for line in theirs:
        if "metaData" in line or "protocol" in line:
            return True
        if "remove" in line and identity(line["remove"]["path"]) in change.reads:
            return True
        if "add" in line and change.reads_all:
            return True
    return False
