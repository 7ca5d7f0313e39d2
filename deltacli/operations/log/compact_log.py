"""`log compact`: the commits of a range in one file, every remove and every removed domain kept.

Spec: Log Compaction Files; Action Reconciliation.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from deltacli.changing.acts import Act
from deltacli.changing.basis import Basis, basis_of
from deltacli.changing.derived import put_derived, require_derivable
from deltacli.core.errors import FileMissing, Refused, StorageFailed, UsageError, VersionAbsent
from deltacli.core.hints import command, parameter
from deltacli.core.progress import reported_weighed
from deltacli.core.short_repr import short_repr
from deltacli.core.units import format_spans, gaps_in, named_ranges
from deltacli.delta.log.action_fields import too_deep
from deltacli.delta.log.commit_lines import Action, read_actions
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.delta.log.replay import file_key
from deltacli.delta.log.segment import LogFile
from deltacli.rules.framework.views import LocatedAction
from deltacli.rules.log.compactions import differences
from deltacli.storage import Existed, ReadStorage, Unknown
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from deltacli.work.commits.reading import read_commit

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate

MOST_BYTES = 512 << 20
"""Of all commits together, in bytes. Their actions are held in memory, also by readers of compactions."""

Key = tuple[str, str]
_FILES = ("add", "remove")


@short_repr("first", "last", "size_bytes", "commit_bytes", "skipped", "dry_run")
@dataclass(frozen=True, repr=False)
class Compaction:
    """A compaction that was written, existed already, or would be written (`dry_run`)."""

    basis: Basis
    first: int
    last: int
    path: str
    size_bytes: int
    commit_bytes: int
    actions: dict[str, int]
    kept: Mapping[Key, Action]
    """The reconciled actions."""
    skipped: bool = False
    dry_run: bool = True

    is_noop = False

    def objection(self) -> None:
        """Return None: what forbids a compaction is found before it is planned."""

    def effects(self) -> Iterator[str]:
        """Yield the file."""
        yield self.path

    def so_far(self) -> str:
        """Return what was written."""
        return f"{self.path} written"

    def require_complete(self) -> None:
        """Do nothing: a file is written or not."""

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.log-compact`, without the envelope."""
        return {
            "firstVersion": self.first,
            "lastVersion": self.last,
            "path": self.path,
            "sizeBytes": self.size_bytes,
            "commitsSizeBytes": self.commit_bytes,
            "actions": self.actions,
            "skipped": self.skipped,
            "dryRun": self.dry_run,
        }


def compaction_path(first: int, last: int) -> str:
    """Return the path relative to the table."""
    return f"{LOG_DIRECTORY}/{first:020d}.{last:020d}.compacted.json"


@dataclass(frozen=True)
class LogCompaction:
    """The compaction of the commits `first` to `last`, both included."""

    act: ClassVar[Act] = Act.DERIVE

    first: int
    last: int

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> Compaction:  # noqa: ARG002  (the range decides)
        """Read the commits and reconcile their actions.

        Raises UsageError for a range of fewer than two commits, VersionAbsent where one is missing, CommitCorrupt, and
        Refused where the protocol or the size forbids it.
        """
        snapshot = _last_version(table, self.first, self.last)
        require_derivable(snapshot)
        chosen = _chosen(snapshot, self.first, self.last)
        size = sum(file.size_bytes for file in chosen)
        kept = reconcile(_actions(table, chosen))
        counts = Counter(kind for kind, _ in kept)
        path, data = compaction_path(self.first, self.last), _encoded(kept)
        return Compaction(basis_of(snapshot), self.first, self.last, path, len(data), size, counts, kept)

    def outcome(self, plan: Compaction) -> Compaction:
        """Return the compaction as one that is being written."""
        return replace(plan, dry_run=False)

    def execute(self, gate: Gate[Compaction, Compaction]) -> None:
        """Write the file, read it back and compare it with the commits.

        Raises Refused where another compaction has the name, StorageFailed and NoAtomicCreate.
        """
        plan = gate.plan
        made = put_derived(gate, plan.path, _encoded(plan.kept))
        if isinstance(made, Unknown):
            try:
                gate.store.stat(plan.path)
            except FileMissing:
                raise StorageFailed(f"{plan.path} may not have been written", facts={"why": made.cause}) from None
        _require_equal(gate.store, plan.path, plan.kept)
        gate.outcome = replace(gate.outcome, skipped=made == Existed())


