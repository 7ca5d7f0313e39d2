"""Rules about the values of identity columns. Spec: Identity Columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltacli.delta.encoding.integer_set import Repeated
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.features import IDENTITY_COLUMNS
from deltacli.delta.rules.expressions.identity_columns import EXPLICIT, START, STEP
from deltacli.delta.rules.framework.base import Area, Finding, Level, Severity
from deltacli.delta.rules.framework.file_views import AllRowsView, AnswersView
from deltacli.delta.schema.types import PrimitiveType
from deltacli.units import plural

AREA = Area("expressions", Level.DATA)

QUESTION = "identity"
_MARK = "delta.identity.highWaterMark"
_LONGS = range(-(1 << 62), 1 << 62)

HIGH_WATER_MARK = AREA.error(
    "identity.high-water-mark",
    "A value of an identity column is beyond its high-water mark. If values cannot be inserted, also: a value is "
    "repeated, or does not follow from the start and the step.",
    spec="Identity Columns",
    broken="the next values that a writer generates may already exist, so keys may not be unique",
    repair="commit a metaData with the farthest value as delta.identity.highWaterMark; rewrite rows of one value",
    example='a row with id 12, and "delta.identity.highWaterMark":10',
)


class Identity(NamedTuple):
    """An identity column. `mark` is None where no value was made yet."""

    name: str
    start: int
    step: int
    allows_inserts: bool
    mark: int | None

    @property
    def is_judged(self) -> bool:
        """True where its steps can be counted in 64 bits."""
        return self.start in _LONGS and self.step in _LONGS

    def is_beyond(self, value: int, other: int) -> bool:
        """True if a value comes after another one."""
        return value > other if self.step > 0 else value < other

    def is_beyond_mark(self, value: int) -> bool:
        """True if a value comes after all that were made. Where values may be inserted, none need have been."""
        if self.mark is None:
            return not self.allows_inserts
        return self.is_beyond(value, self.mark)


class IdentityFacts(NamedTuple):
    """What a file has in an identity column: its farthest value, how many that are off the grid and one of them, and
    which numbers of steps come again, in it or in a file before.
    """

    identity: Identity
    farthest: int | None
    off_grid: int
    example: int | None
    repeated: Repeated


def identities(config: TableConfiguration) -> Iterator[Identity]:
    """The identity columns of a table; what is wrong with those that are none is told by other rules."""
    if config.schema is None or config.is_inert(IDENTITY_COLUMNS):
        return
    for column in config.schema.fields:
        start, step, mark = (column.metadata.get(key) for key in (START, STEP, _MARK))
        if type(start) is not int or type(step) is not int or column.data_type != PrimitiveType("long"):
            continue
        if step:
            allows_inserts = column.metadata.get(EXPLICIT) is not False
            yield Identity(column.name, start, step, allows_inserts, mark if type(mark) is int else None)


@AREA.check(AnswersView, HIGH_WATER_MARK)
def values_of_identity_columns(view: AnswersView) -> Iterator[Finding]:
    """Values off the grid and values that come twice; how far they go is told once, for all files."""
    far: dict[Identity, tuple[int, int]] = view.memory.setdefault(QUESTION, {})
    for row, answers in enumerate(view.answers):
        facts: IdentityFacts
        for facts in answers.get(QUESTION, ()):
            identity, place = facts.identity, view.place(row)
            if facts.off_grid:
                grid = f"{identity.start} and every {identity.step} from there"
                message = (
                    f"{place.key} has {plural(facts.off_grid, 'value')} of the identity column {identity.name} that "
                )
                message += f"it does not make, {facts.example} for one"
                yield HIGH_WATER_MARK.at(place, message, seen=facts.example, expected=grid)
            if facts.repeated.least is not None:
                value = identity.start + facts.repeated.least * identity.step
                message = (
                    f"{plural(facts.repeated.times, 'value')} of the identity column {identity.name} in {place.key} "
                )
                message += f"are there twice, {value} for one"
                yield HIGH_WATER_MARK.at(place, message, seen=value, expected="each value once")
            if facts.farthest is not None and identity.is_beyond_mark(facts.farthest):
                farthest, files = far.get(identity, (facts.farthest, 0))
                farthest = facts.farthest if identity.is_beyond(facts.farthest, farthest) else farthest
                far[identity] = farthest, files + 1


@AREA.check(AllRowsView, HIGH_WATER_MARK)
def values_beyond_the_mark(view: AllRowsView) -> Iterator[Finding]:
    """How far the values of each column go. Values that were inserted do not move the mark."""
    far: dict[Identity, tuple[int, int]] = view.memory.get(QUESTION, {})
    for identity, (farthest, files) in far.items():
        place = (view.config.metadata_place or view.place)._replace(key=identity.name)
        message = f"the identity column {identity.name} has values up to {farthest} in {plural(files, 'file')}"
        message += f", beyond its high-water mark {identity.mark}" if identity.mark is not None else ", and no mark"
        severity = Severity.INFO if identity.allows_inserts else None
        expected = farthest if identity.mark is None else identity.mark
        yield HIGH_WATER_MARK.at(place, message, seen=farthest, expected=expected, severity=severity)
