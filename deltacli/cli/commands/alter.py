"""`deltacli alter TABLE …`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.apply_change import edit_schema
from deltacli.cli.options.common_options import (
    AllowLossyOption,
    BranchOption,
    DryRunOption,
    TableArgument,
    YesOption,
)
from deltacli.cli.options.run import Run
from deltacli.cli.options.table_formats import ask
from deltacli.errors import UsageError
from deltacli.paimon.evolution.command_words import Verb

if TYPE_CHECKING:
    from deltacli.paimon.evolution.requests import SchemaChange

EXIT_CODES = (0, 2, 3, 4, 6, 7, 8, 70)

_STDIN = "-"
_VERBS = "|".join(Verb)
_OF_VERBS: Mapping[str, tuple[Verb, ...]] = {
    "--comment": (Verb.ADD,),
    "--default": (Verb.ADD,),
    "--position": (Verb.ADD,),
    "--not-null": (Verb.ADD,),
    "--keep-nullability": (Verb.TYPE,),
    "--allow-lossy": (Verb.TYPE, Verb.NOT_NULL),
    "--with-options": (Verb.DROP,),
    "--drop": (Verb.COMMENT, Verb.DEFAULT),
}
"""Options of single changes. --allow-lossy and --with-options also belong to --apply."""

_OF_FILES = ("--allow-lossy", "--with-options")

ChangeArgument = Annotated[
    Verb | None, typer.Argument(metavar="CHANGE", help="What kind of change, see above.", show_default=False)
]
WordsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="WORDS...", help="Column, and what follows it.", show_default=False)
]
CommentOption = Annotated[str | None, typer.Option("--comment", metavar="C", help="add: comment of the column.")]
DefaultOption = Annotated[str | None, typer.Option("--default", metavar="V", help="add: default value.")]
PositionOption = Annotated[
    str | None, typer.Option("--position", metavar="P", help="add: first, last, before:X or after:X.  [default: last]")
]
NullableOption = Annotated[
    bool,
    typer.Option("--nullable/--not-null", help="add: columns are nullable; NOT NULL is refused.", show_default=False),
]
KeepNullabilityOption = Annotated[bool, typer.Option("--keep-nullability", help="type: keep NOT NULL, or its absence.")]
WithOptionsOption = Annotated[
    bool, typer.Option("--with-options", help="drop: first remove the column from options that name it.")
]
DropOption = Annotated[bool, typer.Option("--drop", help="comment, default: remove it.")]
ApplyOption = Annotated[
    str | None,
    typer.Option("--apply", metavar="FILE", help="JSON file with changes, - for stdin.", show_default=False),
]


def alter(
    run: Run,
    table: TableArgument,
    change: ChangeArgument = None,
    words: WordsArgument = None,
    *,
    comment: CommentOption = None,
    default: DefaultOption = None,
    position: PositionOption = None,
    nullable: NullableOption = True,
    keep_nullability: KeepNullabilityOption = False,
    allow_lossy: AllowLossyOption = False,
    with_options: WithOptionsOption = False,
    remove: DropOption = False,
    apply: ApplyOption = None,
    branch: BranchOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Change the schema of a Paimon table: one new version.

    \b
    Changes:
      add COLUMN TYPE        type COLUMN TYPE      rename COLUMN NAME
      drop COLUMN...         move COLUMN POSITION  comment COLUMN TEXT
      default COLUMN VALUE   nullable COLUMN...    not-null COLUMN...
      set KEY=VALUE...       unset KEY...          table-comment TEXT

    \b
    A column is a path: a.b, xs.element, m.value; backticks quote names with dots.
    A position is first, last, before:X or after:X. --apply takes a JSON array of
    SchemaChange objects of Paimon's REST API, which become one version. What
    Paimon refuses, and what loses data, is refused.

    \b
    Examples:
      deltacli alter ./paimon_tbl add tax "DECIMAL(10, 2)" --position after:id
      deltacli alter ./paimon_tbl rename address.zip postcode --dry-run
      deltacli alter ./paimon_tbl drop price --with-options --yes
      deltacli alter ./paimon_tbl set snapshot.time-retained=2h --yes
      deltacli alter ./paimon_tbl --apply changes.json --branch dev --yes
    """
    options: dict[str, object] = {
        "--comment": comment,
        "--default": default,
        "--position": position,
        "--not-null": not nullable,
        "--keep-nullability": keep_nullability,
        "--allow-lossy": allow_lossy,
        "--with-options": with_options,
        "--drop": remove,
    }
    _require_fitting(change, options, apply)

    def changes() -> tuple[SchemaChange, ...]:
        from deltacli.paimon.evolution.command_words import Details, changes_of

        if apply is not None:
            return _read_changes(apply)
        assert change is not None
        details = Details(comment, default, position, nullable, keep_nullability, remove)
        return changes_of(change, words or [], details)

    ask(
        run,
        table,
        lambda opened: edit_schema(
            run,
            opened.alter(
                change=change, changes=changes, branch=branch, allow_lossy=allow_lossy, with_options=with_options
            ),
            dry_run=dry_run,
            yes=yes,
        ),
        given={},  # a Delta table lacks the operation, which comes before its options
        writes=not dry_run,
    )


def _require_fitting(change: Verb | None, options: Mapping[str, object], apply: str | None) -> None:
    """Raise UsageError for options that do not belong to the change, and without exactly one kind of changes."""
    if (change is None) == (apply is None):
        raise UsageError(
            "a change is missing" if change is None else f"{change} and --apply exclude each other",
            facts={"expected": f"{_VERBS.replace('|', ', ')}, or --apply FILE"},
            hint="deltacli alter --help",
        )
    for option, value in options.items():
        if value in (None, False) or (change is None and option in _OF_FILES) or change in _OF_VERBS[option]:
            continue
        verbs = " and ".join(_OF_VERBS[option])
        raise UsageError(f"{option} is an option of {verbs}, not of {change or '--apply'}")


def _read_changes(name: str) -> tuple[SchemaChange, ...]:
    """Return the changes in a local file, or on stdin. Raises UsageError."""
    from deltacli.paimon.evolution.requests import MAX_CHANGES_BYTES, read_changes

    try:
        if name == _STDIN:
            data = sys.stdin.buffer.read(MAX_CHANGES_BYTES + 1)
        else:
            with open(name, "rb") as file:
                data = file.read(MAX_CHANGES_BYTES + 1)
    except OSError as fault:
        raise UsageError(f"{name} cannot be read: {fault.strerror}", code="usage.change") from None
    if len(data) > MAX_CHANGES_BYTES:
        raise UsageError(f"{name} has more than {MAX_CHANGES_BYTES:,} bytes", code="usage.change")
    return read_changes(data)
