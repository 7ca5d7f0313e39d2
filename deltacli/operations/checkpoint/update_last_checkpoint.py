"""Updating `_last_checkpoint` to a verified checkpoint. Spec: Last Checkpoint File."""

from __future__ import annotations

from deltacli.delta.checkpoint.last_checkpoint_content import Hint, make_hint, read_hint
from deltacli.delta.log.log_path import HINT_NAME, LOG_DIRECTORY
from deltacli.delta.log.segment import LogListing
from deltacli.delta.schema.of_arrow import table_schema
from deltacli.errors import FileMissing
from deltacli.operations.checkpoint.file_writer import WrittenCheckpoint
from deltacli.operations.table.find_log import list_log
from deltacli.storage import Storage


def update_last_checkpoint(storage: Storage, listing: LogListing, written: WrittenCheckpoint) -> int | None:
    """Update the hint to a checkpoint unless it names a newer one; return the version if the hint names it afterwards.

    A hint that names it already is kept where another writer has created the checkpoint; one that names a newer but
    missing checkpoint is replaced. Raises StorageFailed.
    """
    version = written.version
    known, hinted = _newest(listing), _hinted(storage)
    if hinted > max(known, version):  # of a checkpoint that was created after the listing, or of a missing one
        known = _newest(list_log(storage))
    if known > version:
        return None
    if hinted == version and written.was_there:
        return version
    # A reader may open another checkpoint of the same version with the columns that the hint names.
    is_only = not any(checkpoint.version == version for checkpoint in listing.checkpoints)
    data = make_hint(
        version=version,
        size=written.rows,
        size_bytes=written.size_bytes,
        adds=written.actions.get("add", 0),
        parts=written.parts,
        schema=table_schema(written.schema) if written.schema is not None and is_only else None,
    )
    storage.put(f"{LOG_DIRECTORY}/{HINT_NAME}", data)
    return version


def _newest(listing: LogListing) -> int:
    return max((checkpoint.version for checkpoint in listing.checkpoints), default=-1)


def _hinted(storage: Storage) -> int:
    try:
        hint = read_hint(storage.read(f"{LOG_DIRECTORY}/{HINT_NAME}"))
    except FileMissing:
        return -1
    return hint.version if isinstance(hint, Hint) else -1
