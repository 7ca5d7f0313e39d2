"""Read the files of a checkpoint back before they are published, and make sure that they were."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from deltacli.arrow.parquet import ParquetReader
from deltacli.core.errors import FileMissing, StorageFailed, command
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.typing import BinaryFile, JsonObject
from deltacli.delta.log.actions import wrong_type_error
from deltacli.storage import Creation, Draft, FileStat, ReadStorage, Unknown
from deltacli.storage.os_errors import translate_write_errors
from deltacli.work.checkpoints.encoding import FILE_BLOCK_BYTES, EncodedFile, digest_row_group

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


OTHER_SIZE = "the stored size differs from the sent size"


def find_difference(local_path: str, encoded: EncodedFile, digests: Iterable[object]) -> str | None:
    """Return how a local file differs from what was encoded; None if all bytes and values are equal.

    Comparing bytes detects disk and memory faults. Comparing values detects encoder faults.
    """
    checksum = 0
    with _name_read_faults(local_path), open(local_path, "rb", buffering=0) as file:
        while block := file.read(FILE_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    if checksum != encoded.checksum:
        return "its bytes differ from what was written"
    for group, (digest, wanted) in enumerate(zip_longest(digests, encoded.digests)):
        if digest != wanted:
            return f"row group {group} differs from the encoded values"
    return None


def count_groups(source: BinaryFile) -> int:
    """Return the number of row groups of a file. Raises StorageFailed if it cannot be read back."""
    with _name_read_faults(source), _open_source(source) as file:
        groups: int = ParquetReader(file).metadata.num_row_groups
        return groups


def read_group_digest(source: BinaryFile, group: int) -> tuple[int, tuple[int, ...]]:
    """Return the rows and the digest of one row group of a file. Raises StorageFailed if it cannot be read back."""
    with _name_read_faults(source), _open_source(source) as file:
        return digest_row_group(ParquetReader(file).read_group(group))


def has_same_rows(source: BinaryFile, encoded: EncodedFile) -> bool:
    """Return whether another writer's file has the same columns, and the same rows in the same row groups."""
    try:
        with _name_read_faults(source):
            file = ParquetReader(source)
            if not file.metadata.schema.equals(encoded.footer.schema):
                return False
            if file.metadata.num_row_groups != len(encoded.digests):
                return False
            # Encoders may write the same rows as other bytes, so rows are compared.
            groups = (file.read_group(group) for group in range(len(encoded.digests)))
            return all(digest_row_group(rows) == wanted for rows, wanted in zip(groups, encoded.digests, strict=True))
    except StorageFailed:
        return False


def _open_source(source: Any) -> AbstractContextManager[Any]:  # Any: a local path, or an open file, which is not closed
    return pa.OSFile(os.fsencode(source)) if isinstance(source, str) else nullcontext(source)


@contextmanager
def _name_read_faults(source: Any) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as fault:
        raise_if_out_of_memory(fault)
        name = source if isinstance(source, str) else "the file"
        raise StorageFailed(f"{name} cannot be read back: {' '.join(str(fault).split())[:200]}") from fault


def write_lines(local_path: str, actions: Sequence[tuple[str, JsonObject]], *, name: str | None = None) -> bytes:
    """Write the lines of a JSON checkpoint, `name` in errors, and return them. Raises StorageFailed, CommitCorrupt."""
    try:
        data = b"".join(orjson.dumps({kind: action}) + b"\n" for kind, action in actions)
    except orjson.JSONEncodeError as fault:
        raise wrong_type_error("an action", str(fault), "the state") from fault
    with translate_write_errors(local_path, name or local_path), open(local_path, "wb") as file:
        file.write(data)
    return data


def require_lines(local_path: str, data: bytes) -> None:
    """Raise StorageFailed unless a local file contains exactly these bytes."""
    with _name_read_faults(local_path), open(local_path, "rb") as file:
        if file.read() != data:
            raise StorageFailed("its bytes differ from what was written")


@contextmanager
def name_unproven_draft(path: str) -> Iterator[None]:
    """Turn a fault found while reading a draft back into the error that it is not published."""
    try:
        yield
    except StorageFailed as fault:
        raise StorageFailed(
            f"{path} was not published: {fault.message}",
            code="checkpoint.not-proven",
            facts={"next": "check disk and memory for faults, then run the command again"},
        ) from fault


def require_proven_draft(local_path: str, path: str, encoded: EncodedFile) -> None:
    """Read a draft back on the machine that wrote it. Raises StorageFailed unless it has the expected content."""
    with name_unproven_draft(path):
        require_content(
            local_path, encoded, (read_group_digest(local_path, group) for group in range(count_groups(local_path)))
        )


def require_content(local_path: str, encoded: EncodedFile, digests: Iterable[object]) -> None:
    """Raise StorageFailed unless a local file has the expected bytes, and its row groups these digests."""
    why = find_difference(local_path, encoded, digests)
    if why is not None:
        raise StorageFailed(why)


def publish_unique_file(storage: ReadStorage, draft: Draft, path: str, size: int) -> FileStat:
    """Publish a file with a unique name. Raises StorageFailed unless it has the expected size afterwards."""
    return require_published(storage, path, size, draft.publish())


def require_published(storage: ReadStorage, path: str, size: int, outcome: Creation) -> FileStat:
    """Raise StorageFailed unless a file that was published, perhaps without an answer, has the expected size."""
    cause = outcome.cause if isinstance(outcome, Unknown) else OTHER_SIZE
    try:
        return require_size(storage, path, size, cause)
    except FileMissing as fault:
        raise make_not_written_error(path, cause) from fault


def require_size(storage: ReadStorage, path: str, size: int, cause: str) -> FileStat:
    """Raise StorageFailed with this cause unless a file has this size."""
    stat = storage.stat(path)
    if stat.size_bytes != size:
        raise StorageFailed(
            f"{path} has {stat.size_bytes} bytes, expected {size}", facts={"why": cause}, hint=command("validate")
        )
    return stat


def make_not_written_error(path: str, cause: str) -> StorageFailed:
    return StorageFailed(f"{path} cannot be written", facts={"why": cause, "next": "run the same command again"})
