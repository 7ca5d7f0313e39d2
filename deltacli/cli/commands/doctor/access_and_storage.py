"""`deltacli doctor access TABLE` and `deltacli doctor storage TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.api.stores import StoreProbes, examine_access
from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.options.tables import DryRunOption, TableArgument, YesOption
from deltacli.cli.running.consent import confirm_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.terminal.suggested_commands import repeat_command_with, repeat_command_without_flag
from deltacli.core.errors import (
    EXIT_FINDINGS,
    fill_table,
    quote_table,
)
from deltacli.table.handle import managed_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltacli.operations.doctor.advice import StoreFinding
    from deltacli.operations.doctor.storage import StorageReport

app = typer.Typer(add_completion=False)


@app.command(
    "access",
    cls=SharedOptionsCommand,
    epilog=exit_codes(findings="a permission is missing", unreadable=True, storage=True),
)
def doctor_access(
    context: typer.Context,
    table: TableArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Also create, replace and delete a scratch file.")] = False,
) -> None:
    """Show the identity that a store sees, and the permissions that are missing.

    \b
    Names the identity and the source of its credentials, without secrets, and for
    each command whether it has the permissions that it needs. Lists and reads
    files of the table; writes nothing without --yes. Whether writing is allowed is
    known without a write for local directories, for Google Cloud Storage, and for
    keys and signatures of Azure. For others it is shown as unknown.
    --yes creates, replaces and deletes a scratch file _deltacli-doctor-… in the
    table directory to find out. Exits with 1 if a permission is missing.

    \b
    Examples:
      deltacli doctor access s3://bucket/tbl
      deltacli doctor access gs://bucket/tbl --json
      deltacli doctor access ./tbl --yes
    """
    from deltacli.cli.render.doctor import access_result

    run: CommandContext = context.obj
    storage = run.open_other(table)
    is_managed = managed_store(storage) is not None
    if is_managed and yes:
        run.note("note: no scratch file was written: the catalog of the table permits only commits")

    report = examine_access(storage, writes=yes)
    report.findings[:] = _fill_in_table(report.findings, table)
    run.write(access_result(report))

    has_unknown_permits = any(permit.state == "unknown" for permit in report.permits.values())
    if has_unknown_permits and not (yes or is_managed):
        # With --yes a scratch file shows whether writing is permitted.
        run.suggest_command(repeat_command_with(invocation.arguments, "--yes"))
    elif not (report.has_failed or is_managed):
        run.suggest_command(f"deltacli doctor storage {quote_table(table)}")
    elif report.findings:
        run.suggest_command(f"deltacli help {report.findings[0].code}")
    if report.has_failed:
        raise Exit(EXIT_FINDINGS)


@app.command(
    "storage",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        findings="the store does not guarantee what deltacli relies on", unreadable=True, refused=True, storage=True
    ),
)
def doctor_storage(
    context: typer.Context,
    table: TableArgument,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
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
    run: CommandContext = context.obj
    storage = run.open_other(table, writes=not dry_run)
    probes = StoreProbes(storage, name=table)
    plan = probes.plan()
    if dry_run:
        _write_report(run, plan)
        run.suggest_command(repeat_command_without_flag(invocation.arguments, "--dry-run"))
        return

    question = f"write and delete about 20 scratch files in {storage.uri}"
    confirm_change(run, question, lambda: _write_report(run, plan), yes=yes)
    report = probes.run(clock=run.clock, progress=run.progress)
    report.findings[:] = _fill_in_table(report.findings, table)
    _write_report(run, report)
    if report.has_failed:
        raise Exit(EXIT_FINDINGS)
    run.suggest_command(f"deltacli doctor access {quote_table(table)}")


def _fill_in_table(findings: Sequence[StoreFinding], table: str) -> list[StoreFinding]:
    """Return findings with the table, as the user typed it, in their suggested commands."""
    return [finding._replace(next=fill_table(finding.next, table)) for finding in findings]


def _write_report(run: CommandContext, report: StorageReport) -> None:
    from deltacli.cli.render.doctor import storage_result

    run.write(storage_result(report))
