"""`deltacli share profile show|check`, and what a profile gives access to: `share ls` and `share schema`."""

from __future__ import annotations

from pathlib import Path

from deltacli.cli.invocation import Exit
from deltacli.cli.options.declared import ProfileArgument, TimestampOption, VersionOption, parse_moment_of
from deltacli.cli.running.run import Run
from deltacli.cli.running.shared_tables import SharedTableArgument, SharesArgument, open_shared, open_shares
from deltacli.core.errors import EXIT_FINDINGS, quote_word

EXIT_CODES = {"check": (0, 1, 2, 7, 70), "ls": (0, 2, 3, 7, 70), "schema": (0, 2, 3, 7, 70), "show": (0, 1, 2, 7, 70)}


def share_profile_show(run: Run, profile: ProfileArgument) -> None:
    """Show the endpoint and the expiry of a profile file, and never its secrets.

    \b
    Examples:
      deltacli share profile show acme.share
      deltacli share profile show acme.share --json
    """
    from deltacli.cli.render.sharing import profile_result
    from deltacli.sharing.configuration.secrets import problems_of, read_profile

    found = read_profile(Path(profile))
    run.write(profile_result(found, problems_of(found, run.clock()), run.clock()))


def share_profile_check(run: Run, profile: ProfileArgument) -> None:
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
    from deltacli.sharing.configuration.secrets import problems_of, read_profile

    found = read_profile(Path(profile))
    problems = problems_of(found, run.clock())
    run.write(profile_result(found, problems, run.clock()))
    if problems:
        raise Exit(EXIT_FINDINGS)


# -- what a profile gives access to ------------------------------------------------------------------------------------


def share_ls(run: Run, shares: SharesArgument) -> None:
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

    profile, names = split_profile(shares)
    entries = list_entries(open_shares(run, profile), names)
    run.write(listing_result(profile, entries))
    table = next((entry for entry in entries if entry.is_readable), None)
    if table is not None:
        run.say_next(f"deltacli share head {quote_word(f'{profile}#{table.full_name}')}")


def share_schema(
    run: Run, table: SharedTableArgument, version: VersionOption = None, timestamp: TimestampOption = None
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

    at_ms = parse_moment_of(version, timestamp)
    shared = open_shared(run, table)
    assert isinstance(shared, ShareStorage)
    store = shared.without_files(version=version, at_ms=at_ms)
    run.write(SchemaResult(run.table_of(store).snapshot()))
