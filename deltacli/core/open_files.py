"""Raise the limit on open files of this process."""

from __future__ import annotations

import sys
from contextlib import suppress

if sys.platform != "win32":  # Windows has no resource limits
    import resource


def raise_open_file_limit(wanted: int) -> int:
    """Raise the soft limit on open files (`ulimit -n`) to a number, or to the hard limit if that is lower.

    Args:
        wanted: The number of open files that the caller needs. A higher limit is not lowered.

    Returns:
        The new limit, which can be lower than `wanted`.
    """
    if sys.platform == "win32":
        return wanted

    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return wanted
    # An unprivileged process can raise its soft limit up to the hard limit.
    if hard_limit != resource.RLIM_INFINITY:
        wanted = min(hard_limit, wanted)
    if soft_limit >= wanted:
        return soft_limit

    # macOS refuses values above OPEN_MAX although the hard limit says "unlimited".
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard_limit))
        return wanted
    return soft_limit
