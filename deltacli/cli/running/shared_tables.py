"""Opening shared tables and profiles for the commands of `deltacli share`."""

from __future__ import annotations

import re
from glob import glob
from typing import TYPE_CHECKING

from deltacli.cli.command_tree import find_command_path
from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.suggested_commands import repeat_command
from deltacli.core.errors import UsageError

if TYPE_CHECKING:
    from deltacli.cli.running.context import CommandContext
    from deltacli.sharing.client.addresses import ShareAddress
    from deltacli.sharing.client.share_storage import ShareStorage
    from deltacli.sharing.client.shared_directory import DirectoryStorage
    from deltacli.sharing.client.transport import Transport
    from deltacli.table.scan import Scan
    from deltacli.table.scan_requests import ScanRequest


def require_address(table: str) -> ShareAddress:
    """Return the address of a shared table, such as `acme.share#sales.main.orders`.

    Raises:
        UsageError: If the text is not the address of a shared table.
    """
    from deltacli.sharing.client.addresses import CODE, FORM, parse_address

    address = parse_address(table)
    if address is None:
        raise UsageError(
            f"{table} is not the address of a shared table",
            code=CODE,
            facts={"expected": FORM},
            hint=_suggest_address(table),
        )
    return address


def _suggest_address(table: str) -> str:
    """Return the command line with the profile of this directory before the table, or the help of the command.

    deltacli share head sales.main.orders  ->  deltacli share head acme.share#sales.main.orders
    """
    words = invocation.arguments
    profiles = sorted(glob("*.share"))
    is_table_name = re.fullmatch(r"[^#/]+\.[^#/.]+\.[^#/.]+", table) is not None
    if len(profiles) == 1 and is_table_name:
        return repeat_command([f"{profiles[0]}#{table}" if word == table else word for word in words])
    return " ".join(["deltacli", *find_command_path(words), "--help"])


def open_shared_table(run: CommandContext, table: str) -> ShareStorage | DirectoryStorage:
    """Open a shared table. Raises UsageError if the name is not the address of one."""
    from deltacli.sharing.client.share_storage import ShareStorage
    from deltacli.sharing.client.shared_directory import DirectoryStorage

    require_address(table)
    store = run.open(table)
    assert isinstance(store, ShareStorage | DirectoryStorage)
    return store


def scan_shared_table(
    run: CommandContext,
    store: ShareStorage | DirectoryStorage,
    request: ScanRequest,
    version: int | None,
    at_ms: int | None,
) -> Scan:
    """Return a scan of a shared table.

    Args:
        run: The run of the command.
        store: The store of the table.
        request: The rows and columns to read. A server gets the condition and the limit, so that it can omit files.
        version: The version to read. None: that of `at_ms`, else the newest version.
        at_ms: The time in epoch milliseconds whose version is read.
    """
    from deltacli.sharing.client.share_storage import ShareStorage
    from deltacli.table.scan import Scan

    if not isinstance(store, ShareStorage):
        snapshot = run.make_table(store).snapshot(version=version, timestamp_ms=at_ms)
        return Scan(snapshot, request)
    version_store = store.expecting(where=request.where, limit=request.limit, version=version, at_ms=at_ms)
    return Scan(run.make_table(version_store).snapshot(), request)


def open_profile_transport(run: CommandContext, profile: str) -> Transport:
    """Open the connection to the server of a profile file. Raises UsageError if the profile is invalid."""
    from deltacli.cli.running.stores import Stores
    from deltacli.sharing.client.transport import open_profile

    note = None if run.quiet else run.note
    stores = Stores(run.stores, note)
    stores.note_unused_access("a list of shared tables")
    return open_profile(profile, retry=stores.get_retry_policy(), clock=run.clock, note=note)
