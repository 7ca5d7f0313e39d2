"""A second process that copies files of a disk beside this one."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from deltacli.storage.base import Allowed, Place
from deltacli.storage.local import LocalStorage
from deltacli.storage.outcomes import Created, Creation, Existed

_DIES_WITH_PARENT = 1


class Beside:
    """A process that copies groups of files beside this one, whose threads wait for the interpreter around every system
    call. It ends with this one. What it cannot copy as a whole is left to this one, which tells why.
    """

    def __init__(self, source: LocalStorage, target: LocalStorage) -> None:
        """Start it, where the system has unnamed files."""
        self._lock, self._process = threading.Lock(), None
        if not hasattr(os, "O_TMPFILE") or "python" not in os.path.basename(sys.executable or ""):
            return
        given = [(one.root, tuple(one.bounds.allowed), one.place) for one in (source, target)]
        main = f"import sys; sys.path[:] = {sys.path!a}; from {__name__} import serve; serve({os.getpid()}, {given!a})"
        with suppress(OSError):
            self._process = subprocess.Popen(
                (sys.executable, "-S", "-X", f"utf8={sys.flags.utf8_mode}", "-c", main),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,  # an interruption is for this process, which waits for the group
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # it has nothing to do, or has failed
            with suppress(OSError), process:
                pass

    def copy_group(self, paths: Sequence[str]) -> list[Creation] | None:
        """Return what became of the files; None where it is busy, or cannot copy them."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._process is None:
                return None
            given, told = self._process.stdin, self._process.stdout
            assert given is not None
            assert told is not None
            given.write(marshal.dumps([*paths]))
            given.flush()
            return [Existed() if was_there else Created() for was_there in marshal.load(told)]
        except (OSError, EOFError, ValueError):
            self.__exit__()
            return None
        finally:
            self._lock.release()


def serve(parent: int, stores: Sequence[tuple[str, tuple[Any, ...], Place | None]]) -> None:
    """Copy groups of files from one store to another until a process ends (`Beside`)."""
    import ctypes
    from signal import SIGKILL

    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, SIGKILL)
    source, target = (LocalStorage(root, Allowed(*allowed)).held(place) for root, allowed, place in stores)
    with suppress(EOFError):
        while os.getppid() == parent:
            made = target.copy_group(source, marshal.load(sys.stdin.buffer))
            sys.stdout.buffer.write(marshal.dumps([isinstance(one, Existed) for one in made]))
            sys.stdout.buffer.flush()
