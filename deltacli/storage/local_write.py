"""Write local files atomically and durably.

The content is written to a draft in the same directory and synced to the disk. Then the draft gets the
name of the target:

    .3f2a….tmp                     write the draft, sync it
    00000000000000000042.json      create a hard link to the draft; this fails if the name exists
    _delta_log/                    sync the directory, so that the new name survives a crash

To give a complete file a name only if the name does not exist, POSIX only has hard links. On file
systems without hard links, Linux' `renameat2` with `RENAME_NOREPLACE` is used. If neither is
supported, the store is read-only.

The name of a draft begins with a dot, so that no engine reads a leftover draft as a data file or commit.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from functools import cache
from typing import Any, Self

from deltacli.core.errors import StorageFailed
from deltacli.storage.base import no_atomic_create_error
from deltacli.storage.hadoop_checksums import remove_checksum, remove_mismatched_checksum, remove_orphaned_checksum
from deltacli.storage.locked_drafts import LockedDraft
from deltacli.storage.os_errors import is_not_a_file
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown

DRAFT_PREFIX = "."

# Error codes of os.link if the file system does not support hard links, or no more of them.
NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}

# Error codes of renameat2 if the file system does not support RENAME_NOREPLACE.
_NO_EXCLUSIVE_RENAME = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}

# Constants of the C library for renameat2.
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1

RemoveOldDrafts = Callable[[str, int], None]
"""Removes abandoned drafts. Receives the directory, and the time of its file system in nanoseconds."""

RequireSameDirectory = Callable[[], None]
"""Raises Refused if another directory is at the root of the store than the one it is bound to."""


def create_file(
    full_path: str,
    data: bytes,
    modified_ms: int | None = None,
    *,
    remove_old_drafts: RemoveOldDrafts | None = None,
    require_same_directory: RequireSameDirectory | None = None,
) -> Creation:
    """Create a file if the name does not exist.

    Args:
        full_path: The absolute path of the file.
        data: The content.
        modified_ms: The modification time in epoch milliseconds; None for the current time.
        remove_old_drafts: Called once the draft exists.
        require_same_directory: Called before the file gets its name.

    Raises:
        OSError: If the file cannot be written. Nothing was created.
        NoAtomicCreate: If the file system does not support atomic creation.
    """
    with LocalDraft(full_path, remove_old_drafts, require_same_directory) as draft:
        draft.write(data, modified_ms)
        return draft.publish()


def replace(
    full_path: str,
    data: bytes,
    modified_ms: int | None = None,
    *,
    remove_old_drafts: RemoveOldDrafts | None = None,
    require_same_directory: RequireSameDirectory | None = None,
) -> None:
    """Write a file, and replace an existing one.

    Args:
        full_path: The absolute path of the file.
        data: The content.
        modified_ms: The modification time in epoch milliseconds; None for the current time.
        remove_old_drafts: Called once the draft exists.
        require_same_directory: Called before the file gets its name.

    Raises:
        OSError: If the file cannot be written. If only the directory could not be synced, the file
            was already replaced.
    """
    with LocalDraft(full_path, remove_old_drafts, require_same_directory) as draft:
        draft.write(data, modified_ms)
        draft.publish(replace=True)


class LocalDraft:
    """A temporary file in the directory of its target.

    The file exists inside the `with` block. The methods raise OSError and NoAtomicCreate.

    Attributes:
        local_path: The path of the temporary file.
    """

    def __init__(
        self,
        target: str,
        remove_old_drafts: RemoveOldDrafts | None = None,
        require_same_directory: RequireSameDirectory | None = None,
    ) -> None:
        """Prepare a draft. The file is created at the beginning of the `with` block.

        Args:
            target: The absolute path of the file to write.
            remove_old_drafts: Called once the draft exists.
            require_same_directory: Called before the file gets its name.
        """
        self.local_path = ""
        self._target = target
        self._directory = os.path.dirname(target)
        self._remove_old_drafts = remove_old_drafts
        self._require_same_directory = require_same_directory
        self._draft: LockedDraft | None = None

    def __enter__(self) -> Self:
        _make_directories(self._directory)
        self._draft = LockedDraft(self._directory, DRAFT_PREFIX)
        self.local_path = self._draft.local_path
        try:
            if self._remove_old_drafts is not None:
                self._remove_old_drafts(self._directory, self._draft.changed_ns)
        except BaseException:
            self._draft.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._draft is not None:
            self._draft.close()

    def write(self, data: bytes, modified_ms: int | None = None) -> None:
        """Write the content of the draft.

        Args:
            data: The content.
            modified_ms: The modification time in epoch milliseconds; None for the current time.
        """
        descriptor = os.open(self.local_path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            remaining = memoryview(data)
            while remaining:
                written = os.write(descriptor, remaining)
                remaining = remaining[written:]
        finally:
            # Network file systems may report only now that the disk is full.
            os.close(descriptor)
        if modified_ms is not None:
            modified_ns = modified_ms * 1_000_000
            os.utime(self.local_path, ns=(modified_ns, modified_ns))

    def publish(self, *, replace: bool = False) -> Creation:
        """Sync the draft and give it the name of the target.

        Args:
            replace: Whether to replace an existing file.
        """
        assert self._draft is not None
        self._draft.sync()

        # Check this as late as possible. If another directory appears at the path afterwards, it does
        # not contain the draft, and the link or rename fails.
        if self._require_same_directory is not None:
            self._require_same_directory()

        if replace:
            replace_file(self.local_path, self._target)
            _sync_directory(self._directory)
            return Created()
        return _create_link(self.local_path, self._target)


class _Comparison(Enum):
    """Whether a draft and its target are the same file.

    Attributes:
        SAME: Both names refer to the same file.
        DIFFERENT: The target is another file, or does not exist.
        UNKNOWN: One of the names cannot be accessed.
    """

    SAME = auto()
    DIFFERENT = auto()
    UNKNOWN = auto()


def _create_link(draft: str, full_path: str) -> Creation:
    """Give a draft its name if the name does not exist.

    The error code of the system call may be wrong. If a network file system loses the response of the
    server, it sends the request again. The second request then fails with "file exists", because the
    first one has created the link. After any error, the draft is therefore compared with the target.
    """
    remove_orphaned_checksum(full_path)
    try:
        claim_name(draft, full_path)
    except FileExistsError:
        if is_not_a_file(full_path):
            raise StorageFailed(
                f"{full_path} cannot be written: it exists, but is not a file", hint=f"ls -ld {shlex.quote(full_path)}"
            ) from None
        comparison = _compare_files(draft, full_path)
        if comparison is _Comparison.DIFFERENT:
            return Existed()
        if comparison is _Comparison.UNKNOWN:
            return Unknown(f"{full_path} exists, but it cannot be determined whether it is this file")
    except OSError as error:
        comparison = _compare_files(draft, full_path)
        if comparison is _Comparison.DIFFERENT:
            raise
        if comparison is _Comparison.UNKNOWN:
            return Unknown(f"{os.strerror(error.errno or 0).lower()}, and {full_path} cannot be accessed")

    remove_mismatched_checksum(full_path)
    try:
        _sync_directory(os.path.dirname(full_path))
    except OSError as error:
        # Other writers already see the file. If an error were raised, the caller would write the
        # commit a second time, as another version.
        reason = os.strerror(error.errno or 0).lower()
        return Unknown(f"{full_path} exists but may not survive a crash: its directory cannot be synced ({reason})")
    return Created()


def _compare_files(draft: str, full_path: str) -> _Comparison:
    """Compare a draft with its target.

    If the draft does not exist any more, it was probably renamed, although the call has reported an
    error. Then the result is unknown.
    """
    try:
        draft_status = os.stat(draft)
    except OSError:
        return _Comparison.UNKNOWN
    try:
        is_same = os.path.samestat(draft_status, os.lstat(full_path))
    except FileNotFoundError:
        return _Comparison.DIFFERENT
    except OSError:
        return _Comparison.UNKNOWN
    return _Comparison.SAME if is_same else _Comparison.DIFFERENT


def replace_file(draft: str, full_path: str) -> None:
    """Rename a draft to its target, and replace an existing file. Its Hadoop checksum file is removed.

    Raises:
        OSError: If the file cannot be replaced. The old file is unchanged.
    """
    remove_checksum(full_path)
    os.replace(draft, full_path)
    remove_mismatched_checksum(full_path)


def claim_name(draft: str, full_path: str) -> None:
    """Give a draft a name that does not exist.

    Raises:
        FileExistsError: If the name exists.
        OSError: If the link cannot be created.
        NoAtomicCreate: If the file system does not support atomic creation.
    """
    try:
        os.link(draft, full_path)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        _rename_without_replacing(draft, full_path)


def _rename_without_replacing(draft: str, full_path: str) -> None:
    """Rename a draft to a name that does not exist, on a file system without hard links.

    Raises:
        OSError: If the name exists, or the draft cannot be renamed.
        NoAtomicCreate: If the system or the file system does not support this.
    """
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
def _renameat2() -> Any:  # Any: a function of ctypes
    """Return the function `renameat2` of the C library, which is not in `os`; None if it does not exist."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def _make_directories(directory: str) -> None:
    """Create a directory and its parents, and sync each new name to the disk."""
    if os.path.isdir(directory):
        return

    parent = os.path.dirname(directory)
    if parent != directory:
        _make_directories(parent)
    # Another writer may create the same directory.
    with suppress(FileExistsError):
        os.mkdir(directory)
    _sync_directory(parent)


def _sync_directory(directory: str) -> None:
    """Write the names in a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # EINVAL: the file system syncs directories by itself.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
