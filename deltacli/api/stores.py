"""What the store of a table permits and guarantees, for `doctor access` and `doctor storage`.

These are functions of a store, not methods of a table: nothing of a log is read, and there may be none.
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
    """Return who sends the requests to a store, and what they may do. No credentials are a report, too, not an error.

    Args:
        storage: The store of a table.
        writes: True to find out about writing by a scratch file. None is written into a table of a catalog, which
            permits only commits.

    Raises:
        NotATable: If there is nothing at the path.
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
    """Probes of what a store guarantees, on scratch files in the directory of a table.

    Nothing is written before `run` is called.
    """

    def __init__(self, storage: Storage, *, name: str | None = None) -> None:
        """Prepare the probes.

        Args:
            storage: The store.
            name: The table as it was opened, for the hint of an error.

        Raises:
            Refused: If a catalog manages the table: it permits only commits.
            NotATable: If there is no directory.
            NoAtomicCreate: If files cannot be created atomically there.
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
        """Return the probes that `run` would run."""
        from deltacli.operations.doctor.storage import plan_probes

        return plan_probes(self._uri, self._subject)

    def run(self, *, clock: Clock = system_clock, progress: Progress = SILENT) -> StorageReport:
        """Run the probes. Scratch files are deleted in any case.

        Args:
            clock: Returns the time in epoch milliseconds, which is compared with that of the store.
            progress: Receives the progress.

        Raises:
            StorageFailed: If the store cannot be reached.
        """
        from deltacli.operations.doctor.storage import probe_storage

        return probe_storage(self._uri, self._subject, clock, progress)


def parse_prices(data: bytes, name: str) -> PriceTable:
    """Return the prices of a store in a file, for `Table.doctor`.

    Args:
        data: The content of the file, as TOML.
        name: The file, for errors.

    Raises:
        UsageError: If it is not a table of prices.
    """
    from deltacli.operations.doctor.advice import parse_prices as parse

    return parse(data, name)
