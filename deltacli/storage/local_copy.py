"""Copy local files, either one file or a group of files that is synced to the disk once.

For small files, syncing takes most of the time of a copy. A group is therefore copied in three steps:

1. Write the contents of all files to temporary files. These have no name (`O_TMPFILE`) if the file
   system supports it. Otherwise they are drafts.
2. Sync the file system once.
3. Give each file its name.
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

# Error codes of copy_file_range if the kernel cannot copy between two files.
_NO_KERNEL_COPY = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.EBADF}

_HAS_UNNAMED_FILES = hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")

# Error codes if the file system does not support unnamed files, or cannot link them.
_NO_UNNAMED_FILES = NO_HARD_LINKS | {errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EXDEV}

_KERNEL_COPY_BYTES = 1 << 30
_READ_BYTES = 1 << 20

_PERMISSION_BITS = 0o777
_GROUP_PERMISSION_BITS = 0o070


def create_copy(
    source: int,
    full_path: str,
    *,
    remove_old_drafts: RemoveOldDrafts | None = None,
    require_same_directory: RequireSameDirectory | None = None,
) -> Creation:
    """Copy an open file to a path that does not exist, with its modification time and permissions.

    Owner and group are copied if the user may set them. On file systems such as XFS and Btrfs, both
    files share their blocks.

    Args:
        source: The descriptor of the file to copy.
        full_path: The absolute path of the new file.
        remove_old_drafts: Removes abandoned drafts.
        require_same_directory: Called before the file gets its name.

    Raises:
        OSError: If the file cannot be written.
        StorageFailed: If the source changes while it is copied.
        NoAtomicCreate: If the file system does not support atomic creation.
    """
    status = os.fstat(source)
    with LocalDraft(full_path, remove_old_drafts, require_same_directory) as draft:
        descriptor = os.open(draft.local_path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            # Set the permissions before the content, so that no other user can read it in between.
            take_permissions(descriptor, status)
            copied_bytes = _copy_content(source, descriptor, status.st_size)
        finally:
            # Network file systems may report only now that the disk is full.
            os.close(descriptor)
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
    """Copy a group of files, as `create_copy` does for one file.

    All contents are on the disk before the first file gets its name. The names are on the disk after
    the next `sync_disk`.

    Args:
        open_source: Opens the file to copy. Receives a path relative to the root.
        copies: The path relative to the root, and the absolute path, of each new file.
        root: The root of the store.
        root_descriptor: The descriptor of the root, if the store is bound to its directory. Unnamed
            files are only used in this case.
        require_same_directory: Called before the first file gets its name.

    Raises:
        OSError: If a file cannot be written.
        StorageFailed: If a source changes while it is copied.
    """
    if root_descriptor is not None and _HAS_UNNAMED_FILES:
        try:
            return _create_copies(open_source, copies, root, require_same_directory, _UnnamedFiles(root_descriptor))
        except OSError as error:
            if error.errno not in _NO_UNNAMED_FILES:
                raise
    return _create_copies(open_source, copies, root, require_same_directory, _NamedDrafts(root))


class _UnnamedFiles:
    """Temporary files without names (`O_TMPFILE`). If the process is killed, the system removes them."""

    def __init__(self, root_descriptor: int) -> None:
        self._root_descriptor = root_descriptor

    def create(self) -> int:
        """Create a file and return its descriptor."""
        return os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o666, dir_fd=self._root_descriptor)

    def give_name(self, file: int, path: str, _: str) -> None:
        """Give a file a path relative to the root. Raises FileExistsError."""
        root = self._root_descriptor
        remove_orphaned_checksum(path, dir_fd=root)
        # A file without a name has a link in /proc, which `os.link` follows.
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=root, dst_dir_fd=root)
        remove_mismatched_checksum(path, dir_fd=root)

    def close(self) -> None:
        """Do nothing. Files without names are removed when they are closed."""


class _NamedDrafts:
    """Temporary files with names, which are locked, for file systems without unnamed files."""

    def __init__(self, root: str) -> None:
        self._pattern = f"{root}/{DRAFT_PREFIX}{os.urandom(12).hex()}%08x.{make_tag(root)}.tmp"
        # Maps the descriptors of drafts to their paths.
        self._draft_paths: dict[int, str] = {}

    def create(self) -> int:
        """Create a draft and return its descriptor."""
        draft_path = self._pattern % len(self._draft_paths)
        file = -1
        # The result is -1 if another process has removed the draft as abandoned. Try again.
        while file < 0:
            file = create_locked_file(draft_path, 0o666)
        self._draft_paths[file] = draft_path
        return file

    def give_name(self, file: int, _: str, full_path: str) -> None:
        """Give a draft its final path. Raises FileExistsError."""
        remove_orphaned_checksum(full_path)
        claim_name(self._draft_paths[file], full_path)
        remove_mismatched_checksum(full_path)

    def close(self) -> None:
        """Remove the temporary names of all drafts."""
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
    """Copy a group of files with one kind of temporary files. The arguments are those of `create_copies`."""
    files: list[int] = []
    new_file_status: os.stat_result | None = None
    try:
        # Write the contents.
        for path, full_path in copies:
            source = open_source(path)
            try:
                files.append(temporary_files.create())
                # All new files have the same owner and permissions, so one call is sufficient.
                if new_file_status is None:
                    new_file_status = os.fstat(files[-1])
                _copy_file(source, files[-1], full_path, new_file_status)
            finally:
                os.close(source)

        sync_disk(root)

        # Give the files their names.
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
    """Copy content, permissions and modification time to a new file.

    Args:
        source: The descriptor of the file to copy.
        target: The descriptor of the new file.
        full_path: The path of the new file, for error messages.
        new_file_status: The owner and permissions of new files.

    Raises:
        StorageFailed: If the source changes while it is copied.
    """
    status = os.fstat(source)
    new_owner_and_mode = (new_file_status.st_uid, new_file_status.st_gid, new_file_status.st_mode)
    if new_owner_and_mode != (status.st_uid, status.st_gid, status.st_mode):
        take_permissions(target, status)
    copied_bytes = _copy_content(source, target, status.st_size)
    _require_unchanged(source, status, copied_bytes, full_path)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _require_unchanged(source: int, status: os.stat_result, copied_bytes: int, full_path: str) -> None:
    """Check that a file has the same size and modification time as before it was copied.

    Args:
        source: The descriptor of the file.
        status: The status of the file before it was copied.
        copied_bytes: The number of bytes that were copied.
        full_path: The path of the copy, for the error message.

    Raises:
        StorageFailed: If the file has changed.
    """
    is_complete = copied_bytes == status.st_size
    new_status = os.fstat(source)
    if not is_complete or (new_status.st_size, new_status.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
        raise StorageFailed(f"{full_path} cannot be written: the file to copy was changed meanwhile")


def _copy_content(source: int, target: int, size: int) -> int:
    """Copy the first `size` bytes of a file. Return the number of bytes, which is less if the file is shorter."""
    copied = 0
    try:
        while copied < size:
            count = os.copy_file_range(source, target, min(_KERNEL_COPY_BYTES, size - copied), copied, copied)
            if not count:
                break
            copied += count
    except (AttributeError, OSError) as error:
        # AttributeError: the system has no copy_file_range.
        if isinstance(error, OSError) and error.errno not in _NO_KERNEL_COPY:
            raise
        while data := os.pread(source, min(_READ_BYTES, size - copied), copied):
            copied += os.pwrite(target, data, copied)
    return copied


def sync_disk(directory: str) -> None:
    """Write all changes of the file system of a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), directory)
    except AttributeError:
        # Only Linux has syncfs.
        os.sync()
    finally:
        os.close(descriptor)


def take_permissions(file: int | str, status: os.stat_result) -> None:
    """Give a new file the owner, group and permissions of another file, as far as the user may set them.

    If the group cannot be set, the group permissions would apply to the members of another group. The
    new file then also gets the permissions of a normal new file, so that nobody loses access.

    Args:
        file: The path or descriptor of the new file.
        status: The status of the other file.
    """
    new_file = os.stat(file)

    # Two calls, because users may often set the group, but not the owner.
    for owner, group in ((-1, status.st_gid), (status.st_uid, -1)):
        with suppress(OSError):
            os.chown(file, owner, group)

    mode = status.st_mode & _PERMISSION_BITS
    if mode & _GROUP_PERMISSION_BITS and os.stat(file).st_gid != status.st_gid:
        mode |= new_file.st_mode & _PERMISSION_BITS
    with suppress(OSError):
        os.chmod(file, mode)
