"""`deltacli share serve DIRECTORY…`."""

from __future__ import annotations

import json
import os
import secrets
import shlex
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.errors import UsageError
from deltacli.units import plural

if TYPE_CHECKING:
    from deltacli.sharing.model import Catalog, SharedTable
    from deltacli.sharing.server.serving import Sockets
    from deltacli.sharing.server.workers import MakeService

EXIT_CODES = (0, 2, 3, 7, 70)

_LOOPBACK = "127.0.0.1"
_MOST_NAMED = 10


class FORMATS(StrEnum):
    """The result is a profile, which clients read as it is."""

    TABLE = "table"


def serve(
    run: Run,
    directories: Annotated[
        list[str], typer.Argument(metavar="DIRECTORY...", help="Tables, or directories of tables.", show_default=False)
    ],
    port: Annotated[int, typer.Option("--port", metavar="N", help="Port to listen on; 0: any free one.")] = 0,
    workers: Annotated[int, typer.Option("--workers", metavar="N", help="Number of processes that answer.")] = 1,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="FILE",
            help="Write the profile there, readable by you only, instead of stdout.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Share tables with Delta Sharing clients.

    \b
    Shares local tables on this machine only, with a token that is valid until
    the server stops. Prints the profile that clients need, and commands to try.
    A table is local.default.NAME; the tables in another directory are
    local.DIRECTORY.NAME. Clients see the whole history. Nothing is written to
    the tables. Ctrl-C finishes running answers and stops the server.

    \b
    Examples:
      deltacli share serve ./tbl
      deltacli share serve ./warehouse --port 8080 --profile my.share
    """
    from deltacli.sharing.directories import catalog_of
    from deltacli.sharing.server.serving import Sockets, address_of, bind, require_server

    require_server()
    catalog = catalog_of(directories)
    if not 0 <= port <= 65_535:
        raise UsageError(f"--port {port} is not a port (expected: 0 to 65535)")
    if workers < 1:
        raise UsageError(f"--workers {workers} is less than 1")
    from deltacli.sharing.server.assembling import Site, TryOut
    from deltacli.sharing.server.one_token import digest_of

    with bind(_LOOPBACK, port) as bound:
        host, number = address_of(bound)
        site = Site(f"http://{host}:{number}", hosts=frozenset({f"{host}:{number}", f"localhost:{number}"}))
        token = secrets.token_urlsafe(32)
        make = TryOut(site, catalog, digest_of(token), secrets.token_bytes(32))
        _hand_out(run, site.endpoint, token, profile)
        _introduce(run, catalog, site.endpoint, token, profile)
        _serve(make, Sockets(bound), workers, run)


def _serve(make: MakeService, sockets: Sockets, workers: int, run: Run) -> None:
    """Answer requests until a signal."""
    import logging

    from deltacli.sharing.server.workers import LogChoice, serve

    level = logging.ERROR if run.quiet else logging.DEBUG if run.verbosity else logging.INFO
    try:
        serve(make, sockets, workers, LogChoice(run.log_is_json, level))
    except Interrupted as interruption:
        interruption.outcome = "the server has stopped"
        raise


def _hand_out(run: Run, endpoint: str, token: str, path: str | None) -> None:
    """Write the profile to a file of the user's, or to stdout. Raises UsageError."""
    document = {"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": token}
    text = json.dumps(document).encode() + b"\n"
    if path is None:
        with run.sink() as sink:
            sink.write(text)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags, 0o600)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(text)
    except OSError as fault:
        raise UsageError(f"--profile {path} cannot be written: {(fault.strerror or '').lower()}") from fault


def _introduce(run: Run, catalog: Catalog, endpoint: str, token: str, profile: str | None) -> None:
    """Say what is shared, and how to read it."""
    tables = [table for share in catalog.shares for schema in share.schemas for table in schema.tables]
    run.note(f"sharing {plural(len(tables), 'table')} at {endpoint} (Ctrl-C stops)")
    for table in tables[:_MOST_NAMED]:
        run.note(f"  {table.full_name}  {table.location}")
    if len(tables) > _MOST_NAMED:
        run.note(f"  and {len(tables) - _MOST_NAMED} more")
    run.note(f"next: {_client_command(tables[0], endpoint, token, profile)}")


def _client_command(table: SharedTable, endpoint: str, token: str, profile: str | None) -> str:
    """Return a command that reads a table: by the Python client where it finds the profile, else by curl."""
    if profile is None:
        return f"curl -H 'Authorization: Bearer {token}' {endpoint}/shares/{table.share}/all-tables"
    address = f"{os.path.abspath(profile)}#{table.full_name}"
    program = f"import delta_sharing; print(delta_sharing.load_as_pandas({json.dumps(address)}, limit=5))"
    return f"python3 -c {shlex.quote(program)}"