def _last_version(table: TableHandle, first: int, last: int) -> Snapshot:
    if first >= last:
        raise UsageError(
            f"{parameter('log compact.first', first)} {parameter('log compact.last', last)}: "
            "a compaction needs at least two commits",
            hint=command("log compact", first=last, last=first) if last < first else None,
        )
    try:
        return read_snapshot(table, version=last)
    except VersionAbsent as absent:
        absent.message = f"commits {first} to {last}: {absent.message}"
        if absent.nearest is not None:
            fits = first < absent.nearest
            absent.hint = command("log compact", first=first, last=absent.nearest) if fits else command("history")
        raise


def _chosen(snapshot: Snapshot, first: int, last: int) -> list[LogFile]:
    """Return the commits of a range. Raises VersionAbsent and Refused."""
    listing, table = snapshot.listing, snapshot.table
    if listing.start_version > first:  # it begins at a checkpoint, after which nothing older is needed to read
        listing = list_log(table.storage, start_version=first, progress=table.progress)
    commits = listing.commits
    missing = gaps_in(commits, first, last)
    if missing:
        is_one = len(missing) == 1 and missing[0][0] == missing[0][1]
        raise VersionAbsent(
            f"{'commit' if is_one else 'commits'} {format_spans(missing)} {'is' if is_one else 'are'} missing",
            code="log.gap",
            facts={"found": named_ranges("commit", commits)},
            hint=command("history"),
        )
    chosen = [commits[version] for version in range(first, last + 1)]
    size = sum(file.size_bytes for file in chosen)
    if size > MOST_BYTES:
        raise Refused(
            f"commits {first} to {last} have {size} bytes; the limit of a compaction is {MOST_BYTES >> 20} MiB",
            code="compact.too-large",
            hint=command("checkpoint", version=last),
        )
    return chosen


def _actions(table: TableHandle, commits: Sequence[LogFile]) -> Iterator[tuple[str, Action]]:
    """Yield every action, oldest commit first; adds of a commit follow its removes, so that an add takes precedence."""
    told = reported_weighed(
        iter(commits),
        table.progress,
        "reading the log",
        unit="commits",
        weights=[file.size_bytes for file in commits],
        weight_of=lambda file: file.size_bytes,
    )
    for file in told:
        actions = read_actions(read_commit(table.storage, file), file.name)
        yield from (pair for pair in actions if pair[0] != "add")
        yield from (pair for pair in actions if pair[0] == "add")


def reconcile(actions: Iterable[tuple[str, Action]]) -> dict[Key, Action]:
    """Return the newest action of each key, by kind and key; nothing expires, removed domains are kept.

    The key of a file action occurs under one kind only: that of the newest.
    """
    found: dict[Key, Action] = {}
    for kind, action in actions:
        match kind:
            case "add" | "remove":
                key = file_key(action, "the commits")
                for other in _FILES:
                    found.pop((other, key), None)
                found[kind, key] = action
            case "protocol" | "metaData":
                found[kind, ""] = action
            case "txn":
                found[kind, str(action.get("appId"))] = action
            case "domainMetadata":
                found[kind, str(action.get("domain"))] = action
    return found


def _encoded(kept: Mapping[Key, Action]) -> bytes:
    return b"".join(_line(kind, action) for (kind, _), action in kept.items())


def _line(kind: str, action: Action) -> bytes:
    try:
        return orjson.dumps({kind: action}) + b"\n"
    except (TypeError, ValueError):  # integers beyond 64 bits, lone surrogates
        try:
            return json.dumps({kind: action}, separators=(",", ":")).encode() + b"\n"
        except RecursionError:
            raise too_deep(f"a field of {kind}", "the commits") from None


def _require_equal(storage: ReadStorage, path: str, kept: Mapping[Key, Action]) -> None:
    """Raise Refused unless the file contains the reconciled actions, as `validate` compares them."""
    name = path.rsplit("/", 1)[-1]
    there = [LocatedAction(kind, action, 0) for kind, action in read_actions(storage.read(path), name)]
    expected = [LocatedAction(kind, action, 0) for (kind, _), action in kept.items()]
    first = next(differences([expected], there), None)
    if first is not None:
        raise Refused(
            f"{name} exists and differs from its commits: it {first[1]}",
            code="compaction.content",
            facts={"file": path},
            hint=command("validate", select=["compaction.*"]),
        )
