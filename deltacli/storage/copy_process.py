"""A second process that helps to copy many small files on a local disk.

Copying a small file consists of short system calls. Around each of them, CPython threads pass the
interpreter lock to each other, so two threads take longer than one. Two processes take half the time.

See docs/decisions/0160-a-second-process-copies-small-files.md.
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

# The option of prctl(2) that sets the signal a process receives when its parent ends.
_PR_SET_PDEATHSIG = 1

_StoreArguments = tuple[str, tuple[Any, ...], DirectoryIdentity | None]
"""Root, allowed prefixes and directory identity of a local store, as values that `repr` can write."""


class CopyProcess:
    """A child process that copies groups of files. It ends at the end of the `with` block.

    If the child process fails to copy a group, `copy_group` returns None. The caller then copies the
    group itself, and raises the error if that fails as well.

    Parent and child exchange `marshal` data over pipes: the parent writes a list of paths, the child
    answers with a list of booleans, True for each file that already existed.
    """

    def __init__(self, source: LocalStorage, target: LocalStorage) -> None:
        """Start the process. On systems without unnamed files (`O_TMPFILE`), no process is started.

        Args:
            source: The store to copy from.
            target: The store to copy to.
        """
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        # If Python is embedded, `sys.executable` is another program.
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
                # Ctrl+C must only reach this process, which waits until the group is copied.
                process_group=0,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        """Kill the process. It is idle or has failed."""
        process = self._process
        self._process = None
        if process is not None:
            process.kill()
            with suppress(OSError), process:
                pass

    def copy_group(self, paths: Sequence[str]) -> list[Creation] | None:
        """Copy files from the source store to the same paths of the target store.

        Args:
            paths: The paths, relative to the roots of the stores.

        Returns:
            The outcome for each file; None if the process is busy, was not started, or has failed.
        """
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
            # After an error, requests and answers may not match any more.
            self._stop()
            return None
        finally:
            self._lock.release()


def serve(parent: int, stores: Sequence[_StoreArguments]) -> None:
    """Copy groups of files until the parent process ends. This is the main function of the child process.

    Args:
        parent: The id of the parent process.
        stores: The arguments of the source store and of the target store.
    """
    import ctypes
    from signal import SIGKILL

    # The kernel kills this process when its parent ends, also if the parent is killed.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, SIGKILL)
    source, target = (_open_store(*arguments) for arguments in stores)
    with suppress(EOFError):
        while os.getppid() == parent:
            outcomes = target.copy_group(source, marshal.load(sys.stdin.buffer))
            sys.stdout.buffer.write(marshal.dumps([isinstance(outcome, Existed) for outcome in outcomes]))
            sys.stdout.buffer.flush()


def _open_store(root: str, allowed: tuple[Any, ...], identity: DirectoryIdentity | None) -> LocalStorage:
    return LocalStorage(root, AllowedPrefixes(*allowed)).bind_to_directory(identity)
