"""`deltacli share init`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options.run import Run
from deltacli.cli.options.sharing import SHARES, ConfigurationOption
from deltacli.cli.options.starting_file import find_tables, require_new, whole, write_new
from deltacli.cli.terminal.shell import quoted
from deltacli.errors import PartlyDone

EXIT_CODES = (0, 2, 3, 4, 5, 7, 70)
_EXISTS = "share.target-exists"


def init(
    run: Run,
    directories: Annotated[
        list[str], typer.Argument(metavar="DIRECTORY...", help="Tables, or directories of tables: paths or URIs.")
    ],
    config: ConfigurationOption = SHARES,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing configuration.")] = False,
) -> None:
    """Write the configuration of a server that shares the tables at and below directories.

    \b
    The file has comments. Each directory becomes a share, each directory of tables
    in it a schema. The newest version of the tables is shared, with recipients
    only. An existing file is refused (exit 4) without --force. Directories that
    cannot be searched are reported, and the exit code is 5; the file is written
    all the same.

    \b
    Examples:
      deltacli share init ./lake
      deltacli share init s3://lake/silver -c silver.yaml
    """
    from deltacli.cli.options.rows import settle_limit
    from deltacli.cli.render.starting_files import configuration_result
    from deltacli.sharing.configuration.starting import named_tables, starting_configuration

    require_new(config, "--config", force=force, code=_EXISTS)
    found = {directory: find_tables(run, directory) for directory in dict.fromkeys(directories)}
    tables = named_tables([(whole(name), [table.name for table in one.tables]) for name, one in found.items()])
    write_new(config, starting_configuration(config, tables).encode(), force=force, code=_EXISTS)
    failures = [failure for one in found.values() for failure in one.failures]
    result = configuration_result(config, tables, sum(len(one.others) for one in found.values()), failures)
    result.most = settle_limit(run, None)
    run.write(result)
    run.say_next(f"deltacli share recipient add NAME --grant {quoted(tables[0].share)}", also_in_pipe=True)
    if failures:
        raise typer.Exit(PartlyDone.exit_code)
