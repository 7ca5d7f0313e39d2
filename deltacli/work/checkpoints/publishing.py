"""Proving the draft of a checkpoint file, and publishing it under a name that no other file has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from deltacli.errors import FileMissing, StorageFailed
from deltacli.hints import command
from deltacli.storage import Draft, FileStat, Storage, Unknown
from deltacli.work.checkpoints.writing import EncodedFile, count_groups, digest_group, why_not_proven

OTHER_SIZE = "the stored size differs from the sent size"


@contextmanager
def not_proven(path: str) -> Iterator[None]:
    """Turn a fault found while reading a draft back into the error that it is not published."""
    try:
        yield
    except StorageFailed as fault:
        raise StorageFailed(
            f"{path} was not published: {fault.message}",
            code="checkpoint.not-proven",
            facts={"next": "check disk and memory for faults, then run the command again"},
        ) from fault


def require_proven(place: str, path: str, encoded: EncodedFile) -> None:
    """Read a draft back on the machine that wrote it. Raises StorageFailed unless it has the expected content."""
    with not_proven(path):
        require_content(place, encoded, (digest_group(place, group) for group in range(count_groups(place))))


def require_content(place: str, encoded: EncodedFile, digests: Iterable[object]) -> None:
    """Raise StorageFailed unless a local file has the expected bytes, and its row groups these digests."""
    why = why_not_proven(place, encoded, digests)
    if why is not None:
        raise StorageFailed(why)


def publish_named(storage: Storage, draft: Draft, path: str, size: int) -> FileStat:
    """Publish a file with a unique name. Raises StorageFailed unless it has the expected size afterwards."""
    outcome = draft.publish()
    cause = outcome.cause if isinstance(outcome, Unknown) else OTHER_SIZE
    try:
        return require_size(storage, path, size, cause)
    except FileMissing as fault:
        raise not_written(path, cause) from fault


def require_size(storage: Storage, path: str, size: int, cause: str) -> FileStat:
    """Raise StorageFailed with this cause unless a file has this size."""
    found = storage.stat(path)
    if found.size_bytes != size:
        raise StorageFailed(
            f"{path} has {found.size_bytes} bytes, expected {size}",
            facts={"why": cause},
            hint=command("validate"),
        )
    return found


def not_written(path: str, cause: str) -> StorageFailed:
    return StorageFailed(f"{path} cannot be written", facts={"why": cause, "next": "run the same command again"})
