"""The changes of a table: a row each, with what it does, how it is planned and executed, and what it promises."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltacli.api.table import Table
from deltacli.changing.change import Change, execute_change, plan_change
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.consent import consent_to_command, consent_to_plan
from deltacli.delta.evolution.requests import AddColumn
from deltacli.operations.change.alter import Alteration, AlterationRequest
from deltacli.operations.change.append import Append
from deltacli.operations.change.drop_feature import DropFeature
from deltacli.operations.change.properties_and_features import FeaturesAddition, PropertiesChange, PropertyEdits
from deltacli.operations.change.stats import ComputeStats, StatsRequest
from deltacli.operations.change.widen_type import Widening, WidenRequest
from deltacli.operations.checkpoint.checkpoint import Checkpoint, CheckpointRequest
from deltacli.operations.log.crc_and_compact import Checksum, LogCompaction
from deltacli.operations.log.expire import ExpiryRequest, LogExpiry
from deltacli.operations.log.log_backup import LogBackup
from deltacli.operations.log.log_restore import LogRestore
from deltacli.operations.optimize.execute import Optimize
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.recover.plan import UndeleteRequest
from deltacli.operations.recover.undelete import Undelete
from deltacli.operations.repair.backup import Undo
from deltacli.operations.repair.plan import RepairRequest
from deltacli.operations.repair.repair import Repair
from deltacli.operations.restore.restore import Restore, RestoreRequest
from deltacli.operations.vacuum.execute import SavedVacuum
from deltacli.operations.vacuum.full_plan import VacuumChange
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.operations.vacuum.quarantine import QuarantinePurge
from deltacli.operations.vacuum.rechecking import with_past
from deltacli.operations.vacuum.saved import save_plan
from deltacli.sharing.protocol.parameters import Point
from deltacli.sharing.pulling.pull import Pull, PullRequest
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.served import shared
from tests.support.appending import committed, written
from tests.support.builder import LOG, Files, commit_path
from tests.world.events import EVERY, Event, Moment
from tests.world.oracle import Reading, Rows
from tests.world.places import DiskWorld, Listener, World
from tests.world.tables import (
    CHECKPOINT,
    LOST,
    LOST_FILE,
    NEWEST,
    ORPHAN,
    TARGET,
    VECTORS,
    a_copy_that_went_on,
    a_diverged_copy,
    the_table,
)

Plan = Any  # Any: each change has a plan of its own
Make = Callable[[Table], Plan]
Execute = Callable[[Table, Plan, bool], object]
"""Executes a plan; with True, consent was given before and the change may be planned again."""


@dataclass(frozen=True)
class Row:
    """A change. `prepare` is done to the world before, `did` says what is not as promised afterwards."""

    change_kind: ChangeKind
    plan: Callable[[World], Make]
    execute: Execute
    did: Callable[[Reading], bool]
    prepare: Callable[[World], None] = lambda _: None
    moments: frozenset[Moment] | None = None
    kinds: tuple[str, ...] = ("disk", "objects")
    is_sound: bool = True
    """Whether it should be done where nothing happens."""
    is_readable: bool = True
    """Whether other engines can read the table before."""
    may_leave: bool = False
    """Whether it may leave alone what others touch meanwhile, and say so."""
    is_beside: bool = False
    """Whether it changes files beside the table only, so that it does not matter what happens to the table."""
    is_backup: bool = False
    """Whether what it leaves beside the table is a copy of the log, as that was at one time."""
    is_saved: bool = False
    """Whether it follows from a file, which an equal table at the same address fits as well."""
    is_alone: bool = False
    """Whether nobody else may write rows to the table."""
    keeps_files: bool = False
    """Whether new files stay where they are not committed, for the next run."""

    @property
    def has_moments(self) -> frozenset[Moment]:
        """The moments of the change: those that follow from what it does."""
        if self.moments is not None:
            return self.moments
        found = {Moment.PLANNED, Moment.PROMPT}
        if self.change_kind & (ChangeKind.CHANGE_METADATA | ChangeKind.ADD_FILES | ChangeKind.REUSE_FILES):
            found.add(Moment.ATTEMPT)
        if self.change_kind & ~(ChangeKind.CHANGE_METADATA | ChangeKind.REUSE_FILES):
            found.add(Moment.BATCH)
        return frozenset(found)

    def can_be_beside(self, event: Event, moment: Moment) -> bool:
        """Whether an event can happen to the table at a moment. When a file of the log is written that follows from
        commits, only the store can still stop it.
        """
        if self.is_saved and event.is_equal and moment.is_before:
            return False
        return (self.is_readable or not event.reads) and (
            event.is_place or moment.is_before or self.change_kind is not ChangeKind.DERIVE_LOG_FILES
        )

    def goes_on(self, event: Event) -> bool:
        """Whether it must be done all the same."""
        return self.change_kind in event.passes and (not self.is_alone or event.passes == EVERY)


def row(
    make: Callable[[World, Table], Change[Any, Any]],
    did: Callable[[Reading], bool],
    change_kind: ChangeKind,
    **others: Any,  # Any: fields of a row
) -> Row:
    """The row of a change of the room."""

    def plan(world: World) -> Make:
        def planned(table: Table) -> Plan:
            change = make(world, table)
            return change, plan_change(change, table)

        return planned

    def execute(table: Table, plan: Plan, is_standing: bool) -> object:
        change, planned = plan
        return execute_change(change, table, plan=planned, ask=consent_to_command if is_standing else consent_to_plan)

    return Row(change_kind, plan, execute, did, **others)


# -- what a change promises -------------------------------------------------------------------------------------------


def _schema(table: Reading) -> dict[str, str]:
    metadata = table.state(table.newest).metadata or {}
    return {field["name"]: field["type"] for field in json.loads(metadata["schemaString"])["fields"]}


def _features(table: Reading) -> list[str]:
    return (table.state(table.newest).protocol or {})["writerFeatures"]  # type: ignore[no-any-return]


def _live(table: Reading) -> set[str]:
    return {one["path"] for one in table.state(table.newest).live.values()}


def _without_garbage(table: Reading, *paths: str) -> bool:
    live = _live(table)
    return all(path in live or path not in table.files for path in paths)


def _has_checkpoint(table: Reading) -> bool:
    return max(table.checkpoints) >= NEWEST


# -- rows that tasks write between plan and commit --------------------------------------------------------------------


def _plan_append(table: Table) -> Plan:
    return plan_change(Append(_new_rows().schema), table)


def _append(_: Table, plan: Plan, __: bool) -> None:
    table = plan.base_version.table
    committed(plan, written(table, plan.spec, _new_rows().to_batches()))


def _new_rows() -> pa.Table:
    ids = [1000, 1001]
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([1, 2], pa.int32()), "p": ["a", "b"]})


# -- what is lost, or beside the table, before ------------------------------------------------------------------------


def _lose(world: World, *paths: str) -> None:
    world.write("own", {path: file for path, file in world.files("own").items() if path not in paths})


def _with_source(world: World) -> None:
    """A sound copy is beside the table, which has lost a file and a vector."""
    world.write("source", world.files("own"))
    _lose(world, LOST_FILE, VECTORS)


def _with_lost_commit(world: World) -> None:
    """A sound copy is beside the table, which has lost a file and a commit."""
    world.write("source", world.files("own"))
    _lose(world, LOST_FILE, commit_path(LOST))


def _with_copy_that_went_on(world: World) -> None:
    """The copy that is beside the table, which has lost a file, has a newer commit of its own."""
    world.write("source", a_copy_that_went_on(world.time.begun_ms, NEWEST))
    _lose(world, LOST_FILE)


def _with_tip_of_its_own(world: World) -> None:
    """The newest commit of the copy beside the table is another one than that which the table has lost."""
    world.write("source", a_copy_that_went_on(world.time.begun_ms, NEWEST - 2))
    _lose(world, commit_path(NEWEST - 1))


def _with_backup(world: World) -> None:
    """A backup of the log is beside the table, which has lost a commit."""
    world.table().backup_log(world.uri_of("beside"))
    _lose(world, commit_path(LOST))


def _with_backup_of_newer(world: World) -> None:
    """A backup of the log is beside the table, which has lost the newest commits."""
    world.table().backup_log(world.uri_of("beside"))
    _lose(world, commit_path(NEWEST - 1), commit_path(NEWEST))


def _with_repair(world: World) -> None:
    """A damaged checkpoint was moved aside by a repair; its commits are there."""
    files = world.files("own")
    path = f"{LOG}/{CHECKPOINT:020d}.checkpoint.parquet"
    world.write("own", files | {path: replace(files[path], data=files[path].data[:-9])})
    world.table().repair(level="log", quarantine=world.uri_of("beside"))


def _with_quarantine(world: World) -> None:
    """A vacuum has filled the quarantine beside the table."""
    world.table().vacuum(quarantine=world.uri_of("beside"))
    world.time.wait(60)


def _backup_of(world: World) -> str:
    """Where the backup of the repair is."""
    manifest = next(path for path in world.files("beside") if path.endswith("manifest.json"))
    return f"{world.uri_of('beside')}/{manifest.rpartition('/')[0]}"


def _with_saved_plan(world: World) -> None:
    """The plan of a vacuum lies beside the table."""
    table = world.table()
    save_plan(with_past(table, table.plan_vacuum()), _saved(world))
    world.time.wait(60)


def _saved(world: World) -> str:
    assert isinstance(world, DiskWorld)
    return str(world.root / "plan.parquet")


def _apply(table: Table, change: SavedVacuum, is_standing: bool) -> object:
    return execute_change(change, table, ask=consent_to_command if is_standing else consent_to_plan)


def _with_share(world: World) -> None:
    """The table is a local copy of a shared one, which has a newer version."""
    world.write("source", world.files("own"))
    world.write("own", _pulled())


@cache
def _pulled() -> Files:
    """The files of a local table that has all but the newest version of a shared one."""
    with tempfile.TemporaryDirectory() as place:
        world = DiskWorld(Path(place), Listener())
        world.write("source", the_table(world.time.begun_ms))
        with world.closing:
            store = _server(world).store()
            for version in range(NEWEST):
                request = PullRequest(world.uri_of("own"), Point(version))
                execute_change(Pull(store, request), request.target())
            return world.files("own")


def _server(world: World) -> Proxy:
    assert isinstance(world, DiskWorld)
    return world.closing.enter_context(proxied(world.root, shared(Path(world.uri_of("source")))))


def _pull(world: World, _: Table) -> Pull:
    proxy = _server(world)

    def plant(asked: Asked, truly: Callable[[], Sent]) -> Sent:
        if asked.is_for_file:
            world.listener.begins()
        return truly()

    proxy.plant = plant
    return Pull(proxy.store(), PullRequest(world.uri_of("own")))


def _request(world: World, **others: Any) -> Any:
    return UndeleteRequest(sources=[world.uri_of("source")], **others)


_CALLED = frozenset({Moment.PLANNED, Moment.BATCH, Moment.ATTEMPT})
_GARBAGE = ("p=a/a0.parquet", "p=b/b1.parquet", "p=b/b3.parquet", ORPHAN)
_EDITS = PropertyEdits(put={"delta.checkpointInterval": "20"})
_SINGLE = frozenset({Moment.PLANNED, Moment.PROMPT})

CHANGES: Mapping[str, Row] = {
    "alter": row(
        lambda *_: Alteration(AlterationRequest([AddColumn("added", "string")])),
        lambda table: "added" in _schema(table),
        ChangeKind.CHANGE_METADATA,
    ),
    "widen-type": row(
        lambda *_: Widening(WidenRequest((("n", "long"),), enable=True, upgrade_protocol=True)),
        lambda table: _schema(table)["n"] == "long",
        ChangeKind.CHANGE_METADATA,
    ),
    "properties set": row(
        lambda *_: PropertiesChange(_EDITS),
        lambda table: table.properties["delta.checkpointInterval"] == "20",
        ChangeKind.CHANGE_METADATA,
    ),
    "features add": row(
        lambda *_: FeaturesAddition(["domainMetadata"]),
        lambda table: "domainMetadata" in _features(table),
        ChangeKind.CHANGE_METADATA,
    ),
    "features drop": row(
        lambda *_: DropFeature("deletionVectors"),
        lambda table: "deletionVectors" not in _features(table),
        ChangeKind.ADD_FILES,
    ),
    "restore": row(
        lambda *_: Restore(RestoreRequest(version=TARGET)),
        lambda table: table.versions.get(table.newest) == table.versions.get(TARGET),
        ChangeKind.REUSE_FILES,
    ),
    "optimize": row(
        lambda *_: Optimize(OptimizeRequest()),
        lambda table: not {"p=a/a7.parquet", "p=a/a8.parquet"} <= _live(table),
        ChangeKind.ADD_FILES,
        may_leave=True,
    ),
    "stats": row(
        lambda *_: ComputeStats(StatsRequest(where="p = 'a'")),
        lambda table: all(
            "nullCount" in (one.get("stats") or "")
            for one in table.state(table.newest).live.values()
            if one["path"] in ("p=a/a7.parquet", "p=a/a8.parquet")
        ),
        ChangeKind.ADD_FILES,
        may_leave=True,
    ),
    "append": Row(
        ChangeKind.ADD_FILES,
        lambda _: _plan_append,
        _append,
        lambda table: any("part-00000" in path for path in _live(table)),
        moments=_CALLED,
    ),
    "vacuum": row(
        lambda *_: VacuumChange(VacuumRequest()),
        lambda table: _without_garbage(table, *_GARBAGE),
        ChangeKind.DELETE_FILES | ChangeKind.CHANGE_METADATA,
    ),
    "vacuum without entries": row(
        lambda *_: VacuumChange(VacuumRequest(log_entries=False)),
        lambda table: _without_garbage(table, *_GARBAGE),
        ChangeKind.DELETE_FILES,
    ),
    "vacuum lite": row(
        lambda *_: VacuumChange(VacuumRequest(mode="lite")),
        lambda table: _without_garbage(table, "p=b/b3.parquet"),
        ChangeKind.DELETE_FILES | ChangeKind.CHANGE_METADATA,
    ),
    "vacuum --apply": Row(
        ChangeKind.DELETE_FILES | ChangeKind.CHANGE_METADATA,
        lambda world: lambda _: SavedVacuum(_saved(world), VacuumRequest()),
        _apply,
        lambda table: _without_garbage(table, *_GARBAGE),
        prepare=_with_saved_plan,
        kinds=("disk",),
        is_saved=True,
    ),
    "purge": row(
        lambda world, _: QuarantinePurge(world.uri_of("beside"), 1_000),
        lambda _: True,
        ChangeKind.DELETE_FILES,
        prepare=_with_quarantine,
        is_beside=True,
        kinds=("disk",),
    ),
    "log expire": row(
        lambda *_: LogExpiry(ExpiryRequest()),
        lambda table: min(table.commits) >= CHECKPOINT,
        ChangeKind.EXPIRE_LOG_FILES,
    ),
    "checkpoint": row(lambda *_: Checkpoint(CheckpointRequest()), _has_checkpoint, ChangeKind.DERIVE_LOG_FILES),
    "log compact": row(
        lambda *_: LogCompaction(5, NEWEST),
        lambda table: f"{LOG}/{5:020d}.{NEWEST:020d}.compacted.json" in table.files,
        ChangeKind.DERIVE_LOG_FILES,
    ),
    "log crc": row(
        lambda *_: Checksum(),
        lambda table: any(path.endswith(".crc") for path in table.files),
        ChangeKind.DERIVE_LOG_FILES,
    ),
    "undelete": row(
        lambda world, _: Undelete(_request(world)),
        lambda table: LOST_FILE in table.files and VECTORS in table.files,
        ChangeKind.RECOVER_FILES,
        prepare=_with_source,
    ),
    "undelete a commit": row(
        lambda world, _: Undelete(_request(world)),
        lambda table: LOST_FILE in table.files and LOST in table.commits,
        ChangeKind.RECOVER_FILES,
        prepare=_with_lost_commit,
        is_readable=False,
    ),
    "undelete from a copy that went on": row(
        lambda world, _: Undelete(_request(world)),
        lambda _: True,
        ChangeKind.RECOVER_FILES,
        prepare=_with_copy_that_went_on,
        is_sound=False,
        moments=_SINGLE,
    ),
    "undelete from a copy with another commit": row(
        lambda world, _: Undelete(_request(world)),
        lambda _: True,
        ChangeKind.RECOVER_FILES,
        prepare=_with_tip_of_its_own,
        is_sound=False,
        is_readable=False,
        moments=_SINGLE,
    ),
    "repair": row(
        lambda world, _: Repair(RepairRequest(sources=[world.uri_of("source")])),
        lambda table: LOST_FILE in table.files and VECTORS in table.files,
        ChangeKind.RECOVER_FILES,
        prepare=_with_source,
        moments=_SINGLE | {Moment.BATCH},
    ),
    "repair a commit": row(
        lambda world, _: Repair(RepairRequest(sources=[world.uri_of("source")])),
        lambda table: LOST_FILE in table.files and LOST in table.commits,
        ChangeKind.RECOVER_FILES,
        prepare=_with_lost_commit,
        moments=_SINGLE | {Moment.BATCH},
        is_readable=False,
    ),
    "repair from a copy with another commit": row(
        lambda world, _: Repair(RepairRequest(sources=[world.uri_of("source")])),
        lambda _: True,
        ChangeKind.RECOVER_FILES,
        prepare=_with_tip_of_its_own,
        is_sound=False,
        is_readable=False,
        moments=_SINGLE,
    ),
    "repair --undo": row(
        lambda world, _: Undo(_backup_of(world)),
        lambda _: True,
        ChangeKind.RECOVER_FILES,
        prepare=_with_repair,
        kinds=("disk",),
        moments=_SINGLE,
    ),
    "log backup": row(
        lambda world, table: LogBackup(table.open_other(world.uri_of("beside"))),
        lambda _: True,
        ChangeKind.DERIVE_LOG_FILES,
        is_backup=True,
        is_beside=True,
    ),
    "share pull": row(
        _pull,
        lambda table: 17 == table.versions[table.newest].total(),
        ChangeKind.ADD_FILES,
        prepare=_with_share,
        kinds=("disk",),
        moments=_SINGLE | {Moment.BATCH},
        is_alone=True,
        keeps_files=True,
    ),
    "log restore": row(
        lambda world, table: LogRestore(table.open_other(world.uri_of("beside"))),
        lambda table: LOST in table.commits,
        ChangeKind.RECOVER_FILES,
        prepare=_with_backup,
        is_readable=False,
        moments=_SINGLE,
    ),
    "log restore of the newest commits": row(
        lambda world, table: LogRestore(table.open_other(world.uri_of("beside"))),
        lambda table: {NEWEST - 1, NEWEST} <= table.commits.keys(),
        ChangeKind.RECOVER_FILES,
        prepare=_with_backup_of_newer,
        moments=_SINGLE,
    ),
}


def begin(world: World, change: Row) -> Files:
    """Let there be the table, the copy that went its own way, and what the change needs; return the table's files
    before any of them was lost.
    """
    sound = the_table(world.time.begun_ms)
    world.write("own", sound)
    if world.kind == "disk":
        world.write("copy", a_diverged_copy(world.time.begun_ms))
    change.prepare(world)
    return sound


def appended() -> Rows:
    """The rows that are appended."""
    return Counter(tuple(sorted(one.items())) for one in _new_rows().to_pylist())
