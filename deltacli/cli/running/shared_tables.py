"""Arguments that name what a profile gives access to, and opening it."""

from __future__ import annotations

import re
from glob import glob
from typing import TYPE_CHECKING

from deltacli.cli.command_tree import path_in
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
    """Return the address of a shared table. Raises UsageError for anything else."""
    from deltacli.sharing.client.addresses import CODE, FORM, parse_address

    address = parse_address(table)
    if address is None:
        raise UsageError(
            f"{table} is not the address of a shared table", code=CODE, facts={"expected": FORM}, hint=_hint_for(table)
        )
    return address


def _hint_for(table: str) -> str:
    """Return the command line with the profile file of this directory before the table, else the help."""
    profiles, words = sorted(glob("*.share")), invocation.arguments
    if len(profiles) == 1 and re.fullmatch(r"[^#/]+\.[^#/.]+\.[^#/.]+", table):
        return repeat_command([f"{profiles[0]}#{table}" if word == table else word for word in words])
    return " ".join(["deltacli", *path_in(words), "--help"])


def open_shared_table(run: CommandContext, table: str) -> ShareStorage | DirectoryStorage:
    """Open a shared table with the retry budget of the run. Raises UsageError for a name that is not an address."""
    from deltacli.sharing.client.share_storage import ShareStorage
    from deltacli.sharing.client.shared_directory import DirectoryStorage

    require_address(table)
    found = run.open(table)
    assert isinstance(found, ShareStorage | DirectoryStorage)
    return found


def scan_shared_table(
    run: CommandContext,
    store: ShareStorage | DirectoryStorage,
    request: ScanRequest,
    version: int | None,
    at_ms: int | None,
) -> Scan:
    """Return the scan of some rows of a shared table."""
    from deltacli.sharing.client.share_storage import ShareStorage
    from deltacli.table.scan import Scan

    if not isinstance(store, ShareStorage):
        return Scan(run.make_table(store).snapshot(version=version, timestamp_ms=at_ms), request)
    expecting = store.expecting(where=request.where, limit=request.limit, version=version, at_ms=at_ms)
    return Scan(run.make_table(expecting).snapshot(), request)


def open_profile_transport(run: CommandContext, profile: str) -> Transport:
    """Open a profile with the retry budget of the run. Raises UsageError."""
    from deltacli.cli.running.stores import Stores
    from deltacli.sharing.client.transport import open_profile

    note = None if run.quiet else run.note
    stores = Stores(run.stores, note)
    stores.note_unused_access("a list of shared tables")
    return open_profile(profile, retry=stores.get_retry_policy(), clock=run.clock, note=note)
