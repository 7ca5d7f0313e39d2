"""The plan of a vacuum: what goes, what stays and why, what keeps it from being executed; and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.checkpoint.row_digest import sha256_rows
from deltacli.operations.table.denials import Denials
from deltacli.units import format_timestamp

if TYPE_CHECKING:
    import pyarrow


class Mode(StrEnum):
    """How candidates are found: by listing the table, or in the commits that removed them."""

    FULL = "full"
    LITE = "lite"


class Reason(StrEnum):
    """Why a file goes."""

    TOMBSTONE = "tombstone"
    """A commit removed it, or wrote it as change data outside of `_change_data`, longer ago than the retention."""
    UNCOMMITTED = "uncommitted"
    """A data file that no version known to the log names."""
    VECTOR = "deletion-vector"
    CHANGE_DATA = "change-data"
    FOREIGN = "foreign"
    """Nothing that a Delta table consists of."""


class Refusal(NamedTuple):
    """What keeps a plan from being executed, and the option that overrides it, where one is safe to offer."""

    code: str
    message: str
    override: str | None = None
    hint: str | None = None


class Amount(NamedTuple):
    """How many files, and how many bytes they hold together."""

    files: int = 0
    size_bytes: int = 0

    def as_json(self) -> dict[str, int]:
        """As in the documents."""
        return {"files": self.files, "sizeBytes": self.size_bytes}


NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class Kept:
    """What was seen and stays. Sizes are counted where the listing told them without one more call a file."""

    live: Amount = NOTHING
    """Of the newest version, deletion vectors included, as far as they were listed."""
    retained: int = 0
    """Not live, but needed by a retained version, a version to be kept, or another table."""
    young: int = 0
    foreign: Amount = NOTHING
    hidden: int = 0
    """Files with hidden names, and hidden directories, which are not looked into."""
    links: int = 0
    unproven: int = 0
    """Files that a version may need: the log does not reach back to the cutoff, or contradicts itself about them."""
    outside_selection: int = 0
    """Candidates that `--where` does not select."""
    nested_tables: tuple[str, ...] = ()
    foreign_examples: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As in the document: numbers of files, and the directories that are tables of their own."""
        return {
            "live": self.live.files,
            "retained": self.retained,
            "young": self.young,
            "foreign": self.foreign.files,
            "hidden": self.hidden,
            "links": self.links,
            "unproven": self.unproven,
            "outsideSelection": self.outside_selection,
            "nestedTables": list(self.nested_tables),
        }


class Ages(NamedTuple):
    """The oldest and the newest modification time of some files, in epoch milliseconds; None without files."""

    oldest_ms: int | None
    newest_ms: int | None


class KindTotals(NamedTuple):
    """The candidates of one reason."""

    amount: Amount
    ages: Ages


@dataclass(frozen=True, slots=True)
class TimeTravelRange:
    """How far time travel and change feeds go back after the plan was executed.

    `first_version` is the oldest version whose files all stay, `first_ms` when it was committed; None where the log
    can't tell. `oldest_before` is the same before. `lost_feed` are the first and last version whose change feed is no
    longer complete, None where none is lost, or the table has no change feed. `kept_versions` are older ones that stay
    because somebody asked for them.
    """

    first_version: int | None = None
    first_ms: int | None = None
    oldest_before: int | None = None
    lost_feed: tuple[int, int] | None = None
    kept_versions: tuple[int, ...] = ()


UNKNOWN_REACH = TimeTravelRange()


class ProtectedTable(NamedTuple):
    """Another table whose files stay, as it was when the plan was made."""

    uri: str
    table_id: str
    version: int


