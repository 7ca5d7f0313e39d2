"""`deltacli snapshot TABLE`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple

import typer

from deltacli.cli.formats import PARQUET, RowFormat
from deltacli.cli.invocation import invocation
from deltacli.cli.options.chosen_version import note_findings, parse_moment_of
from deltacli.cli.options.common_options import OF_DELTA, TableArgument, TimestampOption, VersionOption
from deltacli.cli.options.rows import ColumnsOption, LimitOption, require_file, settle_limit, write_directory
from deltacli.cli.options.run import Run
from deltacli.cli.options.table_formats import (
    BranchOption,
    DdlOption,
    DeltaHandle,
    PaimonHandle,
    SchemaIdOption,
    SnapshotIdOption,
    TablePoint,
    TagOption,
    ask,
)
from deltacli.cli.render.json import envelope
from deltacli.cli.results import Document, Emit, Grid, Result, RowGrid, line_of
from deltacli.cli.terminal.shell import again_with, again_without_limit, quoted_table
from deltacli.errors import UsageError
from deltacli.typing import Json

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.render.sections import Section
    from deltacli.cli.terminal.term import Terminal
    from deltacli.operations.read.snapshot import SnapshotSummary
    from deltacli.operations.table.version import Snapshot

_COUNTS = ("version", "timestampMs", "timestamp", "timestampSource", "files", "tombstones")


@dataclass
class _SnapshotResult(Result):
    """The state of a table at a version; `only_counts`: its numbers alone."""

    summary: SnapshotSummary
    only_counts: bool

    def document(self) -> Document:
        return Document(envelope("deltacli.snapshot", self._uri, complete=True) | self._content())

    def lines(self, emit: Emit) -> bool:
        emit(line_of({"table": self._uri, **self._content()}, "snapshot"))
        return True

    def grid(self) -> Grid:
        """Return two columns, `field` and `value`: nested fields with dots, arrays and maps as JSON."""
        from deltacli.cli.render.columns import Column

        columns: list[Column[tuple[str, object]]] = [
            Column("field", lambda row: row[0]),
            Column("value", lambda row: row[1]),
        ]
        return RowGrid(columns, _flatten({"table": self._uri, **self._content()}, ""))

    def sections(self, terminal: Terminal) -> Sequence[Section]:
        from deltacli.cli.render.snapshot_sections import state_sections

        return state_sections(self.summary, terminal, only_counts=self.only_counts)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if not terminal.is_drawn or self.only_counts:
            super().draw(sink, terminal)
            return
        from deltacli.cli.render.terminal.snapshot import draw_snapshot
        from deltacli.operations.read.file_sizes import MOST_FILES, file_sizes

        layout = file_sizes(self.summary.snapshot) if self.summary.files.count <= MOST_FILES else None
        draw_snapshot(sink, terminal, self.summary, layout)

    @property
    def _uri(self) -> str:
        return self.summary.snapshot.table.uri

    def _content(self) -> dict[str, Json]:
        content = self.summary.as_json()
        return {name: content[name] for name in _COUNTS} if self.only_counts else content


def _flatten(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    for name, item in value.items():
        if isinstance(item, dict) and name not in ("configuration", "options"):
            yield from _flatten(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item


EXIT_CODES = (0, 2, 3, 4, 7, 70)
FORMATS = RowFormat
RUNS_ON_CLUSTER = True

Files = Annotated[bool, typer.Option("--files", help="List the live files instead."), OF_DELTA]
Tombstones = Annotated[
    bool, typer.Option("--tombstones", help="List the tombstones instead, including expired ones."), OF_DELTA
]
Schema = Annotated[bool, typer.Option("--schema", help="Show the schema as a tree instead.")]
ShowMapping = Annotated[
    bool,
    typer.Option("--mapping", help="Show the ids and physical names of column mapping; requires --schema."),
    OF_DELTA,
]
Counts = Annotated[
    bool, typer.Option("--counts", help="Show only the numbers of files, rows, bytes and tombstones."), OF_DELTA
]
Digest = Annotated[
    bool, typer.Option("--digest", help="Add SHA-256 digests of the live files and tombstones."), OF_DELTA
]


def snapshot(
    run: Run,
    table: TableArgument,
    *,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    files: Files = False,
    tombstones: Tombstones = False,
    schema: Schema = False,
    mapping: ShowMapping = False,
    counts: Counts = False,
    digest: Digest = False,
    limit: Annotated[LimitOption, OF_DELTA] = None,
    columns: Annotated[ColumnsOption, OF_DELTA] = None,
    schema_id: SchemaIdOption = None,
    snapshot_id: SnapshotIdOption = None,
    tag: TagOption = None,
    branch: BranchOption = None,
    ddl: DdlOption = False,
) -> None:
    """Show the state of a table at a version.

    \b
    Protocol, metadata, properties, files and rows, tombstones, transactions,
    domains, and the log files the state was rebuilt from. Of a Paimon table:
    schema, keys, options, and the snapshot.

    \b
    Examples:
      deltacli snapshot ./tbl
      deltacli snapshot ./tbl --version 12 --json
      deltacli snapshot ./tbl --timestamp 2026-01-09T08:00:00Z --schema
      deltacli snapshot ./tbl --files --format ndjson
      deltacli snapshot ./tbl --files --columns path,size --format csv
      deltacli snapshot ./tbl --files --output files/  # Parquet, in parallel
      deltacli snapshot ./paimon_tbl --schema-id 3 --ddl
    """
    at_ms = parse_moment_of(version, timestamp)
    wanted = _Wanted(version, at_ms, files, tombstones, schema, mapping, counts, digest, limit, columns)
    _require_one_view(run, table, wanted)
    if sum(one is not None for one in (schema_id, snapshot_id, tag)) > 1:
        raise UsageError("--schema-id, --snapshot-id and --tag exclude each other")

    def show(opened: DeltaHandle | PaimonHandle) -> None:
        if isinstance(opened, DeltaHandle):
            _show_state(run, table, opened.table, wanted)
            return
        from deltacli.cli.render.paimon.snapshot import PaimonSchemaResult, PaimonSnapshotResult

        found = opened.snapshot(TablePoint(None, None, schema_id, snapshot_id, tag, branch))
        run.write(PaimonSchemaResult(found, as_ddl=ddl) if schema or ddl else PaimonSnapshotResult(found))
        run.say_next(f"deltacli history {quoted_table(table)}")

    ask(run, table, show)


def _require_one_view(run: Run, table: str, wanted: _Wanted) -> None:
    """Raise UsageError for options that exclude each other."""
    if wanted.mapping and not wanted.schema:
        raise UsageError(
            "--mapping requires --schema", hint=f"deltacli snapshot {quoted_table(table)} --schema --mapping"
        )
    if sum([wanted.schema, wanted.files or wanted.tombstones, wanted.counts or wanted.digest]) > 1:
        raise UsageError("--schema, --files or --tombstones, and --counts or --digest exclude each other")
    if not (wanted.files or wanted.tombstones):
        _refuse_row_formats(run)
    require_file(run)


class _Wanted(NamedTuple):
    """The options for Delta tables."""

    version: int | None
    at_ms: int | None
    files: bool
    tombstones: bool
    schema: bool
    mapping: bool
    counts: bool
    digest: bool
    limit: int | None
    columns: str | None


def _show_state(run: Run, table: str, opened: Table, wanted: _Wanted) -> None:
    """Show a Delta table at a version."""
    version, at_ms, files, tombstones, schema, mapping, counts, digest, limit, columns = wanted
    if files or tombstones:
        rebuild = partial(opened.snapshot, version=version, timestamp_ms=at_ms)
        _list_files(run, rebuild, at_ms, columns, limit, files=files, tombstones=tombstones)
        return
    if columns is not None or limit is not None:
        raise UsageError(
            "--columns and --limit require --files or --tombstones",
            hint=f"deltacli snapshot {quoted_table(table)} --files",
        )
    if schema:
        _show_schema(run, opened.snapshot(version=version, timestamp_ms=at_ms), at_ms, with_mapping=mapping)
        return
    from deltacli.cli.commands.snapshot import _SnapshotResult
    from deltacli.operations.read.snapshot import summarize

    summary = summarize(opened, version=version, timestamp_ms=at_ms, digest=digest)
    note_findings(run, summary.snapshot, at_ms)
    run.write(_SnapshotResult(summary, only_counts=counts))
    run.say_next(f"deltacli snapshot {quoted_table(table)} --schema")


def _refuse_row_formats(run: Run) -> None:
    """Raise UsageError for a format or an output directory that only rows can be written to."""
    if run.format is PARQUET or run.directory is not None:
        what = "--format parquet" if run.directory is None else "--output DIR"
        raise UsageError(
            f"{what} requires --files or --tombstones",
            code="usage.output",
            hint=again_with(invocation.arguments, "--files"),
        )


def _show_schema(run: Run, found: Snapshot, at_ms: int | None, *, with_mapping: bool) -> None:
    from deltacli.cli.render.schemas.tree import SchemaResult

    note_findings(run, found, at_ms)
    run.write(SchemaResult(found, with_mapping=with_mapping))


def _list_files(
    run: Run,
    rebuild: Callable[[], Snapshot],
    at_ms: int | None,
    columns: str | None,
    limit: int | None,
    *,
    files: bool,
    tombstones: bool,
) -> None:
    from deltacli.cli.render.data.file_list import FileListing, FilesResult
    from deltacli.operations.read.output import write_actions

    listing = FileListing.choose(columns, files=files, tombstones=tombstones)
    most = settle_limit(run, limit)
    found = rebuild()
    note_findings(run, found, at_ms)
    if run.directory is not None:
        write = partial(write_actions, found.file_actions, columns=listing.shape, limit=most or None)
        write_directory(run, found.table.uri, "files", {"version": found.version}, write, most)
        return
    result = FilesResult(found, listing, most)
    run.write(result)
    if result.was_cut:
        run.note(f"showing the first {most:,}; to show all: {again_without_limit(invocation.arguments)}")
