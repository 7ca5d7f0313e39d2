"""Write and publish the files of an output directory that many attempts write at the same time.

Every attempt of a piece writes other files, and the driver deletes those that are not in its list. An attempt that a
cluster has lost may still run after that. The run therefore holds a claim file in the directory and deletes it before
it looks for such files. An attempt that does not find the claim of its run after it has published a file deletes the
file again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from deltacli.arrow.batches import limit_rows
from deltacli.core.errors import FileMissing, StorageFailed
from deltacli.storage import Created, Draft, Existed, Failed, ReadStorage, Storage, Unknown
from deltacli.storage.os_errors import translate_write_errors
from deltacli.work.parquet_writing import ParquetStream
from deltacli.work.rows.data_files import require_valid_values
from deltacli.work.task import TaskContext

CLAIM = "_deltacli_writing"
"""The file that marks a directory as being written; it contains the id of the run. Readers ignore names with `_`."""

_MOST_FILE_BYTES = 1 << 30
"""A larger file is continued in another one: object stores limit the size of one upload, and disks the drafts."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A written file of an output directory."""

    name: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OutputTarget:
    """A directory that one run writes: its URI, and the id of the run, which is part of the names of its files."""

    uri: str
    run: str

    def file_name(self, number: int, attempt: str, part: int) -> str:
        """Return the name of a file that an attempt of piece `number` writes; `part` counts its files."""
        return f"part-{number:05}-{self.run}-{attempt}{f'-{part}' if part else ''}.parquet"

    def owns(self, name: str) -> bool:
        """Return whether a name is that of a file that an attempt of this run has written."""
        return re.fullmatch(rf"part-\d{{5,}}-{self.run}-[0-9a-f]{{32}}(-\d+)?\.parquet", name) is not None

    def is_claimed(self, storage: ReadStorage) -> bool:
        """Return whether the directory has the claim of this run."""
        try:
            return storage.read(CLAIM) == self.run.encode()
        except FileMissing:
            return False


def write_batches(
    context: TaskContext,
    target: OutputTarget,
    number: int,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    *,
    limit: int | None = None,
    is_needed: bool = False,
) -> tuple[OutputFile, ...]:
    """Write up to `limit` rows to files of the target, and return the files; no rows are a file only if `is_needed`.

    Raises StorageFailed, Unreadable for values that are not of their type, and what the batches raise.
    """
    storage = context.stores.open_output(target.uri)
    remaining = (batch for batch in limit_rows(batches, limit) if batch.num_rows)
    written: list[OutputFile] = []
    batch = next(remaining, None)
    while batch is not None or (is_needed and not written):
        name = target.file_name(number, context.attempt, len(written))
        rows = remaining if batch is None else chain([batch], remaining)
        written.append(_write_file(storage, target, name, schema, rows))
        batch = next(remaining, None)
    return tuple(written)


def _write_file(
    storage: Storage, target: OutputTarget, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> OutputFile:
    """Write batches to one file up to its largest size, and publish it."""
    # The run may have ended while the file was encoded, or while it was published. Then nobody would delete it.
    with storage.draft(name) as draft:
        file = _encode_file(draft, name, schema, batches)
        _require_claim(storage, target)
        _publish(storage, draft, file)
    try:
        _require_claim(storage, target)
    except StorageFailed as fault:
        for _, outcome in storage.delete_many([name]):
            if isinstance(outcome, Failed):
                fault.facts["left behind"] = name
        raise
    return file


def _encode_file(draft: Draft, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> OutputFile:
    with (
        translate_write_errors(draft.local_path, name),
        open(draft.local_path, "wb") as sink,
        ParquetStream(sink, schema) as stream,
    ):
        for batch in batches:
            require_valid_values(batch)
            stream.add(batch)
            if stream.size_bytes >= _MOST_FILE_BYTES:
                break
    return OutputFile(name, stream.rows, stream.size_bytes)


def _require_claim(storage: ReadStorage, target: OutputTarget) -> None:
    if not target.is_claimed(storage):
        raise StorageFailed(
            f"{target.uri} is no longer written by this run", code="output.run-ended", facts={"missing": CLAIM}
        )


def _publish(storage: ReadStorage, draft: Draft, file: OutputFile) -> None:
    """Publish a draft under a name that no other attempt uses. Raises StorageFailed."""
    match draft.publish():
        case Created():
            return
        case Existed():
            cause = "the name exists"  # the reply to an earlier request of this attempt was lost
        case Unknown(cause):
            pass
    try:
        size = storage.stat(file.name).size_bytes
    except FileMissing as fault:
        raise StorageFailed(f"{file.name} was not written", facts={"why": cause}) from fault
    if size != file.size_bytes:
        raise StorageFailed(f"{file.name} has {size} bytes, expected {file.size_bytes}", facts={"why": cause})
