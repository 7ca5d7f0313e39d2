"""Filling a quarantine: a directory outside of all tables that gets a copy of each file before a vacuum deletes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from deltacli.core.errors import CredentialsMissing, FileMissing, PermissionRefused, Refused, StorageFailed
from deltacli.core.hints import adding, parameter
from deltacli.delta.paths import text_of
from deltacli.operations.recover.copies import copy_file, copy_within_store, same_content, sha256_of
from deltacli.operations.recover.quarantine_layout import (
    OWN_NAMES,
    Checksum,
    Manifest,
    address_of,
    manifest_of,
    require_name,
    rows_of,
    write_checksums,
)
from deltacli.storage import Created, Creation, PathKind, Storage, Unknown, is_address_of, is_inside
from deltacli.storage.base import require_writable
from deltacli.table.other_tables import stores_around, table_at

if TYPE_CHECKING:
    from deltacli.operations.vacuum.plan import VacuumPlan
    from deltacli.table.handle import TableHandle

_FILES_A_PART = 1_000


def open_quarantine(table: TableHandle, uri: str, table_id: str | None = None) -> Storage:
    """Return the store of a quarantine. Raises Refused where it, or its directory of a table, is in a table or cannot
    be named, and NoAtomicCreate for a read-only store.
    """
    storage = table.open_other(uri)
    require_writable(storage)
    _require_outside(table, storage, storage)
    if table_id is not None:
        require_name(table_id)
        _require_outside(table, storage, table.open_other(f"{uri.rstrip('/')}/{table_id}"))
    return storage


def _require_outside(table: TableHandle, quarantine: Storage, place: Storage) -> None:
    """Raise Refused where a place of a quarantine is in a table."""
    inside = table.uri if is_inside(place, table.storage) else table_at(place)
    inside = inside or next(_around(table.over(place)), None)
    if inside is not None:
        raise Refused(
            f"the quarantine {quarantine.uri} is in a table, whose vacuum would delete its files",
            code="vacuum.quarantine-in-table",
            facts={"table": inside},
            hint=adding(parameter("vacuum.quarantine", "DIRECTORY")),
        )


def _around(place: TableHandle) -> Iterator[str]:
    """Yield the tables of any format that contain a place; inaccessible directories are skipped."""
    for storage in stores_around(place):
        with suppress(PermissionRefused, CredentialsMissing):
            if (found := table_at(storage)) is not None:
                yield found


class Quarantine:
    """The directory of a quarantine for the files of one plan."""

    def __init__(self, table: TableHandle, plan: VacuumPlan, uri: str) -> None:
        """Raises what `open_quarantine` raises, and Refused for files that it cannot hold."""
        for own in set(OWN_NAMES) & {text_of(path) for path in plan.candidates.column("path").to_pylist()}:
            raise Refused(f"the plan deletes a file with the name of the {own}", code="vacuum.quarantine-name")
        self._table, self._plan = table, plan
        self._storage = open_quarantine(table, uri, plan.table_id)
        self._directory = f"{plan.table_id}/{plan.plan_id}"
        self._within = copy_within_store(table, table.open_other(table.uri), self._storage)
        self._is_on_disk = self._storage.capabilities.has_directories

    @property
    def uri(self) -> str:
        """The directory of the files of the plan."""
        return f"{self._storage.uri}/{self._directory}"

    def fill(self, pending: Sequence[range]) -> None:
        """Copy these rows of the plan, and note their checksums. Without an error, every file of them is in the
        quarantine, or was gone before.

        Raises Refused where the quarantine has another file of the name, and StorageFailed.
        """
        address = address_of(self._storage, self._directory, self._plan.table_id)
        if address is not None and not is_address_of(self._table.storage, address):
            raise Refused(
                f"{self.uri} has the files of another table with the same id",
                code="vacuum.quarantine-differs",
                facts={"table there": address, "this table": self._table.uri},
                hint=adding(parameter("vacuum.quarantine", "DIRECTORY")),
            )
        self._write_manifest(is_complete=False)
        paths = self._plan.candidates.column("path").combine_chunks()
        noted = []
        can = self._table.storage.capabilities
        at_once = None if can.cheap_listing else can.parallel_reads
        with self._table.progress.step("copying", unit="files", total=sum(map(len, pending))) as step:
            for rows in pending:
                for begin in range(rows.start, rows.stop, _FILES_A_PART):
                    part = paths.slice(begin, min(_FILES_A_PART, rows.stop - begin))
                    names = [text_of(path) for path in part.to_pylist()]
                    found = []
                    for checksum in self._table.engine.run(self._keep, names, at_once=at_once):
                        found.append(checksum)
                        step.advance(1)
                    noted.append(rows_of(part, found))
        write_checksums(self._storage, self._directory, noted)

    def complete(self) -> None:
        """Note that the files were deleted from the table."""
        self._write_manifest(is_complete=True)

    def _keep(self, path: str) -> Checksum | None:
        """Copy a file, and raise unless the copy is there with the same bytes. None: the file is gone."""
        import hashlib

        origin, there = self._table.storage, f"{self._directory}/{path}"
        try:
            size_bytes = origin.stat(path).size_bytes
            digest = hashlib.sha256()
            outcome = self._copy(path, there, size_bytes, digest)
            if isinstance(outcome, Created) and not self._is_on_disk:
                # what passes through this process is sent with its digest; of its own copy a store has a tag
                if self._within is None:
                    return Checksum(size_bytes, digest.digest())
                return Checksum(size_bytes, tag=self._storage.stat(there).tag or None)
            return Checksum(size_bytes, self._require_same(path, there, size_bytes, outcome, digest.digest()))
        except FileMissing:
            if origin.kind_of(path) is PathKind.MISSING:
                return None
            raise

    def _copy(self, path: str, there: str, size_bytes: int, digest: Any) -> Creation:  # Any: as hashlib makes them
        """Copy a file by the store itself where both are in one, else through this process, with its digest."""
        if self._within is not None:
            return self._within(path, there)
        return copy_file(self._table.storage, path, size_bytes, self._storage, target=there, digest=digest)

    def _require_same(self, path: str, there: str, size_bytes: int, outcome: Creation, sent: bytes) -> bytes:
        """Return the SHA-256 of a copy that has the bytes of the file. Raises Refused where it was there before and is
        another file, StorageFailed where it was written wrongly.
        """
        if isinstance(outcome, Created) and self._within is None:
            same = sent if sha256_of(self._storage, there, size_bytes) == sent else None
        else:
            is_long_enough = self._size(there) == size_bytes
            same = same_content(self._table.storage, path, self._storage, there, size_bytes) if is_long_enough else None
        if same is not None:
            return same
        if isinstance(outcome, Created):
            raise StorageFailed(f"the copy of {path} in {self.uri} has other bytes than the file; nothing was deleted")
        cause, found = outcome.cause if isinstance(outcome, Unknown) else "the name exists", self._size(there)
        raise Refused(
            f"{path} cannot be copied to {self.uri}: {cause}",
            code="vacuum.quarantine-differs",
            facts={
                "in the table": f"{size_bytes:,} bytes",
                "in the quarantine": "missing" if found is None else f"{found:,} bytes, other ones",
            },
        )

    def _size(self, path: str) -> int | None:
        try:
            return self._storage.stat(path).size_bytes
        except FileMissing:
            return None

    def _write_manifest(self, *, is_complete: bool) -> None:
        plan, now_ms = self._plan, self._table.clock()  # of a saved plan, long after it was made
        paths = [text_of(path) for path in plan.candidates.column("path").to_pylist()]
        manifest = Manifest(
            self._table.uri,
            plan.table_id,
            plan.plan_id,
            plan.snapshot_version,
            now_ms,
            is_complete,
            paths,
            plan.size_bytes,
        )
        self._storage.put(manifest_of(self._directory), manifest.encode())
