"""Time limits for responses and listings, against servers that never finish."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from deltacli.core.errors import parameter
from deltacli.storage.retry import QUIET_SECONDS, Retry

Result = TypeVar("Result")

# The limit is not shorter than this, even if the retry budget is.
_MIN_LIMIT_SECONDS = 10.0


def get_answer_limit_seconds(retry: Retry) -> float:
    """Return the time limit for one response, or for all pages of a listing.

    This is the retry budget, but at least ten seconds.
    """
    return max(retry.budget_seconds, _MIN_LIMIT_SECONDS)


class ListingLimit:
    """Limits the total time of the requests for one listing.

    A broken or hostile server could send pages forever, each with a token for the next page. The
    time in which the caller processes the pages does not count.

    Attributes:
        pages: The number of pages received.
    """

    def __init__(self, retry: Retry, listing: str) -> None:
        """Start the limit of a listing.

        Args:
            retry: The retry policy of the run.
            listing: A description of the listing for notes, such as `commits of main.sales.orders`.
        """
        self.pages = 0
        self._retry = retry
        self._listing = listing
        self._limit_seconds = get_answer_limit_seconds(retry)
        self._spent_seconds = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the requests have taken longer than the limit."""
        return self._spent_seconds > self._limit_seconds

    def request_page(self, request: Callable[[], Result]) -> Result:
        """Send the request for a page and measure its time. A note is written for a slow listing.

        Args:
            request: Sends the request and returns the page.
        """
        started_at = self._retry.now()
        page = request()
        self._spent_seconds += self._retry.now() - started_at
        self.pages += 1
        if self._spent_seconds > QUIET_SECONDS:
            self._retry.note_delay(f"{self._listing}: {self.pages:,} pages so far")
        return page

    def facts(self) -> dict[str, str]:
        """Return the facts for the error about a listing that exceeds the limit."""
        limit = f"{self._limit_seconds:g} s for all pages ({parameter('open_table.retry_budget')})"
        return {"pages": f"{self.pages:,}", "limit": limit}
