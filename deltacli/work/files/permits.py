"""Limit how long after a check of the log files may be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.errors import Refused
from deltacli.storage.base import RETRY_BUDGET
from deltacli.storage.directory_identity import DirectoryIdentity, is_directory_store

if TYPE_CHECKING:
    from deltacli.work.table_stores import TableStores


class Permit(NamedTuple):
    """The deletions that a check of the log allows.

    A commit that another writer makes after the check may need a file that the check has found to be unneeded. So
    deletions must begin soon after it.

    Attributes:
        place: The directory whose log was checked. Another one may have taken its path since. None for other stores.
        not_after_ms: The time (epoch milliseconds) up to which deletions may begin.
    """

    place: DirectoryIdentity | None
    not_after_ms: int


_VALID_MS = 60_000
"""Age of a check of the log up to which deletions begin."""
_MOST_FRUITLESS = 3


def compute_valid_ms(stores: TableStores) -> int:
    """Return how long a batch may be sent after a check of the log, including the retries of a request."""
    location = stores.location
    retry_seconds = None if location is None else location.retry_seconds
    return _VALID_MS + int(1_000 * (RETRY_BUDGET.total_seconds() if retry_seconds is None else retry_seconds))


def make_permit(stores: TableStores, now_ms: int) -> Permit:
    """Return the permit of a check of the log that begins now, for deletions in the directory of a table."""
    storage = stores.storage
    return Permit(
        storage.directory_identity if is_directory_store(storage) else None, now_ms + compute_valid_ms(stores)
    )


def require_progress(fruitless: int) -> None:
    """Raise Refused where no file was tried in so many rounds, although each followed a check of the log."""
    if fruitless >= _MOST_FRUITLESS:
        raise Refused(
            f"no file could be deleted within {_VALID_MS // 1_000} s of a check of the log, in {fruitless} attempts",
            code="vacuum.clock-skew",
            facts={"why": "the clocks of the processes that delete are ahead, or they are too busy"},
            hint="date -u",
        )
