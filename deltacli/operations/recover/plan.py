"""What an undelete would do, as data: files that a version and its log need and that are gone, and their sources; and
what is said of files of a log that nothing proves to be of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.clone_notes import NOTES_DIRECTORY
from deltacli.changing.file_owners import FileOwners
from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import Refusal, Refused, UsageError, command, parameter, suggest_parameters
from deltacli.core.ranges import find_ranges, format_ranges, name_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.texts import require_path
from deltacli.core.typing import ArrowArray, ArrowTable, Json
from deltacli.operations.recover.log_files import LogItem, LogPlan
from deltacli.operations.recover.sources import FoundFiles, Overwritten, Source
from deltacli.table.api_arguments import require_optional_version, require_version
from deltacli.table.needed_files import combine_chunks

if TYPE_CHECKING:
    from deltacli.changing.base_version import BaseVersion
    from deltacli.changing.proofs import Proof
    from deltacli.operations.recover.proving import LeftOut, Proofs

# -- the request -------------------------------------------------------------------------------------------------------


def accepted_versions(versions: Iterable[object]) -> tuple[int, ...]:
    """Return the versions of `accept_commits`. Raises UsageError."""
    return tuple(require_version(version, parameter("undelete.accept_commits")) for version in versions)


@dataclass(frozen=True, kw_only=True)
class UndeleteRequest:
    """Which lost files to bring back, and from where.

    Attributes:
        sources: Where files are looked for: `versions` (what the store keeps of deleted objects), and paths or
            URIs of copies of the table. The first that has a file as the log describes it is its source. Empty:
            `versions`.
        version: The version whose files are needed. None: the newest one.
        prefix: A directory of the table. Only data files below it are brought back.
        accept_commits: Versions that a copy may bring although nothing proves that they are of this table.
        dry_run: True to plan only, and change nothing.
    """

    sources: Sequence[str] = ()
    version: int | None = None
    prefix: str | None = None
    accept_commits: Sequence[int] = ()
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Bring the values to one form. Raises UsageError."""
        if isinstance(self.sources, str):
            raise UsageError(f"{parameter('undelete.sources')} is a string", facts={"expected": "a list of strings"})
        object.__setattr__(self, "sources", tuple(self.sources) or ("versions",))
        if any(not source for source in self.sources):
            raise UsageError(f"{parameter('undelete.sources')} is empty")
        object.__setattr__(self, "accept_commits", accepted_versions(self.accept_commits))
        require_optional_version(self.version, parameter("undelete.version"))
        if self.prefix is not None:
            require_path(self.prefix, parameter("undelete.prefix"))
            parts = [part for part in self.prefix.split("/") if part not in ("", ".")]
            if self.prefix.startswith("/") or "://" in self.prefix or ".." in parts or not parts:
                raise UsageError(
                    f"{parameter('undelete.prefix')} {self.prefix} is not a directory below the table",
                    facts={"expected": "date=2026-01-01"},
                )
            object.__setattr__(self, "prefix", "/".join(parts))


# -- what an undelete would do -----------------------------------------------------------------------------------------

PLANNED, RESTORED, MISSING = "planned", "restored", "missing"
"""States of a file: found and to be put in its place, put there, and in no source."""
UNPROVEN = "recover.unproven"
"""The code of refusals for lack of a proof."""
STILL_MISSING = "undelete.still-missing"


@dataclass(frozen=True, eq=False)
class DataPlan:
    """Data files and vectors that are gone or damaged, and where they are. `damaged` are those whose place has a file
    of another size, which is replaced, and `tags` the tags of these.
    """

    found: FoundFiles
    damaged: ArrowArray
    tags: Mapping[str, str]
    sources: Sequence[Source]


