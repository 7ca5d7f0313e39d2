"""Check that the ids of rows are different, in one file and across the files of a table.

The id of a row is the value in the row id column of its file or, if that is null, the base row id of the file plus the
number of the row.

Spec: Row Tracking, Row IDs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.encoding.many_values import IntegerSet, Repeated
from deltacli.delta.schema.types import StructField
from deltacli.rules.actions.row_contents import RowIdFacts
from deltacli.work.facts.row_facts import OpenFileContext, ReadsExtraColumns
from deltacli.work.rows.data_files import ReadSpec
from deltacli.work.rows.row_reader import find_extra_column

MOST_BYTES_OF_FILE = 64 << 20
MOST_BYTES = 128 << 20
_ROWS_AT_ONCE = 1 << 20
HIGHEST = 1 << 62


class FileIds(NamedTuple):
    """The ids of the live rows of one file: those in its column, and those derived from its base row id.

    `repeated` are the ids that occur twice in its column, `highest` is the highest of these.
    """

    stored: IntegerSet
    derived: IntegerSet
    repeated: Repeated
    highest: int | None = None


@dataclass(frozen=True)
class RowIdCheck:
    """Collects row ids. `stored`: the column of ids among those read in addition to the table's, if any."""

    wanted: ReadSpec
    stored: StructField | None

    def __call__(self, file: OpenFileContext) -> _StoredIdsCheck | _DerivedIdsCheck | None:
        """Start the check of a file; None if it has no ids."""
        column = None if self.stored is None else find_extra_column(self.wanted, self.stored, file.stored)
        base = file.add.get("baseRowId")
        if base is not None and not 0 <= base < HIGHEST:
            base = None
        assert self.wanted.row_numbers is not None
        if self.stored is not None and column is not None:
            return _StoredIdsCheck(self.stored.name, self.wanted.row_numbers, base)
        if base is None:
            return None
        # Then the ids are a range, and no row has to be looked at.
        if file.data_file.vector is None:
            return _DerivedIdsCheck(base, file.footer.rows)
        return _StoredIdsCheck(None, self.wanted.row_numbers, base)


@dataclass
class _DerivedIdsCheck:
    """The ids of a file without deleted rows and without a column of ids."""

    base: int
    rows: int

    def take(self, batch: pa.RecordBatch) -> None:
        """Ignore the rows, which are not needed."""

    def answer(self) -> FileIds:
        derived = IntegerSet(MOST_BYTES_OF_FILE)
        derived.add_range(self.base, self.rows)
        return FileIds(IntegerSet(0), derived, Repeated())


class _IntegerCollector:
    """A set that adds many integers at once: few may be in the same chunk."""

    def __init__(self) -> None:
        self.found = IntegerSet(MOST_BYTES_OF_FILE)
        self._waiting: list[pa.Int64Array] = []
        self._count = 0
        self._repeated = Repeated()

    def take(self, values: pa.Int64Array) -> None:
        self._waiting.append(values)
        self._count += len(values)
        if self._count >= _ROWS_AT_ONCE:
            self.finish()

    def finish(self) -> Repeated:
        """Add the pending integers, and return the duplicates found so far."""
        if self._count:
            self._repeated = self._repeated.plus(self.found.add(pa.concat_arrays(self._waiting)))
        self._waiting = []
        self._count = 0
        return self._repeated


@dataclass
class _StoredIdsCheck(ReadsExtraColumns):
    """Collects the ids of a file, row by row."""

    stored: str | None
    numbers: str
    base: int | None
    _highest: int | None = None
    _stored: _IntegerCollector = field(default_factory=_IntegerCollector)
    _derived: _IntegerCollector = field(default_factory=_IntegerCollector)

    def take(self, batch: pa.RecordBatch) -> None:
        """Process a batch of rows."""
        numbers = batch.column(self.numbers)
        if self.stored is not None:
            ids = batch.column(self.stored)
            self._stored.take(pc.drop_null(ids))
            highest = pc.max(ids).as_py()
            self._highest = max(
                (candidate for candidate in (highest, self._highest) if candidate is not None), default=None
            )
            numbers = pc.filter(numbers, pc.is_null(ids))
        if self.base is not None:
            self._derived.take(pc.add(numbers, self.base))

    def answer(self) -> FileIds:
        repeated = self._stored.finish()
        self._derived.finish()
        return FileIds(self._stored.found, self._derived.found, repeated, self._highest)


@dataclass
class RowIdLedger:
    """All ids of a run, file by file. Duplicates among derived ids are detected from the log, not here."""

    stored: IntegerSet = field(default_factory=lambda: IntegerSet(MOST_BYTES))
    derived: IntegerSet = field(default_factory=lambda: IntegerSet(MOST_BYTES))

    @property
    def is_full(self) -> bool:
        """Return whether some ids were not checked."""
        return self.stored.is_full or self.derived.is_full

    def reconcile(self, file: FileIds) -> RowIdFacts:
        """Add the ids of the next file; return those seen before or twice in it, and the highest it stores."""
        repeated = file.repeated.plus(file.stored.common(file.derived))
        for ids_of_file, earlier_ids in (
            (file.stored, self.stored),
            (file.stored, self.derived),
            (file.derived, self.stored),
        ):
            repeated = repeated.plus(ids_of_file.common(earlier_ids))
        self.stored.merge(file.stored)
        self.derived.merge(file.derived)
        return RowIdFacts(repeated, file.highest)
