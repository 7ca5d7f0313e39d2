"""`deltacli copy SRC DST`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from deltacli.cli.invocation import Exit
from deltacli.cli.options.declared import DryRunOption, argument
from deltacli.cli.running.changing import Mode, Wording, run_change
from deltacli.cli.running.run import Run
from deltacli.cli.terminal.shell import quoted_table
from deltacli.core.errors import EXIT_FINDINGS
from deltacli.operations.copy.request import CopyRequest

if TYPE_CHECKING:
    from deltacli.operations.copy.execute import CopyResult
    from deltacli.operations.copy.plan import CopyPlan

EXIT_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 70)

SourceArgument = Annotated[str, argument("Table to copy: a path or URI.", "SRC")]
TargetArgument = Annotated[str, argument("Directory of the copy, new or a replica: a path or URI.", "DST")]


def copy(
    run: Run, src: SourceArgument, dst: TargetArgument, *, request: CopyRequest, dry_run: DryRunOption = False
) -> None:
    """Copy a table to another place, and verify the copy.

    \b
    Copies the files that the versions need, then the commits in their order: at any
    time DST is either not yet a table or a readable one. The same command continues
    an interrupted run. The copy gets a table id of its own in one more commit; with
    --replica it keeps the id and every commit, and the same command brings it up to
    date. Sizes and the digest of the state are compared with the source, with
    --level data every byte.

    \b
    Examples:
      deltacli copy ./tbl /backups/tbl --dry-run
      deltacli copy ./tbl /backups/tbl
      deltacli copy ./tbl /backups/newest --newest
      deltacli copy s3://lake/events gs://safe/events --replica
      deltacli copy s3://lake/events gs://safe/events --check --level data
    """
    from deltacli.cli.render.copying import copy_result
    from deltacli.operations.copy.execute import Copy, CopyResult, check_copy

    opened, target = run.open_table(src), run.open_other(dst, writes=not (dry_run or request.check))
    if request.check:
        checked = check_copy(opened, target, request)
        run.write(copy_result(checked))
        if checked.differences:
            raise Exit(EXIT_FINDINGS)
        return
    wording: Wording[CopyPlan, CopyResult] = Wording(
        question=None,
        planned=lambda plan, is_plan: copy_result(CopyResult(plan, dry_run=is_plan)),
        done=copy_result,
        following=lambda _: f"deltacli validate {quoted_table(dst)} --level storage",
        repeats=True,
    )
    run_change(run, opened, Copy(target, request), wording, Mode(dry_run))
