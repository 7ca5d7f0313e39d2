"""A vacuum for the eye, and its candidates by the hundred thousand; the plans are made by hand."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from deltacli.changing.file_totals import FileTotals
from deltacli.changing.outcome import DeletionFailures
from deltacli.cli.output.formats import NDJSON
from deltacli.cli.output.sections import Section
from deltacli.cli.output.text_tables import write_sections
from deltacli.cli.render.vacuum import VacuumResult, vacuum_sections
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.operations.vacuum.plan import Kept, Mode, TimeTravelRange, VacuumOutcome
from tests.cli.vacuum_plans import ROWS, TOO_MUCH, TORN, make_plan

PLAN = """\
table        file:///lake/trips
version      42
cutoff       files older than 2026-01-26 02:40:00 UTC (7d)
limited to   day < '2026-01-02'
delete       6 files, 3.0 GiB
             tombstone        2 files  3.0 GiB  2024-12-29 02:40:00 to 2026-01-25 02:40:00 UTC
             uncommitted       1 file  2.0 KiB  2026-01-24 02:40:00 UTC
             deletion-vector   1 file     43 B  2026-01-24 02:40:00 UTC
             change-data       1 file    700 B  2026-01-13 02:40:00 UTC
             unrecognized      1 file     12 B  2025-11-04 02:40:00 UTC
directories  1 empty directory
keep         live          120 files, 5.0 GiB
             retained      30, removed files that are still needed
             young         4, not older than the cutoff
             unrecognized  7 files, 4.0 KiB: --include-foreign deletes them
                           notes.txt
                           a b/notes.md
                           and 5 more
             hidden        2, names that begin with _ or .
             links         1, never followed
             unproven      3, the log does not prove that no version needs them
nested       2 nested tables, left alone
             archive/orders
             tmp/x
time travel  complete from version 41, committed 2026-01-27 02:40:00 UTC
             versions 12-40 will no longer be fully readable
change feed  of versions 3-40 is no longer complete
refused      83% of the bytes would be deleted, above the limit of 50% [vacuum.max-delete]; \
override with --max-delete 100%
             commit 3 has no bytes [commit.empty]
"""

OUTCOME = """\
table        file:///lake/trips
version      42
cutoff       files older than 2026-01-26 02:40:00 UTC (7d)
planned      6 files, 3.0 GiB
             tombstone        2 files  3.0 GiB  8 days to 1 year ago
             uncommitted       1 file  2.0 KiB  9 days ago
             deletion-vector   1 file     43 B  9 days ago
             change-data       1 file    700 B  20 days ago
             unrecognized      1 file     12 B  3 months ago
directories  2 empty directories removed
keep         live  120 files, 5.0 GiB
time travel  complete from version 41, committed 6 days ago
             versions 12-40 will no longer be fully readable
change feed  of versions 3-40 is no longer complete
resumed      after 1 file of earlier runs
deleted      2 files, 3.0 GiB, 1 was already missing
spared       1 file, needed or written again since the plan was made
failed       1 file could not be deleted
             a/b.parquet: permission denied
commits      VACUUM START: version 43, VACUUM END: version 44
"""


def test_a_pipe_gets_every_character_and_times() -> None:
    plan = make_plan(refusals=(TOO_MUCH, TORN), directories=("a",), selection="day < '2026-01-02'")

    assert PLAN == on_screen(vacuum_sections(plan, None, PIPE), PIPE)


def test_a_terminal_of_80_columns_gets_ages_and_every_word() -> None:
    outcome = VacuumOutcome(
        FileTotals(2, 3 << 30),
        1,
        1,
        DeletionFailures(1, [("a/b.parquet", "permission denied")]),
        2,
        43,
        44,
        resumed_after=1,
    )
    plan = make_plan(kept=Kept(live=FileTotals(120, 5 << 30)))

    written = on_screen(vacuum_sections(plan, outcome, SCREEN))
    refused = on_screen(vacuum_sections(make_plan(refusals=(TOO_MUCH,)), None, SCREEN))

    assert OUTCOME == written
    assert "refused      83% of the bytes would be deleted, above the limit of 50%\n" in refused
    assert 80 >= max(map(len, f"{written}{refused}".splitlines()))
    assert "…" not in written + refused


def test_unknown_values_are_not_invented() -> None:
    rows = [(b"a.parquet", 1, 0, "tombstone", 3, None)]
    plan = make_plan(rows, mode=Mode.LITE, kept=Kept(), reach=TimeTravelRange())

    written = on_screen(vacuum_sections(plan, None, SCREEN))
    outcome = VacuumOutcome(start_version=4, end_problem="no space")
    unfinished = on_screen(vacuum_sections(plan, outcome, SCREEN))

    assert "mode         lite: only what commits of the log removed\n" in written
    assert "             tombstone  1 file  1 B  of unknown age\n" in written
    assert "commits      VACUUM START: version 4, VACUUM END: not written: no space\n" in unfinished
    assert "time travel  unknown: the log does not show how far back versions are complete\n" in written
    assert "1970" not in written
    assert "stays" not in written


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (((12, 40),), "versions 12-40 will no longer be fully readable"),
        (((13, 29), (31, 40)), "versions 13-29, 31-40 will no longer be fully readable"),
        (((12, 12),), "version 12 will no longer be fully readable"),
        ((), None),
    ],
)
def test_lost_versions_are_reported(lost: tuple[tuple[int, int], ...], said: str | None) -> None:
    reach = make_plan().reach._replace(lost=lost)

    written = on_screen(vacuum_sections(make_plan(reach=reach), None, PIPE))

    assert (said in written) if said else ("no longer" not in written.partition("change feed")[0])


SCREEN = Terminal(is_terminal=True, width=80, colour=False)


PIPE = Terminal(is_terminal=False, width=None, colour=False)


def on_screen(sections: Sequence[Section], terminal: Terminal = SCREEN) -> str:
    sink = io.BytesIO()
    write_sections(sink, terminal, sections)
    return sink.getvalue().decode()


def test_a_hundred_thousand_candidates_are_listed_completely() -> None:
    plan = replace(make_plan(), candidates=pa.concat_tables([make_plan(ROWS * 1000).candidates] * 20))
    sink = io.BytesIO()
    begun = time.process_time()

    NDJSON.write(sink, VacuumResult(plan, None, dry_run=True, has_requested_rows=True), PIPE)

    assert 120_002 == sink.getvalue().count(b"\n")
    assert time.process_time() - begun < 5  # 0.3 s; a row at a time takes more than a second


@pytest.mark.parametrize("terminal", [PIPE, SCREEN])
def test_the_first_files_that_could_not_be_deleted_are_named_and_the_others_counted(terminal: Terminal) -> None:
    names = [f"{number}.parquet" for number in range(1_000)]
    outcome = VacuumOutcome(failed=DeletionFailures(1_000, [(name, "permission denied") for name in names]))

    shown = on_screen(vacuum_sections(make_plan(), outcome, terminal), terminal)

    assert names[:10] == [name for name in names if f" {name}: permission denied" in shown]
    assert "and 990 more: --json names them" in shown
