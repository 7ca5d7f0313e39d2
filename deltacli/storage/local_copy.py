"""Copying local files: one, or a group of which all are on the disk before the first one gets its name.

Syncing each of 100,000 small files takes most of the time of copying them. A group is therefore
written without names, or under the names of drafts, then the whole file system is synced once, and
only then the files get their names.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from deltacli.core.errors import StorageFailed
from deltacli.storage.hadoop_checksums import remove_mismatched_checksum, remove_orphaned_checksum
from deltacli.storage.local_write import (
    DRAFT_PREFIX,
    NO_HARD_LINKS,
    LocalDraft,
    RemoveOldDrafts,
    RequireSameDirectory,
    claim_name,
)
from deltacli.storage.locked_drafts import create_locked_file, make_tag
from deltacli.storage.outcomes import Created, Creation, Existed

# Codes of systems, and of pairs of file systems, between which the kernel does not copy.
_NO_COPY_IN_KERNEL = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.EBADF}

_HAS_UNNAMED_FILES = hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")

# Codes of file systems without unnamed temporary files, or where these cannot be linked.
_NO_UNNAMED_FILES = NO_HARD_LINKS | {errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EXDEV}

_KERNEL_COPY_BYTES = 1 << 30
_READ_BYTES = 1 << 20

_PERMISSIONS = 0o777
_PERMISSIONS_OF_GROUP = 0o070


def create_copy(
    source: int,
    full_path: str,
    *,
    remove_old_drafts: RemoveOldDrafts | None = None,
    require_same_directory: RequireSameDirectory | None = None,
) -> Creation:
    """Create a file with the content, time and permissions of an open one, unless its name exists.

    Owner and group are copied if this user may set them. If the file system can, both files share their blocks.

    Args:
        source: The descriptor of the file to copy.
        full_path: The full path of the new file.
        remove_old_drafts: Removes abandoned drafts.
        require_same_directory: Checks the directory before the file gets its name.

    Raises:
        OSError: If the file cannot be written.
        StorageFailed: If the source changes meanwhile.
        NoAtomicCreate: If the file system cannot create a file atomically.
    """
    status = os.fstat(source)
    with LocalDraft(full_path, remove_old_drafts, require_same_directory) as draft:
        descriptor = os.open(draft.local_path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            # Before the content, so that nobody else can open it meanwhile.
            take_permissions(descriptor, status)
            copied_bytes = _copy_content(source, descriptor, status.st_size)
        finally:
            os.close(descriptor)  # a network file system may report a full disk only here
        _require_unchanged(source, status, copied_bytes, full_path)
        os.utime(draft.local_path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return draft.publish()


def create_copies(
    open_source: Callable[[str], int],
    copies: Sequence[tuple[str, str]],
    root: str,
    root_descriptor: int | None,
    require_same_directory: RequireSameDirectory,
) -> list[Creation]:
    """Create a group of files as `create_copy` does.

    All of them are on the disk before the first one gets its name. The names are on the disk after
    the next `sync_disk`.

    Args:
        open_source: Opens the file to copy for a path below the root.
        copies: The path below the root, and the full path, of each file.
        root: The directory that the files are created in.
        root_descriptor: The root, held open; None if it is not. If it is given and the file system
            can, the files have no names before their own.
        require_same_directory: Checks the root before the first file gets its name.

    Raises:
        OSError: If a file cannot be written.
        StorageFailed: If a source changes meanwhile.
    """
    if root_descriptor is not None and _HAS_UNNAMED_FILES:
        try:
            return _create_copies(open_source, copies, root, require_same_directory, _UnnamedFiles(root_descriptor))
        except OSError as error:
            if error.errno not in _NO_UNNAMED_FILES:
                raise
    return _create_copies(open_source, copies, root, require_same_directory, _NamedDrafts(root))


class _UnnamedFiles:
    """Temporary files without names (`O_TMPFILE`). If the process is killed, nothing of them is left."""

    def __init__(self, root_descriptor: int) -> None:
        self._root_descriptor = root_descriptor

    def create(self) -> int:
        """Return the descriptor of a new file."""
        return os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o666, dir_fd=self._root_descriptor)

    def give_name(self, file: int, path: str, _: str) -> None:
        """Give a file its name below the root. Raises FileExistsError."""
        root = self._root_descriptor
        remove_orphaned_checksum(path, dir_fd=root)
        # A file without a name is linked by the link to it in /proc, which `os.link` follows.
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=root, dst_dir_fd=root)
        remove_mismatched_checksum(path, dir_fd=root)

    def close(self) -> None:
        """Leave nothing."""


class _NamedDrafts:
    """Locked drafts, for file systems without unnamed files."""

    def __init__(self, root: str) -> None:
        self._pattern = f"{root}/{DRAFT_PREFIX}{os.urandom(12).hex()}%08x.{make_tag(root)}.tmp"
        self._draft_paths: dict[int, str] = {}

    def create(self) -> int:
        """Return the descriptor of a new draft."""
        draft_path = self._pattern % len(self._draft_paths)
        file = -1
        while file < 0:  # a sweeping run was faster
            file = create_locked_file(draft_path, 0o666)
        self._draft_paths[file] = draft_path
        return file

    def give_name(self, file: int, _: str, full_path: str) -> None:
        """Give a draft its name. Raises FileExistsError."""
        remove_orphaned_checksum(full_path)
        claim_name(self._draft_paths[file], full_path)
        remove_mismatched_checksum(full_path)

    def close(self) -> None:
        """Remove the drafts that have no other name."""
        for draft_path in self._draft_paths.values():
            with suppress(OSError):
                os.unlink(draft_path)


def _create_copies(
    open_source: Callable[[str], int],
    copies: Sequence[tuple[str, str]],
    root: str,
    require_same_directory: RequireSameDirectory,
    temporary_files: _UnnamedFiles | _NamedDrafts,
) -> list[Creation]:
    """Copy all files to temporary ones, sync the disk once, then give each its name."""
    files: list[int] = []
    new_file_status: os.stat_result | None = None
    try:
        for path, full_path in copies:
            source = open_source(path)
            try:
                files.append(temporary_files.create())
                # All new files have the same owner and permissions, so one call shows those of all.
                if new_file_status is None:
                    new_file_status = os.fstat(files[-1])
                _copy_file(source, files[-1], full_path, new_file_status)
            finally:
                os.close(source)

        sync_disk(root)
        require_same_directory()
        for directory in dict.fromkeys(full_path.rpartition("/")[0] for _, full_path in copies):
            os.makedirs(directory, exist_ok=True)
        outcomes: list[Creation] = []
        for file, (path, full_path) in zip(files, copies, strict=True):
            try:
                temporary_files.give_name(file, path, full_path)
                outcomes.append(Created())
            except FileExistsError:
                outcomes.append(Existed())
        return outcomes
    finally:
        temporary_files.close()
        for file in files:
            os.close(file)


def _copy_file(source: int, target: int, full_path: str, new_file_status: os.stat_result) -> None:
    """Write the content, permissions and time of a file to a new one. Raises StorageFailed if it changes meanwhile."""
    status = os.fstat(source)
    new_permissions = (new_file_status.st_uid, new_file_status.st_gid, new_file_status.st_mode)
    if new_permissions != (status.st_uid, status.st_gid, status.st_mode):
        take_permissions(target, status)
    copied_bytes = _copy_content(source, target, status.st_size)
    _require_unchanged(source, status, copied_bytes, full_path)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _require_unchanged(source: int, status: os.stat_result, copied_bytes: int, full_path: str) -> None:
    """Raise StorageFailed if a file has another size or time than before it was copied."""
    is_complete = copied_bytes == status.st_size
    after = os.fstat(source)
    if not is_complete or (after.st_size, after.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
        raise StorageFailed(f"{full_path} cannot be written: the file to copy was changed meanwhile")


def _copy_content(source: int, target: int, size: int) -> int:
    """Copy `size` bytes from the start of a file, and return how many there were; fewer if it ends before."""
    copied = 0
    try:
        while copied < size:
            count = os.copy_file_range(source, target, min(_KERNEL_COPY_BYTES, size - copied), copied, copied)
            if not count:
                break
            copied += count
    except (AttributeError, OSError) as error:
        # AttributeError: a system without the call.
        if isinstance(error, OSError) and error.errno not in _NO_COPY_IN_KERNEL:
            raise
        while data := os.pread(source, min(_READ_BYTES, size - copied), copied):
            copied += os.pwrite(target, data, copied)
    return copied


def sync_disk(directory: str) -> None:
    """Write everything of the file system of a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), directory)
    except AttributeError:  # not Linux
        os.sync()
    finally:
        os.close(descriptor)


def take_permissions(file: int | str, status: os.stat_result) -> None:
    """Give a new file the owner, group and permissions of another one, as far as this user may.

    If the group cannot be set, the permissions of the group apply to other people. These lose
    nothing of what a new file would allow.
    """
    new_file = os.stat(file)

    # Apart, because a user may often set the group and not the owner.
    for owner, group in ((-1, status.st_gid), (status.st_uid, -1)):
        with suppress(OSError):
            os.chown(file, owner, group)

    mode = status.st_mode & _PERMISSIONS
    if mode & _PERMISSIONS_OF_GROUP and os.stat(file).st_gid != status.st_gid:
        mode |= new_file.st_mode & _PERMISSIONS
    with suppress(OSError):
        os.chmod(file, mode)