@short_repr("version", "needed=needed.files", "found=found.files", "missing=missing.files", "refusals")
@dataclass(frozen=True, eq=False, repr=False)
class UndeletePlan:
    """What would be brought back. `needed` is everything that the version needs, the files of its log included.

    `log` is None, and `data`, where nothing can be planned without them: `refusals` say why. `had_log`: the table has a
    log. `is_new`: its directory does not exist. `changed_times` are the versions whose commits get another time.
    `outside` counts files of other tables. `owners` are these tables, which get a note of this one before the log is
    back; `table_id` is the id in that note.
    """

    table: str
    base_version: BaseVersion
    """The newest version that the table has; -1 without a log."""
    request: UndeleteRequest
    version: int | None
    version_before: int | None
    had_log: bool
    needed: FileTotals
    items: ArrowTable
    log: LogPlan | None
    log_sources: Sequence[Source]
    data: DataPlan | None
    overwritten: tuple[Overwritten, ...] = ()
    changed_times: tuple[int, ...] = ()
    newest_readable: int | None = None
    refusals: tuple[Refusal, ...] = ()
    outside: int = 0
    owners: FileOwners = field(default_factory=FileOwners)
    table_id: str = ""
    is_new: bool = False
    notes: tuple[str, ...] = ()
    log_tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of the files of the log that are replaced, because they are cut off."""
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    """Path -> what proves that a file of the log is the table's own."""
    is_log_first: bool = False
    """The log can be read only once it is back, so the data files that it names are not known yet."""
    unconfirmed: int = 0
    """The number of files that the log names once it is back, and that nobody agreed to put back."""

    def amount(self, *states: str) -> FileTotals:
        rows = self.items.filter(pc.is_in(self.items["state"], value_set=_texts(states)))
        return FileTotals(rows.num_rows, pc.sum(rows["sizeBytes"]).as_py() or 0)

    @property
    def found(self) -> FileTotals:
        return self.amount(PLANNED)

    @property
    def missing(self) -> FileTotals:
        return self.amount(MISSING)

    @property
    def is_of_the_past(self) -> bool:
        return self.version is not None and self.version_before is not None and self.version < self.version_before

    @property
    def is_noop(self) -> bool:
        return not self.found.files

    def build_refusal(self) -> Refused | None:
        if not self.refusals:
            return None
        first = self.refusals[0]
        return Refused.from_refusals(self.refusals, first.facts, first.hint or command("log cat", self.version or 0))

    def effects(self) -> Iterator[str]:
        rows = self.items.filter(pc.equal(self.items["state"], PLANNED))
        for path, size, source in zip(
            *(rows[name].to_pylist() for name in ("path", "sizeBytes", "source")), strict=True
        ):
            yield f"put {path} back, {size} bytes from {source}"
        yield from (f"a note in {NOTES_DIRECTORY} of {uri}" for uri in self.owners.uris)

    @property
    def replaced(self) -> ArrowTable:
        """Return the items in whose place is a file of another size."""
        is_found = pc.not_equal(self.items["state"], MISSING)
        return self.items.filter(pc.and_(is_found, pc.is_valid(self.items["presentSizeBytes"])))

    def as_json(self) -> dict[str, Json]:
        """Return the fields of the document `deltacli.undelete` except `restored`, `items` and `dryRun`."""
        return {
            "version": self.version,
            "versionBefore": self.version_before,
            "needed": self.needed.as_json(),
            "found": self.found.as_json(),
            "stillMissing": list(self.still_missing()),
            "newestReadableVersion": self.newest_readable,
            "overwritten": [one.as_json() for one in self.overwritten],
            "changedCommitTimes": [{"first": first, "last": last} for first, last in find_ranges(self.changed_times)],
            "logFirst": self.is_log_first,
            "filesOfOtherTables": self.outside,
            "tableExists": not self.is_new,
            "notes": list(self.notes),
            "refusals": [one.as_json() for one in self.refusals],
        }

    def still_missing(self) -> Sequence[dict[str, Json]]:
        """Return the files that no source has, and why."""
        rows = self.items.filter(pc.equal(self.items["state"], MISSING))
        fields = ("path", "kind", "sizeBytes", "problem", "reason")
        return [{name: row[name] for name in fields} for row in rows.select(list(fields)).to_pylist()]

    def items_as(self, state: str, paths: Sequence[str] | None = None) -> ArrowTable:
        """Return the items, those that were found, or of these the ones with some paths, in another state."""
        is_planned = pc.equal(combine_chunks(self.items["state"]), PLANNED)
        if paths is not None:
            is_planned = pc.and_(is_planned, pc.is_in(combine_chunks(self.items["path"]), value_set=_texts(paths)))
        states = pc.if_else(is_planned, pa.scalar(state), combine_chunks(self.items["state"]))
        return self.items.set_column(self.items.schema.get_field_index("state"), "state", pa.chunked_array([states]))


