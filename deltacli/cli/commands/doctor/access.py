"""`deltacli doctor access TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import TableArgument
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.shell import again_with, quoted_table
from deltacli.errors import EXIT_FINDINGS, CredentialsMissing

if TYPE_CHECKING:
    from deltacli.operations.doctor.access import AccessReport

EXIT_CODES = (0, 1, 2, 3, 7, 70)


def access(
    run: Run,
    table: TableArgument,
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

    report = _check(run, table, yes=yes)
    run.write(access_result(report))
    if not yes and any(permit.state == "unknown" for permit in report.permits.values()):
        run.say_next(again_with(invocation.arguments, "--yes"))
    elif not report.has_failed:
        run.say_next(f"deltacli doctor storage {quoted_table(table)}")
    elif report.findings:
        run.say_next(f"deltacli help {report.findings[0].code}")
    if report.has_failed:
        raise typer.Exit(EXIT_FINDINGS)


def _check(run: Run, table: str, *, yes: bool) -> AccessReport:
    """Return what is known about the access to a table; a store without credentials is a report as well."""
    from deltacli.operations.doctor.access import AccessReport, check_access, without_credentials
    from deltacli.storage.probing.opening import subject_of

    storage = run.open_other(table)
    try:
        return check_access(storage, subject_of(storage), writes=yes)
    except CredentialsMissing as fault:
        return without_credentials(AccessReport(storage.uri, storage.uri.partition("://")[0]), fault)
