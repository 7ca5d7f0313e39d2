"""`deltacli widen-type TABLE COLUMN TYPE …`."""

from __future__ import annotations

from typing import Annotated

from deltacli.cli.options import declared
from deltacli.cli.running.changing import Mode
from deltacli.cli.running.run import Run
from deltacli.cli.running.table_formats import Handle, ask
from deltacli.core.request_fields import Option
from deltacli.operations.change.widen_type import WidenRequest

EXIT_CODES = (0, 1, 2, 3, 4, 6, 7, 8, 70)
RUNS_ON_CLUSTER = True

Changes = Annotated[list[str], declared.argument("Columns with their new types, in pairs.", "COLUMN TYPE")]
Check = Annotated[bool, Option("Change nothing; exit 1 if a change is due, 4 if refused.")]


def widen_type(
    run: Run,
    table: declared.TableArgument,
    changes: Changes,
    *,
    asked: declared.Asked[WidenRequest],
    check: Check = False,
    allow_lossy: declared.AllowLossyOption = False,
    min_paimon: declared.MinPaimonOption = None,
    branch: declared.BranchOption = None,
    checkpoints: declared.CheckpointsOption = None,
    dry_run: declared.DryRunOption = False,
    yes: declared.YesOption = False,
) -> None:
    """Give columns wider types without rewriting data, in one commit.

    \b
    A column is a path: a.b, m.key, m.value, xs.element; backticks quote names with
    dots. A type of a Delta table is one of tinyint (byte), smallint (short),
    int (integer), bigint (long), float (real), double, decimal(p,s)
    (dec, numeric) with s <= p <= 38, date, timestamp_ntz. Allowed are the
    changes that every reader of the feature supports: whole numbers to wider
    ones, decimals or doubles, float to double, date to timestamp_ntz, decimals
    to wider ones. The plan lists the clients that lose access. Writers of a Delta
    table that are running fail, also appends, and have to run again.
    A Paimon table gets one new version of its schema; allowed is what loses no
    value, and with --allow-lossy every cast that Paimon can execute. The column
    stays nullable or NOT NULL, unless the type says NOT NULL.

    \b
    Examples:
      deltacli widen-type ./tbl ride.fare "decimal(20,2)" --enable --upgrade-protocol --dry-run
      deltacli widen-type ./tbl ride.fare "decimal(20,2)" --enable --upgrade-protocol
      deltacli widen-type ./tbl trip "decimal(20,0)" ride.fare "decimal(20,2)" --check --enable --upgrade-protocol
      deltacli widen-type ./paimon_tbl price "DECIMAL(20, 2)" --branch dev --yes
    """

    def widen(opened: Handle) -> None:
        streams = None
        if checkpoints:
            from deltacli.cli.running.stream_notes import note_streams

            streams = note_streams(opened.run, opened.table, checkpoints)
        opened.widen_type(
            changes,
            asked,
            mode=Mode(dry_run, yes, check),
            allow_lossy=allow_lossy,
            min_paimon=min_paimon,
            branch=branch,
            **({} if streams is None else {"streams": streams}),
        )

    ask(run, table, widen, writes=not (dry_run or check))