def _texts(values: Sequence[str]) -> ArrowArray:
    return pa.array(values, pa.string())


def with_proofs(plan: UndeletePlan, proofs: Proofs, *, is_tip_judged: bool) -> UndeletePlan:
    """Return a plan with what proves each file of the log, refused where one has no proof."""
    log = plan.log
    assert log is not None
    found = {item.path: proofs.proof_of(plan.log_sources[item.source], item.file) for item in log.items}
    unproven = [item for item in log.items if found[item.path] is None]
    refusals = [
        _unproven(source, proofs, items)
        for number, source in enumerate(plan.log_sources)
        if (items := [item for item in unproven if item.source == number])
    ]
    if is_tip_judged and not refusals:
        refusals += [_lost_above(one) for one in proofs.left_out if one.loss is not None]
    notes = [one.note for one in proofs.left_out if one.loss is None or not is_tip_judged]
    ways = [f"; to bring back: {_accepting(one.versions)}" for one in proofs.left_out]
    return replace(
        plan,
        proofs={path: proof for path, proof in found.items() if proof is not None},
        refusals=(*plan.refusals, *refusals),
        notes=(*plan.notes, *(f"{note}{way}" for note, way in zip(notes, ways, strict=False))),
    )


class _Versions(tuple[int, ...]):
    """Versions that are written as ranges on a command line."""

    def __str__(self) -> str:
        return format_ranges(self).replace(" ", "")


def _accepting(versions: Iterable[int]) -> str:
    return parameter("undelete.accept_commits", _Versions(versions))


def _why(word: str, versions: Sequence[int], source: str) -> str:
    verb, adds = ("is", "it adds") if len(versions) == 1 else ("are", "they add")
    return (
        f"{name_ranges(word, versions)} of {source} {verb} not proven to be of this table: no later commit is in "
        f"both, and the files that {adds} are not in the table"
    )


def _unproven(source: Source, proofs: Proofs, items: Sequence[LogItem]) -> Refusal:
    """Return the refusal of files of a source that may be of another history."""
    versions = sorted({item.file.path.newest for item in items})
    reach = proofs.reach_of(source).version
    compared = (
        f"{source.name} is proven to be of this table up to version {reach}"
        if reach >= 0
        else f"no commit of {source.name} is proven to be of this table"
    )
    return Refusal(
        UNPROVEN,
        _why("version", versions, source.name),
        suggest_parameters(_accepting(versions)),
        facts={
            "compared": compared,
            "why": "a copy may have diverged, and its commits would remove rows of the table and add others",
            "to accept": _accepting(versions),
        },
    )


def _lost_above(left: LeftOut) -> Refusal:
    """Return the refusal of commits above the newest version, where the table may have lost some."""
    return Refusal(
        UNPROVEN,
        f"{_why('commit', left.versions, left.source)}, which may have lost others: {left.loss}",
        suggest_parameters(_accepting(left.versions)),
        facts={
            "to accept": _accepting(left.versions),
            "to do without": parameter("undelete.version", min(left.versions) - 1),
        },
    )
