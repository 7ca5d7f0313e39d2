"""`deltacli schema show|diff|convert`, for tables of both formats, and the points of a table that they accept."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.api.schemas import convert_schema, describe_schema_file, diff_schemas
from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.options.given import OF_DELTA, OF_PAIMON
from deltacli.cli.options.moments import parse_moment_of
from deltacli.cli.options.paimon import BranchOption, SchemaIdOption, SnapshotIdOption, TagOption
from deltacli.cli.options.tables import TableArgument, TimestampOption, VersionOption, YesOption
from deltacli.cli.options.values import make_choice_parser, parse_whole_number
from deltacli.cli.render.schemas.conversion import ConversionResult, schema_diff_result
from deltacli.cli.running.consent import confirm_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import note_version_problems
from deltacli.cli.running.table_formats import call_with_table, require_one_point
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.errors import EXIT_FINDINGS, NotATable, UsageError, quote_table
from deltacli.core.units import plural
from deltacli.storage.secrets import mask_secrets
from deltacli.table.api_errors import attribute_errors_to

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table
    from deltacli.cli.output.results import Result
    from deltacli.operations.schemas.described import DescribedSchema

app = typer.Typer(add_completion=False)


@app.command("show", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, storage=True))
def schema_show(
    context: typer.Context,
    table: TableArgument,
    *,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    schema_id: SchemaIdOption = None,
    snapshot_id: SnapshotIdOption = None,
    tag: TagOption = None,
    branch: BranchOption = None,
) -> None:
    """Show the schema of a Delta or Paimon table as a tree.

    \b
    The same as snapshot --schema. The JSON document has the schema as the table
    stores it.

    \b
    Examples:
      deltacli schema show ./tbl
      deltacli schema show ./tbl --version 12 --json
      deltacli schema show ./paimon_tbl --branch dev --schema-id 3
    """
    run: CommandContext = context.obj
    point = SchemaPoint(
        version=version, timestamp=timestamp, schema_id=schema_id, snapshot_id=snapshot_id, tag=tag, branch=branch
    )
    point.require_valid()
    run.write(
        call_with_table(
            run,
            table,
            delta=lambda opened: _show_delta_schema(run, opened, point),
            paimon=lambda opened: _show_paimon_schema(opened, point),
            options=point.name_parts(),
            branch=branch,
        )
    )
    run.suggest_command(f"deltacli schema convert {quote_table(table)} --to ddl")


@app.command(
    "diff", cls=SharedOptionsCommand, epilog=exit_codes(findings="the schemas differ", unreadable=True, storage=True)
)
def schema_diff(
    context: typer.Context,
    table: TableArgument,
    other: Annotated[
        str | None, typer.Argument(metavar="[OTHER]", help="Table to compare with.  [default: TABLE]")
    ] = None,
    *,
    first: Annotated[
        str | None, typer.Option("--from", metavar="POINT", help="Point of TABLE.  [default: the newest schema]")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="POINT", help="Point of OTHER.  [default: the newest schema]")
    ] = None,
) -> None:
    """Show what changes from one schema to another; exit 1 if something does.

    \b
    The tables may have different formats; types are named as in SQL. A POINT is
    version:N of a Delta table, and schema:N, snapshot:N, tag:T or branch:B of a
    Paimon table; branch:B,schema:N is a schema of a branch. Columns of one
    history are matched by their ids, so that a renamed column is not a dropped
    and an added one. Columns of different tables and branches are matched by name.
    Options are compared only if both tables have the same format. Either can be a
    file, as in schema convert.

    \b
    Examples:
      deltacli schema diff ./tbl --from version:3
      deltacli schema diff ./paimon_tbl --from schema:0 --to tag:first
      deltacli schema diff ./paimon_tbl --to branch:dev
      deltacli schema diff ./tbl ./paimon_tbl --json
    """
    run: CommandContext = context.obj
    begin, end = parse_point(first, "--from", table), parse_point(last, "--to", other or table)
    if other is None and begin == end:
        raise UsageError("the schema is compared with itself", facts={"expected": "OTHER, --from POINT or --to POINT"})
    if other is not None and other.isdecimal() and not os.path.exists(other):
        words = [word for word in invocation.arguments if word != other]
        hint = repeat_command_with(words, "--from", f"version:{other}") if first is None else None
        raise UsageError(f"there is no table {other}; a version is --from version:{other}", hint=hint)
    before = begin.describe(run, table)
    with attribute_errors_to(other and mask_secrets(other)):
        after = end.describe(run, other or table)
    found = diff_schemas(before, after)
    run.write(schema_diff_result(found))
    if found.changes:
        raise Exit(EXIT_FINDINGS)
    run.note("note: the schemas are equal")


class FormatChoice(StrEnum):
    DELTA = "delta"
    PAIMON = "paimon"
    ARROW = "arrow"
    DDL = "ddl"


class ConvertCommand(SharedOptionsCommand):
    """The text is the schema in its own form, which is JSON for most, so `.json` does not ask for the document."""

    name_chooses_format = False


@app.command("convert", cls=ConvertCommand, epilog=exit_codes(unreadable=True, refused=True, storage=True))
def schema_convert(
    context: typer.Context,
    table: TableArgument,
    *,
    to: Annotated[
        FormatChoice,
        typer.Option(
            "--to",
            metavar="delta|paimon|arrow|ddl",
            parser=make_choice_parser(FormatChoice),
            help="Form of the result.",
        ),
    ],
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    schema_id: SchemaIdOption = None,
    snapshot_id: SnapshotIdOption = None,
    tag: TagOption = None,
    branch: BranchOption = None,
    min_paimon: Annotated[
        int | None,
        typer.Option(
            "--min-paimon",
            metavar="VERSION",
            parser=parse_whole_number,
            help="paimon: oldest major version of Paimon among the engines of the new table, 1 or 2.  [default: the "
            "option deltacli.min-paimon of the schema, or 1]",
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Write the schema of a table or file in the form of another format.

    \b
      delta    a schemaString: the JSON in the metaData action
      paimon   a schema file as Java writes it, for a new table
      arrow    an Arrow schema; the JSON document has its IPC message, too
      ddl      CREATE TABLE in Spark SQL (Delta) or Flink SQL (Paimon)

    \b
    What the other format cannot state is listed: lengths, digits of a second,
    types, keys, default values. If something is lost the result is written only
    with --yes. Options of the format itself, and field ids towards Delta, are left
    out: a new table gets its own. Nothing is created or changed. A schema file of
    Paimon is not written if the format of the table's files lacks a type, or if only
    Paimon 2 could open the table and --min-paimon is not 2.
    TABLE can be a file: a Paimon schema file, a schemaString of Delta, CREATE TABLE
    of Flink SQL, Parquet, or Arrow IPC.

    \b
    Examples:
      deltacli schema convert ./paimon_tbl --to delta
      deltacli schema convert ./tbl --to paimon --output schema-0
      deltacli schema convert ./tbl --version 3 --to arrow --json
      deltacli schema convert ./paimon_tbl --tag first --to ddl --yes
      deltacli schema convert part-0.parquet --to paimon
    """
    run: CommandContext = context.obj
    point = SchemaPoint(
        version=version, timestamp=timestamp, schema_id=schema_id, snapshot_id=snapshot_id, tag=tag, branch=branch
    )
    if min_paimon is not None and to is not FormatChoice.PAIMON:
        raise UsageError(f"--min-paimon is an option of --to paimon, not of --to {to}")
    found = convert_schema(point.describe(run, table), to, clock=run.clock, min_paimon=min_paimon)
    if found.lost:
        what = f"write the schema as {to} without {plural(len(found.lost), 'part')} of it"
        lost = ConversionResult(found, with_result=False)
        confirm_change(run, what, lambda: run.write(lost), yes=yes)
    if run.format.is_for_people:
        for loss in found.losses:
            run.note(f"note: {loss.sentence}")
    run.write(ConversionResult(found))


