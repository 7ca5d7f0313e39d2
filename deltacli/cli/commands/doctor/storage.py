"""`deltacli doctor storage TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import DryRunOption, TableArgument, YesOption
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.shell import again_without, quoted_table
from deltacli.errors import EXIT_FINDINGS

if TYPE_CHECKING:
    from deltacli.operations.doctor.storage import StorageReport

EXIT_CODES = (0, 1, 2, 3, 4, 7, 70)


def storage(run: Run, table: TableArgument, dry_run: DryRunOption = False, yes: YesOption = False) -> None:
    """Probe what the store of a table guarantees, on scratch files.

    \b
    Tests conditional creation, alone and by several writers at once, conditional
    replacement, the order and the consistency of listings, reads of ranges,
    deletion, and the clock of the store. About 20 small files are written in the
    table directory, named _deltacli-doctor-…, which no engine reads and no vacuum
    deletes, and deleted at the end. The log is not touched. Exits with 1 if the
    store does not guarantee what deltacli relies on. A conditional replacement is
    reported, but not needed.

    \b
    Examples:
      deltacli doctor storage s3://bucket/tbl --dry-run  # list the probes
      deltacli doctor storage s3://bucket/tbl --yes
      deltacli doctor storage ./tbl --yes --json
    """
    from deltacli.operations.doctor.storage import plan_probes, probe_storage, require_directory
    from deltacli.storage.probing.opening import subject_of

    opened = run.open_other(table, writes=not dry_run)
    require_directory(opened)
    subject = subject_of(opened)
    if subject is None:
        from deltacli.storage.base import no_atomic_create

        raise no_atomic_create(opened.uri, "this store is not known to create files atomically")
    plan = plan_probes(opened.uri, subject)
    if dry_run:
        _show(run, plan)
        run.say_next(again_without(invocation.arguments, "--dry-run"))
        return
    what = f"write and delete about 20 scratch files in {opened.uri}"
    require_confirmation(run, what, yes=yes, show_plan=lambda: _show(run, plan))
    report = probe_storage(opened.uri, subject, run.clock, run.progress)
    _show(run, report)
    if report.has_failed:
        raise typer.Exit(EXIT_FINDINGS)
    run.say_next(f"deltacli doctor access {quoted_table(table)}")


def _show(run: Run, report: StorageReport) -> None:
    from deltacli.cli.render.doctor import storage_result

    run.write(storage_result(report))
