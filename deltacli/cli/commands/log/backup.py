"""`deltacli log backup TABLE DEST`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options.common_options import TableArgument
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.shell import quoted_table
from deltacli.units import plural

EXIT_CODES = (0, 2, 3, 4, 6, 7, 70)

DestinationArgument = Annotated[
    str, typer.Argument(metavar="DEST", help="Directory of the backup: a path or URI.", show_default=False)
]


def backup(
    run: Run,
    table: TableArgument,
    dest: DestinationArgument,
    full: Annotated[
        bool, typer.Option("--full", help="Compare every file by digest instead of by size and time.")
    ] = False,
) -> None:
    """Copy the log of a table, and keep the copy up to date.

    \b
    Copies everything below _delta_log: commits, checkpoints, sidecars and
    unrecognized files. A later run copies new and changed files; files deleted
    from the log are kept in the backup. Copies are read back, then listed with
    their SHA-256 and times in DEST/_delta_log_backup.ndjson. Works on tables
    that cannot be opened. Data files are not copied.

    \b
    Examples:
      deltacli log backup ./tbl /backups/tbl
      deltacli log backup s3://lake/events s3://safe/events --full
      deltacli log backup ./tbl /backups/tbl --json | jq .copied
    """
    from deltacli.cli.render.log_copy import backup_result
    from deltacli.operations.log.log_backup import execute_backup, plan_backup
    from deltacli.operations.log.log_copy import Journal

    storage, destination, engine = run.open(table), run.open_other(dest, writes=True), run.engine
    plan = plan_backup(storage, destination, engine, full=full, progress=run.progress)
    journal = Journal()
    try:
        result = execute_backup(
            plan, storage, destination, engine, clock=run.clock, progress=run.progress, journal=journal
        )
    except Interrupted as interruption:
        interruption.outcome = f"{plural(journal.written, 'file')} copied; run the same command to continue"
        raise
    run.write(backup_result(result))
    run.say_next(f"deltacli log restore {quoted_table(table)} {quoted_table(dest)} --dry-run")