@dataclass(frozen=True)
class VacuumPlan:
    """What would be deleted. Nothing has been done.

    `candidates`: an Arrow table, one row a file, ordered by path: `path` (binary: relative to the table, decoded, the
    name on the store), `sizeBytes` (int64), `modificationTimeMs` (int64; of LITE the time of the removal, 0 where
    nobody says), `reason` (string), `removedAtVersion` (int64, null where no commit at hand says), `partition` (string:
    the directories `key=value` of the path, joined by `/`; null where there are none).
    `directories` are empty ones that would be removed, deepest first.
    """

    table: str
    table_id: str
    mode: Mode
    snapshot_version: int
    now_ms: int
    retention_ms: int
    """What was asked for, else the table's own."""
    own_retention_ms: int
    cutoff_ms: int
    candidates: pyarrow.Table
    kept: Kept
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    reach: TimeTravelRange = UNKNOWN_REACH
    selection: str | None = None
    """The prefix or the condition that limits the plan, as given."""
    horizon: int | None = None
    """The newest version up to which nothing eligible stays once this was executed, for `_last_vacuum_info`; None
    where that can't be said, as of a limited plan."""
    allows_below: bool = False
    """Somebody named the table's own retention, to delete what is younger."""
    snapshot_sha256: str | None = None
    """SHA-256 of the commit `snapshot_version`, which a log that was put back and written on has not; None where there
    was no such file."""
    protected: tuple[ProtectedTable, ...] = ()
    by_inventory: bool = False
    """The store made the listing, some time before: each file is looked at before it goes."""
    looked_at: float | None = field(default=None, compare=False)
    """When the look at the files began, by `time.monotonic` of this process; None of a saved plan."""

    @property
    def files(self) -> int:
        rows: int = self.candidates.num_rows
        return rows

    @cached_property
    def size_bytes(self) -> int:
        return _sum(self.candidates.column("sizeBytes"))

    @cached_property
    def totals(self) -> Mapping[Reason, KindTotals]:
        """The candidates by reason, in the order of `Reason`; reasons without files are left out."""
        found: dict[Reason, KindTotals] = {}
        reasons = self.candidates.column("reason")
        numbers = self.candidates.select(["sizeBytes", "modificationTimeMs"])
        for reason in Reason:
            rows = pc.filter(numbers, pc.equal(reasons, reason.value))
            if rows.num_rows:
                ages = pc.min_max(rows.column("modificationTimeMs")).as_py()
                amount = Amount(rows.num_rows, _sum(rows.column("sizeBytes")))
                found[reason] = KindTotals(amount, Ages(ages["min"], ages["max"]))
        return found

    @cached_property
    def plan_id(self) -> str:
        """What it deletes of which table, as 16 hexadecimal digits: the same plan has the same id."""
        of = f"{self.table_id}\n{self.snapshot_version}\n{self.cutoff_ms}\n{self.mode}\n"
        return sha256_rows(self.candidates.select(["path"]), of.encode(errors="surrogatepass"))[:16]

    def as_json(self) -> dict[str, Any]:
        """The document `deltacli.vacuum`, without the envelope and the outcome."""
        reach = self.reach
        return {
            "mode": self.mode.value,
            "snapshotVersion": self.snapshot_version,
            "retentionMs": self.retention_ms,
            "cutoffMs": self.cutoff_ms,
            "cutoff": format_timestamp(self.cutoff_ms),
            "planId": self.plan_id,
            **({} if self.selection is None else {"selection": self.selection}),
            "candidates": {
                "files": self.files,
                "sizeBytes": self.size_bytes,
                "byKind": {
                    reason.value: found.amount.as_json()
                    | {"oldestMs": found.ages.oldest_ms, "newestMs": found.ages.newest_ms}
                    for reason, found in self.totals.items()
                },
            },
            "kept": self.kept.as_json(),
            "emptyDirectories": len(self.directories),
            "refusals": [{"code": one.code, "message": one.message, "override": one.override} for one in self.refusals],
            "notes": list(self.notes),
            "reach": {
                "firstVersion": reach.first_version,
                "firstTimestampMs": reach.first_ms,
                "oldestVersionBefore": reach.oldest_before,
                "lostChangeFeed": None if reach.lost_feed is None else list(reach.lost_feed),
            },
        }


@dataclass(slots=True)
class VacuumOutcome:
    """What became of a plan, as far as it was executed."""

    deleted: Amount = NOTHING
    missing: int = 0
    """Files that were gone already."""
    spared: int = 0
    """Candidates that are needed again: a version came between the plan and the deletion."""
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Path and reason of the first thousand that are still there."""
    failures: int = 0
    directories_removed: int = 0
    start_version: int | None = None
    end_version: int | None = None
    end_status: str | None = None
    """What END says: COMPLETED or FAILED; None as long as it is not known to be committed."""
    end_problem: str | None = None
    """Why the END commit could not be made."""
    resumed_after: int = 0
    """Files of the plan that an earlier run was done with."""
    denials: Denials = field(default_factory=Denials, compare=False)
    """Which of the failures of this run are for lack of permission."""

    def as_json(self) -> dict[str, Any]:
        """As in the document."""
        return {
            "deleted": self.deleted.as_json()
            | {
                "missing": self.missing,
                "spared": self.spared,
                "failed": self.failures,
                "failures": [{"path": path, "reason": reason} for path, reason in self.failed],
            },
            "directoriesRemoved": self.directories_removed,
            "startVersion": self.start_version,
            "endVersion": self.end_version,
            **({} if self.end_problem is None else {"endProblem": self.end_problem}),
        }


class VacuumResult(NamedTuple):
    """A plan, and what became of it; None where it was not executed."""

    plan: VacuumPlan
    outcome: VacuumOutcome | None


def _sum(column: pyarrow.ChunkedArray) -> int:
    found: int | None = pc.sum(column).as_py()
    return found or 0
