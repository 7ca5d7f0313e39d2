"""`deltacli history TABLE`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import OF_DELTA, TableArgument
from deltacli.cli.options.rows import ColumnsOption, LimitOption, settle_limit
from deltacli.cli.options.run import Run
from deltacli.cli.options.table_formats import BranchOption, DeltaHandle, PaimonHandle, RefsOption, ask
from deltacli.cli.render.columns import DRAWN_ROWS, Column, choose, usual
from deltacli.cli.render.history_columns import HistoryLine, history_columns, key_of_commit_info, keys_of_commit_info
from deltacli.cli.render.json import envelope
from deltacli.cli.render.sections import Section
from deltacli.cli.render.text_form import write_table
from deltacli.cli.results import Document, Emit, Grid, Result, RowGrid, emit_lines
from deltacli.cli.terminal.shell import again_without_limit, quoted_table
from deltacli.cli.terminal.term import Terminal
from deltacli.errors import UsageError
from deltacli.units import format_spans

if TYPE_CHECKING:
    from deltacli.operations.paimon.history import PaimonHistory
    from deltacli.operations.read.history import History, HistoryItem

EXIT_CODES = (0, 2, 3, 7, 70)
_NAMED = 5


def history(
    run: Run,
    table: TableArgument,
    limit: LimitOption = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Read the file actions, too, and count files and bytes."), OF_DELTA
    ] = False,
    columns: ColumnsOption = None,
    branch: BranchOption = None,
    refs: RefsOption = True,
) -> None:
    """Show who changed a table, when and how, newest first.

    \b
    Reads the provenance of each commit only, so it works across gaps, on damaged
    tables and on tables with unknown features. Of a Paimon table it shows the
    versions of the schema, what changed in each, and who still uses it.

    \b
    Examples:
      deltacli history ./tbl
      deltacli history ./tbl --limit 0 --counts
      deltacli history s3://lake/events --json | jq '.items[0].operation'
      deltacli history ./tbl --format csv --columns version,timestamp,operation
      deltacli history ./tbl --columns version,job  # a key of a writer
      deltacli history ./paimon_tbl --branch dev
    """
    most = settle_limit(run, limit)

    def show(opened: DeltaHandle | PaimonHandle) -> None:
        if isinstance(opened, DeltaHandle):
            _show_commits(run, opened, most, columns, counts=counts)
        else:
            _show_schemas(run, opened, most, columns, branch, refs=refs)

    ask(run, table, show)


def _show_commits(run: Run, opened: DeltaHandle, limit: int, columns: str | None, *, counts: bool) -> None:
    available = history_columns(run.clock(), counts=counts)
    others = keys_of_commit_info(columns, available)
    chosen = choose([*available, *others], columns)
    found = opened.history(limit=limit, counts=counts)
    absent = [column.name for column in others if _is_absent(column.name, found)]
    if columns and len(absent) == len(chosen):
        raise UsageError(
            f"no commit shown has the {'key' if len(absent) == 1 else 'keys'} {', '.join(absent)} in its commitInfo",
            code="usage.column",
            facts={"columns": ", ".join(column.name for column in available)},
        )
    run.write(HistoryResult(found, chosen if columns else available, is_chosen=bool(columns)))
    for name in absent:
        run.note(f"note: no commit shown has the key {name} in its commitInfo")
    _say_what_next(run, opened.name, found)


def _show_schemas(
    run: Run, opened: PaimonHandle, limit: int, columns: str | None, branch: str | None, *, refs: bool
) -> None:
    from deltacli.cli.render.paimon.history import PaimonHistoryResult, paimon_history_columns

    if columns is not None and run.format.errors_are_json:
        raise UsageError("--columns is not available for JSON of a Paimon table", hint="omit --columns")
    chosen = choose(paimon_history_columns(run.clock()), columns)
    found = opened.history(limit=limit, branch=branch, refs=refs)
    run.write(PaimonHistoryResult(found, chosen, is_chosen=bool(columns)))
    _say_what_next_of_schemas(run, opened.name, found)


@dataclass
class HistoryResult(Result):
    """Commits of a table; `is_chosen`: the user named the columns."""

    found: History
    columns: Sequence[Column[HistoryLine]]
    is_chosen: bool
    lists: bool = True

    def document(self) -> Document:
        fields = envelope("deltacli.history", self.found.table, complete=self.found.is_complete)
        if self.is_chosen:
            fields["columns"] = [column.name for column in self.columns]
        return Document(fields | {"gaps": [list(gap) for gap in self.found.gaps], "items": self._items()})

    def lines(self, emit: Emit) -> bool:
        emit_lines(emit, self._items(), "commit")
        return self.found.is_complete

    def grid(self) -> Grid:
        return RowGrid(self.columns, map(HistoryLine, self.found.items), self.is_chosen)

    def sections(self, _terminal: Terminal) -> Sequence[Section]:
        """Return the gaps of the log, which a table of commits alone would hide."""
        if not self.found.gaps:
            return []
        return [Section("table", [self.found.table]), Section("missing", [_versions(self.found.gaps)])]

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        shown = self.columns if self.is_chosen else usual(self.columns, terminal)
        rows = list(_lines(self.found))
        if terminal.is_drawn and not self.is_chosen and len(rows) <= DRAWN_ROWS:
            from deltacli.cli.render.terminal.console import Canvas
            from deltacli.cli.render.terminal.history import draw_history

            draw_history(Canvas(sink, terminal), self.found, shown, rows)
            return
        write_table(sink, terminal, shown, rows, note=lambda line: line.gap, keep_empty=self.is_chosen)

    def _items(self) -> list[dict[str, Any]]:
        return _items(self.found, self.columns if self.is_chosen else None)


def _lines(found: History) -> Iterator[HistoryLine]:
    gaps = {last: (first, last) for first, last in found.gaps}
    for item in found.items:
        yield HistoryLine(item)
        if item.version - 1 in gaps:
            first, last = gaps[item.version - 1]
            span = f"version {first} is" if first == last else f"versions {first} to {last} are"
            yield HistoryLine(None, f"{'':>7}  {span} missing from the log")


def _items(found: History, chosen: Sequence[Column[HistoryLine]] | None) -> list[dict[str, Any]]:
    if chosen is None:
        return [item.as_json() for item in found.items]
    return [_chosen(item, {column.name for column in chosen}) for item in found.items]


def _chosen(item: HistoryItem, names: set[str]) -> dict[str, Any]:
    """Return the chosen fields; keys of commitInfo that have the name of a field stay in the object `commitInfo`."""
    whole = item.as_json()
    shadowed = {key: value for key, value in whole.get("commitInfo", {}).items() if key in names}
    found = {name: value for name, value in whole.items() if name in names}
    return {**found, "commitInfo": shadowed} if shadowed and "commitInfo" not in names else found


def _is_absent(key: str, found: History) -> bool:
    return bool(found.items) and all(key_of_commit_info(key, item) is None for item in found.items)


def _versions(spans: Sequence[tuple[int, int]]) -> str:
    """Return versions as the subject of a sentence: `versions 2-4, 7`."""
    text = format_spans(spans)
    return f"version {text}" if text.isdigit() else f"versions {text}"


def _missing(found: History) -> str:
    """Return which commits are missing from the log, and which versions cannot be rebuilt as a result."""
    named = _versions(found.missing)
    text = f"{named} {'are' if named.startswith('versions') else 'is'} missing from the log"
    return f"{text}, so {_versions(found.lost)} cannot be rebuilt" if found.lost else text


def _say_what_next_of_schemas(run: Run, table: str, found: PaimonHistory) -> None:
    """Write notes on files that cannot be read, stray files and omitted rows, and the next command."""
    from deltacli.cli.render.paimon.history import gaps_text

    for schema_id in found.denied[:_NAMED]:
        run.note(f"note: schema {schema_id}: no permission to read the file, so its changes are unknown")
    for broken in found.broken[:_NAMED]:
        run.note(f"note: {broken.path}: {broken.reason}")
    if found.broken:
        run.note("note: the users of each schema are not completely known, so none is reported as unreferenced")
    if found.missing:
        named = gaps_text([(number, number) for number in found.missing])
        verb = "is" if len(found.missing) == 1 else "are"
        run.note(f"{named} {verb} in use but missing: deltacli validate {quoted_table(table)}")
    if found.strays:
        run.note(f"note: not schema files: {', '.join(found.strays[:_NAMED])}")
    if found.gaps and run.is_on_screen:
        run.note(f"note: {gaps_text(found.gaps)} no longer exist, which is legal for unused schemas")
    if not found.is_complete:
        command = again_without_limit(invocation.arguments)
        run.note(f"showing {len(found.events):,} of {found.total:,} events; all: {command}")
    elif found.schemas:
        run.say_next(f"deltacli snapshot {quoted_table(table)} --schema-id {found.schemas[0].id}")


def _say_what_next(run: Run, table: str, found: History) -> None:
    """Write notes on omitted rows, and the next command."""
    name = quoted_table(table)
    if found.missing:
        run.note(f"{_missing(found)}: deltacli validate {name}")
    if not found.is_complete:
        command = again_without_limit(invocation.arguments)
        run.note(f"showing {len(found.items):,} of {found.total:,} versions; all: {command}")
    elif run.is_on_screen:
        if not found.items:
            run.note("the log has checkpoints but no commits")
        if found.newest_readable is None:
            run.note(f"next: deltacli validate {name}")
        else:
            newest = f" --version {found.newest_readable}" if found.items else ""
            run.note(f"next: deltacli snapshot {name}{newest}")
