"""The changing commands of the product: how each is planned and executed, and what it promises.

A row makes a change for a table, and says what the change may do; `carried_out` plans it, waits for the answer to the
question, and executes it, as the command line does.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltacli.api.table import Table
from deltacli.changing.change import Change, execute_change, plan_change
from deltacli.changing.consent import consent_to_command, consent_to_plan
from deltacli.core.errors import ConflictLost, DeltacliError, OutcomeUnknown, PartlyDone, StorageFailed
from deltacli.delta.evolution.requests import AddColumn, ChangeType, RenameColumn
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.change.alter import Alteration, AlterationRequest
from deltacli.operations.change.drop_feature import DropFeature
from deltacli.operations.change.properties_and_features import FeaturesAddition, PropertiesChange, PropertyEdits
from deltacli.operations.change.widen_type import Widening, WidenRequest
from deltacli.operations.checkpoint.checkpoint import Checkpoint, CheckpointRequest
from deltacli.operations.clone import Clone
from deltacli.operations.copy.execute import Copy
from deltacli.operations.copy.request import CopyLevel, CopyRequest
from deltacli.operations.log.crc_and_compact import Checksum, LogCompaction
from deltacli.operations.log.expire import ExpiryRequest, LogExpiry
from deltacli.operations.log.log_backup import LogBackup
from deltacli.operations.log.log_restore import LogRestore
from deltacli.operations.optimize.execute import CONFLICT, Optimize, OptimizeOutcome
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.recover.plan import UndeleteRequest
from deltacli.operations.recover.undelete import Undelete
from deltacli.operations.repair import plan as saved_repair
from deltacli.operations.repair.backup import Undo
from deltacli.operations.repair.plan import RepairRequest
from deltacli.operations.repair.repair import Repair
from deltacli.operations.restore.restore import Restore, RestoreRequest
from deltacli.operations.vacuum import saved as saved_vacuum
from deltacli.operations.vacuum.execute import SavedVacuum
from deltacli.operations.vacuum.full_plan import VacuumChange
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.operations.vacuum.quarantine import QuarantinePurge
from deltacli.operations.vacuum.rechecking import with_past
from tests.simulation.elsewhere import CLONE, REPLICA, Replica
from tests.simulation.oracle import Oracle
from tests.simulation.promises import Answer, Intent
from tests.simulation.reading import Kind, commits_of, name_of
from tests.simulation.schedule import Crash
from tests.simulation.store import World

AnyChange = Change[Any, Any]  # Any: each change has a plan and an outcome of its own
Plan = Any  # Any: that of a change
DAY_MS = 24 * 3_600_000


@dataclass
class Turn:
    """What a command finds when it begins."""

    world: World
    uri: str
    actor: str
    chance: random.Random
    oracle: Oracle
    others: frozenset[str] = frozenset()
    """What happens in this history."""

    def table(self, uri: str | None = None) -> Table:
        """The table, opened anew, by a process of its own; or another one."""
        return Table(
            self.world.storage(uri or self.uri, self.actor),
            engine=EmbeddedEngine(threads=1),
            open_other=lambda uri: self.world.storage(uri, self.actor),
            machine=self.world.schedule.machine(),
        )

    def beside(self, name: str) -> str:
        """Where something beside the table is."""
        return f"{self.uri.rpartition('/')[0]}/{name}"

    def source(self) -> str:
        """A copy of the table: one that is made anew now and then, or one that goes its own way."""
        names = [one for one in ("backup", "copy", "fork", "aside") if self.beside(one) in self.world.places]
        return self.beside(self.chance.choice(names or ["backup"]))

    def a_version(self) -> int:
        """A version that the log may have."""
        newest = max(self.oracle.newest, 0)
        return self.chance.choice([*{max(newest - self.chance.randint(0, 5), 0), self.chance.randint(0, newest)}])

    def a_place(self) -> str:
        """A path of this machine for a saved plan."""
        return self.world.scratch()


@dataclass(frozen=True)
class Command:
    """A row: `make` returns the change, `intends` what it may do, once it is planned."""

    make: Callable[[Turn], AnyChange]
    intends: Callable[[Turn, AnyChange, Plan], Intent]
    is_again_nothing: bool = True
    """Whether the same has nothing to do, or is refused, where nobody acted since."""
    is_of_copy: bool = False
    """Whether it is done to a copy of the table."""
    makes: str = ""
    """The name of the table beside it that it makes."""


def _optimize(turn: Turn, **others: Any) -> AnyChange:  # Any: fields of the request
    small = {"target_size": turn.chance.choice(("1KiB", "100MiB"))}
    return Optimize(OptimizeRequest(**{**small, **others}))


def _zorder(turn: Turn) -> AnyChange:
    return _optimize(turn, zorder=turn.chance.choice((["id"], ["id", "n"])))


def _restore(turn: Turn) -> AnyChange:
    return Restore(RestoreRequest(version=turn.a_version()))


def _restore_from(turn: Turn) -> AnyChange:
    return Restore(RestoreRequest(version=turn.a_version(), sources=[turn.source()]))


def _restore_where(turn: Turn) -> AnyChange:
    return Restore(RestoreRequest(version=turn.a_version(), where="p = 'a'"))


def _restores(_: Turn, change: Any, plan: Plan) -> Intent:
    has_condition = change.request.where is not None
    return Intent(
        "restore",
        restores=change.request.version,
        where=(lambda row: row.get("p") == "a") if has_condition else None,
        alters=True,
        commits=not plan.is_noop,
    )


def _vacuum(turn: Turn, **others: Any) -> AnyChange:
    # Who brings files back is told by the log; without entries, a look at files counts for a minute
    # (`MAX_FILE_CHECK_AGE_SECONDS`).
    tells = turn.chance.random() < 0.7 or any(name.startswith("restore") for name in turn.others)
    shared: dict[str, Any] = {"max_delete": "100%", "log_entries": tells}
    if turn.chance.random() < 0.2:
        shared["rate"] = 1.0
    return VacuumChange(VacuumRequest(**(shared | others)))


def _quarantine(turn: Turn) -> AnyChange:
    return _vacuum(turn, quarantine=turn.beside("aside"))


def _vacuum_saved(turn: Turn) -> AnyChange:
    """Plan, save, and open another handle later."""
    request = VacuumRequest(max_delete="100%")
    path = turn.a_place()
    table = turn.table()
    saved_vacuum.save_plan(with_past(table, plan_change(VacuumChange(request), table)), path)
    turn.world.schedule.sleep(turn.chance.choice((1.0, 600.0, 90_000.0)))
    return SavedVacuum(path, request)


def _purge(turn: Turn) -> AnyChange:
    return QuarantinePurge(turn.beside("aside"), turn.chance.choice((1_000, DAY_MS)))


def _deletes(what: str) -> Callable[[Turn, AnyChange, Plan], Intent]:
    return lambda *_: Intent(what, deletes=True)


def _puts_aside(turn: Turn, _: AnyChange, plan: Plan) -> Intent:
    planned = {raw.decode() for raw in plan.candidates["path"].to_pylist()}

    def wrong() -> str | None:
        aside = turn.world.places.get(turn.beside("aside"))
        kept = set() if aside is None else {file.data for file in aside.files.values()}
        deleted = turn.oracle.deleted_by(turn.actor)
        lost = [
            path
            for path, file in deleted.items()
            if path in planned and not turn.oracle.is_of_world(path)  # it may have been whole when it was put aside
            if not kept & {file.data, turn.oracle.committed(path, file).data}
        ]
        return f"{len(lost)} files are not in the quarantine, such as {lost[0]}" if lost else None

    return Intent("vacuum into quarantine", deletes=True, done=wrong)


def _derives(_: Turn, change: Any, __: Plan) -> Intent:
    return Intent("checkpoint", replaces=change.request.force)


def _undelete(turn: Turn) -> AnyChange:
    return Undelete(UndeleteRequest(sources=[turn.source()]))


def _repair_request(turn: Turn, **others: Any) -> RepairRequest:
    level = turn.chance.choice(("log", "storage", "storage", "footers"))
    sources = [turn.source()] if turn.chance.random() < 0.7 else []
    return RepairRequest(level=level, sources=sources, allow_in_use=turn.chance.random() < 0.9, **others)


def _repair(turn: Turn) -> AnyChange:
    return Repair(_repair_request(turn, accept_loss=turn.chance.random() < 0.2, max_missing=1.0))


def _repair_saved(turn: Turn) -> AnyChange:
    request = _repair_request(turn)
    path = turn.a_place()
    saved_repair.save_repair_plan(plan_change(Repair(request), turn.table()), path)
    turn.world.schedule.sleep(turn.chance.choice((1.0, 600.0, 90_000.0)))
    saved = saved_repair.read_repair_plan(path)
    return Repair(saved.request, saved)


def _undo(turn: Turn) -> AnyChange:
    backups = _backups_in(turn)
    return Undo(turn.chance.choice(backups) if backups else f"{turn.uri}/_delta_log/.deltacli/none")


def _backups_in(turn: Turn) -> list[str]:
    tree = turn.world.places.get(turn.uri)
    files = [] if tree is None else sorted(tree.files)
    return [f"{turn.uri}/{path.rpartition('/')[0]}" for path in files if "repair-" in path and "manifest" in path]


def _puts_back(what: str) -> Callable[[Turn, AnyChange, Plan], Intent]:
    def intends(turn: Turn, change: Any, __: Plan) -> Intent:
        accepts = getattr(getattr(change, "request", None), "accept_loss", False)
        alters, undoes = what == "repair", what == "undo"
        return Intent(
            what,
            puts_back=True,
            believes=_commits_of_twins(turn),
            replaces=True,
            alters=alters,
            accepts_loss=accepts,
            undoes=undoes,
        )

    return intends


def _commits_of_twins(turn: Turn) -> frozenset[tuple[int, bytes]]:
    """The commits that the table lacks, of directories that have the others as it has them, above the versions that
    another file of its log tells.
    """
    tree = turn.world.places.get(turn.uri)
    own = {} if tree is None else commits_of(tree.files)
    if tree is None:
        return frozenset()
    names = [name_of(path) for path in tree.files]
    told = max((max(name.version, name.last) for name in names if name.kind is not Kind.COMMIT), default=-1)
    found: set[tuple[int, bytes]] = set()
    for other in turn.world.places.values():
        theirs = commits_of(other.files)
        shared = own.keys() & theirs.keys()
        if shared and all(other.files[theirs[one]].data == tree.files[own[one]].data for one in shared):
            lacking = {version: path for version, path in theirs.items() if version not in own and version > told}
            found |= {(version, other.files[path].data) for version, path in lacking.items()}
    return frozenset(found)


def _keeps(what: str, **others: Any) -> Callable[[Turn, AnyChange, Plan], Intent]:  # Any: fields of an intent
    return lambda *_: Intent(what, **others)


def _alters(what: str) -> Callable[[Turn, AnyChange, Plan], Intent]:
    return lambda _, __, plan: Intent(what, alters=True, commits=not plan.is_noop)


def _expire(turn: Turn) -> AnyChange:
    return LogExpiry(ExpiryRequest(retention_ms=turn.chance.choice((None, 31 * DAY_MS))))


def _checkpoint(turn: Turn) -> AnyChange:
    layout = turn.chance.choice((None, "classic", "multi-part", "v2"))
    others: dict[str, Any] = {"parts": 2} if layout == "multi-part" else {}
    if layout == "v2":
        others["v2_top"] = turn.chance.choice(("json", "parquet"))
    version = turn.a_version() if turn.chance.random() < 0.2 else None
    force = turn.chance.random() < 0.2
    return Checkpoint(CheckpointRequest(layout=layout, version=version, force=force, **others))


def _compact(turn: Turn) -> AnyChange:
    first = turn.a_version()
    return LogCompaction(first, max(turn.oracle.newest, first + 1))


def _alter(turn: Turn) -> AnyChange:
    name = f"d{turn.chance.randrange(1_000)}"
    changes = (
        [AddColumn(name, "string")],
        [AddColumn(name, "long"), AddColumn(f"{name}e", "integer")],
        [RenameColumn("n", name)],
        [ChangeType("n", "long")],
    )
    return Alteration(AlterationRequest(turn.chance.choice(changes), enable=True, upgrade_protocol=True))


def _widen(_: Turn) -> AnyChange:
    return Widening(WidenRequest((("n", "long"),), enable=True, upgrade_protocol=True))


def _properties(turn: Turn) -> AnyChange:
    days = turn.chance.choice((7, 20, 40))
    put = turn.chance.choice(
        (
            {"delta.checkpointInterval": str(turn.chance.randint(5, 50))},
            {"delta.deletedFileRetentionDuration": f"interval {days} days"},
        )
    )
    return PropertiesChange(PropertyEdits(put=put))


def _sets(_: Turn, change: Any, plan: Plan) -> Intent:
    return Intent("properties set", alters=True, sets=dict(change.edits.put), commits=not plan.is_noop)


def _features(turn: Turn) -> AnyChange:
    names = ("deletionVectors", "domainMetadata", "inCommitTimestamp", "v2Checkpoint", "typeWidening", "rowTracking")
    return FeaturesAddition([turn.chance.choice(names)])


def _drop(turn: Turn) -> AnyChange:
    names = ("deletionVectors", "domainMetadata", "inCommitTimestamp", "v2Checkpoint", "typeWidening", "columnMapping")
    return DropFeature(turn.chance.choice(names))


def _backup_log(turn: Turn) -> AnyChange:
    return LogBackup(turn.world.storage(turn.beside("log"), turn.actor))


def _restore_log(turn: Turn) -> AnyChange:
    return LogRestore(turn.world.storage(turn.beside("log"), turn.actor))


def _copy(turn: Turn) -> AnyChange:
    level = turn.chance.choice((CopyLevel.STORAGE, CopyLevel.STORAGE, CopyLevel.FOOTERS, CopyLevel.DATA))
    return Copy(turn.world.storage(turn.beside(REPLICA), turn.actor), CopyRequest(replica=True, level=level))


def _copies(turn: Turn, _: AnyChange, plan: Plan) -> Intent:
    (replica,) = (one for one in turn.world.places[turn.beside(REPLICA)].watchers if isinstance(one, Replica))
    return Intent("copy", done=lambda: replica.wrong(plan.last))


def _clone(turn: Turn) -> AnyChange:
    version = turn.a_version() if turn.chance.random() < 0.4 else None
    return Clone(turn.table().bind_to_directory().snapshot(version=version))


COMMANDS: Mapping[str, Command] = {
    "vacuum": Command(_vacuum, _deletes("vacuum")),
    "vacuum-lite": Command(lambda turn: _vacuum(turn, mode="lite"), _deletes("vacuum lite"), is_again_nothing=False),
    "vacuum-quarantine": Command(_quarantine, _puts_aside),
    "vacuum-saved": Command(_vacuum_saved, _deletes("saved vacuum")),
    "purge": Command(_purge, _keeps("purge")),
    "optimize": Command(_optimize, _keeps("optimize")),
    "zorder": Command(_zorder, _keeps("z-order")),
    "optimize-purge": Command(lambda turn: _optimize(turn, purge=True), _keeps("optimize --purge")),
    "restore": Command(_restore, _restores),
    "restore-from": Command(_restore_from, _restores),
    "restore-where": Command(_restore_where, _restores),
    "undelete": Command(_undelete, _puts_back("undelete")),
    "repair": Command(_repair, _puts_back("repair")),
    "repair-saved": Command(_repair_saved, _puts_back("repair")),
    "undo": Command(_undo, _puts_back("undo")),
    "expire": Command(_expire, _keeps("log expire", expires=True)),
    "compact": Command(_compact, _keeps("log compact")),
    "checksum": Command(lambda _: Checksum(), _keeps("log crc")),
    "backup": Command(_backup_log, _keeps("log backup")),
    "backup-copy": Command(_backup_log, _keeps("log backup of a copy"), is_of_copy=True),
    "log-restore": Command(_restore_log, _puts_back("log restore")),
    "checkpoint": Command(_checkpoint, _derives, is_again_nothing=False),
    "alter": Command(_alter, _alters("alter")),
    "widen": Command(_widen, _alters("widen-type")),
    "properties": Command(_properties, _sets),
    "features-add": Command(_features, _alters("features add")),
    "copy": Command(_copy, _copies),
    "clone": Command(_clone, _keeps("clone"), makes=CLONE),
    "features-drop": Command(_drop, lambda *_: Intent("features drop", alters=True, deletes=True, expires=True)),
}


@dataclass(frozen=True)
class Done:
    """How a command ended: `code` is that of its error, `bug` an exception that is none of deltacli."""

    answer: Answer
    change: AnyChange | None = None
    oracle: Oracle | None = None
    """That of the directory in which it was planned."""
    code: str | None = None
    bug: BaseException | None = None
    leaves_rest: bool = False
    """It left files alone that another writer touched meanwhile, and said so: they are for the next run."""


def carried_out(
    name: str,
    turn: Turn,
    *,
    oracle_of: Callable[[Any], Oracle | None],
    asks: Callable[[], None] = lambda: None,
    is_standing: bool = True,
    again: AnyChange | None = None,
) -> Done:
    """Plan a command, ask, and execute it; `again` is a change that was done just before. Raises Crash."""
    command, schedule = COMMANDS[name], turn.world.schedule
    change, said, leaves_rest = again, None, False
    answer, code, bug = Answer.REFUSED, None, None
    try:
        made = turn.beside(f"{command.makes}-{turn.chance.randrange(1_000)}") if command.makes else None
        table = turn.table(turn.source() if command.is_of_copy else made)
        change = again or command.make(turn)
        plan = plan_change(change, table)
        said = oracle_of((change.source if isinstance(change, Clone) else plan.base_version).table.storage)
        intent = replace(command.intends(turn, change, plan), is_again=again is not None)
        if said is not None:
            said.intends(turn.actor, intent)
        schedule.note(f"has planned {name}{': nothing' if plan.is_noop else ''}")
        asks()
        outcome = execute_change(change, table, plan=plan, ask=consent_to_command if is_standing else consent_to_plan)
        is_nothing = plan.is_noop or (intent.commits and outcome.committed_version is None)
        answer = Answer.NOTHING if is_nothing else Answer.DONE
        leaves_rest = isinstance(outcome, OptimizeOutcome) and CONFLICT in outcome.skipped
    except Crash:
        if said is not None:
            said.judge_answer(turn.actor, Answer.CRASHED)
        raise
    except DeltacliError as fault:
        answer, code = _answer(fault), fault.code
        message = fault.message.replace(turn.world.directory, "")
        schedule.note(f"{answer.name} {fault.code}: {message}")
    except Exception as fault:  # noqa: BLE001  (what is no error of deltacli is a violation)
        answer, bug = Answer.PARTLY, fault
        schedule.note(f"failed with {fault!r}")
    else:
        schedule.note(f"{answer.name}")
    if said is not None:
        place = turn.world.places.get(turn.uri)
        said.judge_answer(turn.actor, answer, is_elsewhere=place is not said.tree)
    return Done(answer, change, said, code, bug, leaves_rest)


def _answer(fault: DeltacliError) -> Answer:
    match fault:
        case PartlyDone():
            return Answer.PARTLY
        case OutcomeUnknown():
            return Answer.UNKNOWN
        case ConflictLost() | StorageFailed():
            return Answer.GAVE_UP
        case _:  # what could not be deleted is named
            return Answer.REFUSED if fault.facts.keys().isdisjoint(("new file 1", "not deleted")) else Answer.GAVE_UP


def rows_of(table: Table, version: int | None = None) -> tuple[int, Counter[tuple[tuple[str, object], ...]]]:
    """A version as the product reads it, and its rows without nulls."""
    snapshot = table.snapshot(version=version)
    found: Counter[tuple[tuple[str, object], ...]] = Counter()
    for batch in snapshot.scan():
        for row in batch.to_pylist():
            found[tuple(sorted((name, value) for name, value in row.items() if value is not None))] += 1
    return snapshot.version, found
