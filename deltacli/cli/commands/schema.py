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
from deltacli.cli.options.given import DELTA_FORMAT, PAIMON_FORMAT
from deltacli.cli.options.moments import parse_timestamp_option
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
from deltacli.core.units import MAX_INT64, plural
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
    result = call_with_table(
        run,
        table,
        delta=lambda delta_table: _make_delta_result(run, delta_table, point),
        paimon=lambda paimon_table: _make_paimon_result(paimon_table, point),
        options=point.name_parts(),
        branch=branch,
    )
    run.write(result)
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
    begin = parse_point(first, "--from", table)
    end = parse_point(last, "--to", other or table)
    if other is None and begin == end:
        raise UsageError("the schema is compared with itself", facts={"expected": "OTHER, --from POINT or --to POINT"})
    if other is not None and other.isdecimal() and not os.path.exists(other):
        # `diff TABLE V1` takes a version as an argument, `schema diff` does not.
        words = [word for word in invocation.arguments if word != other]
        hint = repeat_command_with(words, "--from", f"version:{other}") if first is None else None
        raise UsageError(f"there is no table {other}; a version is --from version:{other}", hint=hint)

    begin_schema = begin.describe(run, table)
    with attribute_errors_to(other and mask_secrets(other)):
        end_schema = end.describe(run, other or table)
    schema_difference = diff_schemas(begin_schema, end_schema)
    run.write(schema_diff_result(schema_difference))
    if schema_difference.changes:
        raise Exit(EXIT_FINDINGS)
    run.note("note: the schemas are equal")


class FormatChoice(StrEnum):
    """The format in which a schema is written."""

    DELTA = "delta"
    PAIMON = "paimon"
    ARROW = "arrow"
    DDL = "ddl"


class ConvertCommand(SharedOptionsCommand):
    """A command that writes a schema in a format of its own.

    Most of these formats are JSON, so `--output schema.json` must not select the document of `--json`.
    """

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
    conversion = convert_schema(point.describe(run, table), to, clock=run.clock, min_paimon=min_paimon)
    if conversion.lost:
        question = f"write the schema as {to} without {plural(len(conversion.lost), 'part')} of it"
        loss_result = ConversionResult(conversion, with_result=False)
        confirm_change(run, question, lambda: run.write(loss_result), yes=yes)
    if run.format.is_for_people:
        for loss in conversion.losses:
            run.note(f"note: {loss.sentence}")
    run.write(ConversionResult(conversion))


def _make_delta_result(run: CommandContext, table: Table, point: SchemaPoint) -> Result:
    from deltacli.cli.render.schemas.tree import SchemaResult

    at_ms = parse_timestamp_option(point.version, point.timestamp)
    snapshot = table.snapshot(version=point.version, timestamp_ms=at_ms)
    note_version_problems(run, snapshot, at_ms)
    return SchemaResult(snapshot)


def _make_paimon_result(table: Paimon, point: SchemaPoint) -> Result:
    from deltacli.cli.render.paimon import PaimonSchemaResult

    snapshot = table.snapshot(schema_id=point.schema_id, snapshot_id=point.snapshot_id, tag=point.tag)
    return PaimonSchemaResult(snapshot, as_ddl=False)


_NUMERIC_KINDS = ("version", "schema", "snapshot")
_KINDS = (*_NUMERIC_KINDS, "tag", "branch")
"""The kinds of a point, before the colon: `version:3`, `tag:T`."""


