"""What an undelete would do, as data: files that a version and its log need and that are gone, and their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.changing.plan import Amount
from deltacli.errors import Refusal
from deltacli.operations.recover.log_files import LogPlan
from deltacli.operations.recover.object_versions import Overwritten
from deltacli.operations.recover.request import UndeleteRequest
from deltacli.operations.recover.sources import FoundFiles, Journal, Source
from deltacli.operations.table.needed import whole
from deltacli.short_repr import short_repr
from deltacli.storage.base import Place
from deltacli.typing import ArrowArray, ArrowTable, Json
from deltacli.units import ranges_of

if TYPE_CHECKING:
    from deltacli.changing.proofs import Proof

PLANNED, RESTORED, MISSING = "planned", "restored", "missing"
"""States of a file: found and to be put in its place, put there, and in no source."""
UNPROVEN = "recover.unproven"
"""The code of refusals for lack of a proof."""


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
@dataclass(frozen=True, eq=False)
class UndeletePlan:
    """What would be brought back. `needed` is everything that the version needs, the files of its log included.

    `log` is None, and `data`, where nothing can be planned without them: `refusals` say why. `had_log`: the table has a
    log. `is_new`: its directory does not exist. `changed_times` are the versions whose commits get another time.
    `outside` counts files of other tables.
    """

    table: str
    request: UndeleteRequest
    version: int | None
    version_before: int | None
    had_log: bool
    needed: Amount
    items: ArrowTable
    log: LogPlan | None
    log_sources: Sequence[Source]
    data: DataPlan | None
    overwritten: tuple[Overwritten, ...] = ()
    changed_times: tuple[int, ...] = ()
    newest_readable: int | None = None
    refusals: tuple[Refusal, ...] = ()
    outside: int = 0
    is_new: bool = False
    notes: tuple[str, ...] = ()
    log_tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of the files of the log that are replaced, because they are cut off."""
    place: Place | None = None
    """The directory of the table, where the store has directories and it exists."""
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    """Path -> what proves that a file of the log is the table's own."""
    is_log_first: bool = False
    """The log can be read only once it is back, so the data files that it names are not known yet."""

    def amount(self, *states: str) -> Amount:
        """Return the files in one of these states."""
        rows = self.items.filter(pc.is_in(self.items["state"], value_set=_texts(states)))
        return Amount(rows.num_rows, pc.sum(rows["sizeBytes"]).as_py() or 0)

    @property
    def found(self) -> Amount:
        return self.amount(PLANNED)

    @property
    def missing(self) -> Amount:
        return self.amount(MISSING)

    @property
    def is_of_the_past(self) -> bool:
        """Whether the version is older than the newest that the table has now."""
        return self.version is not None and self.version_before is not None and self.version < self.version_before

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
            "changedCommitTimes": [{"first": first, "last": last} for first, last in ranges_of(self.changed_times)],
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

    def items_as(self, state: str) -> ArrowTable:
        """Return the items, those that were found in another state."""
        import pyarrow as pa

        is_planned = pc.equal(whole(self.items["state"]), PLANNED)
        states = pc.if_else(is_planned, pa.scalar(state), whole(self.items["state"]))
        return self.items.set_column(self.items.schema.get_field_index("state"), "state", pa.chunked_array([states]))


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


def _texts(values: Sequence[str]) -> ArrowArray:
    import pyarrow as pa

    return pa.array(values, pa.string())
