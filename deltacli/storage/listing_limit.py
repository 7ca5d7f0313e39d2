"""Limits of the time that one answer, or all pages of a listing, may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from deltacli.core.errors import parameter
from deltacli.storage.retry import QUIET_SECONDS, Retry

Result = TypeVar("Result")

# However small the budget is.
LEAST_LIMIT_SECONDS = 10.0


def get_answer_limit_seconds(retry: Retry) -> float:
    """Return how long one answer, or all pages of a listing, may take: the retry budget, and at least ten seconds."""
    return max(retry.budget_seconds, LEAST_LIMIT_SECONDS)


class ListingLimit:
    """Limits how long the requests for the pages of one listing take together.

    A server may send pages for ever, each with the token of another one. What is done with the pages does not count.

    Attributes:
        pages: The number of pages so far.
    """

    def __init__(self, retry: Retry, listing: str) -> None:
        """Begin a listing, which notes call `listing`."""
        self.pages = 0
        self._retry = retry
        self._listing = listing
        self._limit_seconds = get_answer_limit_seconds(retry)
        self._spent_seconds = 0.0

    @property
    def is_over(self) -> bool:
        """Return whether the time is used up."""
        return self._spent_seconds > self._limit_seconds

    def ask(self, request: Callable[[], Result]) -> Result:
        """Return the page that a request returns, and note a listing that takes long."""
        began = self._retry.now()
        page = request()
        self._spent_seconds += self._retry.now() - began
        self.pages += 1
        if self._spent_seconds > QUIET_SECONDS:
            self._retry.note_delay(f"{self._listing}: {self.pages:,} pages so far")
        return page

    def facts(self) -> dict[str, str]:
        """Return the facts for an error about a listing that does not end."""
        limit = f"{self._limit_seconds:g} s for all pages ({parameter('open_table.retry_budget')})"
        return {"pages": f"{self.pages:,}", "limit": limit}