def _show_delta_schema(run: CommandContext, table: Table, point: SchemaPoint) -> Result:
    from deltacli.cli.render.schemas.tree import SchemaResult

    at_ms = parse_moment_of(point.version, point.timestamp)
    snapshot = table.snapshot(version=point.version, timestamp_ms=at_ms)
    note_version_problems(run, snapshot, at_ms)
    return SchemaResult(snapshot)


def _show_paimon_schema(table: Paimon, point: SchemaPoint) -> Result:
    from deltacli.cli.render.paimon import PaimonSchemaResult

    return PaimonSchemaResult(
        table.snapshot(schema_id=point.schema_id, snapshot_id=point.snapshot_id, tag=point.tag), as_ddl=False
    )


_KINDS = ("version", "schema", "snapshot", "tag", "branch")


@dataclass(frozen=True)
class SchemaPoint:
    """A point whose schema is shown, compared or converted. Its parts are None if they are not named.

    Attributes:
        version: A version of a Delta table.
        timestamp: A time instead of the version.
        schema_id: The id of a schema of a Paimon table.
        snapshot_id: The id of a snapshot of a Paimon table.
        tag: A tag of a Paimon table.
        branch: A branch of a Paimon table.
        is_text: True if the point was given in one word, such as `schema:3`.
    """

    version: int | None = None
    timestamp: str | None = None
    schema_id: int | None = None
    snapshot_id: int | None = None
    tag: str | None = None
    branch: str | None = None
    is_text: bool = False

    def require_valid(self) -> None:
        """Require a valid time, and parts that do not exclude each other. Raises UsageError."""
        parse_moment_of(self.version, self.timestamp)
        require_one_point(self.schema_id, self.snapshot_id, self.tag)

    def name_parts(self) -> dict[str, str]:
        """Return the parts of the point as the user spelled them, each with the format of tables that has it."""
        delta_parts: dict[str, object] = {"--version": self.version, "--timestamp": self.timestamp}
        if self.is_text:
            delta_parts = {"version:": self.version}
        paimon_parts = {"schema": self.schema_id, "snapshot": self.snapshot_id, "tag": self.tag, "branch": self.branch}
        named = {name: OF_DELTA for name, value in delta_parts.items() if value is not None}
        for kind, value in paimon_parts.items():
            if value is not None:
                option = f"--{kind}-id" if kind in ("schema", "snapshot") else f"--{kind}"
                named[f"{kind}:" if self.is_text else option] = OF_PAIMON
        return named

    def describe(self, run: CommandContext, table: str) -> DescribedSchema:
        """Return the schema at the point, or that in a file, in the columns of Paimon."""
        self.require_valid()
        try:
            return call_with_table(
                run,
                table,
                delta=partial(self._describe_delta, run),
                paimon=lambda opened: opened.describe_schema(
                    schema_id=self.schema_id, snapshot_id=self.snapshot_id, tag=self.tag
                ),
                options=self.name_parts(),
                branch=self.branch,
            )
        except NotATable as error:
            if error.code != "table.path-is-file":
                raise
            return self._of_file(run, table)

    def _describe_delta(self, run: CommandContext, table: Table) -> DescribedSchema:
        at_ms = parse_moment_of(self.version, self.timestamp)
        described = table.describe_schema(version=self.version, timestamp_ms=at_ms)
        if described.snapshot is not None:
            note_version_problems(run, described.snapshot, at_ms)
        return described

    def _of_file(self, run: CommandContext, path: str) -> DescribedSchema:
        if self != SchemaPoint():
            raise UsageError(f"{path} is a file, which has no versions", code="usage.point")
        directory, slash, name = path.rpartition("/")
        return describe_schema_file(run.open_other((directory or slash) if slash else "."), name)


