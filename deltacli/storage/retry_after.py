"""For how long a server asks to be left alone: the header Retry-After.

Spec: RFC 9110, Retry-After.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

# Digits of a number of seconds that are read: 31 years.
_MOST_DIGITS = 9


def read_retry_after(headers: Mapping[str, str], *, now: Callable[[], float] = time.time) -> float:
    """Return the seconds for which a response asks to be left alone; 0 if it does not.

    A date is compared with the date of the same response, so that a wrong clock of this machine does no harm.

    Args:
        headers: The headers of the response, with names in lower case.
        now: Returns seconds of the epoch, for a response without a date.
    """
    retry_after = headers.get("retry-after", "")
    if not retry_after:
        return 0.0
    sent_at = _parse_http_date(headers.get("date", ""))
    return parse_retry_after(retry_after, now() if sent_at is None else sent_at)


def parse_retry_after(retry_after: str, now: float) -> float:
    """Return the seconds that the header Retry-After asks to wait; 0 if it is empty or invalid.

    Args:
        retry_after: A number of seconds, or a date.
        now: Seconds of the epoch.
    """
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text.lstrip("0")[:_MOST_DIGITS] or 0)
    retry_at = _parse_http_date(text)
    return 0.0 if retry_at is None else max(retry_at - now, 0.0)


def _parse_http_date(text: str) -> float | None:
    """Return the seconds of the epoch of a date in a header; None if it is invalid."""
    from calendar import timegm
    from email.utils import parsedate_to_datetime

    try:
        return float(timegm(parsedate_to_datetime(text).utctimetuple()))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