@dataclass(frozen=True)
class SchemaPoint:
    """A version, schema, snapshot, tag or branch whose schema is shown, compared or converted.

    Attributes:
        version: A version of a Delta table.
        timestamp: A time instead of the version, as the user typed it.
        schema_id: The id of a schema of a Paimon table.
        snapshot_id: The id of a snapshot of a Paimon table.
        tag: A tag of a Paimon table.
        branch: A branch of a Paimon table.
        is_text: Whether the point was typed as one word, such as `schema:3`, instead of by options.
    """

    version: int | None = None
    timestamp: str | None = None
    schema_id: int | None = None
    snapshot_id: int | None = None
    tag: str | None = None
    branch: str | None = None
    is_text: bool = False

    def require_valid(self) -> None:
        """Require that the time is valid and that the parts do not exclude each other. Raises UsageError."""
        parse_timestamp_option(self.version, self.timestamp)
        require_one_point(self.schema_id, self.snapshot_id, self.tag)

    def name_parts(self) -> dict[str, str]:
        """Return the parts that the user has typed, each with the table format that supports it.

        For example, `{"--tag": "Paimon"}`, or `{"tag:": "Paimon"}` if the point was typed as one word.
        """
        if self.is_text:
            delta_parts: dict[str, object] = {"version:": self.version}
            paimon_parts: dict[str, object] = {
                "schema:": self.schema_id,
                "snapshot:": self.snapshot_id,
                "tag:": self.tag,
                "branch:": self.branch,
            }
        else:
            delta_parts = {"--version": self.version, "--timestamp": self.timestamp}
            paimon_parts = {
                "--schema-id": self.schema_id,
                "--snapshot-id": self.snapshot_id,
                "--tag": self.tag,
                "--branch": self.branch,
            }
        formats = {name: DELTA_FORMAT for name, value in delta_parts.items() if value is not None}
        formats |= {name: PAIMON_FORMAT for name, value in paimon_parts.items() if value is not None}
        return formats

    def describe(self, run: CommandContext, table: str) -> DescribedSchema:
        """Return the schema at this point, in terms that both formats share.

        Args:
            run: The run of the command.
            table: A table or a file with a schema.

        Raises:
            UsageError: If the point is invalid, or does not exist in tables of this format.
            DeltacliError: If the schema cannot be read.
        """
        self.require_valid()
        try:
            return call_with_table(
                run,
                table,
                delta=partial(self._describe_delta, run),
                paimon=self._describe_paimon,
                options=self.name_parts(),
                branch=self.branch,
            )
        except NotATable as error:
            if error.code != "table.path-is-file":
                raise
            return self._describe_file(run, table)

    def _describe_delta(self, run: CommandContext, table: Table) -> DescribedSchema:
        at_ms = parse_timestamp_option(self.version, self.timestamp)
        schema = table.describe_schema(version=self.version, timestamp_ms=at_ms)
        if schema.snapshot is not None:
            note_version_problems(run, schema.snapshot, at_ms)
        return schema

    def _describe_paimon(self, table: Paimon) -> DescribedSchema:
        return table.describe_schema(schema_id=self.schema_id, snapshot_id=self.snapshot_id, tag=self.tag)

    def _describe_file(self, run: CommandContext, path: str) -> DescribedSchema:
        if self != SchemaPoint():
            raise UsageError(f"{path} is a file, which has no versions", code="usage.point")
        directory, separator, name = path.rpartition("/")
        if not separator:
            directory = "."
        elif not directory:
            directory = "/"
        return describe_schema_file(run.open_other(directory), name)


def parse_point(text: str | None, option: str, table: str) -> SchemaPoint:
    """Parse a point such as `version:3`, `tag:T` or `branch:B,schema:3`.

    Args:
        text: The text. None: the newest schema.
        option: The option with this value, for errors.
        table: The table of the point, as the user typed it. The hint of an error depends on its format.

    Raises:
        UsageError: If the text is not a point.
    """
    if text is None:
        return SchemaPoint()

    values: dict[str, str] = {}
    for part in text.split(","):
        kind, colon, value = part.strip().partition(":")
        if kind not in _KINDS or not colon or not value or kind in values:
            raise _make_point_error(option, text, table)
        values[kind] = value

    numbers: dict[str, int] = {}
    for kind in _NUMERIC_KINDS:
        if kind not in values:
            continue
        if not _is_valid_number(values[kind]):
            raise _make_point_error(option, text, table)
        numbers[kind] = int(values[kind])
    return SchemaPoint(
        version=numbers.get("version"),
        schema_id=numbers.get("schema"),
        snapshot_id=numbers.get("snapshot"),
        tag=values.get("tag"),
        branch=values.get("branch"),
        is_text=True,
    )


def _is_valid_number(text: str) -> bool:
    """Return whether a text is a 64-bit integer without a sign."""
    # The length is checked first, because converting a very long text takes long.
    return text.isascii() and text.isdigit() and len(text) < _TOO_MANY_DIGITS and int(text) <= MAX_INT64


_TOO_MANY_DIGITS = 20


def _make_point_error(option: str, text: str, table: str) -> UsageError:
    """Return the error for an invalid point. For `--from 3` the hint is `--from version:3` or `--from schema:3`."""
    from deltacli.cli.hints.words import is_local_paimon

    hint = None
    if text.isdecimal():
        kind = "schema" if is_local_paimon(table) else "version"
        hint = repeat_command_with(invocation.arguments, option, f"{kind}:{text}")
    return UsageError(
        f"{option} {text!r} is not a point of a table",
        code="usage.point",
        facts={"expected": "version:N of a Delta table; schema:N, snapshot:N, tag:T or branch:B of a Paimon table"},
        hint=hint,
    )
