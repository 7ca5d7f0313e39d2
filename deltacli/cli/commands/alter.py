"""`deltacli alter TABLE …`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import ClusterCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.given import DELTA_FORMAT, PAIMON_FORMAT, get_format_options, is_option_used
from deltacli.cli.options.paimon import AllowLossyOption, BranchOption, MinPaimonOption
from deltacli.cli.options.streams import CheckpointsOption
from deltacli.cli.options.tables import (
    CheckOption,
    CommitMetadataOption,
    DryRunOption,
    TableArgument,
    UpgradeProtocolOption,
    YesOption,
)
from deltacli.cli.options.values import make_choice_parser, make_text_parser
from deltacli.cli.running.changing import Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.table_formats import call_with_table, make_format_error
from deltacli.core.alter_verbs import VERBS_OF_DELTA, Details, Verb
from deltacli.core.errors import UsageError, command
from deltacli.delta.log.actions import parse_commit_metadata

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table

app = typer.Typer(add_completion=False)

_STDIN = "-"
_VERBS_WITH_OPTION: Mapping[str, tuple[Verb, ...]] = {
    "comment": (Verb.ADD,),
    "default": (Verb.ADD,),
    "position": (Verb.ADD,),
    "nullable": (Verb.ADD,),
    "keep_nullability": (Verb.TYPE,),
    "allow_lossy": (Verb.TYPE, Verb.NOT_NULL, Verb.SET, Verb.UNSET),
    "with_options": (Verb.DROP,),
    "drop": (Verb.COMMENT, Verb.DEFAULT),
    "none": (Verb.CLUSTER,),
}
"""Maps the parameter of an option to the kinds of change that it belongs to."""

_WORD_OF_PROPERTIES: Mapping[Verb, str] = {Verb.SET: "KEY=VALUE", Verb.UNSET: "KEY"}
"""Changes that the command `properties` does on a Delta table, and the word that they need."""

_OPTIONS_OF_FILES = ("allow_lossy", "with_options")
"""Options of single changes that belong to --apply, too."""

_DELTA_OPTIONS = ("none", "checkpoints", "enable", "upgrade_protocol", "commit_metadata")
_PAIMON_OPTIONS = ("keep_nullability", "allow_lossy", "with_options", "min_paimon", "branch")


@app.command(
    "alter",
    cls=ClusterCommand,
    epilog=exit_codes(
        findings="with --check: a change is due",
        unreadable=True,
        refused=True,
        conflict=True,
        storage=True,
        unknown=True,
    ),
)
def alter(
    context: typer.Context,
    table: TableArgument,
    change: Annotated[
        Verb | None,
        typer.Argument(metavar="CHANGE", parser=make_choice_parser(Verb), help="Kind of change; see above."),
    ] = None,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORDS...", help="Column, and what follows it.")] = None,
    *,
    comment: Annotated[
        str | None, typer.Option("--comment", metavar="TEXT", help="add: comment of the column.")
    ] = None,
    default: Annotated[str | None, typer.Option("--default", metavar="VALUE", help="add: default value.")] = None,
    position: Annotated[
        str | None,
        typer.Option("--position", metavar="PLACE", help="add: first, last, before:X or after:X.  [default: last]"),
    ] = None,
    nullable: Annotated[
        bool,
        typer.Option(
            "--nullable/--not-null", help="add: columns are nullable; NOT NULL is refused.  [default: nullable]"
        ),
    ] = True,
    keep_nullability: Annotated[
        bool, typer.Option("--keep-nullability", help="type: keep NOT NULL, or its absence.")
    ] = False,
    drop: Annotated[bool, typer.Option("--drop", help="comment, default: remove it.")] = False,
    none: Annotated[bool, typer.Option("--none", help="cluster: by no columns.")] = False,
    allow_lossy: AllowLossyOption = False,
    with_options: Annotated[
        bool, typer.Option("--with-options", help="drop: first remove the column from options that name it.")
    ] = False,
    min_paimon: MinPaimonOption = None,
    apply: Annotated[
        str | None,
        typer.Option(
            "--apply",
            metavar="FILE",
            parser=make_text_parser("--apply"),
            help="JSON file with changes, - for stdin.",
        ),
    ] = None,
    check: CheckOption = False,
    branch: BranchOption = None,
    checkpoints: CheckpointsOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    enable: Annotated[
        bool, typer.Option("--enable", help="type: set delta.enableTypeWidening to true if it is not.")
    ] = False,
    upgrade_protocol: UpgradeProtocolOption = False,
    commit_metadata: CommitMetadataOption = None,
) -> None:
    """Change the columns of a table, or what describes it, in one commit.

    \b
    Changes:
      add COLUMN TYPE        type COLUMN TYPE      rename COLUMN NAME
      drop COLUMN...         move COLUMN POSITION  comment COLUMN TEXT
      default COLUMN VALUE   nullable COLUMN...    not-null COLUMN...
      table-comment TEXT
    Delta only:
      mapping name           name TEXT             cluster COLUMN,COLUMN
      constraint add NAME EXPRESSION               constraint drop NAME
    Paimon only:
      set KEY=VALUE...       unset KEY...

    \b
    A column is a path: a.b, xs.element, m.value; backticks quote names with dots.
    No data file is rewritten. Writers of a Delta table that are running fail, also
    appends (MetadataChangedException), and have to run again.

    \b
    Examples:
      deltacli alter ./tbl add tax "decimal(10, 2)" --position after:trip --yes
      deltacli alter ./tbl mapping name --upgrade-protocol --yes
      deltacli alter ./tbl rename ride.city town --dry-run  # after mapping name
      deltacli alter ./tbl default trip 1 --upgrade-protocol --yes
      deltacli alter ./tbl constraint add paid "trip > 0" --upgrade-protocol --yes
      deltacli alter ./tbl --apply changes.json --check  # in CI
      deltacli alter ./paimon_tbl drop price --with-options --yes
      deltacli alter ./paimon_tbl set snapshot.time-retained=2h --yes

    \b
    A position is first, last, before:X or after:X. A type of a Delta table is one
    of tinyint (byte), smallint (short), int (integer), bigint (long), float
    (real), double, decimal(p,s) (dec, numeric) with s <= p <= 38, boolean,
    string, char(n), varchar(n), binary, date, timestamp, timestamp_ntz, variant,
    array<…>, map<…, …>, struct<name: type, …>. Columns of a Delta table are renamed
    and dropped after `mapping name`. A change is refused if a constraint, a
    generated column, partitioning or clustering depends on the column. A default is
    SQL: 0, "'unknown'". not-null and constraints read the rows that statistics do
    not prove.

    \b
    A Paimon table gets one new version of its schema, by the rules of Paimon. A type
    that changes stored values, and not-null, need --allow-lossy; drop does not,
    though values of the column can no longer be read. Types that the file format
    lacks are refused, and so is what only Paimon 2 has, unless --min-paimon is 2.

    \b
    --apply takes a JSON array, which becomes one version: [{"change": "add",
    "column": "a", "type": "int"}], or on a Paimon table SchemaChange objects of its
    REST API.
    """
    run: CommandContext = context.obj
    details = Details(
        comment=comment,
        default=default,
        position=position,
        nullable=nullable,
        keep_nullability=keep_nullability,
        drop=drop,
        none=none,
    )
    format_options = get_format_options(context, delta=_DELTA_OPTIONS, paimon=_PAIMON_OPTIONS)
    _require_matching_options(context, change, apply)
    mode = Mode(dry_run, yes, check)

    def alter_delta(delta_table: Table) -> None:
        """Change the columns or the metadata of a Delta table in one commit."""
        from deltacli.api.either_format import require_delta_log
        from deltacli.cli.render.schemas.altering import make_alteration_presentation
        from deltacli.cli.running.stream_notes import note_streams
        from deltacli.delta.evolution.requests import changes_of, read_changes

        streams = note_streams(run, delta_table, checkpoints)
        # On a Paimon table the words have another meaning, so make sure that this is a Delta table first.
        require_delta_log(delta_table)
        _refuse_paimon_change(change, words or [], delta_table.uri)
        if apply is not None:
            changes = read_changes(_read_changes_file(apply))
        else:
            assert change is not None, "_require_matching_options requires a change or a file"
            changes = changes_of(change, words or [], details)
        prepared_change = delta_table.prepare_alter(
            changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            commit_metadata=parse_commit_metadata(commit_metadata or []),
        )
        run_change(run, prepared_change, make_alteration_presentation(table, streams), mode)

    def alter_paimon(paimon_table: Paimon) -> None:
        """Write a new version of the schema of a Paimon table."""
        from deltacli.cli.render.paimon import make_schema_change_presentation
        from deltacli.paimon.evolution.requests import changes_of, read_changes

        if change in VERBS_OF_DELTA:
            raise make_format_error(DELTA_FORMAT, f"alter {change}", {"path": paimon_table.uri})
        if apply is not None:
            changes = read_changes(_read_changes_file(apply))
        else:
            assert change is not None, "_require_matching_options requires a change or a file"
            changes = changes_of(change, words or [], details)
        prepared_change = paimon_table.prepare_alter(
            changes, allow_lossy=allow_lossy, with_options=with_options, min_paimon=min_paimon
        )
        run_change(run, prepared_change, make_schema_change_presentation(table, "alter"), mode)

    call_with_table(
        run,
        table,
        delta=alter_delta,
        paimon=alter_paimon,
        options=format_options,
        branch=branch,
        writes=not mode.only_plans,
    )


def _refuse_paimon_change(change: Verb | None, words: Sequence[str], uri: str) -> None:
    """Refuse `set` and `unset` on a Delta table. The hint is the command for the properties of a Delta table.

    Raises:
        UsageError: If the change is one of them.
    """
    if change is None or change not in _WORD_OF_PROPERTIES:
        return
    # If `properties` does not accept the words as they are, the hint contains a placeholder.
    is_accepted = bool(words) and (change == "unset" or all("=" in word for word in words))
    property_words = words if is_accepted else [_WORD_OF_PROPERTIES[change]]
    raise make_format_error(
        PAIMON_FORMAT,
        f"alter {change}",
        {"path": uri, "instead": "deltacli properties"},
        command("properties", change, *property_words),
    )


def _require_matching_options(context: typer.Context, change: Verb | None, apply: str | None) -> None:
    """Require either a change or a file of changes, and only options that belong to it.

    Raises:
        UsageError: If there are both or neither, or an option belongs to another kind of change.
    """
    if (change is None) == (apply is None):
        raise UsageError(
            "a change is missing" if change is None else f"{change} and --apply exclude each other",
            facts={"expected": f"{', '.join(Verb)}, or --apply FILE"},
            hint="deltacli alter --help",
        )

    for name, verbs in _VERBS_WITH_OPTION.items():
        belongs_to_file = change is None and name in _OPTIONS_OF_FILES
        if is_option_used(context, name) and change not in verbs and not belongs_to_file:
            option = "--not-null" if name == "nullable" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is an option of {' and '.join(verbs)}, not of {change or '--apply'}")


_MAX_CHANGES_BYTES = 64 << 20
"""The size of a file of changes above which it is refused, because it would not fit into memory as objects."""


def _read_changes_file(name: str) -> bytes:
    """Return the content of the file of `--apply`, or of stdin for `-`. Raises UsageError."""
    try:
        if name == _STDIN:
            data = sys.stdin.buffer.read(_MAX_CHANGES_BYTES + 1)
        else:
            with open(name, "rb") as file:
                data = file.read(_MAX_CHANGES_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read: {(error.strerror or str(error)).lower()}", code="usage.change"
        ) from None
    if len(data) > _MAX_CHANGES_BYTES:
        raise UsageError(f"{name} has more than {_MAX_CHANGES_BYTES:,} bytes", code="usage.change")
    return data
