"""Executing a restore: each file is created once, compared where another writer was first, and read back at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, assert_never

from deltacli.changing.acts import Act
from deltacli.changing.basis import OTHER_PAST, require_same
from deltacli.core.errors import NOTHING_CHANGED, ConflictLost, FileMissing, Refused, StorageFailed, Unreadable
from deltacli.core.hints import command
from deltacli.core.progress import Progress, weighed
from deltacli.core.units import format_ranges, plural
from deltacli.delta.log.log_path import HINT_NAME, LogFileKind, commit_name
from deltacli.engine.base import Engine
from deltacli.operations.log.log_copy import at_once, differing, digest, list_whole_log, log_location, versioned
from deltacli.operations.log.log_restore import (
    Action,
    RestoreItem,
    RestorePlan,
    plan_restore,
    require_real_directories,
)
from deltacli.storage import Created, Deleted, Existed, ReadStorage, Storage, Unknown
from deltacli.table.handle import TableHandle
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate

_NAMED = 5


@dataclass
class LogRestored:
    """The files of a plan that were written."""

    plan: RestorePlan
    written: list[RestoreItem] = field(default_factory=list)

    def so_far(self) -> str:
        """Return how many files were restored."""
        return f"{plural(len(self.written), 'file')} restored"

    def require_complete(self) -> None:
        """Do nothing: an error ends a restore."""


@dataclass(frozen=True)
class LogRestore:
    """The restore of what a log lacks from its backup; with `replaces` also of what differs."""

    act: ClassVar[Act] = Act.PUT

    source: Storage
    replaces: bool = False

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> RestorePlan:  # noqa: ARG002  (needs no version)
        """Plan it. Raises what `plan_restore` raises."""
        return plan_restore(table, self.source, replace=self.replaces)

    def outcome(self, plan: RestorePlan) -> LogRestored:
        """Return the outcome before the first file."""
        return LogRestored(plan)

    def execute(self, gate: Gate[RestorePlan, LogRestored]) -> None:
        """Write the files of the plan in order. Planning and running it again continues an interrupted run.

        Raises Refused (`plan.*`) where the log is no longer that of the plan, and ConflictLost where another writer
        created a commit that the backup has, or one between those that it has.
        """
        plan, storage, source, written = gate.plan, gate.store, self.source, gate.outcome.written
        engine, progress = gate.table.engine, gate.table.progress
        _require_same(plan, storage)
        require_real_directories(storage, [item.file.name for item in plan.writes])
        read = partial(_read, source)
        sizes = [item.file.size_bytes for item in plan.writes]
        contents = engine.run(read, plan.writes, at_once=at_once(source, sizes))
        with weighed(progress, "restoring", unit="files", total=len(plan.writes), weight=sum(sizes)) as step:
            for item, data in zip(plan.writes, contents, strict=True):
                try:
                    if _write(plan, storage, item, data, written):
                        written.append(item)
                finally:
                    gate.has_begun = bool(written)
                step.advance(weight=item.file.size_bytes)
        _verify(storage, written, engine, progress)
        _require_alone(plan, storage)


def _require_same(plan: RestorePlan, storage: Storage) -> None:
    """Raise Refused where the log is another one than that which the plan compared, or where there is one by now, and
    ConflictLost where it has a commit by now that the plan adds.
    """
    listing = versioned((list_whole_log(storage) or {}).values())
    if plan.basis.version < 0 <= listing.newest_version:
        raise Refused(
            f"the log has version {listing.newest_version} by now, and had none when this was planned",
            said_first=NOTHING_CHANGED,
            code=OTHER_PAST,
            facts={"why": "another writer created the table, or restores it"},
            hint=command("history", limit=10),
        )
    require_same(plan.basis, listing)
    for item in plan.writes:
        is_there = item.file.stored.path.kind is LogFileKind.COMMIT and item.version in listing.commits
        if (
            is_there
            and item.action is Action.ADD
            and _digest_of(storage, log_location(item.file.name)) != item.file.sha256
        ):
            _give_way(plan, storage, item, [])  # before the first commit is written, which is one above it


def _read(source: ReadStorage, item: RestoreItem) -> bytes:
    data = source.read(log_location(item.file.name))
    if digest(data) != item.file.sha256:
        raise Unreadable(
            f"{item.file.name} of the backup was changed while it was read",
            code="backup.damaged",
            facts={"backup": source.uri},
        )
    return data


def _write(plan: RestorePlan, storage: Storage, item: RestoreItem, data: bytes, written: list[RestoreItem]) -> bool:
    """Write one file; return False where another writer's file is kept."""
    path, modified_ms = log_location(item.file.name), item.file.modified_ms
    if item.action is Action.REPLACE:
        found = _digest_of(storage, path)
        if found not in (item.seen_sha256, item.file.sha256):
            return _give_way(plan, storage, item, written)
        storage.put(path, data, modified_ms=modified_ms)
        return True
    match storage.put_if_absent(path, data, modified_ms=modified_ms):
        case Created():
            return True
        case Existed():
            return _digest_of(storage, path) == item.file.sha256 or _give_way(plan, storage, item, written)
        case Unknown(cause):
            found = _digest_of(storage, path)
            if found is None:
                raise StorageFailed(f"{path} may not have been written: {cause}")
            return found == item.file.sha256 or _give_way(plan, storage, item, written)
        case other:
            assert_never(other)


