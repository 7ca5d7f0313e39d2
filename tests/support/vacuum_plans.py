"""Plans of a vacuum for tests, made without a table, and strategies for any of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import Refusal
from deltacli.operations.vacuum.plan import Kept, Mode, Reason, TimeTravelRange, VacuumPlan
from tests.support.reading import NOW_MS

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
SCHEMA = pa.schema(
    [
        ("path", pa.binary()),
        ("sizeBytes", pa.int64()),
        ("modificationTimeMs", pa.int64()),
        ("reason", pa.string()),
        ("removedAtVersion", pa.int64()),
        ("partition", pa.string()),
    ]
)


def candidates(rows: Sequence[tuple[Any, ...]], *, cuts: Sequence[int] = ()) -> pa.Table:  # Any: values of columns
    """The candidates of a plan; `cuts` are rows at which chunks begin."""
    whole = pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * len(SCHEMA), schema=SCHEMA)
    bounds = [0, *sorted(cuts), len(rows)]
    pieces = [whole.slice(first, last - first) for first, last in pairwise(bounds)]
    return pa.concat_tables(pieces)


def row(path: bytes, *, version: int | None = None) -> tuple[Any, ...]:  # Any: values of columns
    """A candidate of a thousand bytes, ten days old."""
    reason = "uncommitted" if version is None else "tombstone"
    return path, 1_000, NOW_MS - 10 * DAY_MS, reason, version, None


def plan_of_paths(*paths: bytes, **fields: Any) -> VacuumPlan:  # Any: the plan's fields
    """A plan that deletes these files."""
    return a_plan(candidates=candidates([row(path) for path in paths]), **fields)


def a_plan(**fields: Any) -> VacuumPlan:  # Any: the plan's fields
    """A plan of the tests' time with the default retention; `fields` say what is different."""
    usual: dict[str, Any] = {
        "table": "memory://table",
        "table_id": "test-table",
        "mode": Mode.FULL,
        "snapshot_version": 0,
        "now_ms": NOW_MS,
        "retention_ms": WEEK_MS,
        "own_retention_ms": WEEK_MS,
        "cutoff_ms": NOW_MS - WEEK_MS,
        "candidates": candidates([]),
        "kept": Kept(),
    }
    return VacuumPlan(**{**usual, **fields})


_NUMBERS = st.integers(0, 2**63 - 1)
_TIMES = st.integers(-(2**63), 2**63 - 1)
_SURROGATES = st.integers(0xDC80, 0xDCFF).map(chr)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | _SURROGATES, max_size=8)
"""Names as they come from a store: those that are no UTF-8 hold half characters."""
_UNPLANNED = re.compile(rb"^$|\x00|(?:^|/)(?:\.\.|_delta_log)(?:/|$)")
_PATHS = (st.binary(max_size=12) | st.text("a'\"\n\r\t =%/é.\u202e", max_size=12).map(str.encode)).filter(
    lambda path: not _UNPLANNED.search(path)
)
_DIRECTORIES = _PATHS.map(lambda path: path.decode("utf-8", "surrogateescape"))
_AMOUNTS = st.builds(FileTotals, _NUMBERS, _NUMBERS, st.none())
_ROWS = st.tuples(
    _PATHS,
    st.none() | st.integers(0, 2**40),
    st.none() | _TIMES,
    st.sampled_from([reason.value for reason in Reason]),
    st.none() | _NUMBERS,
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)


@st.composite
def any_plans(draw: st.DrawFn) -> VacuumPlan:
    """Any plan: every field, and chunks of any length."""
    rows = draw(st.lists(_ROWS, max_size=12))
    return VacuumPlan(
        table=draw(_TEXTS),
        table_id=draw(_TEXTS),
        mode=draw(st.sampled_from(Mode)),
        snapshot_version=draw(_NUMBERS),
        now_ms=draw(_TIMES),
        retention_ms=draw(_NUMBERS),
        own_retention_ms=draw(_NUMBERS),
        cutoff_ms=draw(_TIMES),
        candidates=candidates(rows, cuts=draw(st.lists(st.integers(0, len(rows)), max_size=3))),
        kept=draw(
            st.builds(
                Kept,
                live=_AMOUNTS,
                retained=_NUMBERS,
                young=_NUMBERS,
                foreign=_AMOUNTS,
                hidden=_NUMBERS,
                links=_NUMBERS,
                unproven=_NUMBERS,
                outside_selection=_NUMBERS,
                nested_tables=st.lists(_TEXTS, max_size=2).map(tuple),
                foreign_examples=st.lists(_TEXTS, max_size=2).map(tuple),
            )
        ),
        refusals=draw(
            st.lists(
                st.builds(Refusal, _TEXTS, _TEXTS, st.none() | _TEXTS, st.none() | _TEXTS, st.just(()), st.just({})),
                max_size=2,
            ).map(tuple)
        ),
        notes=draw(st.lists(_TEXTS, max_size=2).map(tuple)),
        directories=draw(st.lists(_DIRECTORIES, max_size=2).map(tuple)),
        reach=draw(
            st.builds(
                TimeTravelRange,
                first_version=st.none() | _NUMBERS,
                first_ms=st.none() | _TIMES,
                oldest_before=st.none() | _NUMBERS,
                lost_feed=st.none() | st.tuples(_NUMBERS, _NUMBERS),
                lost=st.lists(st.tuples(_NUMBERS, _NUMBERS), max_size=2).map(tuple),
            )
        ),
        selection=draw(st.none() | _TEXTS),
        horizon=draw(st.none() | _NUMBERS),
        allows_below=draw(st.booleans()),
        snapshot_sha256=draw(st.none() | _TEXTS),
    )
