"""Conditions and expressions that a table keeps, asked of the rows of its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltacli import arrow_compute as pc
from deltacli.delta.regime import Regime
from deltacli.delta.rows.row_text import row_text
from deltacli.delta.rules.expression_rows import Violations
from deltacli.delta.schema.names import places_of
from deltacli.delta.schema.types import StructType
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import StoredKind, StoredSql, stored_sql
from deltacli.work.file_facts import FileAtHand
from deltacli.work.stored_conditions import (
    Condition,
    Expression,
    NotEvaluated,
    Unchecked,
    compile_condition,
    compile_expression,
)

if TYPE_CHECKING:
    import pyarrow


class _Compiled(NamedTuple):
    """A stored text that can be evaluated, and the columns it is about; that which it generates comes first."""

    stored: StoredSql
    compiled: Condition | Expression
    shown: tuple[str, ...]

    def broken(self, batch: pyarrow.RecordBatch) -> pyarrow.BooleanArray:
        """The rows that do not satisfy it."""
        if isinstance(self.compiled, Expression):
            return self.compiled.differences(batch, self.shown[0])
        return self.compiled.violations(batch)


class StoredConditions:
    """What the rows of a table must satisfy; `not_evaluated` says of each other text why nobody can tell."""

    def __init__(self, regime: Regime) -> None:
        self.not_evaluated: dict[StoredSql, str] = {}
        self._compiled: list[_Compiled] = []
        if regime.schema is not None:
            for stored in stored_sql(regime.schema, regime.properties):
                self._compile(stored, regime.schema)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to ask."""
        return not self._compiled

    def begin(self, _: FileAtHand) -> _AskedOfRows:
        """Ask the rows of a file."""
        return _AskedOfRows(self._compiled)

    def _compile(self, stored: StoredSql, schema: StructType) -> None:
        if stored.text is None:
            self.not_evaluated[stored] = "it is no text"
            return
        names = [column.name for column in schema.fields]
        found: Condition | Expression | Unchecked
        if stored.kind is StoredKind.GENERATION:
            place = places_of(stored.name, names)
            if len(place) != 1:
                self.not_evaluated[stored] = "it makes a field within a column"
                return
            column = schema.fields[place[0]]
            found = compile_expression(stored.text, schema, column.data_type)
        else:
            found = compile_condition(stored.text, schema)
        if isinstance(found, Unchecked):
            self.not_evaluated[stored] = found.reason
            return
        used = [path[0] for path in parse_expression(stored.text).columns]
        used = [stored.name, *used] if stored.kind is StoredKind.GENERATION else used
        shown = dict.fromkeys(names[place] for name in used for place in places_of(name, names))
        self._compiled.append(_Compiled(stored, found, tuple(shown)))


class _AskedOfRows:
    """The rows of one file."""

    def __init__(self, compiled: Sequence[_Compiled]) -> None:
        self._compiled = compiled
        self._rows = [0] * len(compiled)
        self._first: list[str | None] = [None] * len(compiled)
        self._faults: dict[int, str] = {}

    def take(self, batch: pyarrow.RecordBatch) -> None:
        """Evaluate everything on some rows; what failed once is not tried again."""
        for number, one in enumerate(self._compiled):
            if number in self._faults:
                continue
            try:
                broken = one.broken(batch)
            except NotEvaluated as fault:
                self._faults[number] = str(fault)
                continue
            count = broken.true_count
            if count and self._first[number] is None:
                row = pc.index(broken, True).as_py()
                self._first[number] = row_text(batch.select(list(one.shown)).slice(row, 1))
            self._rows[number] += count

    def answer(self) -> list[Violations]:
        """What broke, and what failed."""
        asked = enumerate(self._compiled)
        return [
            Violations(one.stored, self._rows[number], self._first[number], one.compiled.assumes_utc, fault)
            for number, one in asked
            if (fault := self._faults.get(number)) is not None or self._rows[number]
        ]
