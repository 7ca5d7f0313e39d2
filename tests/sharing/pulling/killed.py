"""A pull that kills itself at a call: `python -m tests.sharing.pulling.killed ADDRESS TARGET NUMBER [RANGE_BYTES]`.

With RANGE_BYTES, every file of at least three of them is received in ranges of this size. Calls that change the disk
are counted, and the process ends by SIGKILL just before the one with the number. Prints how many there were where it
was not reached.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Lock

CHANGES = frozenset({"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"})
_WRITES = os.O_WRONLY | os.O_RDWR


def main(address: str, target: str, number: int, range_bytes: int | None = None) -> int:
    """Pull, and die on the way."""
    if range_bytes is not None:
        set_range_bytes(range_bytes)
    from deltacli.changing.change import execute_change
    from deltacli.sharing.client.share_storage import ShareStorage, open_share
    from deltacli.sharing.pulling.pull import Pull, PullRequest

    count, lock = 0, Lock()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event == "open":
            flags, path = arguments[2], str(arguments[0])
            is_change = isinstance(flags, int) and bool(flags & _WRITES) and path.startswith(target)
        else:
            is_change = event in CHANGES and str(arguments[0]).startswith(target)
        if is_change:
            with lock:
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)

    store = open_share(address)
    assert isinstance(store, ShareStorage)
    sys.addaudithook(hook)
    request = PullRequest(target)
    execute_change(Pull(store, request), request.target())
    sys.stdout.write(f"{count}\n")
    return 0


def set_range_bytes(count: int) -> None:
    """Make ranges small."""
    from deltacli.sharing.pulling import downloading

    for name, value in (("_RANGE_BYTES", count), ("LEAST_BYTES", 3 * count)):
        setattr(downloading, name, value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
