"""`deltacli alter TABLE …`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from deltacli.cli.options import declared
from deltacli.cli.running.changing import Mode
from deltacli.cli.running.run import Run
from deltacli.cli.running.table_formats import Handle, ask
from deltacli.core.alter_verbs import Details, Verb
from deltacli.core.errors import UsageError
from deltacli.core.request_fields import OF_PAIMON, option
from deltacli.operations.change.alter import AlterationRequest

EXIT_CODES = (0, 1, 2, 3, 4, 6, 7, 8, 70)
RUNS_ON_CLUSTER = True

_STDIN = "-"
_VERBS = "|".join(Verb)
_OF_VERBS: Mapping[str, tuple[Verb, ...]] = {
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
"""Options of single changes."""

_OF_FILES = ("allow_lossy", "with_options")
"""Those that belong to --apply, too."""

ChangeArgument = Annotated[Verb | None, declared.argument("Kind of change; see above.", "CHANGE")]
WordsArgument = Annotated[list[str] | None, declared.argument("Column, and what follows it.", "WORDS...")]


@dataclass(frozen=True)
class AlterOptions:
    """Where the changes are from, and how they are made."""

    allow_lossy: declared.AllowLossyOption = False
    with_options: bool = option(
        "drop: first remove the column from options that name it.", default=False, table_format=OF_PAIMON
    )
    min_paimon: declared.MinPaimonOption = None
    apply: str | None = option("JSON file with changes, - for stdin.", "FILE")
    check: bool = option("Change nothing; exit 1 if a change is due, 4 if refused.", default=False)
    branch: declared.BranchOption = None
    checkpoints: declared.CheckpointsOption = None
    dry_run: declared.DryRunOption = False
    yes: declared.YesOption = False


def alter(
    run: Run,
    table: declared.TableArgument,
    change: ChangeArgument = None,
    words: WordsArgument = None,
    *,
    details: declared.Asked[Details],
    wanted: AlterOptions,
    asked: declared.Asked[AlterationRequest],
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
    _require_fitting(change, details, wanted)

    def edit(opened: Handle) -> None:
        requested, streams = details.request(), None
        if wanted.checkpoints:
            from deltacli.cli.running.stream_notes import note_streams

            streams = note_streams(opened.run, opened.table, wanted.checkpoints)
        opened.alter(
            change,
            words or [],
            requested,
            asked,
            mode=Mode(wanted.dry_run, wanted.yes, wanted.check),
            read=lambda: _read(wanted.apply or ""),
            branch=wanted.branch,
            allow_lossy=wanted.allow_lossy,
            with_options=wanted.with_options,
            min_paimon=wanted.min_paimon,
            **({} if streams is None else {"streams": streams}),
        )

    ask(run, table, edit, writes=not (wanted.dry_run or wanted.check))


def _require_fitting(change: Verb | None, details: declared.Asked[Details], wanted: AlterOptions) -> None:
    if (change is None) == (wanted.apply is None):
        raise UsageError(
            "a change is missing" if change is None else f"{change} and --apply exclude each other",
            facts={"expected": f"{_VERBS.replace('|', ', ')}, or --apply FILE"},
            hint="deltacli alter --help",
        )
    given = {*details.values, *(name for name in _OF_FILES if getattr(wanted, name))}
    for name, verbs in _OF_VERBS.items():
        if name in given and change not in verbs and not (change is None and name in _OF_FILES):
            said = "--not-null" if name == "nullable" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{said} is an option of {' and '.join(verbs)}, not of {change or '--apply'}")


_MAX_CHANGES_BYTES = 64 << 20


def _read(name: str) -> bytes:
    try:
        if name == _STDIN:
            data = sys.stdin.buffer.read(_MAX_CHANGES_BYTES + 1)
        else:
            with open(name, "rb") as file:
                data = file.read(_MAX_CHANGES_BYTES + 1)
    except OSError as fault:
        raise UsageError(
            f"{name} cannot be read: {(fault.strerror or str(fault)).lower()}", code="usage.change"
        ) from None
    if len(data) > _MAX_CHANGES_BYTES:
        raise UsageError(f"{name} has more than {_MAX_CHANGES_BYTES:,} bytes", code="usage.change")
    return data
