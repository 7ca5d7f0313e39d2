"""How long a look at the log is good for deletions that follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.errors import Refused
from deltacli.storage.base import RETRY_BUDGET, StoreWithPlace
from deltacli.work.files.deleting import Permit

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

_VALID_MS = 60_000
"""Age of a check of the log up to which deletions begin."""
_MOST_FRUITLESS = 3


def valid_ms(table: TableHandle) -> int:
    """Return how long a batch may be sent after a check of the log, including the retries of a request."""
    location = table.stores.location
    retry_seconds = None if location is None else location.retry_seconds
    return _VALID_MS + int(1_000 * (RETRY_BUDGET.total_seconds() if retry_seconds is None else retry_seconds))


def permit(table: TableHandle, now_ms: int) -> Permit:
    """Return the permit of a check of the log that begins now, for deletions in the directory of a table."""
    storage = table.storage
    return Permit(storage.place if isinstance(storage, StoreWithPlace) else None, now_ms + valid_ms(table))


def require_progress(fruitless: int) -> None:
    """Raise Refused where no file was tried in so many rounds, although each followed a check of the log."""
    if fruitless >= _MOST_FRUITLESS:
        raise Refused(
            f"no file could be deleted within {_VALID_MS // 1_000} s of a check of the log, in {fruitless} attempts",
            code="vacuum.clock-skew",
            facts={"why": "the clocks of the processes that delete are ahead, or they are too busy"},
            hint="date -u",
        )
