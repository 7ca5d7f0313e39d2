"""Stable row ids: read row by row, and looked for twice. Spec: Row Tracking, Row IDs.

A row has the id that its file has in a column of its own or, where that is null, the first id of the file plus the
number of the row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.encoding.integer_set import IntegerSet, Repeated
from deltacli.delta.schema.types import StructField
from deltacli.work.file_facts import AskingBeside, OpenFileContext
from deltacli.work.rows.data_files import ReadSpec
from deltacli.work.rows.row_reader import find_beside

if TYPE_CHECKING:
    import pyarrow

_MOST_BYTES_OF_FILE, _MOST_BYTES = 64 << 20, 128 << 20
_ROWS_AT_ONCE = 1 << 20
_HIGHEST = 1 << 62


class FileIds(NamedTuple):
    """The ids of the live rows of one file: those in its column, and those that follow from its first id. `repeated`
    are those that its column has twice.
    """

    stored: IntegerSet
    derived: IntegerSet
    repeated: Repeated


@dataclass(frozen=True)
class RowIdCheck:
    """Asks for the ids of rows. `stored` is the column of ids among those that are read beside the table's (None: there
    is none).
    """

    wanted: ReadSpec
    stored: StructField | None

    def __call__(self, file: OpenFileContext) -> _AskingIds | _AskingNothing | None:
        """Begin with a file; None where it has no ids."""
        column = None if self.stored is None else find_beside(self.wanted, self.stored, file.stored)
        base = file.add.get("baseRowId")
        if base is not None and not 0 <= base < _HIGHEST:
            base = None
        assert self.wanted.row_numbers is not None
        if self.stored is not None and column is not None:
            return _AskingIds(self.stored.name, self.wanted.row_numbers, base)
        if base is None:
            return None
        if file.data_file.vector is None:
            return _AskingNothing(base, file.footer.rows)
        return _AskingIds(None, self.wanted.row_numbers, base)


@dataclass
class _AskingNothing:
    """The ids of a file with all of its rows and no column of ids."""

    base: int
    rows: int

    def take(self, batch: pyarrow.RecordBatch) -> None:
        """Its rows need not be seen."""

    def answer(self) -> FileIds:
        """Its ids."""
        derived = IntegerSet(_MOST_BYTES_OF_FILE)
        derived.add_range(self.base, self.rows)
        return FileIds(IntegerSet(0), derived, Repeated())


class _Gathered:
    """A set that takes many integers at once: few may lie in the same chunk."""

    def __init__(self) -> None:
        self.found = IntegerSet(_MOST_BYTES_OF_FILE)
        self._waiting: list[pyarrow.Int64Array] = []
        self._count = 0
        self._repeated = Repeated()

    def take(self, values: pyarrow.Int64Array) -> None:
        self._waiting.append(values)
        self._count += len(values)
        if self._count >= _ROWS_AT_ONCE:
            self.finish()

    def finish(self) -> Repeated:
        """Put in what waits; tells what came twice so far."""
        import pyarrow as pa

        if self._count:
            self._repeated = self._repeated.plus(self.found.add(pa.concat_arrays(self._waiting)))
        self._waiting, self._count = [], 0
        return self._repeated


@dataclass
class _AskingIds(AskingBeside):
    """The ids of a file, row by row."""

    stored: str | None
    numbers: str
    base: int | None
    _stored: _Gathered = field(default_factory=_Gathered)
    _derived: _Gathered = field(default_factory=_Gathered)

    def take(self, batch: pyarrow.RecordBatch) -> None:
        """Look at some rows."""
        numbers = batch.column(self.numbers)
        if self.stored is not None:
            ids = batch.column(self.stored)
            self._stored.take(pc.drop_null(ids))
            numbers = pc.filter(numbers, pc.is_null(ids))
        if self.base is not None:
            self._derived.take(pc.add(numbers, self.base))

    def answer(self) -> FileIds:
        """Its ids."""
        repeated = self._stored.finish()
        self._derived.finish()
        return FileIds(self._stored.found, self._derived.found, repeated)


@dataclass
class RowIdLedger:
    """All ids of a run, file after file. Ids that only follow from first ids are no matter of rows: the log tells."""

    stored: IntegerSet = field(default_factory=lambda: IntegerSet(_MOST_BYTES))
    derived: IntegerSet = field(default_factory=lambda: IntegerSet(_MOST_BYTES))

    @property
    def is_full(self) -> bool:
        """True if some ids were not looked at."""
        return self.stored.is_full or self.derived.is_full

    def reconcile(self, file: FileIds) -> Repeated:
        """Take in the ids of the next file. Tells those that it, or a file before it, has too."""
        found = file.repeated.plus(file.stored.common(file.derived))
        for mine, theirs in ((file.stored, self.stored), (file.stored, self.derived), (file.derived, self.stored)):
            found = found.plus(mine.common(theirs))
        self.stored.merge(file.stored)
        self.derived.merge(file.derived)
        return found
