"""Parse the HTTP header `Retry-After`, by which a busy server asks clients to wait before the next request.

Spec: RFC 9110, Retry-After.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

# Longer numbers of seconds are cut off. Nine digits are 31 years.
_MAX_DIGITS = 9


def read_retry_after(headers: Mapping[str, str], *, now: Callable[[], float] = time.time) -> float:
    """Return the seconds to wait, from the headers of a response; 0 if there is no `Retry-After`.

    A `Retry-After` that is a date is compared with the `Date` of the response, not with the clock of
    this machine, which may be wrong.

    Args:
        headers: The headers, with names in lower case.
        now: Returns the time in seconds since the epoch. Used if the response has no `Date`.
    """
    retry_after = headers.get("retry-after", "")
    if not retry_after:
        return 0.0
    sent_at = _parse_http_date(headers.get("date", ""))
    return parse_retry_after(retry_after, now() if sent_at is None else sent_at)


def parse_retry_after(retry_after: str, now: float) -> float:
    """Return the seconds to wait; 0 if the value is empty or invalid.

    Args:
        retry_after: The value of the header, such as `120` or `Wed, 21 Oct 2026 07:28:00 GMT`.
        now: The time of the response in seconds since the epoch.
    """
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text.lstrip("0")[:_MAX_DIGITS] or 0)
    retry_at = _parse_http_date(text)
    return 0.0 if retry_at is None else max(retry_at - now, 0.0)


def _parse_http_date(text: str) -> float | None:
    """Return an HTTP date in seconds since the epoch; None if it is invalid."""
    from calendar import timegm
    from email.utils import parsedate_to_datetime

    try:
        return float(timegm(parsedate_to_datetime(text).utctimetuple()))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
