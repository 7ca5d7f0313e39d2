"""Writing local files atomically and durably: files that are created, and files that replace another.

The content is written to a draft beside the target and synced to the disk. Then the draft gets the target's name:

    .3f2a....tmp                          written, synced
    00000000000000000042.json             a hard link to it; fails if the name exists
    (directory)                           synced, so that the name survives a crash

A hard link is the only call of POSIX that gives a complete file a name and fails if the name is
taken. Where a file system has none, Linux' `renameat2` without replacing does the same; without
either, the store is read-only.

The name of a draft begins with a dot, so that a leftover is not mistaken for a file of a log or a table.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Self

from deltacli.core.errors import StorageFailed
from deltacli.storage.base import no_atomic_create_error
from deltacli.storage.hadoop_checksums import remove_checksum, remove_mismatched_checksum, remove_orphaned_checksum
from deltacli.storage.locked_drafts import LockedDraft
from deltacli.storage.os_errors import is_not_a_file
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown

DRAFT_PREFIX = "."

# Codes of file systems that have no hard links, or not for this file.
NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}

# Codes of file systems that cannot rename without replacing either.
_NO_EXCLUSIVE_RENAME = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}

# Constants of the C library, for `renameat2`.
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1

Sweep = Callable[[str, int], None]
"""Called with the directory of a new draft, and the time of its file system in nanoseconds."""

RequireSameDirectory = Callable[[], None]
"""Called before a file gets its name. Raises Refused if its directory is not that of the store any more."""


def create_file(
    full_path: str,
    data: bytes,
    modified_ms: int | None = None,
    *,
    sweep: Sweep | None = None,
    require_same_directory: RequireSameDirectory | None = None,
) -> Creation:
    """Create a file unless its name exists.

    Raises:
        OSError: With nothing left behind.
        NoAtomicCreate: If the file system cannot create a file atomically.
    """
    with LocalDraft(full_path, sweep, require_same_directory) as draft:
        draft.write(data, modified_ms)
        return draft.publish()


def replace(
    full_path: str,
    data: bytes,
    modified_ms: int | None = None,
    *,
    sweep: Sweep | None = None,
    require_same_directory: RequireSameDirectory | None = None,
) -> None:
    """Write a file, replacing an existing one. Raises OSError, also for an error after the rename."""
    with LocalDraft(full_path, sweep, require_same_directory) as draft:
        draft.write(data, modified_ms)
        draft.publish(replace=True)


class LocalDraft:
    """An empty file beside its target, for a `with` block, at whose end it is removed in any case.

    Raises OSError, or NoAtomicCreate.

    Attributes:
        local_path: The path of the draft, once the block has begun.
    """

    def __init__(
        self,
        target: str,
        sweep: Sweep | None = None,
        require_same_directory: RequireSameDirectory | None = None,
    ) -> None:
        self.local_path = ""
        self._target = target
        self._directory = os.path.dirname(target)
        self._sweep = sweep
        self._require_same_directory = require_same_directory
        self._draft: LockedDraft | None = None

    def __enter__(self) -> Self:
        _make_directories(self._directory)
        self._draft = LockedDraft(self._directory, DRAFT_PREFIX)
        self.local_path = self._draft.local_path
        try:
            if self._sweep is not None:
                self._sweep(self._directory, self._draft.changed_ns)
        except BaseException:
            self._draft.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._draft is not None:
            self._draft.close()

    def write(self, data: bytes, modified_ms: int | None = None) -> None:
        """Write the content of the draft, and set its modification time."""
        descriptor = os.open(self.local_path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            remaining = memoryview(data)
            while remaining:
                written = os.write(descriptor, remaining)
                remaining = remaining[written:]
        finally:
            os.close(descriptor)  # a network file system may report a full disk only here
        if modified_ms is not None:
            modified_ns = modified_ms * 1_000_000
            os.utime(self.local_path, ns=(modified_ns, modified_ns))

    def publish(self, *, replace: bool = False) -> Creation:
        """Sync the draft and give it the name of the target."""
        assert self._draft is not None
        self._draft.sync()
        # As late as possible. A directory that was put at the path before is found here; one that
        # comes later does not contain the draft, so that the link or rename fails.
        if self._require_same_directory is not None:
            self._require_same_directory()
        if replace:
            replace_file(self.local_path, self._target)
            _sync_directory(self._directory)
            return Created()
        return _link(self.local_path, self._target)


def _link(draft: str, full_path: str) -> Creation:
    """Give a draft its name unless the name exists, and return the outcome.

    The answer of the system is not the last word. On a network file system, a request whose answer
    was lost is repeated, and finds the link that it made itself: "file exists" may be about this
    very file, and so may any other error. The two names are compared: if they lead to one file, the
    creation has succeeded; if that cannot be determined, the outcome is unknown.
    """
    remove_orphaned_checksum(full_path)
    try:
        claim_name(draft, full_path)
    except FileExistsError:
        if is_not_a_file(full_path):
            raise StorageFailed(
                f"{full_path} cannot be written: it exists, but is not a file", hint=f"ls -ld {shlex.quote(full_path)}"
            ) from None
        match _is_same_file(draft, full_path):
            case None:
                return Unknown(f"{full_path} exists, but it cannot be determined whether it is this file")
            case False:
                return Existed()
    except OSError as error:
        match _is_same_file(draft, full_path):
            case None:
                return Unknown(f"{os.strerror(error.errno or 0).lower()}, and {full_path} cannot be accessed")
            case False:
                raise

    remove_mismatched_checksum(full_path)
    try:
        _sync_directory(os.path.dirname(full_path))
    except OSError as error:
        # Other writers see the commit already. Reporting a failure would make the caller write it a
        # second time.
        reason = os.strerror(error.errno or 0).lower()
        return Unknown(f"{full_path} exists but may not survive a crash: its directory cannot be synced ({reason})")
    return Created()


def replace_file(draft: str, full_path: str) -> None:
    """Give a draft its name, replacing a file of that name. No checksum file of another content is left.

    Raises:
        OSError: Nothing was replaced.
    """
    remove_checksum(full_path)
    os.replace(draft, full_path)
    remove_mismatched_checksum(full_path)


def claim_name(draft: str, full_path: str) -> None:
    """Give a draft a name that no file has yet.

    Raises:
        FileExistsError: If the name exists.
        OSError: If the file cannot get the name.
        NoAtomicCreate: If the file system cannot do this atomically.
    """
    try:
        os.link(draft, full_path)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        _rename_without_replacing(draft, full_path)


def _rename_without_replacing(draft: str, full_path: str) -> None:
    """Rename a file unless the name exists, for file systems without hard links."""
    rename = _renameat2()
    if rename is None:
        raise no_atomic_create_error(full_path, "the file system has no hard links, and this system has no renameat2")

    if rename(_AT_FDCWD, os.fsencode(draft), _AT_FDCWD, os.fsencode(full_path), _RENAME_NOREPLACE) == 0:
        return
    code = ctypes.get_errno()
    if code in _NO_EXCLUSIVE_RENAME:
        raise no_atomic_create_error(
            full_path, "the file system supports neither hard links nor renames without replacing"
        )
    raise OSError(code, os.strerror(code), full_path)


@cache
def _renameat2() -> Any:  # Any: a function of the C library, or None
    """Return the function of the C library, which Python does not offer; None on systems without it."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def _is_same_file(draft: str, full_path: str) -> bool | None:
    """Return whether both names lead to one file; None if that cannot be determined.

    If the draft is gone, it was renamed, whatever the answer was. Then nothing is left to compare with.
    """
    try:
        draft_status = os.stat(draft)
    except OSError:
        return None
    try:
        return os.path.samestat(draft_status, os.lstat(full_path))
    except FileNotFoundError:
        return False
    except OSError:
        return None


def _make_directories(directory: str) -> None:
    """Create a directory and those above it, and sync each to the disk."""
    if os.path.isdir(directory):
        return

    parent = os.path.dirname(directory)
    if parent != directory:
        _make_directories(parent)
    with suppress(FileExistsError):  # another writer was faster
        os.mkdir(directory)
    _sync_directory(parent)


def _sync_directory(directory: str) -> None:
    """Write the names in a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems that cannot sync directories do so automatically
            raise
    finally:
        os.close(descriptor)
