"""The request for a vacuum, and its plan: files to delete, files to keep and why, refusals; and its outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from deltacli.changing.file_totals import NO_FILES, FileTotals
from deltacli.changing.outcome import DeletionFailures
from deltacli.core.errors import DeltacliError, Refusal, Refused, UsageError, command, parameter, suggest_parameters
from deltacli.core.lock_free_property import cached_property
from deltacli.core.short_repr import short_repr
from deltacli.core.texts import require_path
from deltacli.core.times import format_timestamp
from deltacli.core.units import format_size, parse_size, plural
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.table.api_arguments import require_at_least, require_known_word, require_version
from deltacli.table.api_errors import name_table
from deltacli.table.handle import managed_store

if TYPE_CHECKING:
    import pyarrow

    from deltacli.changing.base_version import BaseVersion
    from deltacli.operations.streams.protection import GuardedStreams

# -- the request for a vacuum ------------------------------------------------------------------------------------------

EXECUTING = frozenset({"log_entries", "threads", "rate", "commit_metadata", "quarantine"})
"""The fields that say how a plan is executed; the others say what is planned."""

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%")


class Mode(StrEnum):
    """The source of candidates: a listing of the table, or the commits that removed them."""

    FULL = "full"
    LITE = "lite"


class DeletionLimit(NamedTuple):
    """The limit of a deletion: a share of the files and of the bytes, or bytes."""

    share: float | None = None
    size_bytes: int | None = None
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> DeletionLimit:
        """Parse `20%` or `10GiB`. Raises UsageError."""
        if match := _PERCENT.fullmatch(text.strip()):
            share = float(match[1]) / 100
            if share <= 1:
                return cls(share=share, text=text.strip())
        elif "%" not in text:
            with suppress(UsageError):
                return cls(size_bytes=parse_size(text), text=text.strip())
        raise UsageError(
            f"{parameter('vacuum.max_delete')}: {text!r} is not a share or size",
            code="usage.size",
            facts={"expected": "20%, at most 100%, or 10GiB"},
        )


@dataclass(frozen=True, kw_only=True)
class VacuumRequest:
    """Which files to delete, and how.

    Attributes:
        retention_ms: Files that have been unneeded for longer, in milliseconds, are deleted. None: the
            retention of the table's property, or 7 days.
        allow_retention_below_ms: The table's own retention, to allow a shorter one.
        mode: Where candidates come from: `full` lists the table, `lite` reads the removed files of the log.
        prefix: Delete only below this directory of the table. It excludes `where`.
        where: A condition on partition columns. Delete only in matching partitions.
        keep_versions: Versions whose files are kept, whatever their age.
        protect_from: Paths or URIs of other tables, such as shallow clones, whose files are kept.
        protect_streams: Patterns of checkpoint directories of Spark queries. Whatever these queries still need
            is kept.
        ignore_streams_older_ms: The age of a checkpoint, in milliseconds, from which its query is not protected
            if it is behind. None: every matching query is protected.
        allow_stream_loss: Queries, by their ids or checkpoint directories, that may become unable to continue.
        inventory: Path or URI of a list of files that the store made, to use instead of a listing.
        max_delete: The share of the table, such as `50%`, or the size above which nothing is deleted.
        quarantine: A directory outside of all tables that gets a copy of each file before it is deleted.
        include_foreign: True to delete unrecognized files that are older than the retention, too.
        skip_nested_tables: True to skip directories that are tables of their own. False refuses the vacuum.
        log_entries: False to not commit VACUUM START and VACUUM END.
        threads: The number of threads that delete. None: what the store allows.
        rate: The largest number of files to delete per second. None: no limit.
        commit_metadata: Keys to add to the commitInfo of VACUUM START and VACUUM END. `userMetadata` sets the
            field of that name.
        dry_run: True to plan only, and change nothing.
    """

    retention_ms: int | None = None
    allow_retention_below_ms: int | None = None
    mode: str = Mode.FULL
    prefix: str | None = None
    where: str | None = None
    keep_versions: Sequence[int] = ()
    protect_from: Sequence[str] = ()
    protect_streams: Sequence[str] = ()
    ignore_streams_older_ms: int | None = None
    allow_stream_loss: Sequence[str] = ()
    inventory: str | None = None
    max_delete: str = "50%"
    quarantine: str | None = None
    include_foreign: bool = False
    skip_nested_tables: bool = False
    log_entries: bool = True
    threads: int | None = None
    rate: float | None = None
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Bring the texts to one form. Raises UsageError, also for fields that exclude each other."""
        require_known_word(self.mode, "mode", Mode)
        require_at_least(1, self.threads, "threads")
        if self.quarantine is not None and not self.quarantine.strip():
            raise UsageError(f"{parameter('vacuum.quarantine')} is empty")
        if self.prefix is not None and self.where is not None:
            raise UsageError(
                f"{parameter('vacuum.prefix')} and {parameter('vacuum.where')} exclude each other",
                facts={"instead": "a condition only"},
            )
        if self.protect_streams or self.ignore_streams_older_ms is not None or self.allow_stream_loss:
            from deltacli.operations.streams.protection import require_streams

            require_streams(self.protect_streams, self.ignore_streams_older_ms, self.allow_stream_loss)
        if min(self.retention_ms or 0, self.allow_retention_below_ms or 0) < 0:
            raise UsageError("the retention is negative", facts={"expected": "at least 0h"})
        given = [name for name in ("prefix", "where", "inventory", "include_foreign") if getattr(self, name)]
        if self.mode == Mode.LITE and given:
            refused, lite = parameter(f"vacuum.{given[0]}"), parameter("vacuum.mode", "lite")
            raise UsageError(
                f"{refused} cannot be combined with {lite}, which does not list the table",
                hint=command("vacuum", mode="full", dry_run=True),
            )
        settled = {
            "mode": Mode(self.mode),
            "prefix": None if self.prefix is None else _directory(self.prefix),
            "keep_versions": tuple(require_version(version, "keep_versions") for version in self.keep_versions),
            "protect_from": tuple(self.protect_from),
            "protect_streams": tuple(self.protect_streams),
            "allow_stream_loss": tuple(self.allow_stream_loss),
            "max_delete": DeletionLimit.parse(self.max_delete).text,
            "commit_metadata": dict(self.commit_metadata),  # a proxy cannot be sent to executors
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)


