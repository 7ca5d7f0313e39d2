"""`deltacli share serve`."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import TextCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.share import SHARES
from deltacli.cli.options.values import parse_whole_number
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import note_staged_commits
from deltacli.cli.terminal.signals import Interrupted
from deltacli.core.errors import DeltacliError, UsageError, quote_word, suggest_parameters
from deltacli.core.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deltacli.sharing.configuration.settings import Configuration
    from deltacli.sharing.model import Catalog, SharedTable
    from deltacli.sharing.server.services import Overrides
    from deltacli.sharing.server.serving import MakeService, Sockets

app = typer.Typer(add_completion=False)

_LOOPBACK = "127.0.0.1"
_MAX_NOTED_TABLES = 10
_MAX_PORT = 65_535


@app.command("serve", cls=TextCommand, epilog=exit_codes(unreadable=True, storage=True))
def share_serve(
    context: typer.Context,
    directories: Annotated[
        list[str] | None,
        typer.Argument(metavar="DIRECTORY...", help="Local tables, or directories of tables, to try it out."),
    ] = None,
    *,
    config: Annotated[
        str | None, typer.Option("-c", "--config", metavar="FILE", help="Configuration; shares.yaml by default.")
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="Address to listen on.  [default: that of FILE]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            parser=parse_whole_number,
            help="Port to listen on; 0: any free one.  [default: that of FILE, with DIRECTORY 0]",
        ),
    ] = None,
    admin_port: Annotated[
        int | None,
        typer.Option(
            "--admin-port", metavar="N", parser=parse_whole_number, help="Port of /metrics, /healthz, /readyz."
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            metavar="N",
            parser=parse_whole_number,
            help="Number of processes that answer requests.  [default: 1]",
        ),
    ] = 1,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="Accept plain HTTP from a reverse proxy, which has the certificate.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="FILE",
            help="With DIRECTORY: write the profile there, readable by you only, instead of stdout.",
        ),
    ] = None,
) -> None:
    """Serve tables to Delta Sharing clients.

    \b
    Serves what a configuration shares, to the recipients that it knows. The
    configuration file of the reference server is read as it is. A change of the
    configuration or of the recipients takes effect within a second, and on SIGHUP;
    a bad file is reported, and the old one stays in use. Off loopback, the server
    refuses to start without authentication, and without TLS here or in a proxy.

    \b
    With DIRECTORY it serves local tables on this machine only, with a token that
    is valid until the server stops, and prints the profile that clients need. A
    table is local.default.NAME, those in another directory local.DIRECTORY.NAME.
    Clients see the whole history.

    \b
    Nothing is written to tables. Ctrl-C finishes running answers and stops.

    \b
    Examples:
      deltacli share serve ./tbl
      deltacli share serve ./warehouse --port 8080 --profile my.share
      deltacli share serve --config shares.yaml --workers 4 --admin-port 9090
    """
    from deltacli.sharing.server.serving import require_server

    run: CommandContext = context.obj
    require_server()
    for option, number in (("--port", port), ("--admin-port", admin_port)):
        if number is not None and not 0 <= number <= _MAX_PORT:
            raise UsageError(
                f"{option} {number} is not a port (expected: 0 to {_MAX_PORT})",
                hint=suggest_parameters(f"{option} 8080"),
            )
    if workers < 1:
        raise UsageError(f"--workers {workers} is less than 1", hint=suggest_parameters("--workers 1"))

    if directories:
        configuration_options = {
            "--config": config is not None,
            "--host": host is not None,
            "--admin-port": admin_port is not None,
            "--behind-proxy": behind_proxy,
        }
        _refuse_configuration_options(configuration_options)
        _serve_directories(run, directories, port or 0, workers, profile)
        return
    if profile is not None:
        raise UsageError("--profile requires DIRECTORY", hint="deltacli share token create RECIPIENT --profile FILE")
    from deltacli.sharing.server.services import Overrides

    _serve_configuration(run, config or SHARES, Overrides(host, port, admin_port, behind_proxy), workers)


def _refuse_configuration_options(options: Mapping[str, bool]) -> None:
    """Refuse options about the configuration, if directories are shared without one.

    Args:
        options: The options, and whether the user has passed each of them.

    Raises:
        UsageError: If the user has passed one.
    """
    for option, is_passed in options.items():
        if is_passed:
            raise UsageError(
                f"{option} cannot be combined with DIRECTORY, which is shared on this machine only",
                hint="deltacli share serve --config shares.yaml",
            )


def _serve_directories(
    run: CommandContext, directories: list[str], port: int, workers: int, profile: str | None
) -> None:
    """Serve local tables on the loopback interface, with one token that is valid until the server stops.

    Args:
        run: The run of the command.
        directories: Tables and directories of tables.
        port: The port. 0: any free port.
        workers: The number of processes.
        profile: The file that gets the profile. None: stdout.
    """
    from deltacli.sharing.configuration.starting import make_catalog_of_directories
    from deltacli.sharing.server.services import TryOut
    from deltacli.sharing.server.serving import Sockets, address_of, bind
    from deltacli.sharing.signing.keys import ServerKeys

    catalog = make_catalog_of_directories(directories)
    with bind(_LOOPBACK, port) as socket:
        token = secrets.token_urlsafe(32)
        service = TryOut(catalog, *address_of(socket), token, ServerKeys.generate(run.clock()))
        _write_profile(run, service.endpoint, token, profile)
        _note_shared_tables(run, catalog, service.endpoint, token, profile)
        _serve(service, lambda: service, Sockets(socket), workers, run)


def _serve_configuration(run: CommandContext, config: str, overrides: Overrides, workers: int) -> None:
    """Serve the tables of a configuration.

    Args:
        run: The run of the command.
        config: The path of the configuration.
        overrides: The options that override settings of the configuration.
        workers: The number of processes.
    """
    from deltacli.sharing.configuration.recipients import read_recipients
    from deltacli.sharing.server.services import Configured, Inheritance, open_sockets
    from deltacli.sharing.server.serving import address_of
    from deltacli.sharing.signing.keys import ServerKeys

    path = Path(config)
    configuration = overrides.read(path)
    if configuration.recipients_file is not None:
        # Report errors in the file of recipients before the server announces its address.
        read_recipients(configuration.recipients_file)

    sockets = open_sockets(configuration)
    try:
        # If the configured port is 0, all workers use the port that was found for the first one.
        overrides = replace(overrides, port=address_of(sockets.main)[1])
        service = Configured(path, overrides, ServerKeys.generate(run.clock()))
        inheritance = Inheritance(service) if workers > 1 else None
        if inheritance is not None:
            inheritance.watch()
        _announce(run, overrides.apply(configuration), sockets, workers)
        _serve(service, inheritance.service if inheritance else lambda: service, sockets, workers, run)
    finally:
        sockets.close()


def _serve(
    service: MakeService,
    get_worker_service: Callable[[], MakeService],
    sockets: Sockets,
    workers: int,
    run: CommandContext,
) -> None:
    """Answer requests until a signal.

    Args:
        service: Makes the service of a single process.
        get_worker_service: Returns what makes the service of the next worker, if there are several processes.
        sockets: The sockets to listen on.
        workers: The number of processes.
        run: The run of the command.

    Raises:
        Interrupted: When the server has stopped after a signal.
    """
    from deltacli.sharing.server.serving import LogChoice, serve, serve_by_workers

    level = logging.INFO
    if run.quiet:
        level = logging.ERROR
    elif run.verbosity:
        level = logging.DEBUG
    log = LogChoice(run.notes.as_json, level)
    try:
        if workers == 1:
            serve(service, sockets, log)
        else:
            serve_by_workers(get_worker_service, sockets, workers, log)
    except Interrupted as interruption:
        interruption.outcome = "the server has stopped"
        raise


def _announce(run: CommandContext, configuration: Configuration, sockets: Sockets, workers: int) -> None:
    """Note the number of shared tables and the addresses of the server."""
    from deltacli.sharing.server.serving import address_of

    for note in configuration.notes:
        run.note(f"note: {note}")

    host, port = address_of(sockets.main)
    shares = configuration.catalog.shares
    tables = sum(len(schema.tables) for share in shares for schema in share.schemas)
    processes = f", {workers} processes" if workers > 1 else ""
    run.note(
        f"serving {plural(len(shares), 'share')}, {plural(tables, 'table')} at {configuration.settings.base_url}, "
        f"on {host}:{port}{processes} (Ctrl-C stops)"
    )
    if sockets.admin is not None:
        admin_host, admin_port = address_of(sockets.admin)
        run.note(f"metrics at http://{admin_host}:{admin_port}/metrics")
    run.suggest_command(f"deltacli share check --config {shlex.quote(str(configuration.path))}", also_in_pipe=True)


def _write_profile(run: CommandContext, endpoint: str, token: str, path: str | None) -> None:
    """Write the profile for clients to a file that only the user can read, or to stdout.

    Raises:
        UsageError: If the file cannot be written.
    """
    profile = {"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": token}
    content = json.dumps(profile).encode() + b"\n"
    if path is None:
        with run.open_result() as sink:
            sink.write(content)
        return

    # A link could lead to a file of somebody else, who would get the token.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags, 0o600)
        with open(descriptor, "wb") as file:
            # The mode above only applies to a new file.
            os.fchmod(descriptor, 0o600)
            file.write(content)
    except OSError as error:
        raise UsageError(
            f"--profile {path} cannot be written: {(error.strerror or '').lower()}",
            hint=f"ls -ld {shlex.quote(os.path.dirname(os.path.abspath(path)))}",
        ) from error


def _note_shared_tables(run: CommandContext, catalog: Catalog, endpoint: str, token: str, profile: str | None) -> None:
    """Note the names and locations of the first shared tables, and a command that reads one of them."""
    tables = [table for share in catalog.shares for schema in share.schemas for table in schema.tables]
    noted_tables = tables[:_MAX_NOTED_TABLES]
    run.note(f"sharing {plural(len(tables), 'table')} at {endpoint} (Ctrl-C stops)")
    width = max(len(table.full_name) for table in noted_tables)
    for table in noted_tables:
        run.note(f"  {table.full_name:{width}}  {table.location}")
    if len(tables) > _MAX_NOTED_TABLES:
        run.note(f"  and {len(tables) - _MAX_NOTED_TABLES} more")

    # Each table takes a request, so only the first tables are examined. `share check` examines all of them.
    for table in noted_tables:
        with suppress(DeltacliError):
            note_staged_commits(run, run.open_table(table.location), table.full_name)
    run.suggest_command(_make_client_command(tables[0], endpoint, token, profile), also_in_pipe=True)


def _make_client_command(table: SharedTable, endpoint: str, token: str, profile: str | None) -> str:
    if profile is None:
        return f"curl -H 'Authorization: Bearer {token}' {endpoint}/shares/{table.share}/all-tables"
    address = f"{os.path.abspath(profile)}#{table.full_name}"
    return f"deltacli share head {quote_word(address)}"
