"""`deltacli alter TABLE …`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
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
from deltacli.request_fields import option

if TYPE_CHECKING:
    from deltacli.paimon.evolution.requests import SchemaChange

EXIT_CODES = (0, 2, 3, 4, 6, 7, 8, 70)

_STDIN = "-"
_VERBS = "|".join(Verb)
_OF_VERBS: Mapping[str, tuple[Verb, ...]] = {
    "comment": (Verb.ADD,),
    "default": (Verb.ADD,),
    "position": (Verb.ADD,),
    "nullable": (Verb.ADD,),
    "keep_nullability": (Verb.TYPE,),
    "allow_lossy": (Verb.TYPE, Verb.NOT_NULL),
    "with_options": (Verb.DROP,),
    "drop": (Verb.COMMENT, Verb.DEFAULT),
}
"""Options of single changes."""

_OF_FILES = ("allow_lossy", "with_options")
"""Those that belong to --apply, too."""

ChangeArgument = Annotated[
    Verb | None, typer.Argument(metavar="CHANGE", help="Kind of change; see above.", show_default=False)
]
WordsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="WORDS...", help="Column, and what follows it.", show_default=False)
]


@dataclass(frozen=True)
class AlterOptions:
    """What belongs to single changes, and how they are made."""

    comment: str | None = option("add: comment of the column.", "C")
    default: str | None = option("add: default value.", "V")
    position: str | None = option("add: first, last, before:X or after:X.  [default: last]", "P")
    nullable: Annotated[
        bool,
        typer.Option(
            "--nullable/--not-null", help="add: columns are nullable; NOT NULL is refused.", show_default=False
        ),
    ] = True
    keep_nullability: bool = option("type: keep NOT NULL, or its absence.", default=False)
    allow_lossy: AllowLossyOption = False
    with_options: bool = option("drop: first remove the column from options that name it.", default=False)
    drop: bool = option("comment, default: remove it.", default=False)
    apply: str | None = option("JSON file with changes, - for stdin.", "FILE")
    branch: BranchOption = None
    dry_run: DryRunOption = False
    yes: YesOption = False


def alter(
    run: Run,
    table: TableArgument,
    change: ChangeArgument = None,
    words: WordsArgument = None,
    *,
    wanted: AlterOptions,
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
    _require_fitting(change, wanted)

    def changes() -> tuple[SchemaChange, ...]:
        from deltacli.paimon.evolution.command_words import Details, changes_of

        if wanted.apply is not None:
            return _read_changes(wanted.apply)
        assert change is not None
        details = (wanted.comment, wanted.default, wanted.position, wanted.nullable, wanted.keep_nullability)
        return changes_of(change, words or [], Details(*details, wanted.drop))

    ask(
        run,
        table,
        lambda opened: edit_schema(
            run,
            opened.alter(
                change=change,
                changes=changes,
                branch=wanted.branch,
                allow_lossy=wanted.allow_lossy,
                with_options=wanted.with_options,
            ),
            dry_run=wanted.dry_run,
            yes=wanted.yes,
        ),
        given={},  # a Delta table lacks the operation, which comes before its options
        writes=not wanted.dry_run,
    )


def _require_fitting(change: Verb | None, wanted: AlterOptions) -> None:
    """Raise UsageError for options that do not belong to the change, and without exactly one kind of changes."""
    if (change is None) == (wanted.apply is None):
        raise UsageError(
            "a change is missing" if change is None else f"{change} and --apply exclude each other",
            facts={"expected": f"{_VERBS.replace('|', ', ')}, or --apply FILE"},
            hint="deltacli alter --help",
        )
    without = AlterOptions()
    for name, verbs in _OF_VERBS.items():
        is_given = getattr(wanted, name) != getattr(without, name)
        if is_given and change not in verbs and not (change is None and name in _OF_FILES):
            said = "--not-null" if name == "nullable" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{said} is an option of {' and '.join(verbs)}, not of {change or '--apply'}")


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
