"""Compare statistics in the log with the contents of files: their footers, and at level `data` their rows. Spec:
Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltacli.delta.footers.parse import Footer
from deltacli.delta.rules.framework.base import Area, Finding
from deltacli.delta.rules.framework.file_views import AnswersView, FootersView
from deltacli.delta.rules.statistics.compared import Comparison
from deltacli.delta.rules.statistics.evidence import ColumnEvidence, known_from_footers, known_from_rows
from deltacli.delta.rules.statistics.messages import BOUNDS_NOT_COVERING, BOUNDS_NOT_TIGHT, NULL_COUNT_MISMATCH
from deltacli.delta.rules.widening.entries import FLOAT_BOUNDS
from deltacli.delta.stats.column_facts import ColumnFacts
from deltacli.delta.stats.columns import StatsBlock, parse_stats
from deltacli.delta.stats.schema import ColumnPath, StatColumn

AREA = Area("statistics")


STATISTICS = "statistics"
"""The name of the question about rows."""
_RULES = (NULL_COUNT_MISMATCH, BOUNDS_NOT_COVERING, BOUNDS_NOT_TIGHT, FLOAT_BOUNDS)


@AREA.check(FootersView, *_RULES)
def statistics_against_footers(view: FootersView) -> Iterator[Finding]:
    """If rows are read as well, they are used instead."""
    if not view.rows_follow:
        yield from _of_footers(view)


@AREA.check(AnswersView, *_RULES)
def statistics_against_rows(view: AnswersView) -> Iterator[Finding]:
    """Files whose rows could not be read to the end are judged by their footers."""
    answers: list[Mapping[ColumnPath, ColumnFacts]] = [answer.get(STATISTICS) or {} for answer in view.answers]
    file_rows = [None if footer is None else footer.rows for footer in view.footers]

    def known(column: StatColumn, path: ColumnPath, block: StatsBlock) -> ColumnEvidence | None:
        rows = range(len(answers)) if block.rows is None else [block.row(index) for index in range(len(block.records))]
        facts = [answers[row].get(path) for row in rows]
        if not any(facts):
            return None
        return known_from_rows(column, facts, [file_rows[row] for row in rows])

    yield from Comparison(view.live, parse_stats(view.live.adds.column("stats"), view.config), known).findings()
    yield from _of_unread(view)


def _of_unread(view: AnswersView) -> Iterator[Finding]:
    by_schema: dict[bytes, dict[int, Footer]] = {}
    for row, (footer, answer) in enumerate(zip(view.footers, view.answers, strict=True)):
        if footer is not None and not answer and footer.schema in view.schemas:
            by_schema.setdefault(footer.schema, {})[row] = footer
    for key, footers in by_schema.items():
        live = view.live.take(list(footers))
        yield from _of_footers(FootersView(live, list(footers.values()), view.schemas[key], view.config))


def _of_footers(view: FootersView) -> Iterator[Finding]:
    evidence: dict[ColumnPath, ColumnEvidence | None] = {}

    def known(column: StatColumn, path: ColumnPath, block: StatsBlock) -> ColumnEvidence | None:
        if path not in evidence:
            evidence[path] = known_from_footers(view, column, path)
        of_view = evidence[path]
        return None if of_view is None else of_view.align(block.rows)

    yield from Comparison(view.live, parse_stats(view.adds.column("stats"), view.config), known).findings()
