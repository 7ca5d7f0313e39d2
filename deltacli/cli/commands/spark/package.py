"""`deltacli spark package`."""

from __future__ import annotations

import os
import shlex
from typing import Annotated

from deltacli.cli.output.formats import TableFormat
from deltacli.cli.running.run import Run
from deltacli.core.errors import UsageError
from deltacli.core.request_fields import Option

EXIT_CODES = (0, 2, 70)
FORMATS = TableFormat


def spark_package(run: Run, to: Annotated[str, Option("Existing directory that gets the archive.", "DIR")]) -> None:
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
    from deltacli.engine.spark.cluster import write_package

    try:
        path = write_package(to)
    except OSError as fault:
        raise UsageError(
            f"--to {to} cannot be written: {(fault.strerror or '').lower()}", hint=f"mkdir -p {shlex.quote(to)}"
        ) from fault
    with run.sink() as sink:
        sink.write(os.fsencode(path) + b"\n")