def parse_point(text: str | None, option: str, table: str) -> SchemaPoint:
    """Return the point in a text such as `version:3`, `tag:T` or `branch:B,schema:3`. Raises UsageError."""
    if text is None:
        return SchemaPoint()
    found: dict[str, str] = {}
    for part in text.split(","):
        kind, colon, value = part.strip().partition(":")
        if kind not in _KINDS or not colon or not value or kind in found:
            raise _no_point(option, text, table)
        found[kind] = value
    numbers = {kind: _number(found[kind], option, text, table) for kind in _KINDS[:3] if kind in found}
    return SchemaPoint(
        numbers.get("version"),
        None,
        numbers.get("schema"),
        numbers.get("snapshot"),
        found.get("tag"),
        found.get("branch"),
        is_text=True,
    )


def _number(value: str, option: str, text: str, table: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 20 and int(value) < 1 << 63):
        raise _no_point(option, text, table)
    return int(value)


def _no_point(option: str, text: str, table: str) -> UsageError:
    from deltacli.cli.hints.words import is_local_paimon

    kind = "schema" if text.isdecimal() and is_local_paimon(table) else "version"
    return UsageError(
        f"{option} {text!r} is not a point of a table",
        code="usage.point",
        facts={"expected": "version:N of a Delta table; schema:N, snapshot:N, tag:T or branch:B of a Paimon table"},
        hint=repeat_command_with(invocation.arguments, option, f"{kind}:{text}") if text.isdecimal() else None,
    )
