"""The machine of a run: its clock, which is read here only, waiting, random numbers; its memory; which hosts are it;
whether its garbage is being collected.

A limit of the address space (`ulimit -v`, `prlimit --as`) is the one that shows as failed allocations. Where a
container limits memory the kernel ends the process, and nothing can be reported.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import get_ident

from deltacli.core.errors import MemoryExhausted

# -- the only place that reads the real clock --------------------------------------------------------------------------

Clock = Callable[[], int]
"""Milliseconds since the epoch, UTC."""


class _SystemClock:
    def __call__(self) -> int:
        """Return the wall clock of this machine in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def __repr__(self) -> str:
        return "system_clock"

    __reduce__ = __repr__


system_clock = _SystemClock()
"""The wall clock of this machine, which is one object in each process, with a name in signatures."""


def fixed_clock(now_ms: int) -> Clock:
    """Return a clock that always shows `now_ms` (`--now`, tests)."""
    return lambda: now_ms


# -- what a run takes from its machine ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Machine:
    """One value, so that a test or a simulation can decide all of it. Executors of a cluster use their own."""

    now_ms: Clock = system_clock
    """The wall clock, which is compared with those of other machines."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds, to measure how long something took."""
    sleep: Callable[[float], None] = time.sleep
    random_bytes: Callable[[int], bytes] = os.urandom
    """So many bytes that are not the same in a forked process."""

    def new_hex(self, count: int = 16) -> str:
        """Return so many random bytes as hexadecimal digits."""
        return self.random_bytes(count).hex()

    def new_uuid(self) -> str:
        """Return a unique id."""
        from uuid import UUID

        return str(UUID(bytes=self.random_bytes(16), version=4))

    def sleep_up_to(self, longest: float) -> None:
        """Wait for a random time."""
        self.sleep(longest * int.from_bytes(self.random_bytes(4), "big") / 0xFFFFFFFF)


MACHINE = Machine()
"""This machine."""


# -- whether a host is this machine, for what is allowed there only ----------------------------------------------------


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and for addresses of loopback: nothing that is sent there leaves the machine. Names
    are not resolved.

    What may be another host for any resolver or gateway is none: names below `localhost`, forms of addresses that only
    some libraries read (`127.1`, `127.0.0.1.`), and IPv4 addresses within others of IPv6 than mapped ones.
    """
    if host.lower() in ("localhost", "localhost."):
        return True
    from ipaddress import IPv6Address, ip_address

    try:
        address = IPv6Address(host[1:-1]) if host.startswith("[") and host.endswith("]") else ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


# -- the memory that a process may take --------------------------------------------------------------------------------

ROOMY = 4 << 30
"""Address space from which on nothing is saved: allocators and stacks of threads reserve much more than they use."""
LEAST = 250 << 20
"""Address space that pyarrow and a command need before they read anything. Measured on Linux, x86-64, pyarrow 26.0.1:
below that, libraries end the process without an error.
"""
_PER_THREAD = 512 << 20
_ONE_ARENA = (-8, 1)  # mallopt(M_ARENA_MAX, 1)
_REFUSED = (
    r"(bad_alloc|alloc of size \d+ failed|annot allocate memory|can't start new thread|failed to map segment.*)\W*$"
)
_OF_VALUES = (ValueError, LookupError, TypeError)
"""Kinds of faults that quote what they are about, and are never of memory: Arrow's are of these kinds, too."""
_REQUEST = r"alloc of size (\d+) failed"


