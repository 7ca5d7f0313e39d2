"""`deltacli fleet init` and `deltacli fleet check`, which write and check a policy file."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.fleet import FleetFileArgument, fleet_command
from deltacli.cli.render.fleet.check import policy_check_result
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.init_results import CreatedFile, make_fleet_init_result
from deltacli.cli.running.new_file import EditorSchema, NewFile
from deltacli.cli.running.row_notes import choose_row_limit
from deltacli.cli.running.table_discovery import find_tables_below
from deltacli.core.errors import EXIT_FINDINGS, PartlyDone

app = typer.Typer(add_completion=False)


@app.command(
    "init",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        unreadable=True,
        refused="the file exists; --force replaces it",
        partly="the file is written; a directory could not be read",
        storage=True,
    ),
)
def fleet_init(
    context: typer.Context,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Directory or URI with the tables.")],
    file: FleetFileArgument = "fleet.toml",
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing policy file.")] = False,
) -> None:
    """Write a policy file for the tables at and below a directory.

    \b
    The policy writes checkpoints and validates. The steps that delete files, and the
    thresholds of alerts, are there as comments. Editors check the keys by the
    schema that is written beside it. An existing file is refused (exit 4)
    without --force. Directories that cannot be searched are reported, and the exit
    code is 5; the file is written all the same.

    \b
    Examples:
      deltacli fleet init ./lake
      deltacli fleet init s3://lake/silver silver.toml
    """
    from deltacli.fleet.policy_file.file_schema import make_fleet_file_schema
    from deltacli.fleet.policy_file.starting_policy import make_starting_policy

    run: CommandContext = context.obj
    new_file = NewFile(file, "FILE", force=force, error_code="fleet.exists")
    new_file.require_writable()
    discovery = find_tables_below(run, directory)
    tables = [table.name for table in discovery.tables]

    schema = EditorSchema(file, make_fleet_file_schema())
    policy = make_starting_policy(directory, file, tables, schema.name_for_comment)
    new_file.write(policy.encode())
    schema_path = schema.write(run)

    created_file = CreatedFile(file, schema_path, len(discovery.others), discovery.failures)
    result = make_fleet_init_result(created_file, directory, tables, discovery.others)
    result.most = choose_row_limit(run, None)
    run.write(result)
    run.suggest_command(fleet_command("plan", file), also_in_pipe=True)
    if discovery.failures:
        raise Exit(PartlyDone.exit_code)


@app.command("check", cls=SharedOptionsCommand, epilog=exit_codes(findings="the policy file has errors"))
def fleet_check(
    context: typer.Context,
    file: FleetFileArgument = "fleet.toml",
) -> None:
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
    from deltacli.fleet.policy_file.checking import check_fleet_file

    run: CommandContext = context.obj
    policy_check = check_fleet_file(file)
    run.write(policy_check_result(policy_check))
    if policy_check.errors:
        raise Exit(EXIT_FINDINGS)
