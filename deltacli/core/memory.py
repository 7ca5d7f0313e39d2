"""Memory limits of this process, and the errors that libraries raise when memory is exhausted.

A limit on the address space (`ulimit -v`, `prlimit --as`) makes allocations fail, and deltacli reports that. A memory
limit of a container does not: the kernel kills the process without notice.

A library that cannot allocate memory raises its usual error, such as `ArrowInvalid`. Code that would report such an
error as a damaged file calls `raise_if_out_of_memory` first.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from contextlib import suppress

from deltacli.core.errors import MemoryExhausted
from deltacli.core.units import format_size

if sys.platform != "win32":  # Windows has no resource limits
    import resource

AMPLE_ADDRESS_SPACE = 4 << 30
"""Address space in bytes that is sufficient for the defaults of allocators, which reserve far more than they use."""

MINIMUM_ADDRESS_SPACE = 250 << 20
"""Address space in bytes that pyarrow and a command require before they read anything.

Measured on Linux, x86-64, with pyarrow 26.0.1. With less, libraries end the process without an error.
"""

_ADDRESS_SPACE_PER_THREAD = 512 << 20

_M_ARENA_MAX = -8
"""The parameter of glibc's `mallopt` for the number of arenas."""

_OUT_OF_MEMORY_MESSAGE = re.compile(
    r"(bad_alloc|alloc of size \d+ failed|annot allocate memory|can't start new thread|failed to map segment.*)\W*$"
)
_FAILED_ALLOCATION = re.compile(r"alloc of size (\d+) failed")

_ERRORS_ABOUT_VALUES = (ValueError, LookupError, TypeError)
"""Errors whose message may quote a value of the user, and therefore any text; `ArrowInvalid` is a ValueError.

These errors count as out of memory only if they are also a MemoryError.
"""

_MAX_REASON_LENGTH = 200


def get_address_space_limit() -> int | None:
    """Return the limit on the address space of this process in bytes, or None without a limit."""
    if sys.platform == "win32":
        return None

    soft_limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    # Some systems return a negative number for "unlimited", others RLIM_INFINITY.
    return min((limit for limit in soft_limits if 0 <= limit != resource.RLIM_INFINITY), default=None)


def count_worker_threads() -> int:
    """Return the number of threads for parallel work: one per processor, fewer if the address space is limited."""
    processors = os.cpu_count() or 1
    limit = get_address_space_limit()
    if limit is None:
        return processors
    return max(1, min(processors, limit // _ADDRESS_SPACE_PER_THREAD))


def choose_allocator() -> None:
    """Choose the allocator of Arrow on Linux, before pyarrow is imported.

    The variable ARROW_DEFAULT_MEMORY_POOL takes precedence.

    Without a limit on the address space, jemalloc is used. Reading a checkpoint of a million adds takes 96 MB at the
    peak with jemalloc, and 150 MB with Arrow's default allocator, at equal speed.

    Within a limit, the allocator of glibc with one arena for all threads is used. A snapshot of 600,000 adds takes
    225 MB of address space with it, and 690 MB with jemalloc and glibc's default of one 64 MB arena per thread.
    """
    if sys.platform != "linux":
        return

    limit = get_address_space_limit()
    if limit is None or limit >= AMPLE_ADDRESS_SPACE:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
        return

    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with suppress(OSError, AttributeError):  # a C library without mallopt, such as musl
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def require_minimum_memory() -> None:
    """Raise MemoryExhausted if the limit on the address space is too low for all commands that read rows."""
    limit = get_address_space_limit()
    if limit is not None and limit < MINIMUM_ADDRESS_SPACE:
        required = f"at least {format_size(MINIMUM_ADDRESS_SPACE)}"
        raise _build_exhaustion_error("the limit is too low to begin with", required)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error means that an allocation of a reasonable size failed.

    A damaged file can make a library allocate an absurd size, larger than the memory of the machine. Such an error is
    reported as a damaged file, so the result is False.
    """
    if isinstance(error, MemoryExhausted):
        return True

    if not (_is_memory_error(error) or _has_out_of_memory_message(error)):
        return False

    text = str(error)
    if failed_allocation := _FAILED_ALLOCATION.search(text):
        return int(failed_allocation[1]) <= _get_physical_memory()
    # The message `bad_alloc` has no size. Without a limit on the address space, allocations of a reasonable size
    # succeed, so the size must have been absurd.
    return get_address_space_limit() is not None or "bad_alloc" not in text


def raise_if_out_of_memory(error: BaseException) -> None:
    """Raise MemoryExhausted if an error of a library means that memory is exhausted; otherwise return."""
    if isinstance(error, MemoryExhausted):
        raise error
    if is_out_of_memory(error):
        raise build_memory_error(error) from error


def build_memory_error(error: BaseException) -> MemoryExhausted:
    """Convert an error for which `is_out_of_memory` is True."""
    if isinstance(error, MemoryExhausted):
        return error

    # Facts are single lines, and messages of libraries can have many.
    reason = " ".join(str(error).split())[:_MAX_REASON_LENGTH]
    failed_allocation = _FAILED_ALLOCATION.search(reason)
    required = f"{format_size(int(failed_allocation[1]))} more" if failed_allocation else None
    return _build_exhaustion_error(reason or type(error).__name__, required)


def _is_memory_error(error: BaseException) -> bool:
    """Return True for a MemoryError, and for an OSError with the number ENOMEM."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, OSError) and error.errno == errno.ENOMEM


def _has_out_of_memory_message(error: BaseException) -> bool:
    """Return True if the message of a library's error reports a failed allocation."""
    if isinstance(error, _ERRORS_ABOUT_VALUES):
        return False
    return _OUT_OF_MEMORY_MESSAGE.search(str(error)) is not None


def _build_exhaustion_error(reason: str, required: str | None) -> MemoryExhausted:
    """Return the error with the limit of this process.

    Args:
        reason: The message of the library, or another explanation.
        required: The amount of memory that would have been sufficient, such as `64 MiB more`; None if not known.
    """
    facts: dict[str, str] = {}
    hint = None
    limit = get_address_space_limit()
    if limit is not None:
        facts["limit"] = f"{format_size(limit)} of address space (ulimit -v)"
        hint = "ulimit -v unlimited"
    if required is not None:
        facts["needed"] = required
    facts["reason"] = reason
    return MemoryExhausted("not enough memory", facts=facts, hint=hint)


def _get_physical_memory() -> int:
    """Return the size of the machine's memory in bytes; 1 TiB if the operating system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 40
