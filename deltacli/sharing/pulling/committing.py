"""The commit of a pull: written to a draft of any size, and published where no other commit has the version.

Commits of `operations.change` have no files and are kept in memory; those of pulls are all files of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

import orjson

from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.log_path import LOG_DIRECTORY, commit_name
from deltacli.errors import FileMissing, OutcomeUnknown, StorageFailed
from deltacli.storage import Created, Existed, Unknown
from deltacli.storage.base import Storage
from deltacli.storage.disk_faults import writing_faults

_ASKED = 3


@dataclass(frozen=True, slots=True)
class CommitHead:
    """What the first line of a commit says."""

    version: int
    txn_id: str
    info: Mapping[str, object]

    @property
    def path(self) -> str:
        """Return where the commit stands in the table."""
        return f"{LOG_DIRECTORY}/{commit_name(self.version)}"


def publish(storage: Storage, head: CommitHead, actions: Iterable[Action]) -> bool:
    """Create a version; return False where another writer has created it, with nothing changed.

    Raises StorageFailed with nothing changed, and OutcomeUnknown.
    """
    with storage.draft(head.path) as draft:
        with writing_faults(draft.place, head.path), open(draft.place, "wb") as file:
            file.write(orjson.dumps({"commitInfo": head.info}) + b"\n")
            for action in actions:
                file.write(orjson.dumps(action) + b"\n")
        outcome = draft.publish()
    match outcome:
        case Created():
            return True
        case Existed():
            return False
        case Unknown(cause):
            return _is_ours(storage, head, cause)
        case other:
            assert_never(other)


def _is_ours(storage: Storage, head: CommitHead, cause: str) -> bool:
    """Return whether the version that is there now is this commit. Raises OutcomeUnknown."""
    fault: StorageFailed | None = None
    for _ in range(_ASKED):
        try:
            first, _, _ = storage.read_range(head.path, 0, 1 << 20).partition(b"\n")
            return head.txn_id.encode() in first
        except FileMissing as missing:
            fault = missing
            break
        except StorageFailed as failed:
            fault = failed
    raise OutcomeUnknown(
        f"version {head.version} was written, but it is not known whether it exists",
        facts={"file": head.path, "txnId": head.txn_id, "why": cause, "looking for it": str(fault)},
        hint="run the same command again: it reads what is there",
    )
