"""`deltacli share check`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from deltacli.cli.options.run import Run
from deltacli.cli.options.sharing import SHARES, ConfigurationOption, read_shares
from deltacli.errors import EXIT_FINDINGS

EXIT_CODES = (0, 1, 2, 7, 70)


class CheckLevel(StrEnum):
    LOG = "log"
    STORAGE = "storage"


LevelOption = Annotated[
    CheckLevel,
    typer.Option(
        "--level",
        metavar="log|storage",
        help="What to check: the logs; also whether the files of the newest version exist.",
    ),
]


def check(run: Run, config: ConfigurationOption = SHARES, level: LevelOption = CheckLevel.STORAGE) -> None:
    """Check a sharing configuration by opening every shared table.

    \b
    Reports locations that cannot be read, files that are missing, links, or of
    another size than in the log, versions that startVersion and historyShared
    promise and the log no longer has, the features of each table, and which
    clients can read it: python (delta-sharing 1.4), spark, duckdb, node and
    power-bi. Also reports grants of what is not shared, recipients without a valid
    token, and settings that the server does not start with. Files are not opened,
    and --level log leaves them out. Exits with 1 if recipients cannot read
    something that is shared; warnings do not count.

    \b
    Examples:
      deltacli share check
      deltacli share check --config shares.yaml --json
      deltacli share check --level log
      deltacli share check -c shares.yaml --format csv --output tables.csv
    """
    from deltacli.cli.render.sharing import check_result
    from deltacli.sharing.configuration.recipients import read_recipients
    from deltacli.sharing.configuration.share_check import check_configuration

    configuration = read_shares(config, lists_wildcards=True)
    file = configuration.recipients_file
    recipients = read_recipients(file) if file is not None and file.exists() else None
    has_files = level is CheckLevel.STORAGE
    report = check_configuration(configuration, recipients, run.clock(), has_files=has_files, progress=run.progress)
    run.write(check_result(report))
    problems = sorted(report.all_problems, key=lambda problem: not problem.is_error)
    run.say_next(f"deltacli help {problems[0].code}" if problems else "deltacli share serve")
    if report.has_errors:
        raise typer.Exit(EXIT_FINDINGS)
