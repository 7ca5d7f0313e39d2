"""Rules about rows that break what a table demands of them: NOT NULL, CHECK constraints, invariants, generated columns.

What is asked of the rows stands in `work/rows/`; here answers become findings. Spec:
Struct Field; CHECK Constraints; Column Invariants; Generated Columns; Identity Columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from deltacli.core.units import plural
from deltacli.delta.encoding.many_values import Repeated
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.features import IDENTITY_COLUMNS
from deltacli.delta.schema.types import PrimitiveType
from deltacli.delta.sql.stored import StoredKind, StoredSql
from deltacli.rules.expressions.texts import EXPLICIT, START, STEP
from deltacli.rules.framework.base import Area, Finding, Level, Rule, Severity
from deltacli.rules.framework.data_file_views import AllRowsView, AnswersView

AREA = Area("expressions", Level.DATA)

IDENTITIES = "identity"
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
    far: dict[Identity, tuple[int, int]] = view.memory.setdefault(IDENTITIES, {})
    for row, answers in enumerate(view.answers):
        facts: IdentityFacts
        for facts in answers.get(IDENTITIES, ()):
            identity, place = facts.identity, view.place(row)
            if facts.off_grid:
                grid = f"{identity.start} and every {identity.step} from there"
                message = (
                    f"{place.key} has {plural(facts.off_grid, 'value')} of the identity column {identity.name} that "
                )
                message += f"it does not generate, for example {facts.example}"
                yield HIGH_WATER_MARK.at(place, message, seen=facts.example, expected=grid)
            if facts.repeated.least is not None:
                value = identity.start + facts.repeated.least * identity.step
                message = (
                    f"{plural(facts.repeated.times, 'value')} of the identity column {identity.name} in {place.key} "
                )
                message += f"occur more than once, for example {value}"
                yield HIGH_WATER_MARK.at(place, message, seen=value, expected="each value once")
            if facts.farthest is not None and identity.is_beyond_mark(facts.farthest):
                farthest, files = far.get(identity, (facts.farthest, 0))
                farthest = facts.farthest if identity.is_beyond(facts.farthest, farthest) else farthest
                far[identity] = farthest, files + 1


@AREA.check(AllRowsView, HIGH_WATER_MARK)
def values_beyond_the_mark(view: AllRowsView) -> Iterator[Finding]:
    """How far the values of each column go. Values that were inserted do not move the mark."""
    far: dict[Identity, tuple[int, int]] = view.memory.get(IDENTITIES, {})
    for identity, (farthest, files) in far.items():
        place = (view.config.metadata_place or view.place)._replace(key=identity.name)
        message = f"the identity column {identity.name} has values up to {farthest} in {plural(files, 'file')}"
        message += (
            f", beyond its high-water mark {identity.mark}" if identity.mark is not None else ", but no high-water mark"
        )
        severity = Severity.INFO if identity.allows_inserts else None
        expected = farthest if identity.mark is None else identity.mark
        yield HIGH_WATER_MARK.at(place, message, seen=farthest, expected=expected, severity=severity)


_REWRITE = "rewrite the rows with an engine, or drop the condition that they violate"

NOT_NULL_VIOLATED = AREA.error(
    "notnull.violated",
    "A column or field that must not be null is null in a row.",
    spec="Struct Field",
    broken="readers that rely on the schema fail, or read a value where there is none",
    repair="rewrite the rows with an engine, or make the column nullable",
    example='a row without an id, where id has "nullable":false',
)
CONSTRAINT_VIOLATED = AREA.error(
    "constraint.violated",
    "A row does not satisfy a CHECK constraint: the condition is false or null.",
    spec="CHECK Constraints",
    broken="queries and writers that rely on the constraint are misled",
    repair=_REWRITE,
    example='a row with id = -1, where "delta.constraints.positive":"id > 0"',
)
INVARIANT_VIOLATED = AREA.error(
    "invariant.violated",
    "A row does not satisfy the invariant of a column: the condition is false or null.",
    spec="Column Invariants",
    broken="queries and writers that rely on the invariant are misled",
    repair=_REWRITE,
    example='a row with id = -1, where id has "delta.invariants":"{\\"expression\\":{\\"expression\\":\\"id > 0\\"}}"',
)
GENERATED_VIOLATED = AREA.error(
    "generated.violated",
    "A generated column has another value than its expression gives.",
    spec="Generated Columns",
    broken="engines skip files by what the expression gives, and lose the row",
    repair="rewrite the rows with an engine",
    example="a row with day = 2026-01-02 and time = 2026-01-01 12:00, where day is CAST(time AS DATE)",
)
NOT_EVALUATED = AREA.info(
    "expression.not-evaluated",
    "An expression that the table keeps was not evaluated: whether its rows satisfy it is not known.",
    spec="CHECK Constraints; Column Invariants; Generated Columns",
    broken="nothing known: the rows were not checked",
    repair="install deltacli[constraints] where that is the reason; else let an engine evaluate it",
    example='"delta.constraints.known":"my_function(id)"',
)

RULE_OF: Mapping[StoredKind, Rule] = {
    StoredKind.CONSTRAINT: CONSTRAINT_VIOLATED,
    StoredKind.INVARIANT: INVARIANT_VIOLATED,
    StoredKind.GENERATION: GENERATED_VIOLATED,
}

NULLS, CONDITIONS = "nulls", "conditions"
"""Names of the questions that are answered here."""
NOT_EVALUATED_MEMORY = "not evaluated"
"""What views remember under this name: of each stored text why it was not evaluated."""
UNJUDGED_MEMORY = "rows not judged"
"""And of those that were evaluated on other rows: on how many they were not."""


class Violations(NamedTuple):
    """How many rows of one file break a stored text, and the first of them as text. `assumes_utc`: the answer depends
    on the time zone of whoever evaluates it, and UTC was taken. `fault`: why it could not be evaluated for
    `unjudged` rows.
    """

    stored: StoredSql
    rows: int
    first: str | None
    assumes_utc: bool
    fault: str | None = None
    unjudged: int = 0


@AREA.check(AnswersView, NOT_NULL_VIOLATED)
def nulls_that_are_not_allowed(view: AnswersView) -> Iterator[Finding]:
    """Columns without a value, file by file."""
    for row, answers in enumerate(view.answers):
        counts: Mapping[str, int] = answers.get(NULLS) or {}
        for name, nulls in counts.items():
            place = view.place(row)
            message = f"{name} is NOT NULL, and null {plural(nulls, 'time')} in {place.key}"
            yield NOT_NULL_VIOLATED.at(place, message, seen=f"{nulls:,} nulls", expected="none")


@AREA.check(AnswersView, *RULE_OF.values())
def rows_that_break_conditions(view: AnswersView) -> Iterator[Finding]:
    """Constraints, invariants and generated columns, file by file. What failed on the way is remembered for the end."""
    for row, answers in enumerate(view.answers):
        violations: list[Violations] = answers.get(CONDITIONS) or []
        for each in violations:
            if each.fault is not None:
                view.memory.setdefault(NOT_EVALUATED_MEMORY, {}).setdefault(each.stored, each.fault)
                view.memory.setdefault(UNJUDGED_MEMORY, Counter())[each.stored] += each.unjudged
            if each.rows:
                yield _violation(view, row, each)


def _violation(view: AnswersView, row: int, violations: Violations) -> Finding:
    place, rule = view.place(row), RULE_OF[violations.stored.kind]
    rows = plural(violations.rows, "row")
    what = (
        f"the {violations.stored.kind} {violations.stored.name}"
        if rule is not INVARIANT_VIOLATED
        else (f"the invariant of {violations.stored.name}")
    )
    verb = "break" if violations.rows > 1 else "breaks"
    message = f"{rows} of {place.key} {verb} {what}"
    if rule is GENERATED_VIOLATED:
        verb = "differ" if violations.rows > 1 else "differs"
        message = f"{rows} of {place.key} {verb} from the expression of {violations.stored.name}"
    if violations.assumes_utc:
        message += ", if the session's time zone is UTC"
    severity = Severity.WARNING if violations.assumes_utc else None
    return rule.at(place, message, seen=violations.first, expected=violations.stored.text, severity=severity)


@AREA.check(AllRowsView, NOT_EVALUATED)
def what_was_not_evaluated(view: AllRowsView) -> Iterator[Finding]:
    """Each text once, with the reason."""
    reasons: Mapping[StoredSql, str] = view.memory.get(NOT_EVALUATED_MEMORY) or {}
    unjudged: Mapping[StoredSql, int] = view.memory.get(UNJUDGED_MEMORY) or {}
    for stored, reason in reasons.items():
        rows = unjudged.get(stored)
        where = f" for {plural(rows, 'row')}" if rows else ""
        message = f"the {stored.kind} {stored.name} was not evaluated{where}: {reason}"
        yield NOT_EVALUATED.at(view.place, message, key=stored.name, seen=stored.text)