def _directory(prefix: str) -> str:
    """Return a directory below the table, as spelled in a listing. Raises UsageError."""
    require_path(prefix, parameter("vacuum.prefix"))
    parts = [part for part in prefix.split("/") if part not in ("", ".")]
    if prefix.startswith("/") or "://" in prefix or ".." in parts or not parts:
        raise UsageError(
            f"{parameter('vacuum.prefix')} {prefix} is not a directory below the table",
            facts={"expected": "date=2026-01-01"},
        )
    if parts[0] == LOG_DIRECTORY:
        raise UsageError(
            f"{parameter('vacuum.prefix')} {prefix} is the log, which vacuum does not change",
            hint=command("log expire"),
        )
    return "/".join(parts)


# -- the plan of a vacuum ----------------------------------------------------------------------------------------------


class Reason(StrEnum):
    """The reason to delete a file."""

    TOMBSTONE = "tombstone"
    """A commit removed it, or wrote it as change data outside of `_change_data`, longer ago than the retention."""
    UNCOMMITTED = "uncommitted"
    """A data file that no version in the log names."""
    VECTOR = "deletion-vector"
    CHANGE_DATA = "change-data"
    FOREIGN = "foreign"
    """A file that is not part of a Delta table."""


class Kept(NamedTuple):
    """The listed files that are kept. Sizes are counted where the listing has them without a further call."""

    live: FileTotals = NO_FILES
    """Files of the newest version, including deletion vectors, as far as they were listed."""
    retained: int = 0
    """Not live, but needed by a retained version, a version to keep, or another table."""
    young: int = 0
    foreign: FileTotals = NO_FILES
    hidden: int = 0
    """Files with hidden names, and hidden directories, which are not listed."""
    links: int = 0
    unproven: int = 0
    """Files that a version may need: the log does not reach back to the cutoff, or is inconsistent about them."""
    outside_selection: int = 0
    """Candidates that `--where` does not select."""
    nested_tables: tuple[str, ...] = ()
    foreign_examples: tuple[str, ...] = ()
    stream: int | None = None
    """Files that only a query of Spark needs; None where no query is to be protected."""

    def as_json(self) -> dict[str, Any]:
        """Return it as in the document: numbers of files, and the directories that are tables of their own."""
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
            **({} if self.stream is None else {"stream": self.stream}),
        }


class Ages(NamedTuple):
    """The oldest and the newest modification time of some files, in epoch milliseconds; None without files."""

    oldest_ms: int | None
    newest_ms: int | None


class KindTotals(NamedTuple):
    """The candidates of one reason."""

    amount: FileTotals
    ages: Ages


