"""A second process that copies files of a disk beside this one.

Threads of Python hand the interpreter to each other around every call of the system. For many small
files, two of them take longer than one; two processes take half the time. See
docs/decisions/0160-a-second-process-copies-small-files.md.
"""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from deltacli.storage.allowed_prefixes import AllowedPrefixes
from deltacli.storage.directory_identity import DirectoryIdentity
from deltacli.storage.local import LocalStorage
from deltacli.storage.outcomes import Created, Creation, Existed

# `PR_SET_PDEATHSIG` of prctl: the signal that a process gets when its parent ends.
_PARENT_DEATH_SIGNAL = 1

_StoreArguments = tuple[str, tuple[Any, ...], DirectoryIdentity | None]
"""Root, allowed prefixes and directory of a store, as values that `marshal` and `repr` can write."""


class CopyProcess:
    """A process that copies groups of files beside this one, and ends with it.

    A group that it cannot copy completely is left to this process, which then raises the error. It
    talks in `marshal` over pipes: paths go out, and for each of them whether it existed comes back.
    """

    def __init__(self, source: LocalStorage, target: LocalStorage) -> None:
        """Start it, if the system has unnamed files."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        # An embedded interpreter has another executable, which would start its own program.
        if not hasattr(os, "O_TMPFILE") or "python" not in os.path.basename(sys.executable or ""):
            return

        stores = [(store.root, tuple(store.bounds.allowed), store.directory_identity) for store in (source, target)]
        main = f"import sys; sys.path[:] = {sys.path!a}; from {__name__} import serve; serve({os.getpid()}, {stores!a})"
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
        process = self._process
        self._process = None
        if process is not None:
            process.kill()  # it has nothing to do, or has failed
            with suppress(OSError), process:
                pass

    def copy_group(self, paths: Sequence[str]) -> list[Creation] | None:
        """Return the outcome of each file; None if the process is busy, or cannot copy them."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._process is None:
                return None
            requests = self._process.stdin
            answers = self._process.stdout
            assert requests is not None
            assert answers is not None
            requests.write(marshal.dumps([*paths]))
            requests.flush()
            return [Existed() if existed else Created() for existed in marshal.load(answers)]
        except (OSError, EOFError, ValueError):
            self.__exit__()  # it is not asked again
            return None
        finally:
            self._lock.release()


def serve(parent: int, stores: Sequence[_StoreArguments]) -> None:
    """Copy groups of files from one store to another until a process ends (`CopyProcess`)."""
    import ctypes
    from signal import SIGKILL

    # The kernel ends this process with the one that started it, however that ends.
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, SIGKILL)
    source, target = (_open_store(*arguments) for arguments in stores)
    with suppress(EOFError):
        while os.getppid() == parent:
            outcomes = target.copy_group(source, marshal.load(sys.stdin.buffer))
            sys.stdout.buffer.write(marshal.dumps([isinstance(outcome, Existed) for outcome in outcomes]))
            sys.stdout.buffer.flush()


def _open_store(root: str, allowed: tuple[Any, ...], identity: DirectoryIdentity | None) -> LocalStorage:
    return LocalStorage(root, AllowedPrefixes(*allowed)).bind_to_directory(identity)
