"""`deltacli spark package`."""

from __future__ import annotations

import os
import shlex
from typing import Annotated

import typer

from deltacli.cli.command_classes import TextCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command("package", cls=TextCommand, epilog=exit_codes())
def spark_package(
    context: typer.Context,
    *,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Existing directory that gets the archive.")],
) -> None:
    """Write the archive that executors import deltacli from, and print its path.

    \b
    A run with --engine spark sends the archive itself. Use this command where a
    cluster takes Python files only when a driver is submitted. The name contains
    a hash of the content; the same version always gives the same file. Executors
    need pyarrow besides, botocore for s3://, google-auth[requests] for gs://,
    azure-identity for abfss://, or fsspec for other stores.

    \b
    Examples:
      deltacli spark package --to .
      spark-submit --py-files "$(deltacli spark package --to .)" job.py
    """
    from deltacli.engine.spark.package_archive import write_package

    run: CommandContext = context.obj
    try:
        path = write_package(to)
    except OSError as error:
        raise UsageError(
            f"--to {to} cannot be written: {(error.strerror or '').lower()}", hint=f"mkdir -p {shlex.quote(to)}"
        ) from error
    with run.open_result() as sink:
        sink.write(os.fsencode(path) + b"\n")
