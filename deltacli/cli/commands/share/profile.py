"""`deltacli share profile show|check`, `deltacli share ls` and `deltacli share schema`."""

from __future__ import annotations

from pathlib import Path

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.moments import parse_timestamp_option
from deltacli.cli.options.share import ProfileArgument, SharedTableArgument, SharesArgument
from deltacli.cli.options.tables import TimestampOption, VersionOption
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.shared_tables import open_profile_transport, open_shared_table
from deltacli.core.errors import EXIT_FINDINGS, quote_word

app = typer.Typer(add_completion=False)


@app.command("show", cls=SharedOptionsCommand, epilog=exit_codes(storage=True))
def share_profile_show(
    context: typer.Context,
    profile: ProfileArgument,
) -> None:
    """Show the endpoint and the expiry of a profile file, and never its secrets.

    \b
    Examples:
      deltacli share profile show acme.share
      deltacli share profile show acme.share --json
    """
    from deltacli.cli.render.sharing import profile_result
    from deltacli.sharing.configuration.secrets import find_profile_problems, read_profile

    run: CommandContext = context.obj
    credentials = read_profile(Path(profile))
    problems = find_profile_problems(credentials, run.clock())
    run.write(profile_result(credentials, problems, run.clock()))


@app.command("check", cls=SharedOptionsCommand, epilog=exit_codes(findings="the profile has a problem", storage=True))
def share_profile_check(
    context: typer.Context,
    profile: ProfileArgument,
) -> None:
    """Check a profile file: form, checksum of the token, expiry, permissions.

    \b
    Does not connect to the server. Exits with 1 if a problem is found, also if the
    token expires within 7 days.

    \b
    Examples:
      deltacli share profile check acme.share
      deltacli share profile check acme.share -q || echo "ask for a new profile"
    """
    from deltacli.cli.render.sharing import profile_result
    from deltacli.sharing.configuration.secrets import find_profile_problems, read_profile

    run: CommandContext = context.obj
    credentials = read_profile(Path(profile))
    problems = find_profile_problems(credentials, run.clock())
    run.write(profile_result(credentials, problems, run.clock()))
    if problems:
        raise Exit(EXIT_FINDINGS)


@app.command("ls", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, storage=True))
def share_ls(
    context: typer.Context,
    shares: SharesArgument,
) -> None:
    """List the shares, schemas and tables that a profile gives access to.

    \b
    Examples:
      deltacli share ls acme.share
      deltacli share ls acme.share#sales
      deltacli share ls acme.share#sales.main --format csv
    """
    from deltacli.cli.render.sharing import listing_result
    from deltacli.sharing.client.addresses import split_profile
    from deltacli.sharing.client.table_requests import list_entries

    run: CommandContext = context.obj
    profile, names = split_profile(shares)
    entries = list_entries(open_profile_transport(run, profile), names)
    run.write(listing_result(profile, entries))
    readable_tables = [entry for entry in entries if entry.is_readable]
    if readable_tables:
        address = f"{profile}#{readable_tables[0].full_name}"
        run.suggest_command(f"deltacli share head {quote_word(address)}")


@app.command("schema", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, storage=True))
def share_schema(
    context: typer.Context,
    table: SharedTableArgument,
    *,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
) -> None:
    """Show the schema of a shared table, as a tree.

    \b
    Asks for the metadata only, not for the list of files. The output is that of
    deltacli snapshot --schema.

    \b
    Examples:
      deltacli share schema acme.share#sales.main.orders
      deltacli share schema acme.share#sales.main.orders --json
    """
    from deltacli.cli.render.schemas.tree import SchemaResult
    from deltacli.sharing.client.share_storage import ShareStorage

    run: CommandContext = context.obj
    at_ms = parse_timestamp_option(version, timestamp)
    share = open_shared_table(run, table)
    # `share schema` opens tables for their metadata only, never in the directory of the table.
    assert isinstance(share, ShareStorage)
    metadata_store = share.without_files(version=version, at_ms=at_ms)
    run.write(SchemaResult(run.make_table(metadata_store).snapshot()))
