"""Where the suite has its files: in memory, where writing and syncing thousands of them costs nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path


def files_prefix() -> str:
    """Return the prefix of the names of test directories.

    It contains the process id namespace where there is one, because containers can share /dev/shm.
    """
    try:
        return f"deltacli-tests-{os.stat('/proc/self/ns/pid').st_ino}-"
    except OSError:
        return "deltacli-tests-"


def memory_disk() -> str | None:
    """Return the directory for files in memory, after deleting what earlier runs left there.

    Return None if there is no such directory, if programs cannot run from it, or if less than 2 GiB is free.
    """
    place = Path("/dev/shm")
    if not sys.platform.startswith("linux") or not os.access(place, os.W_OK):
        return None
    if os.statvfs(place).f_flag & os.ST_NOEXEC:
        return None
    for left in place.glob(f"{files_prefix()}*"):
        process = left.name.removeprefix(files_prefix()).split("-")[0]
        with contextlib.suppress(OSError):
            if left.lstat().st_uid == os.getuid() and not Path("/proc", process).exists():
                shutil.rmtree(left, ignore_errors=True)
    return str(place) if shutil.disk_usage(place).free >= 2 << 30 else None