class TimeTravelRange(NamedTuple):
    """How far time travel and change feeds reach back after the execution.

    `first_version` is the oldest version whose files are all kept, `first_ms` when it was committed; None where
    unknown. `oldest_before` is the same before the execution. `lost_feed` are the first and last version whose change
    feed is no longer complete, None where there are none or the table has no change feed. `lost` are the first and last
    versions of ranges, ascending, which lose a file; none where `oldest_before` is None.
    """

    first_version: int | None = None
    first_ms: int | None = None
    oldest_before: int | None = None
    lost_feed: tuple[int, int] | None = None
    lost: tuple[tuple[int, int], ...] = ()


UNKNOWN_REACH = TimeTravelRange()


class ProtectedTable(NamedTuple):
    """Another table whose files are kept, as of the plan."""

    uri: str
    table_id: str
    version: int
    sha256: str | None = None
    """SHA-256 of its commit of that version, or of the checkpoint where the commit has expired; None in saved plans of
    earlier releases.
    """


@contextmanager
def of_protected(uri: str) -> Iterator[None]:
    """Make errors name the other table instead of the vacuumed one."""
    try:
        yield
    except DeltacliError as fault:
        fault.facts.setdefault("protected table", uri)
        if not fault.code.startswith("vacuum."):  # which are about the plan
            name_table(fault, uri)
        raise


