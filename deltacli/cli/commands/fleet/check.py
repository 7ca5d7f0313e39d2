"""`deltacli fleet check`."""

from __future__ import annotations

import typer

from deltacli.cli.options.fleet import FLEET_FILE, FleetFileArgument
from deltacli.cli.options.run import Run
from deltacli.errors import EXIT_FINDINGS

EXIT_CODES = (0, 1, 2, 70)


def check(run: Run, file: FleetFileArgument = FLEET_FILE) -> None:
    """Check a policy file, without opening any table.

    \b
    Reports every problem with its line: text that is not TOML, unknown keys with
    the nearest known one, invalid values, policies that are not defined or inherit
    in a circle, groups without tables. Warns about what is valid and has no effect:
    a retention without its override, a group whose tables all belong to groups
    above it, paths of this machine that do not exist. Shows the steps of each
    group, with all inherited keys. Exits with 1 if the file has errors; warnings do
    not count.

    \b
    Examples:
      deltacli fleet check
      deltacli fleet check fleet.toml --json
    """
    from deltacli.cli.render.fleet.check import check_result
    from deltacli.fleet.policy_file.checking import check_fleet_file

    found = check_fleet_file(file)
    run.write(check_result(found))
    if found.errors:
        raise typer.Exit(EXIT_FINDINGS)
