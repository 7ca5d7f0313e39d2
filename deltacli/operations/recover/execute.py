"""Executing an undelete: data files, vectors, commits in ascending order, checkpoints, the hint; then a last look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from deltacli.changing.acts import Act
from deltacli.changing.derived import in_flight, require_unchanged
from deltacli.core.errors import (
    NOTHING_CHANGED,
    ConflictLost,
    DeltacliError,
    FileMissing,
    PartlyDone,
    Refused,
    StorageFailed,
)
from deltacli.core.hints import command
from deltacli.core.progress import weighed
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import ArrowTable
from deltacli.core.units import plural
from deltacli.delta.log.state import has_in_commit_timestamps
from deltacli.operations.log.log_copy import digest, list_whole_log
from deltacli.operations.log.log_restore import require_real_directories
from deltacli.operations.recover.log_files import LogItem, fault_of_log_file
from deltacli.operations.recover.plan import RESTORED, STILL_MISSING, UNPROVEN, UndeletePlan
from deltacli.operations.recover.sources import CopySource, Journal, Source, put_found, tag_of
from deltacli.operations.recover.undelete import plan_undelete
from deltacli.operations.recover.verify import verify
from deltacli.storage import Created, Creation, Deleted, Storage
from deltacli.table.needed import FileKind, look_for
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate
    from deltacli.changing.proofs import Proof, ProvenFile
    from deltacli.operations.recover.request import UndeleteRequest
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_NAMED = 5


@short_repr(
    "version=plan.version",
    "needed=plan.needed.files",
    "found=plan.found.files",
    "missing=plan.missing.files",
    "restored=restored.files",
    "refusals=plan.refusals",
)
class UndeleteResult(NamedTuple):
    """A plan, and what of it was put in place; None where it was not executed."""

    plan: UndeletePlan
    restored: Journal | None

    def so_far(self) -> str:
        """Return how many files were put back."""
        return f"{plural(0 if self.restored is None else self.restored.files, 'file')} put back"

    def require_complete(self) -> None:
        """Raise PartlyDone where files that the version needs are in no source."""
        plan = self.plan
        missing, newest = plan.missing, plan.newest_readable
        if not missing.files:
            return
        names = [str(one["path"]) for one in plan.still_missing()]
        more = f", and {missing.files - _NAMED:,} more" if missing.files > _NAMED else ""
        raise PartlyDone(
            f"{plural(missing.files, 'file')} of version {plan.version} {'is' if missing.files == 1 else 'are'} in no "
            "source",
            code=STILL_MISSING,
            facts={
                "missing": f"{', '.join(names[:_NAMED])}{more}",
                f"newest version {'before it ' if plan.is_of_the_past else ''}that can be read": "none"
                if newest is None
                else str(newest),
            },
            hint=None if newest is None else command("restore", version=newest, dry_run=True),
        )


@dataclass(frozen=True)
class Undelete:
    """Bringing back what a version and its log need and that is gone."""

    act: ClassVar[Act] = Act.PUT

    request: UndeleteRequest

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> UndeletePlan:  # noqa: ARG002  (needs no version)
        """Plan it. Raises as `plan_undelete`."""
        return plan_undelete(table, self.request)

    def outcome(self, plan: UndeletePlan) -> UndeleteResult:
        """Return that nothing was put back yet."""
        return UndeleteResult(plan, Journal())

    def execute(self, gate: Gate[UndeletePlan, UndeleteResult]) -> None:
        """Put the found files in their places; planning and running it again continues. Raises what `bring_back` does.

        Somebody has to agree to the data files of a log that could be read only once it was back.
        """
        plan, journal = gate.outcome
        assert journal is not None  # it begins with an empty one
        gate.has_begun = True  # nobody knows it of an interruption
        try:
            done = bring_back(gate.table, plan, journal, gate.follow)
        except DeltacliError:
            gate.has_begun = journal.files > 0
            raise
        gate.outcome = UndeleteResult(done, journal)


def bring_back(
    table: TableHandle, plan: UndeletePlan, told: Journal, agreed: Callable[[UndeletePlan], bool] = lambda _: True
) -> UndeletePlan:
    """Put the found files of a plan in their places, and return the plan as it turned out. `agreed` is asked about a
    plan that follows.

    Raises Refused for a plan that is refused, of another past, or whose proofs do not hold any more; ConflictLost where
    another writer created a commit that is to come back; StorageFailed where a file cannot be put in its place or is
    not what it was; PartlyDone where nobody agrees to the plan that follows.
    """
    if (refusal := plan.objection()) is not None:
        raise refusal
    _require_proofs(table, plan)
    require_unchanged(plan.basis)
    if plan.data is not None:
        found, data = plan.data.found, plan.data
        put_found(
            found, data.sources, table.writable(), table.engine,
            progress=table.progress, journal=told, damaged=data.tags,
        )  # fmt: skip
    _put_log(table, plan, told)
    if not plan.is_log_first:
        _require_there(table, plan)
        return plan
    rest = plan_undelete(table, plan.request)
    if rest.is_log_first:
        raise StorageFailed("the log cannot be read although its files were put in their places")
    if rest.found.files and not rest.refusals and not agreed(rest):
        raise PartlyDone(
            f"the log is back; {plural(rest.found.files, 'file')} that it names were not put back: not agreed",
            code="consent.denied",
            hint=command("undelete", version=plan.request.version, sources=list(plan.request.sources)),
        )
    rest = bring_back(table, rest, told)
    snapshot = read_snapshot(table, version=rest.version)
    keeps_times = has_in_commit_timestamps(snapshot.protocol, snapshot.metadata)
    return replace(
        rest,
        version_before=plan.version_before,
        had_log=plan.had_log,
        is_new=plan.is_new,
        notes=tuple(dict.fromkeys((*plan.notes, *rest.notes))),
        items=_joined(plan, rest),
        changed_times=() if keeps_times else plan.changed_times,
    )


def _require_proofs(table: TableHandle, plan: UndeletePlan) -> None:
    """Raise Refused where what the plan compared is not there any more."""
    if plan.log is None or not plan.log.items:
        return
    from deltacli.changing.proofs import Between, FilesAgree
    from deltacli.operations.recover.proving import still_holds

    seen: set[tuple[int, Proof]] = set()
    for item in plan.log.items:
        proof, source = plan.proofs[item.path], plan.log_sources[item.source]
        of_source = (item.source, proof._replace(version=0) if isinstance(proof, Between | FilesAgree) else proof)
        if of_source in seen:
            continue
        seen.add(of_source)
        if not still_holds(table, source, proof, plan.log_tags):
            raise Refused(
                f"the table or {source.name} has changed since the plan was made, and "
                f"{item.path} is not proven any more to be of this table",
                said_first=NOTHING_CHANGED,
                code=UNPROVEN,
                hint=command("undelete", sources=list(plan.request.sources), dry_run=True),
            )


def _put_log(table: TableHandle, plan: UndeletePlan, journal: Journal) -> None:
    log = plan.log
    if log is None or not log.items:
        return
    require_real_directories(table.storage, [item.file.name for item in log.items])
    total = sum(item.file.size_bytes for item in log.items)
    with weighed(table.progress, "putting the log in place", unit="files", total=len(log.items), weight=total) as step:
        for item in log.items:
            with in_flight(item.path):
                _put_log_file(table, plan, item)
            journal.note(item.path, item.file.size_bytes)
            step.advance(weight=item.file.size_bytes)


def _put_log_file(table: TableHandle, plan: UndeletePlan, item: LogItem) -> None:
    """Put one file of the log in its place. A checkpoint, a checksum and the hint of another writer stay."""
    source, file = plan.log_sources[item.source], _proven(plan, item)
    tag = plan.log_tags.get(item.path)
    is_replaced = tag is not None and tag_of(table.storage, item.path) == tag
    outcome = _bring(source, file, item.file.modified_ms, table.writable(), replace=is_replaced)
    if isinstance(outcome, Created) or not source.is_readable:
        _require_sound(table, plan, item, outcome)
        return
    try:
        is_same = table.storage.read(item.path) == source.files.read(item.path)
    except FileMissing as fault:
        raise StorageFailed(f"{item.path} could not be put in its place") from fault
    if not is_same and item.kind is FileKind.COMMIT:
        raise ConflictLost(
            f"another writer created commit {item.file.path.version} in the meantime; the commits after it stay away",
            code="undelete.conflict",
            facts={"commit": item.path},
            hint=command("history"),
        )


def _proven(plan: UndeletePlan, item: LogItem) -> ProvenFile:
    from deltacli.changing.proofs import ProvenFile

    log = plan.log
    assert log is not None
    return ProvenFile(item.path, item.file.size_bytes, plan.proofs[item.path], log.digests.get(item.file.name))


def _bring(source: Source, file: ProvenFile, modified_ms: int, to: Storage, *, replace: bool) -> Creation:
    """Put a file of the log in its place; a commit only with the bytes that the plan judged. Raises StorageFailed."""
    if file.sha256 is None or not isinstance(source, CopySource):
        return source.bring(file.path, file.size_bytes, to, replace=replace)
    data = source.files.read(file.path)
    if digest(data) != file.sha256:
        raise StorageFailed(
            f"{file.path} of {source.name} was changed since it was planned", code="undelete.source-changed"
        )
    if not replace:
        return to.put_if_absent(file.path, data, modified_ms=modified_ms)
    to.put(file.path, data, modified_ms=modified_ms)
    return Created()


def _require_sound(table: TableHandle, plan: UndeletePlan, item: LogItem, outcome: Creation) -> None:
    """Take a commit away again that could not be read before, and cannot be read now, where it is newer than a version
    that can be. Raises StorageFailed then, so that those after it stay away.
    """
    log, version = plan.log, item.file.path.version
    assert log is not None
    is_unread = isinstance(outcome, Created) and not plan.log_sources[item.source].is_readable
    if not is_unread or item.kind is not FileKind.COMMIT or not log.was_readable or version <= log.version_before:
        return
    if (why := fault_of_log_file(table.storage, item.file)) is not None:
        is_gone = all(isinstance(done, Deleted) for _, done in table.writable().delete_many([item.path]))
        became = "was taken away again" if is_gone else "could not be taken away again: delete it"
        raise StorageFailed(
            f"the deleted commit {version} cannot be read, and {became}: {why}",
            code="undelete.not-there",
            facts={"file": item.path, "newest version that can be read": str(version - 1)},
            hint=command("snapshot", version=version - 1),
        )


def _require_there(table: TableHandle, plan: UndeletePlan) -> None:
    """Raise StorageFailed where a file that was put in its place is not there as it should be."""
    if plan.data is not None and plan.data.found.needed.files.num_rows:
        found, data = plan.data.found, plan.data
        needed = found.needed.where(found.is_found)
        unread = any(not source.is_readable for source in data.sources)
        needed, sizes = look_for(table.storage, needed, table.engine, table.progress)
        verified = verify(needed, sizes, table.stores, table.engine, table.progress, contents=unread)
        _require_none(
            [
                f"{path.decode('utf-8', 'replace')}: {problem}"
                for path, problem in zip(needed.files["path"].to_pylist(), verified.problems.to_pylist(), strict=True)
                if problem is not None
            ]
        )
    if plan.log is not None and plan.log.items:
        present = list_whole_log(table.storage) or {}
        _require_none([f"{item.path}: missing" for item in plan.log.items if item.file.name not in present])


def _require_none(wrong: list[str]) -> None:
    if wrong:
        raise StorageFailed(
            f"{plural(len(wrong), 'file')} put in place cannot be used",
            code="undelete.not-there",
            facts={"files": ", ".join(wrong[:_NAMED])},
            hint=command("validate", level="footers"),
        )


def _joined(first: UndeletePlan, rest: UndeletePlan) -> ArrowTable:
    import pyarrow as pa

    return pa.concat_tables([first.items_as(RESTORED), rest.items])