def address_limit() -> int | None:
    """Return the address space in bytes that this process may take; None without a limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((limit for limit in limits if 0 <= limit != resource.RLIM_INFINITY), default=None)


def raise_open_files(most: int) -> int:
    """Return how many files this process may open, after raising that to `most`, or to what it may allow itself."""
    try:
        import resource
    except ImportError:  # Windows
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        most = min(hard, most)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most if soft == resource.RLIM_INFINITY else soft
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return soft


def threads_within_limit() -> int:
    """Return how many threads may work at once: one a processor, fewer where the address space is limited."""
    limit, processors = address_limit(), os.cpu_count() or 1
    return processors if limit is None else max(1, min(processors, limit // _PER_THREAD))


def choose_allocator() -> None:
    """Choose Arrow's allocator before pyarrow is imported, unless the environment has; Linux only.

    Measured on a checkpoint of a million adds: 96 MB at the peak with jemalloc against 150 MB with the default pool, at
    equal speed. Within a limit of the address space glibc's own is taken, with one arena for all threads: 225 MB of
    addresses for a snapshot of 600,000 adds, against 690 MB with jemalloc and arenas of 64 MB for each thread.
    """
    if sys.platform != "linux":
        return
    limit = address_limit()
    if limit is None or limit >= ROOMY:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
        return
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with suppress(ImportError, OSError, AttributeError):  # a C library without mallopt
        import ctypes

        ctypes.CDLL(None).mallopt(*_ONE_ARENA)


def require_room() -> None:
    """Raise MemoryExhausted where the limit in force is too low to begin with."""
    limit = address_limit()
    if limit is not None and limit < LEAST:
        raise _exhausted("the limit is too low to begin with", at_least=LEAST)


def is_exhaustion(fault: BaseException) -> bool:
    """True if a fault says that memory was refused, and not because damaged bytes asked for an absurd amount."""
    if isinstance(fault, MemoryExhausted):
        return True
    text = str(fault)
    is_memory = isinstance(fault, MemoryError) or (isinstance(fault, OSError) and fault.errno == errno.ENOMEM)
    if not is_memory and (isinstance(fault, _OF_VALUES) or not re.search(_REFUSED, text)):
        return False
    if request := re.search(_REQUEST, text):
        return int(request[1]) <= _physical_bytes()
    return address_limit() is not None or "bad_alloc" not in text


def stop_if_exhausted(fault: BaseException) -> None:
    """Raise MemoryExhausted if a fault is one of memory.

    Called wherever faults of a library are taken for faults of the bytes it reads: a file is not damaged because there
    was no memory to read it.
    """
    if isinstance(fault, MemoryExhausted):
        raise fault
    if is_exhaustion(fault):
        raise exhausted_by(fault) from fault


def exhausted_by(fault: BaseException) -> MemoryExhausted:
    """Return the error for a fault of memory; one that is such an error already as it is."""
    if isinstance(fault, MemoryExhausted):
        return fault
    text = " ".join(str(fault).split())[:200]
    request = re.search(_REQUEST, text)
    return _exhausted(text or type(fault).__name__, more=int(request[1]) if request else None)


def _exhausted(reason: str, *, more: int | None = None, at_least: int | None = None) -> MemoryExhausted:
    """The error, with the limit in force and what is needed: `more` than there is, or `at_least` as a limit."""
    from deltacli.core.units import format_size

    limit = address_limit()
    facts = {} if limit is None else {"limit": f"{format_size(limit)} of address space (ulimit -v)"}
    if more is not None:
        facts["needed"] = f"{format_size(more)} more"
    if at_least is not None:
        facts["needed"] = f"at least {format_size(at_least)}"
    hint = None if limit is None else "ulimit -v unlimited"
    return MemoryExhausted("not enough memory", facts=facts | {"reason": reason}, hint=hint)


def _physical_bytes() -> int:
    """The memory of the machine; more than that is never asked for in earnest."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


# -- waiting for threads -----------------------------------------------------------------------------------------------

POLL_SECONDS = 0.1
"""Seconds of a single wait: a signal just before it begins does not end it, and on Windows no signal does."""
_collector = [0]
"""The thread that collects garbage; 0 if none does."""


def is_collecting() -> bool:
    """Return True if this thread is collecting garbage, so that the caller runs as a finalizer.

    A generator that nobody closes can be part of a cycle, which the collector ends: in any thread, in the middle of any
    call, while that thread holds any lock. Waiting for other threads there can wait for ever.
    """
    return _collector[0] == get_ident()


def _note(phase: str, _: dict[str, int]) -> None:
    _collector[0] = get_ident() if phase == "start" else 0


gc.callbacks.append(_note)
