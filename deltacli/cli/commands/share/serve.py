"""`deltacli share serve`."""

from __future__ import annotations

import json
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
    from collections.abc import Callable

    from deltacli.sharing.configuration.settings import Configuration
    from deltacli.sharing.model import Catalog, SharedTable
    from deltacli.sharing.server.services import Overrides
    from deltacli.sharing.server.serving import MakeService, Sockets

app = typer.Typer(add_completion=False)

_LOOPBACK = "127.0.0.1"
_MOST_NAMED = 10


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
    for name, number in (("--port", port), ("--admin-port", admin_port)):
        if number is not None and not 0 <= number <= 65_535:
            raise UsageError(
                f"{name} {number} is not a port (expected: 0 to 65535)", hint=suggest_parameters(f"{name} 8080")
            )
    if workers < 1:
        raise UsageError(f"--workers {workers} is less than 1", hint=suggest_parameters("--workers 1"))
    if directories:
        _refuse_with_directories(config, host, admin_port, behind_proxy)
        _try_out(run, directories, port or 0, workers, profile)
        return
    if profile is not None:
        raise UsageError("--profile requires DIRECTORY", hint="deltacli share token create RECIPIENT --profile FILE")
    from deltacli.sharing.server.services import Overrides

    _serve_configuration(run, config or SHARES, Overrides(host, port, admin_port, behind_proxy), workers)


def _refuse_with_directories(config: str | None, host: str | None, admin_port: int | None, behind_proxy: bool) -> None:
    given = {
        "--config": config is not None,
        "--host": host is not None,
        "--admin-port": admin_port is not None,
        "--behind-proxy": behind_proxy,
    }
    for name, is_given in given.items():
        if is_given:
            raise UsageError(
                f"{name} cannot be combined with DIRECTORY, which is shared on this machine only",
                hint="deltacli share serve --config shares.yaml",
            )


def _try_out(run: CommandContext, directories: list[str], port: int, workers: int, profile: str | None) -> None:
    """Serve local tables on loopback, with one token."""
    from deltacli.sharing.configuration.starting import catalog_of
    from deltacli.sharing.server.services import TryOut
    from deltacli.sharing.server.serving import Sockets, address_of, bind
    from deltacli.sharing.signing.keys import ServerKeys

    catalog = catalog_of(directories)
    with bind(_LOOPBACK, port) as bound:
        token = secrets.token_urlsafe(32)
        make = TryOut(catalog, *address_of(bound), token, ServerKeys.generate(run.clock()))
        _hand_out(run, make.endpoint, token, profile)
        _introduce(run, catalog, make.endpoint, token, profile)
        _serve(make, lambda: make, Sockets(bound), workers, run)


def _serve_configuration(run: CommandContext, config: str, overrides: Overrides, workers: int) -> None:
    from deltacli.sharing.configuration.recipients import read_recipients
    from deltacli.sharing.server.services import Configured, Inheritance, open_sockets
    from deltacli.sharing.server.serving import address_of
    from deltacli.sharing.signing.keys import ServerKeys

    path = Path(config)
    configuration = overrides.read(path)
    if configuration.recipients_file is not None:
        read_recipients(configuration.recipients_file)  # before anything is said
    sockets = open_sockets(configuration)
    try:
        overrides = replace(overrides, port=address_of(sockets.main)[1])
        make = Configured(path, overrides, ServerKeys.generate(run.clock()))
        inheritance = Inheritance(make) if workers > 1 else None
        if inheritance is not None:
            inheritance.watch()
        _announce(run, overrides.apply(configuration), sockets, workers)
        _serve(make, inheritance.service if inheritance else lambda: make, sockets, workers, run)
    finally:
        sockets.close()


def _serve(
    make: MakeService, following: Callable[[], MakeService], sockets: Sockets, workers: int, run: CommandContext
) -> None:
    """Answer requests until a signal. `following` returns the service of the next worker."""
    import logging

    from deltacli.sharing.server.serving import LogChoice, serve, serve_by_workers

    level = logging.ERROR if run.quiet else logging.DEBUG if run.verbosity else logging.INFO
    log = LogChoice(run.notes.as_json, level)
    try:
        if workers == 1:
            serve(make, sockets, log)
        else:
            serve_by_workers(following, sockets, workers, log)
    except Interrupted as interruption:
        interruption.outcome = "the server has stopped"
        raise


def _announce(run: CommandContext, configuration: Configuration, sockets: Sockets, workers: int) -> None:
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


def _hand_out(run: CommandContext, endpoint: str, token: str, path: str | None) -> None:
    """Write the profile to a file of the user's, or to stdout. Raises UsageError."""
    document = {"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": token}
    text = json.dumps(document).encode() + b"\n"
    if path is None:
        with run.open_result() as sink:
            sink.write(text)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags, 0o600)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(text)
    except OSError as fault:
        raise UsageError(
            f"--profile {path} cannot be written: {(fault.strerror or '').lower()}",
            hint=f"ls -ld {shlex.quote(os.path.dirname(os.path.abspath(path)))}",
        ) from fault


def _introduce(run: CommandContext, catalog: Catalog, endpoint: str, token: str, profile: str | None) -> None:
    tables = [table for share in catalog.shares for schema in share.schemas for table in schema.tables]
    run.note(f"sharing {plural(len(tables), 'table')} at {endpoint} (Ctrl-C stops)")
    width = max(len(table.full_name) for table in tables[:_MOST_NAMED])
    for table in tables[:_MOST_NAMED]:
        run.note(f"  {table.full_name:{width}}  {table.location}")
    if len(tables) > _MOST_NAMED:
        run.note(f"  and {len(tables) - _MOST_NAMED} more")
    for table in tables[:_MOST_NAMED]:  # a request each; `share check` looks at all
        with suppress(DeltacliError):
            note_staged_commits(run, run.open_table(table.location), table.full_name)
    run.suggest_command(_client_command(tables[0], endpoint, token, profile), also_in_pipe=True)


def _client_command(table: SharedTable, endpoint: str, token: str, profile: str | None) -> str:
    if profile is None:
        return f"curl -H 'Authorization: Bearer {token}' {endpoint}/shares/{table.share}/all-tables"
    address = f"{os.path.abspath(profile)}#{table.full_name}"
    return f"deltacli share head {quote_word(address)}"
