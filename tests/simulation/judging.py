"""What is wrong about a commit, by itself and beside the version before it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from tests.simulation.promises import Intent, Invariant
from tests.simulation.reading import (
    HIGH_WATER_MARK,
    Rows,
    Tracked,
    changed_columns,
    configuration_of,
    counted,
    has_feature,
    info_of,
    is_on,
    lines_of,
    normal_protocol,
    translated,
)
from tests.support.actions import Action, Line
from tests.support.model import FileKey, State, identity, num_records, vector_id
from tests.world.oracle import Damaged

_SAME_DATA = ("OPTIMIZE", "REORG", "REMOVE COLUMN MAPPING", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL")
_SAME_METADATA = ("OPTIMIZE", "REORG", "VACUUM START", "VACUUM END")


@dataclass
class Version:
    """A version as committed."""

    number: int
    data: bytes
    """The commit file; empty where only a checkpoint is known."""
    state: State
    rows: tuple[Tracked, ...]
    time_ms: int
    """That of the commit: in it, or of its file."""

    @property
    def counted(self) -> Rows:
        """Its rows."""
        return counted(self.rows)


def difference(expected: Rows, found: Rows) -> str:
    """How many rows are lost, and how many are there that should not."""
    lost, more = expected - found, found - expected
    shown_rows = [*lost, *more][:2]
    return f"{lost.total()} rows lost, {more.total()} doubled or invented, such as {shown_rows}"


def listed(paths: list[str]) -> str:
    return ", ".join(sorted(paths)[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def is_commit(data: bytes) -> bool:
    try:
        return bool(lines_of(data))
    except Damaged:
        return False


def rows_as_of(version: Version, after: State) -> Rows:
    """The rows of a version by the columns of another one."""
    names = changed_columns(version.state, after)
    return version.counted if names is None else Counter(translated(one.row, names) for one in version.rows)


def absent(lines: tuple[Line, ...], base: Version | None) -> Iterator[tuple[Invariant, str]]:
    live: Mapping[FileKey, Action] = {} if base is None else base.state.live
    for line in lines:
        if (remove := line.get("remove")) is None:
            continue
        is_vector_file = not remove.get("dataChange") and unquote(remove["path"]).endswith(".bin")
        if (identity(remove["path"]), vector_id(remove)) not in live and not is_vector_file:
            yield Invariant.ABSENT, f"{remove['path']} was removed and was not live"


def doubled(base: Version | None, state: State) -> Iterator[tuple[Invariant, str]]:
    """Files that are live twice, and were not before."""
    before = Counter(path for path, _ in ({} if base is None else base.state.live))
    for path, count in Counter(path for path, _ in state.live).items():
        if count > max(before[path], 1):
            yield Invariant.ROWS, f"{path.decode()} is live {count} times"


def times(lines: tuple[Line, ...], base: Version, made: Version) -> Iterator[tuple[Invariant, str]]:
    if not is_on(made.state, "delta.enableInCommitTimestamps"):
        return
    if "inCommitTimestamp" not in (lines[0].get("commitInfo") or {}):
        yield Invariant.TIME, "it does not begin with an in-commit timestamp"
    elif is_on(base.state, "delta.enableInCommitTimestamps") and made.time_ms <= base.time_ms:
        yield Invariant.TIME, f"its time is {base.time_ms - made.time_ms} ms before the one before it"


def _mark(state: State) -> int:
    found = state.domains.get(HIGH_WATER_MARK)
    return -1 if found is None else int(json.loads(found["configuration"])["rowIdHighWaterMark"])


def row_ids(
    lines: tuple[Line, ...], base: Version | None, made: Version, intent: Intent, target: Version | None
) -> Iterator[tuple[Invariant, str]]:
    if not has_feature(made.state, "rowTracking") or is_on(made.state, "delta.rowTrackingSuspended"):
        return
    before, mark = -1 if base is None else _mark(base.state), _mark(made.state)
    if mark < before:
        yield Invariant.HIGH_WATER_MARK, f"the mark goes from {before} to {mark}"
    states = [one.state for one in (base, target) if one is not None]
    old = {path for state in states for path, _ in (*state.live, *state.tombstones)}
    for line in lines:
        if (add := line.get("add")) is None:
            continue
        first, records = add.get("baseRowId"), num_records(add)
        if first is None or add.get("defaultRowCommitVersion") is None:
            if is_on(made.state, "delta.enableRowTracking"):
                yield Invariant.ROW_IDS, f"{add['path']} has no row ids"
            continue
        if records is not None and first + records - 1 > mark:
            yield Invariant.HIGH_WATER_MARK, f"{add['path']} has ids above the mark {mark}"
        if identity(add["path"]) not in old:
            if first <= before:
                yield Invariant.HIGH_WATER_MARK, f"{add['path']} has the id {first}, and the mark was {before}"
            if target is None and add["defaultRowCommitVersion"] != made.number:
                yield Invariant.ROW_IDS, f"{add['path']} is of version {add['defaultRowCommitVersion']}"
    if not is_on(made.state, "delta.enableRowTracking"):
        return
    found = {one.row_id: one for one in made.rows}
    twice = 0 if base is None else _twice(base)
    if _twice(made) > twice:
        yield Invariant.ROW_IDS, f"{_twice(made)} row ids are there twice"
    origin = target or base
    if origin is None or not is_on(origin.state, "delta.enableRowTracking") or (target and intent.where) or twice:
        return
    yield from _stable(origin, made, found, Intent("restore") if target else intent)


def _twice(version: Version) -> int:
    return len(version.rows) - len({one.row_id for one in version.rows})


def _stable(
    origin: Version, made: Version, found: dict[int, Tracked], intent: Intent
) -> Iterator[tuple[Invariant, str]]:
    names = changed_columns(origin.state, made.state)
    old = {one.row_id: one._replace(row=translated(one.row, names)) for one in origin.rows}
    for row_id in old.keys() & found.keys():
        one, other = old[row_id], found[row_id]
        if one.row == other.row and one.version != other.version and not intent.removes[one.row]:
            yield Invariant.ROW_IDS, f"row {row_id} is of version {other.version}, and was of {one.version}"
        elif one.row != other.row and other.version != made.number:
            yield Invariant.ROW_IDS, f"row {row_id} is another one, of version {other.version}"
    gone = Counter(one.row for row_id, one in old.items() if found.get(row_id, _NONE).row != one.row)
    new = Counter(one.row for row_id, one in found.items() if old.get(row_id, _NONE).row != one.row)
    lost = gone - intent.removes
    if lost and not intent.accepts_loss and new - intent.adds:
        yield Invariant.ROW_IDS, f"{lost.total()} rows have another id, such as {next(iter(lost))}"


_NONE = Tracked((("", None),), -1, -1, -1)


def metadata_changes(
    lines: tuple[Line, ...], before: State, after: State, intent: Intent
) -> Iterator[tuple[Invariant, str]]:
    operation = info_of(lines).get("operation")
    old, new = before.metadata or {}, after.metadata or {}
    if old.get("id") != new.get("id"):
        yield Invariant.METADATA, f"the table's id is {new.get('id')}, and was {old.get('id')}"
    if operation == "RESTORE":
        return
    if old["partitionColumns"] != new["partitionColumns"]:
        yield Invariant.METADATA, f"the partition columns are {new['partitionColumns']}"
    is_same = old == new and before.protocol == after.protocol
    if not is_same and (operation in _SAME_METADATA or not intent.alters):
        yield Invariant.METADATA, f"{operation} changed metadata or protocol"
    if intent.sets is not None:
        expected = {**configuration_of(before), **intent.sets}
        if {name: value for name, value in expected.items() if value is not None} != dict(configuration_of(after)):
            yield Invariant.METADATA, f"the properties are {dict(configuration_of(after))}"


def data_changes(lines: tuple[Line, ...]) -> Iterator[tuple[Invariant, str]]:
    if info_of(lines).get("operation") in _SAME_DATA:
        actions = [line[kind] for line in lines for kind in ("add", "remove") if line.get(kind)]
        wrong = [action["path"] for action in actions if action.get("dataChange", True)]
        if wrong:
            yield Invariant.DATA_CHANGE, f"{listed(wrong)} count as a change of data"


def checksum_difference(said: Action, version: Version) -> str:
    """What a checksum says otherwise than its version, by the names of its fields."""
    live = list(version.state.live.values())
    vectors = [add["deletionVector"] for add in live if add.get("deletionVector")]
    expected: Action = {
        "numFiles": len(live),
        "tableSizeBytes": sum(add["size"] for add in live),
        "numMetadata": 1,
        "numProtocol": 1,
        "numDeletionVectorsOpt": len(vectors),
        "numDeletedRecordsOpt": sum(vector["cardinality"] for vector in vectors),
        "txnId": info_of(lines_of(version.data)).get("txnId") if version.data else said.get("txnId"),
    }
    if is_on(version.state, "delta.enableInCommitTimestamps"):
        expected["inCommitTimestampOpt"] = version.time_ms
    wrong = [name for name, value in expected.items() if said.get(name) is not None and said[name] != value]
    if said.get("protocol") and normal_protocol(said["protocol"]) != normal_protocol(version.state.protocol):
        wrong.append("protocol")
    metadata = said.get("metadata")
    if metadata and metadata.get("configuration") != dict(configuration_of(version.state)):
        wrong.append("metadata")
    domains = said.get("domainMetadata")
    if domains is not None and {one["domain"] for one in domains} != set(version.state.live_domains):
        wrong.append("domainMetadata")
    return ", ".join(wrong)
