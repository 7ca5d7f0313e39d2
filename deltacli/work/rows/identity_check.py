"""Check the values of identity columns.

Spec: Identity Columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray
from deltacli.delta.encoding.many_values import IntegerSet, Repeated
from deltacli.delta.log.state import TableConfiguration
from deltacli.rules.expressions.row_values import Identity, IdentityFacts, identities
from deltacli.work.facts.row_facts import OpenFileContext
from deltacli.work.rows.row_id_check import HIGHEST, MOST_BYTES, MOST_BYTES_OF_FILE


class IdentityValues(NamedTuple):
    facts: IdentityFacts
    numbers: IntegerSet


@dataclass(frozen=True)
class IdentityCheck:
    """Collects the values of the identity columns of a table."""

    identities: tuple[Identity, ...]

    def __call__(self, file: OpenFileContext) -> _IdentityValuesCheck | None:
        return _IdentityValuesCheck(
            [_IdentityColumn(each) for each in self.identities if each.name not in file.data_file.constants]
        )


def make_identity_check(config: TableConfiguration) -> IdentityCheck | None:
    """Return the check for the tables of a regime; None if there is nothing to check."""
    columns = tuple(each for each in identities(config) if each.is_judged)
    return IdentityCheck(columns) if columns else None


@dataclass
class _IdentityValuesCheck:
    columns: list[_IdentityColumn]

    def take(self, batch: pa.RecordBatch) -> None:
        for column in self.columns:
            column.take(pc.drop_null(batch.column(column.identity.name)))

    def answer(self) -> list[IdentityValues]:
        return [column.answer() for column in self.columns]


@dataclass
class _IdentityColumn:
    identity: Identity
    farthest: int | None = None
    off_grid: int = 0
    example: int | None = None
    repeated: Repeated = field(default_factory=Repeated)
    numbers: IntegerSet = field(default_factory=lambda: IntegerSet(MOST_BYTES_OF_FILE))

    def take(self, values: ArrowArray) -> None:
        """Note the farthest value, values that are not start plus a multiple of the step, and duplicates."""
        if not len(values):
            return
        bounds = pc.min_max(values).as_py()
        last = bounds["max"] if self.identity.step > 0 else bounds["min"]
        self.farthest = last if self.farthest is None or self.identity.is_beyond(last, self.farthest) else self.farthest
        # Values that a user has inserted follow no rule.
        if self.identity.allows_inserts:
            return
        if bounds["min"] < -HIGHEST or bounds["max"] > HIGHEST:
            values = pc.filter(values, pc.and_(pc.greater(values, -HIGHEST), pc.less(values, HIGHEST)))
        distance = pc.subtract(values, self.identity.start)
        numbers = pc.divide(distance, self.identity.step)
        fits = pc.and_(pc.equal(pc.multiply(numbers, self.identity.step), distance), pc.greater_equal(numbers, 0))
        on_grid = pc.filter(numbers, fits)
        if len(on_grid) < len(values):
            self.off_grid += len(values) - len(on_grid)
            self.example = pc.filter(values, pc.invert(fits))[0].as_py() if self.example is None else self.example
        self.repeated = self.repeated.plus(self.numbers.add(on_grid))

    def answer(self) -> IdentityValues:
        facts = IdentityFacts(self.identity, self.farthest, self.off_grid, self.example, self.repeated)
        return IdentityValues(facts, self.numbers)


@dataclass
class IdentityLedger:
    """All values of a run, collected file by file."""

    columns: dict[str, IntegerSet] = field(default_factory=dict)

    @property
    def full(self) -> list[str]:
        """Return the columns whose values were not all checked."""
        return [name for name, numbers in self.columns.items() if numbers.is_full]

    def reconcile(self, columns: list[IdentityValues]) -> list[IdentityFacts]:
        """Add the values of the next file. `repeated` in the result includes values that occur in earlier files."""
        identity_facts = []
        for facts, numbers in columns:
            known = self.columns.setdefault(facts.identity.name, IntegerSet(MOST_BYTES))
            identity_facts.append(facts._replace(repeated=facts.repeated.plus(known.merge(numbers))))
        return identity_facts
