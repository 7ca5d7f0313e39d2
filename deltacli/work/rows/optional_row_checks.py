"""Row checks of some tables only: row ids and their duplicates, identity columns, partition values stored in files,
bounds of floating-point columns in footers, and times of the physical type INT96.

The id of a row is the value in the row id column of its file or, if that is null, the base row id of the file plus the
number of the row.

The additional columns they need are read together with the table's columns, under unused names.

Spec: Row Tracking, Row IDs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, ArrowScalar
from deltacli.delta.encoding.many_values import IntegerSet, Repeated
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.file_columns import FileColumns
from deltacli.delta.schema.to_arrow import arrow_schema
from deltacli.delta.schema.types import WHOLE_BITS, DataType, PrimitiveType, StructField
from deltacli.rules.actions.row_contents import ROW_ID_QUESTION, RowIdFacts
from deltacli.rules.actions.row_tracking import COLUMN_PROPERTIES, is_enabled
from deltacli.rules.expressions import row_values
from deltacli.rules.expressions.row_values import Identity, IdentityFacts, identities
from deltacli.rules.files.int96_times import INT96_QUESTION
from deltacli.rules.files.nan_bounds import NAN_BOUNDS_QUESTION
from deltacli.rules.partitions.contents import PARTITION_QUESTION, PartitionDifference, are_materialised
from deltacli.work.file_facts import AskingBeside, OpenFileContext, RowCheckFactory
from deltacli.work.rows.data_files import ReadSpec
from deltacli.work.rows.int96_times import Int96Check, find_timestamp_columns
from deltacli.work.rows.nan_bounds import find_float_fields
from deltacli.work.rows.nan_bounds_check import NanBoundsCheck
from deltacli.work.rows.row_reader import find_beside

# -- check stable row ids ----------------------------------------------------------------------------------------------

_MOST_BYTES_OF_FILE, _MOST_BYTES = 64 << 20, 128 << 20
_ROWS_AT_ONCE = 1 << 20
_HIGHEST = 1 << 62


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

    def __call__(self, file: OpenFileContext) -> _AskingIds | _AskingNothing | None:
        """Start the check of a file; None if it has no ids."""
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
    """The ids of a file without deleted rows and without a column of ids."""

    base: int
    rows: int

    def take(self, batch: pa.RecordBatch) -> None:
        """Ignore the rows, which are not needed."""

    def answer(self) -> FileIds:
        derived = IntegerSet(_MOST_BYTES_OF_FILE)
        derived.add_range(self.base, self.rows)
        return FileIds(IntegerSet(0), derived, Repeated())


class _Gathered:
    """A set that adds many integers at once: few may be in the same chunk."""

    def __init__(self) -> None:
        self.found = IntegerSet(_MOST_BYTES_OF_FILE)
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
        self._waiting, self._count = [], 0
        return self._repeated


@dataclass
class _AskingIds(AskingBeside):
    """Collects the ids of a file, row by row."""

    stored: str | None
    numbers: str
    base: int | None
    _highest: int | None = None
    _stored: _Gathered = field(default_factory=_Gathered)
    _derived: _Gathered = field(default_factory=_Gathered)

    def take(self, batch: pa.RecordBatch) -> None:
        """Process a batch of rows."""
        numbers = batch.column(self.numbers)
        if self.stored is not None:
            ids = batch.column(self.stored)
            self._stored.take(pc.drop_null(ids))
            highest = pc.max(ids).as_py()
            self._highest = max((one for one in (highest, self._highest) if one is not None), default=None)
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

    stored: IntegerSet = field(default_factory=lambda: IntegerSet(_MOST_BYTES))
    derived: IntegerSet = field(default_factory=lambda: IntegerSet(_MOST_BYTES))

    @property
    def is_full(self) -> bool:
        """Return whether some ids were not checked."""
        return self.stored.is_full or self.derived.is_full

    def reconcile(self, file: FileIds) -> RowIdFacts:
        """Add the ids of the next file; return those seen before or twice in it, and the highest it stores."""
        repeated = file.repeated.plus(file.stored.common(file.derived))
        for mine, theirs in ((file.stored, self.stored), (file.stored, self.derived), (file.derived, self.stored)):
            repeated = repeated.plus(mine.common(theirs))
        self.stored.merge(file.stored)
        self.derived.merge(file.derived)
        return RowIdFacts(repeated, file.highest)


# -- row checks of some tables only ------------------------------------------------------------------------------------


class _FileValues(NamedTuple):
    facts: IdentityFacts
    numbers: IntegerSet


@dataclass(frozen=True)
class IdentityCheck:
    """Collects the values of the identity columns of a table."""

    identities: tuple[Identity, ...]

    def __call__(self, file: OpenFileContext) -> _AskingValues | None:
        return _AskingValues(
            [_IdentityColumn(each) for each in self.identities if each.name not in file.data_file.constants]
        )


def identity_check(config: TableConfiguration) -> IdentityCheck | None:
    """Return the check for the tables of a regime; None if there is nothing to check."""
    columns = tuple(each for each in identities(config) if each.is_judged)
    return IdentityCheck(columns) if columns else None


@dataclass
class _AskingValues:
    columns: list[_IdentityColumn]

    def take(self, batch: pa.RecordBatch) -> None:
        for column in self.columns:
            column.take(pc.drop_null(batch.column(column.identity.name)))

    def answer(self) -> list[_FileValues]:
        return [column.answer() for column in self.columns]


@dataclass
class _IdentityColumn:
    identity: Identity
    farthest: int | None = None
    off_grid: int = 0
    example: int | None = None
    repeated: Repeated = field(default_factory=Repeated)
    numbers: IntegerSet = field(default_factory=lambda: IntegerSet(_MOST_BYTES_OF_FILE))

    def take(self, values: ArrowArray) -> None:
        if not len(values):
            return
        bounds = pc.min_max(values).as_py()
        last = bounds["max"] if self.identity.step > 0 else bounds["min"]
        self.farthest = last if self.farthest is None or self.identity.is_beyond(last, self.farthest) else self.farthest
        if self.identity.allows_inserts:
            return
        if bounds["min"] < -_HIGHEST or bounds["max"] > _HIGHEST:
            values = pc.filter(values, pc.and_(pc.greater(values, -_HIGHEST), pc.less(values, _HIGHEST)))
        distance = pc.subtract(values, self.identity.start)
        numbers = pc.divide(distance, self.identity.step)
        fits = pc.and_(pc.equal(pc.multiply(numbers, self.identity.step), distance), pc.greater_equal(numbers, 0))
        on_grid = pc.filter(numbers, fits)
        if len(on_grid) < len(values):
            self.off_grid += len(values) - len(on_grid)
            self.example = pc.filter(values, pc.invert(fits))[0].as_py() if self.example is None else self.example
        self.repeated = self.repeated.plus(self.numbers.add(on_grid))

    def answer(self) -> _FileValues:
        facts = IdentityFacts(self.identity, self.farthest, self.off_grid, self.example, self.repeated)
        return _FileValues(facts, self.numbers)


@dataclass
class IdentityLedger:
    """All values of a run, collected file by file."""

    columns: dict[str, IntegerSet] = field(default_factory=dict)

    @property
    def full(self) -> list[str]:
        """Return the columns whose values were not all checked."""
        return [name for name, numbers in self.columns.items() if numbers.is_full]

    def reconcile(self, columns: list[_FileValues]) -> list[IdentityFacts]:
        """Add the values of the next file. `repeated` in the result includes values that occur in earlier files."""
        identity_facts = []
        for facts, numbers in columns:
            known = self.columns.setdefault(facts.identity.name, IntegerSet(_MOST_BYTES))
            identity_facts.append(facts._replace(repeated=facts.repeated.plus(known.merge(numbers))))
        return identity_facts


_ROW_ID_COLUMN = COLUMN_PROPERTIES[0]


@dataclass
class OptionalRowChecks:
    """The additional columns, and the questions by name. `settle` compares a file's answers with earlier files'."""

    wanted: ReadSpec
    questions: dict[str, RowCheckFactory] = field(default_factory=dict)
    row_ids: RowIdLedger = field(default_factory=RowIdLedger)
    identities: IdentityLedger = field(default_factory=IdentityLedger)
    too_far: list[str] = field(default_factory=list)
    """Identity columns whose steps cannot be counted."""

    @classmethod
    def make(cls, config: TableConfiguration, wanted: ReadSpec) -> OptionalRowChecks:
        """Select the questions for tables of a configuration, whose columns are read as `wanted`."""
        names = _FreeNames({column.name for column in wanted.columns})
        partitions = _partition_columns(config, names)
        stored = _row_id_column(config, names)
        beside = {second.name: _finds(config, physical, second.name) for _, physical, second in partitions}
        if stored is not None:
            beside[stored.name] = FileColumns("none", lambda _: str(config.properties[_ROW_ID_COLUMN]))
        if beside:
            more = (*(second for _, _, second in partitions), *([stored] if stored is not None else []))
            columns = (*wanted.columns, *more)
            schema = arrow_schema(columns)
            wanted = replace(wanted, columns=columns, schema=schema, whole_schema=schema, beside=beside)
        if stored is not None:
            name = names.take("row number")
            wanted = replace(wanted, schema=wanted.schema.append(pa.field(name, pa.int64())), row_numbers=name)
        checks = cls(wanted)
        if partitions:
            checks.questions[PARTITION_QUESTION] = _PartitionCheck(
                wanted, partitions, reports_types=not are_materialised(config)
            )
        if stored is not None:
            checks.questions[ROW_ID_QUESTION] = RowIdCheck(wanted, stored)
        if (identity := identity_check(config)) is not None:
            checks.questions[row_values.IDENTITIES] = identity
        columns_in_file = FileColumns(config.mapping_mode, config.physical_name)
        if timestamp_columns := find_timestamp_columns(config):
            checks.questions[INT96_QUESTION] = Int96Check(timestamp_columns, columns_in_file)
        if float_fields := find_float_fields(config):
            checks.questions[NAN_BOUNDS_QUESTION] = NanBoundsCheck(tuple(float_fields), columns_in_file)
        checks.too_far = [each.name for each in row_values.identities(config) if not each.is_judged]
        return checks

    def reconcile(
        self, answers: Mapping[str, Any]
    ) -> Mapping[str, Any]:  # Any: the answers to each question about a file
        """Return the answers about the next file, given those about earlier files."""
        ledgers: dict[str, Callable[[Any], Any]] = {
            ROW_ID_QUESTION: self.row_ids.reconcile,
            row_values.IDENTITIES: self.identities.reconcile,
        }
        settled = {name: reconcile(answers[name]) for name, reconcile in ledgers.items() if name in answers}
        return {**answers, **settled} if settled else answers

    def not_checked(self) -> Iterator[str]:
        """Report the checks that would need too much memory."""
        if self.row_ids.is_full:
            yield "whether all row ids are different, because their range is too large"
        for name in self.too_far:
            yield f"the values of the identity column {name}: its start or its step is 2^62 or more"
        for name in self.identities.full:
            yield f"whether all values of the identity column {name} are different, because their range is too large"


class _FreeNames:
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def take(self, name: str) -> str:
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name


def _partition_columns(config: TableConfiguration, names: _FreeNames) -> list[tuple[StructField, str, StructField]]:
    """Return each partition column, its physical name, and the field to read from files that contain it."""
    return [
        (
            column,
            physical,
            StructField(names.take(f"{column.name} in the file"), _type_in_file(config, column), True, column.metadata),
        )
        for physical, column in config.partition_columns.items()
        if column is not None
    ]


def _type_in_file(config: TableConfiguration, column: StructField) -> DataType:
    """Return the type as which a partition column is read from files.

    Files that need not have it are of any writer, such as Hive, and may have whole numbers of another size.
    """
    is_whole = isinstance(column.data_type, PrimitiveType) and column.data_type.name in WHOLE_BITS
    return PrimitiveType("long") if is_whole and not are_materialised(config) else column.data_type


def _row_id_column(config: TableConfiguration, names: _FreeNames) -> StructField | None:
    if not is_enabled(config) or not config.properties.get(_ROW_ID_COLUMN):
        return None
    return StructField(names.take("row id in the file"), PrimitiveType("long"), True, {})


def _finds(config: TableConfiguration, physical_name: str, name: str) -> FileColumns:
    """Return the field that finds a partition column in files like other columns."""
    return FileColumns(
        config.mapping_mode, lambda field: physical_name if field.name == name else config.physical_name(field)
    )


_HAS_ZONE = re.compile(r"(Z|[+-][0-9]{2}:?[0-9]{2})\Z")
_LONGEST = 100


@dataclass(frozen=True)
class _PartitionCheck:
    """Checks whether a file contains the partition values of the log.

    `columns` contains each partition column, its physical name, and the additional column that reads it from the file.
    `reports_types`: a column of another type counts as different; otherwise other rules judge the types.
    """

    wanted: ReadSpec
    columns: Sequence[tuple[StructField, str, StructField]]
    reports_types: bool

    def __call__(self, file: OpenFileContext) -> _AskingPartitions | None:
        """Start the check of a file; None if it contains none of the columns."""
        texts = file.add.get("partitionValues") or {}
        parts = []
        of_other_types = []
        for column, physical_name, beside in self.columns:
            constant = file.data_file.constants.get(column.name)
            text = texts.get(physical_name)
            if constant is None:
                continue
            if find_beside(self.wanted, beside, file.stored) is None:
                if self.reports_types and physical_name in file.stored.names:
                    stored_type = f"a column of type {file.stored.field(physical_name).type}"
                    of_other_types.append(PartitionDifference(column.name, 0, stored_type, _shown(constant)))
                continue
            if column.data_type == PrimitiveType("timestamp") and text and not _HAS_ZONE.search(text):
                continue  # the time zone of the writer is unknown
            parts.append(_Column(column.name, beside.name, constant, text))
        return _AskingPartitions(parts, of_other_types) if parts or of_other_types else None


@dataclass
class _AskingPartitions(AskingBeside):
    columns: Sequence[_Column]
    of_other_types: Sequence[PartitionDifference]
    rows: int = 0

    def take(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        for column in self.columns:
            column.take(batch.column(column.beside))

    def answer(self) -> list[PartitionDifference]:
        """Return the columns that differ."""
        differences = [
            PartitionDifference(column.name, column.rows, column.seen or "", _shown(column.constant))
            for column in self.columns
            if column.rows
        ]
        return differences + [one._replace(rows=self.rows) for one in self.of_other_types if self.rows]


@dataclass
class _Column:
    name: str
    beside: str
    constant: ArrowScalar
    text: str | None
    rows: int = 0
    seen: str | None = None

    def take(self, values: ArrowArray) -> None:
        differs = self._differs(values)
        rows = pc.sum(differs).as_py() or 0
        if rows and self.seen is None:
            self.seen = _shown(pc.filter(values, differs)[0])
        self.rows += rows

    def _differs(self, values: ArrowArray) -> ArrowArray:
        constant = self.constant
        if not constant.is_valid:
            # An empty string in the log is null; a file may contain the empty string itself.
            differs = pc.is_valid(values)
            is_text = self.text == "" and str(values.type) == "string"
            return pc.and_not(differs, pc.fill_null(pc.equal(values, ""), False)) if is_text else differs
        differs = pc.fill_null(pc.not_equal(values, constant), True)
        if pa.types.is_floating(constant.type) and isnan(constant.as_py()):
            differs = pc.fill_null(pc.equal(values, values), True)
        return differs


def _shown(scalar: ArrowScalar) -> str:
    """Return a value as a finding shows it, also a date or a time that Python's calendar does not have."""
    try:
        value = scalar.as_py()
    except (OverflowError, ValueError):
        value = scalar.cast(pa.int32() if pa.types.is_date(scalar.type) else pa.int64()).as_py()
        return f"{value} {'days' if pa.types.is_date(scalar.type) else 'microseconds'} since 1970"
    text = "null" if value is None else repr(value) if isinstance(value, str | bytes) else str(value)
    return text[:_LONGEST]
