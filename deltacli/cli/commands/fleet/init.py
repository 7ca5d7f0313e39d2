"""`deltacli fleet init`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options.fleet import FLEET_FILE, FleetFileArgument, fleet_command
from deltacli.cli.options.run import Run
from deltacli.cli.options.starting_file import find_tables, require_new, write_new
from deltacli.errors import PartlyDone

EXIT_CODES = (0, 2, 3, 4, 5, 7, 70)
_EXISTS = "fleet.exists"


def init(
    run: Run,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Directory or URI with the tables.")],
    file: FleetFileArgument = FLEET_FILE,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing policy file.")] = False,
) -> None:
    """Write a policy file for the tables at and below a directory.

    \b
    The file has comments. Its policy writes checkpoints, validates, and sets
    thresholds. The steps that delete files are there as comments. An existing file
    is refused (exit 4) without --force. Directories that cannot be searched are
    reported, and the exit code is 5; the file is written all the same.

    \b
    Examples:
      deltacli fleet init ./lake
      deltacli fleet init s3://lake/silver silver.toml
    """
    from deltacli.cli.options.rows import settle_limit
    from deltacli.cli.render.starting_files import policy_result
    from deltacli.fleet.policy_file.starting import starting_policy

    require_new(file, "FILE", force=force, code=_EXISTS)
    found = find_tables(run, directory)
    names = [table.name for table in found.tables]
    write_new(file, starting_policy(directory, file, names).encode(), force=force, code=_EXISTS)
    result = policy_result(file, directory, names, found.others, found.failures)
    result.most = settle_limit(run, None)
    run.write(result)
    run.say_next(fleet_command("plan", file), also_in_pipe=True)
    if found.failures:
        raise typer.Exit(PartlyDone.exit_code)