def _give_way(plan: RestorePlan, storage: Storage, item: RestoreItem, written: list[RestoreItem]) -> bool:
    """Keep another writer's file; stop if it is a commit.

    If it is the commit right after the existing ones, the one file written above it is deleted again. The log is then
    as if the restore had not been started.
    """
    if item.file.stored.path.kind is not LogFileKind.COMMIT:
        return False
    facts = {"commit": str(item.version), "already restored": f"{len(written)} files"}
    if item.version == plan.claim and len(written) == 1:
        above = log_location(written[0].file.name)
        ours = _digest_of(storage, above) == written[0].file.sha256
        outcomes = dict(storage.delete_many([above])) if ours else {}
        facts["deleted again"] = f"{written[0].file.name}: {type(outcomes.get(above)).__name__.lower()}"
        if isinstance(outcomes.get(above), Deleted):
            written.clear()  # the log is as it was
    raise ConflictLost(
        f"another writer created commit {item.version} in the meantime; no further files were restored",
        code="restore.conflict",
        facts=facts,
        hint=command("history"),
    )


def _digest_of(storage: ReadStorage, path: str) -> str | None:
    try:
        return digest(storage.read(path))
    except FileMissing:
        return None


def _verify(storage: ReadStorage, written: Sequence[RestoreItem], engine: Engine, progress: Progress) -> None:
    # Another writer may have updated the hint since.
    expected = [item.file for item in written if item.file.name != HINT_NAME]
    wrong = differing(storage, expected, engine, "verifying", progress)
    if wrong:
        raise StorageFailed(
            f"{len(wrong)} of {len(written)} restored files differ from what was written",
            code="restore.copy-differs",
            facts={"files": ", ".join(wrong[:_NAMED])},
        )


def _require_alone(plan: RestorePlan, storage: ReadStorage) -> None:
    """Raise ConflictLost where another writer created a commit between those of the backup, or rolled the log back, so
    that its newest version cannot be rebuilt.
    """
    restored = [item.version for item in plan.writes if item.file.stored.path.kind is LogFileKind.COMMIT]
    last = max(restored, default=-1)
    now = versioned((list_whole_log(storage) or {}).values())
    others = [v for v in now.commits if plan.newest_before < v < last and commit_name(v) not in plan.listed.files]
    if others:
        raise ConflictLost(
            f"another writer created commit {others[0]} between the restored ones",
            code="restore.conflict",
            facts={"commits of the other writer": format_ranges(others)},
            hint=command("validate"),
        )
    if plan.is_readable_after and now.newest_version not in now.reconstructable:
        raise ConflictLost(
            f"another writer deleted files of the log in the meantime: version {now.newest_version} cannot be rebuilt",
            code="restore.conflict",
            facts={"commits": format_ranges(now.commits)},
            hint=command("validate"),
        )