@short_repr("version=snapshot_version", "files", "size_bytes", "refusals", "notes")
@dataclass(frozen=True, repr=False)
class VacuumPlan:
    """The files to delete. Nothing has been done.

    `candidates`: an Arrow table, one row per file, ordered by path: `path` (binary: relative to the table, decoded, the
    name on the store), `sizeBytes` (int64), `modificationTimeMs` (int64; for LITE the time of the removal, 0 where
    unknown), `reason` (string), `removedAtVersion` (int64, null where unknown), `partition` (string: the directories
    `key=value` of the path, joined by `/`; null where there are none).
    `directories` are empty ones that would be removed, deepest first.
    """

    table: str
    table_id: str
    mode: Mode
    snapshot_version: int
    now_ms: int
    retention_ms: int
    """The requested retention, else the table's own."""
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
    """The newest version up to which all eligible files are deleted after the execution, for `_last_vacuum_info`; None
    where unknown, as for a limited plan."""
    allows_below: bool = False
    """The user named the table's own retention, to allow a shorter one."""
    snapshot_sha256: str | None = None
    """SHA-256 of the commit `snapshot_version`, which detects a log that was restored and then changed; None where
    there was no such file.
    """
    protected: tuple[ProtectedTable, ...] = ()
    missing_live: FileTotals = field(default_factory=FileTotals)
    """Live files that are not in the listing; always empty where the listing was made earlier by the store."""
    by_inventory: bool = False
    """The listing was made earlier by the store: each file is checked before it is deleted."""
    quarantine: str | None = None
    """The URI of the directory that gets a copy of each file first, None without one."""
    copied_ms: int | None = field(default=None, compare=False)
    """The newest time of a log that was copied within the retention, by which all its commits are retained; None for
    another log, and for a saved plan."""
    streams: GuardedStreams | None = None
    """The queries of Spark that are protected, looked at again before each deletion; None where that was not asked for.
    """
    made_from: BaseVersion | None = field(default=None, compare=False)
    """The table and the commit that it was made from; None for a saved plan until it is compared with its table."""
    looked_at: float | None = field(default=None, compare=False)
    """When the listing began, by `time.monotonic` of this process; None for a saved plan."""

    @property
    def way_back(self) -> str:
        """The command that brings copies in a quarantine back: `undelete`, or `restore` for a table of a catalog.

        Files come back to a table of a catalog by a commit only.
        """
        is_managed = managed_store(self.base_version.table.storage) is not None
        return "restore" if is_managed else "undelete"

    @property
    def base_version(self) -> BaseVersion:
        """The table and the commit that the plan was made from, or compared with."""
        assert self.made_from is not None  # a saved plan is compared with its table first
        return self.made_from

    @property
    def is_noop(self) -> bool:
        return not self.files and not self.directories

    def build_refusal(self) -> Refused | None:
        if not self.refusals:
            return None
        first = self.refusals[0]
        hint = suggest_parameters(first.override) if first.override else first.hint
        return Refused.from_refusals(self.refusals, first.facts or {"guard": first.code}, hint)

    def effects(self) -> Iterator[str]:
        yield f"delete {plural(self.files, 'file')} ({format_size(self.size_bytes)}), plan {self.plan_id}"
        if self.quarantine is not None:
            yield f"copy them to {self.quarantine}"

    @property
    def is_looked_at_again(self) -> bool:
        """True if the files may have changed since they were listed, on any store: by an old inventory, or while all of
        them were copied. Each is checked before it is deleted.
        """
        return self.by_inventory or self.quarantine is not None

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
        kind_totals: dict[Reason, KindTotals] = {}
        reasons = self.candidates.column("reason")
        numbers = self.candidates.select(["sizeBytes", "modificationTimeMs"])
        for reason in Reason:
            rows = pc.filter(numbers, pc.equal(reasons, reason.value))
            if rows.num_rows:
                ages = pc.min_max(rows.column("modificationTimeMs")).as_py()
                amount = FileTotals(rows.num_rows, _sum(rows.column("sizeBytes")))
                kind_totals[reason] = KindTotals(amount, Ages(ages["min"], ages["max"]))
        return kind_totals

    @cached_property
    def plan_id(self) -> str:
        """Digest of the table and the deleted files, as 16 hexadecimal digits: equal plans have equal ids."""
        from deltacli.delta.encoding.digests import sha256_rows

        of = f"{self.table_id}\n{self.snapshot_version}\n{self.cutoff_ms}\n{self.mode}\n"
        return sha256_rows(self.candidates.select(["path"]), of.encode(errors="surrogatepass"))[:16]

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.vacuum`, without the envelope and the outcome."""
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
                    reason.value: totals.amount.as_json()
                    | {"oldestMs": totals.ages.oldest_ms, "newestMs": totals.ages.newest_ms}
                    for reason, totals in self.totals.items()
                },
            },
            "kept": self.kept.as_json(),
            **({} if self.streams is None else {"streams": [one.as_json() for one in self.streams.queries]}),
            "emptyDirectories": len(self.directories),
            "refusals": [one.as_json("override") for one in self.refusals],
            "notes": [*self.notes, *(() if self.made_from is None else self.made_from.warnings)],
            "reach": {
                "firstVersion": reach.first_version,
                "firstTimestampMs": reach.first_ms,
                "oldestVersionBefore": reach.oldest_before,
                "lostVersions": [list(pair) for pair in reach.lost],
                "lostChangeFeed": None if reach.lost_feed is None else list(reach.lost_feed),
            },
        }


@short_repr(
    "deleted=deleted.files",
    "size_bytes=deleted.size_bytes",
    "missing",
    "spared",
    "failures=failed.count",
    "end_version",
)
@dataclass(slots=True, repr=False)
class VacuumOutcome:
    """The outcome of a plan, as far as it was executed."""

    deleted: FileTotals = NO_FILES
    missing: int = 0
    """Files that were deleted already."""
    spared: int = 0
    """Candidates that a version committed after the plan needs again, or that are younger than it saw them."""
    failed: DeletionFailures = field(default_factory=DeletionFailures)
    directories_removed: int = 0
    start_version: int | None = None
    end_version: int | None = None
    end_status: str | None = None
    """The status in END: COMPLETED or FAILED; None as long as it is not known to be committed."""
    end_problem: str | None = None
    """The reason why END could not be committed."""
    resumed_after: int = 0
    """Files of the plan that an earlier run had decided."""
    quarantine: str | None = None
    """The directory with a copy of each file, where one was asked for."""

    def as_json(self) -> dict[str, Any]:
        return {
            "deleted": self.deleted.as_json()
            | {
                "missing": self.missing,
                "spared": self.spared,
                "failed": self.failed.count,
                "failures": self.failed.as_json(),
            },
            "directoriesRemoved": self.directories_removed,
            "startVersion": self.start_version,
            "endVersion": self.end_version,
            **({} if self.end_problem is None else {"endProblem": self.end_problem}),
            **({} if self.quarantine is None else {"quarantine": self.quarantine}),
        }


@short_repr("plan", "outcome")
class VacuumResult(NamedTuple):
    """A plan and its outcome; None where it was not executed."""

    plan: VacuumPlan
    outcome: VacuumOutcome | None

    def describe_progress(self) -> str:
        outcome = self.outcome or VacuumOutcome()
        done = f"{outcome.deleted.files:,} of {plural(self.plan.files, 'file')} deleted"
        if outcome.end_version is not None:
            return f"{done}, VACUUM END ({outcome.end_status}) is version {outcome.end_version}"
        return done if outcome.end_problem is None else f"{done}, VACUUM END was not written"

    def build_incomplete_error(self) -> DeltacliError | None:
        if self.outcome is None:
            return None
        hint, has_deleted = command("vacuum", yes=True), bool(self.outcome.deleted.files)
        return self.outcome.failed.build_error(
            f"{plural(self.outcome.failed.count, 'file')} could not be deleted",
            code="vacuum.partly-done",
            has_deleted=has_deleted,
            hint=hint,
        )


def _sum(column: pyarrow.ChunkedArray) -> int:
    total: int | None = pc.sum(column).as_py()
    return total or 0
