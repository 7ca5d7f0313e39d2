"""The memory that this process may take, and the errors of libraries that mean that there is none left.

A limit on the address space (`ulimit -v`, `prlimit --as`) makes allocations fail, which can be reported. Where a
container limits memory, the kernel kills the process instead, and nothing can be reported.

`raise_if_out_of_memory` is called wherever an error of a library is taken to mean that a file is damaged: a file is not
damaged because there was no memory to read it.
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

if sys.platform != "win32":  # Windows has no such limits
    import resource

AMPLE_ADDRESS_SPACE = 4 << 30
"""A limit from which on nothing is saved: allocators and the stacks of threads reserve far more than they use."""

MINIMUM_ADDRESS_SPACE = 250 << 20
"""What pyarrow and a command need before they read anything.

Measured on Linux, x86-64, with pyarrow 26.0.1. Below that, libraries end the process without an error.
"""

_ADDRESS_SPACE_PER_THREAD = 512 << 20

_M_ARENA_MAX = -8
"""The parameter of glibc's `mallopt` for the number of arenas."""

_OUT_OF_MEMORY_MESSAGE = re.compile(
    r"(bad_alloc|alloc of size \d+ failed|annot allocate memory|can't start new thread|failed to map segment.*)\W*$"
)
_FAILED_ALLOCATION = re.compile(r"alloc of size (\d+) failed")

_ERRORS_ABOUT_VALUES = (ValueError, LookupError, TypeError)
"""Errors that quote the value they are about, so that their text proves nothing; `ArrowInvalid` is a ValueError.

An error of this kind is never one of memory, unless it is a MemoryError as well.
"""

_LONGEST_REASON = 200


def address_space_limit() -> int | None:
    """Return the number of bytes of address space that this process may take, or None without a limit."""
    if sys.platform == "win32":
        return None

    soft_limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    # Some systems show "unlimited" as a negative number, others as RLIM_INFINITY.
    return min((limit for limit in soft_limits if 0 <= limit != resource.RLIM_INFINITY), default=None)


def count_worker_threads() -> int:
    """Return how many threads may work at once: one per processor, fewer if the address space is limited."""
    processors = os.cpu_count() or 1
    limit = address_space_limit()
    if limit is None:
        return processors
    return max(1, min(processors, limit // _ADDRESS_SPACE_PER_THREAD))


def choose_allocator() -> None:
    """Choose Arrow's allocator, unless the environment does. Call it before pyarrow is imported. Linux only.

    Measured on a checkpoint of a million adds: 96 MB at the peak with jemalloc, 150 MB with Arrow's default, at equal
    speed. Within a limit on the address space, glibc's allocator with one arena for all threads is used: a snapshot of
    600,000 adds takes 225 MB of addresses, against 690 MB with jemalloc and one arena of 64 MB per thread.
    """
    if sys.platform != "linux":
        return

    limit = address_space_limit()
    if limit is None or limit >= AMPLE_ADDRESS_SPACE:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
        return

    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with suppress(OSError, AttributeError):  # a C library without mallopt, such as musl
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def require_minimum_memory() -> None:
    """Raise MemoryExhausted if the limit in force is too low for any command that reads rows."""
    limit = address_space_limit()
    if limit is not None and limit < MINIMUM_ADDRESS_SPACE:
        needed = f"at least {format_size(MINIMUM_ADDRESS_SPACE)}"
        raise _describe_exhaustion("the limit is too low to begin with", needed)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error means that an allocation failed although its size was reasonable.

    Damaged bytes can make a library ask for an absurd amount, more than the machine has. That is an error of the
    bytes, not of memory.
    """
    if isinstance(error, MemoryExhausted):
        return True

    if not (_is_memory_error(error) or _says_out_of_memory(error)):
        return False

    text = str(error)
    if failed_allocation := _FAILED_ALLOCATION.search(text):
        return int(failed_allocation[1]) <= _physical_memory()
    # `bad_alloc` has no size. Without a limit, a request of a reasonable size would have succeeded.
    return address_space_limit() is not None or "bad_alloc" not in text


def raise_if_out_of_memory(error: BaseException) -> None:
    """Raise MemoryExhausted if an error of a library means that memory is used up; otherwise do nothing."""
    if isinstance(error, MemoryExhausted):
        raise error
    if is_out_of_memory(error):
        raise build_memory_error(error) from error


def build_memory_error(error: BaseException) -> MemoryExhausted:
    """Return the error to report for an error that `is_out_of_memory` recognises."""
    if isinstance(error, MemoryExhausted):
        return error

    # Facts are single lines, and the text of a library can be long.
    reason = " ".join(str(error).split())[:_LONGEST_REASON]
    failed_allocation = _FAILED_ALLOCATION.search(reason)
    needed = f"{format_size(int(failed_allocation[1]))} more" if failed_allocation else None
    return _describe_exhaustion(reason or type(error).__name__, needed)


def _is_memory_error(error: BaseException) -> bool:
    """Return True if the type of an error, or the number of the system, says that memory was refused."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, OSError) and error.errno == errno.ENOMEM


def _says_out_of_memory(error: BaseException) -> bool:
    """Return True if the message of a library's error says that memory was refused."""
    if isinstance(error, _ERRORS_ABOUT_VALUES):
        return False
    return _OUT_OF_MEMORY_MESSAGE.search(str(error)) is not None


def _describe_exhaustion(reason: str, needed: str | None) -> MemoryExhausted:
    """Return an error with the limit in force and, if it is known, the amount that is needed."""
    facts: dict[str, str] = {}
    hint = None
    limit = address_space_limit()
    if limit is not None:
        facts["limit"] = f"{format_size(limit)} of address space (ulimit -v)"
        hint = "ulimit -v unlimited"
    if needed is not None:
        facts["needed"] = needed
    facts["reason"] = reason
    return MemoryExhausted("not enough memory", facts=facts, hint=hint)


def _physical_memory() -> int:
    """Return the bytes of memory that the machine has, or 1 TiB where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 40
