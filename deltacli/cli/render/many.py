"""One command on several tables in short: one row per table, and a last row with the totals.

Details of a table are shown with `-v`, or where the command runs on that table alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

from deltacli.cli.output.columns import Column
from deltacli.cli.output.grids import Grid, RowGrid
from deltacli.cli.output.results import Result
from deltacli.cli.output.text_tables import write_table_with_total
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.errors import EXIT_FINDINGS, PartlyDone, Refused
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_count, format_size, plural


class TableState(StrEnum):
    """What became of a table. The words are those of steps of a fleet, where it has the same state."""

    PLANNED = "planned"
    DONE = "done"
    NOTHING = "nothing to do"
    FINDINGS = "findings"
    PARTLY = "partly done"
    REFUSED = "refused"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    @property
    def counts(self) -> bool:
        """Whether files of a table in this state belong to the totals: nothing is done with those of the others."""
        return self not in (TableState.REFUSED, TableState.FAILED, TableState.INTERRUPTED)


_STYLES = {
    TableState.DONE: Style.ADDED,
    TableState.NOTHING: Style.QUIET,
    TableState.PLANNED: Style.PLAIN,
    TableState.FINDINGS: Style.CHANGED,
}


@dataclass(frozen=True, slots=True)
class TableRow:
    """One table of several, and what the command does or did with it.

    Attributes:
        name: The table as the user wrote it, or as a pattern found it.
        uri: Its address, as in the document of the table.
        state: What became of it; None in the row of totals.
        files: How many files are planned or done; None where their number is not known.
        size_bytes: Their size; None where it is not known.
        code: The code of the error, if there is one.
        remark: The text in place of a state, in the row of totals.
    """

    name: str
    uri: str
    state: TableState | None
    files: int | None = None
    size_bytes: int | None = None
    code: str | None = None
    remark: str = ""

    @property
    def result(self) -> str:
        """Return the state with the code of the error: `refused (vacuum.retention)`."""
        if self.state is None:
            return self.remark
        return str(self.state) if self.code is None else f"{self.state} ({self.code})"

    def as_json(self) -> JsonObject:
        """Return the table as in the list `tables` of the document `deltacli.many`."""
        return {
            "table": self.uri,
            "state": str(self.state),
            "files": self.files,
            "sizeBytes": self.size_bytes,
            **({} if self.code is None else {"code": self.code}),
        }


def state_of_error(exit_code: int, code: str) -> TableState:
    """Return the state of a table whose run ended with an error."""
    if code == "interrupted":
        return TableState.INTERRUPTED
    if exit_code == Refused.exit_code:
        return TableState.REFUSED
    return TableState.PARTLY if exit_code == PartlyDone.exit_code else TableState.FAILED


def state_of_result(exit_code: int) -> TableState:
    """Return the state of a table for which a command that changes nothing, such as a check, has ended."""
    return TableState.FINDINGS if exit_code == EXIT_FINDINGS else TableState.DONE


def sum_rows(rows: Sequence[TableRow]) -> JsonObject:
    """Return the totals as in the document `deltacli.many`.

    Files are those of the tables on which something is or was done: what is refused is in no sum. The size is None
    where that of some of these files is not known.
    """
    counted = [row for row in rows if row.state is not None and row.state.counts and row.files is not None]
    sizes = [row.size_bytes for row in counted]
    states = Counter(str(row.state) for row in rows)
    return {
        "tables": len(rows),
        "files": sum(row.files or 0 for row in counted),
        "sizeBytes": None if None in sizes else sum(size or 0 for size in sizes),
        "refused": states[TableState.REFUSED],
        "states": {state: states[state] for state in TableState if states[state]},
    }


def total_row(rows: Sequence[TableRow]) -> TableRow:
    """Return the last row: `all 30 tables`, the sums, and how many tables are in each state."""
    total = sum_rows(rows)
    states = ", ".join(f"{count:,} {state}" for state, count in total["states"].items())
    has_files = any(row.files is not None for row in rows)
    return TableRow(
        f"all {plural(len(rows), 'table')}",
        "",
        None,
        files=total["files"] if has_files else None,
        size_bytes=total["sizeBytes"] if has_files else None,
        remark=states,
    )


class Overview(Result):
    """The rows of several tables for people, with the totals in the last one."""

    def __init__(self, rows: Sequence[TableRow]) -> None:
        self._rows = rows

    def grid(self) -> Grid:
        return RowGrid(_columns(), [*self._rows, total_row(self._rows)])

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_table_with_total(sink, terminal, _columns(), self._rows, total_row(self._rows))


def _columns() -> list[Column[TableRow]]:
    return [
        Column("table", lambda row: row.name, priority=1, min_width=20, keep_end=True),
        Column(
            "files",
            lambda row: row.files,
            lambda row: "" if row.files is None else format_count(row.files),
            align_right=True,
            priority=2,
            min_width=5,
        ),
        Column(
            "size",
            lambda row: row.size_bytes,
            lambda row: "" if row.size_bytes is None else format_size(row.size_bytes),
            align_right=True,
            priority=3,
            min_width=9,
        ),
        Column("result", lambda row: row.result, style=_style, priority=1, min_width=12),
    ]


def _style(row: TableRow) -> Style:
    return Style.PLAIN if row.state is None else _STYLES.get(row.state, Style.PROBLEM)
