"""Examine the store of a table: the permissions of the current credentials, and the guarantees of the store.

These are functions, not methods of `Table`, because they need no table: the directory may be empty.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from deltacli.core.errors import NOTHING_CHANGED, CatalogDenied, CredentialsMissing, Refused, command
from deltacli.core.machine import Clock, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.storage.base import no_atomic_create_error
from deltacli.storage.optional_interfaces import is_store_with_grant
from deltacli.storage.probing.opening import open_probed_store
from deltacli.table.handle import managed_store

if TYPE_CHECKING:
    from deltacli.operations.doctor.advice import PriceTable
    from deltacli.operations.doctor.storage import AccessReport, StorageReport
    from deltacli.storage import Storage
    from deltacli.storage.probing.interface import ProbedStore


def examine_access(storage: Storage, *, writes: bool = False) -> AccessReport:
    """Return the identity behind the current credentials, and what it is allowed to do in the store.

    If there are no credentials, the report says so, and no error is raised.

    Args:
        storage: The store of a table.
        writes: Whether to test writing with a temporary file. No file is written to a table that a catalog manages,
            because the catalog only allows commits.

    Raises:
        NotATable: If the path does not exist.
        StorageFailed: If the store cannot be reached.
    """
    from deltacli.operations.doctor.storage import AccessReport, check_access, without_credentials

    managed = managed_store(storage)
    # A catalog that grants no writing still permits what is examined here.
    with suppress(CatalogDenied, Refused):
        if is_store_with_grant(storage):
            storage.request_write_access()
    try:
        subject = open_probed_store(managed.inner if managed else storage)
        return check_access(storage, subject, writes=writes and managed is None)
    except CredentialsMissing as error:
        return without_credentials(AccessReport(storage.uri, storage.uri.partition("://")[0]), error)


class StoreProbes:
    """Tests whether a store keeps the guarantees that Delta needs, such as atomic creation, with temporary files in
    the directory of a table.

    Nothing is written before `run` is called.
    """

    def __init__(self, storage: Storage, *, name: str | None = None) -> None:
        """Check that the store can be tested.

        Args:
            storage: The store.
            name: The address from which the table was opened, for the hint of an error.

        Raises:
            Refused: If a catalog manages the table, because the catalog only allows commits.
            NotATable: If the directory does not exist.
            NoAtomicCreate: If the store is not known to support atomic creation.
        """
        from deltacli.operations.doctor.storage import require_directory

        if managed_store(storage) is not None:
            raise Refused(
                "doctor storage writes files into the directory of the table, and its catalog permits only commits",
                preamble=NOTHING_CHANGED,
                code="catalog.managed",
                hint=command("doctor access", table=name),
            )
        require_directory(storage)
        subject = open_probed_store(storage)
        if subject is None:
            raise no_atomic_create_error(storage.uri, "this store is not known to create files atomically")
        self._uri = storage.uri
        self._subject: ProbedStore = subject

    def plan(self) -> StorageReport:
        """Return the tests that `run` would execute, without executing them."""
        from deltacli.operations.doctor.storage import plan_probes

        return plan_probes(self._uri, self._subject)

    def run(self, *, clock: Clock = system_clock, progress: Progress = SILENT) -> StorageReport:
        """Execute the tests. The temporary files are deleted at the end, even after an error.

        Args:
            clock: Returns the current time in epoch milliseconds. It is compared with the clock of the store.
            progress: The listener for the progress.

        Raises:
            StorageFailed: If the store cannot be reached.
        """
        from deltacli.operations.doctor.storage import probe_storage

        return probe_storage(self._uri, self._subject, clock, progress)


def parse_prices(data: bytes, name: str) -> PriceTable:
    """Parse a file with the prices of a store, for `Table.doctor`.

    Args:
        data: The content of the file, in TOML.
        name: The name of the file, for error messages.

    Raises:
        UsageError: If the file is not a valid table of prices.
    """
    from deltacli.operations.doctor.advice import parse_prices as parse

    return parse(data, name)
