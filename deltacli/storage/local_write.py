"""Writing local files atomically and durably: drafts, new files, and files that replace another.

A draft is locked while its writer runs, and its name identifies the running kernel and the file system. A later run on
the same kernel can therefore tell by a free lock that the draft is abandoned. Where that is not possible, as on a
network file system or after a restart, a draft is deleted if it was not changed for a day.

A temporary file next to the target is written and synced, then linked to the name by a hard link, which fails if the
name exists. Its own name begins with a dot, so that a leftover is not mistaken for a file of a log or a table.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Self
from uuid import uuid4

from deltacli.core import tempfiles
from deltacli.core.errors import StorageFailed, quote_table
from deltacli.storage.base import disk_fault, is_no_file, no_atomic_create, running_kernel
from deltacli.storage.hadoop_checksums import remove_checksum, remove_orphaned_checksum, remove_unfit_checksum
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown

# -- temporary files of writers ----------------------------------------------------------------------------------------

OLD_NS = 24 * 3_600 * 1_000_000_000
"""Age after which an unchanged draft is abandoned, by the clock of the file system."""

_TAG_DIGITS = 12
_NO_TAG = "0" * _TAG_DIGITS
_TAIL = rf"[0-9a-f]{{32}}(?:\.(?P<tag>[0-9a-f]{{{_TAG_DIGITS}}}))?\.tmp"
_BUSY = {errno.EAGAIN, errno.EACCES}
_PREFIX = "deltacli-"


class Lock(Enum):
    """The outcome of an attempt to lock a draft."""

    TAKEN = auto()
    HELD = auto()
    """It is locked by its writer, or by a run that is about to remove it."""
    UNSUPPORTED = auto()


class LockedDraft:
    """An empty file with a name prefix in a directory, locked until it is closed. Raises OSError."""

    def __init__(self, directory: str, prefix: str, mode: int = 0o666) -> None:
        self.place = ""
        self._descriptor = -1
        while self._descriptor < 0:
            self.place = f"{directory}/{prefix}{uuid4().hex}.{_tag(directory)}.tmp"
            tempfiles.remember(Path(self.place))
            try:
                self._descriptor = _make(self.place, mode)
            except OSError:
                tempfiles.forget(Path(self.place))
                raise  # after an interruption the file may exist

    @property
    def changed_ns(self) -> int:
        """Return the time of the last change by the clock of the file system."""
        return os.fstat(self._descriptor).st_ctime_ns

    def sync(self) -> None:
        """Write the content to the disk, also of a file that may not be opened again."""
        if os.path.samestat(os.fstat(self._descriptor), os.stat(self.place)):
            os.fsync(self._descriptor)
            return
        descriptor = os.open(self.place, os.O_RDWR | os.O_CLOEXEC)  # a writer has made it anew
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Remove the file, unless it was renamed, and release the lock."""
        with suppress(OSError):  # renamed, or not removable: both are harmless
            os.unlink(self.place)
        tempfiles.forget(Path(self.place))
        with suppress(OSError):
            os.close(self._descriptor)


def sweep(directory: str, prefix: str, now_ns: int) -> int:
    """Remove the abandoned drafts of a directory whose names begin with a prefix, and return their number.

    `now_ns` is the time of the file system. Inaccessible files and files that are not drafts are kept.
    """
    pattern = re.compile(re.escape(prefix) + _TAIL)
    try:
        with os.scandir(directory) as entries:
            matches = [match for entry in entries if (match := pattern.fullmatch(entry.name))]
    except OSError:
        return 0
    removed = 0
    for match in matches:
        with suppress(OSError):
            removed += _remove_abandoned(directory, match[0], match["tag"], now_ns)
    return removed


def is_abandoned(lock: Lock, tag: str | None, here: str, age_ns: int) -> bool:
    """Return True for an abandoned draft: `tag` is that of its name, `here` that of this kernel."""
    if lock is Lock.HELD:
        return False
    is_gone = lock is Lock.TAKEN and tag == here != _NO_TAG
    return is_gone or age_ns >= OLD_NS


def _remove_abandoned(directory: str, name: str, tag: str | None, now_ns: int) -> bool:
    place = f"{directory}/{name}"
    descriptor = os.open(place, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        # The change time, because a writer sets the modification time.
        age_ns = now_ns - status.st_ctime_ns
        is_due = stat.S_ISREG(status.st_mode) and is_abandoned(_lock(descriptor), tag, _tag(directory), age_ns)
        if is_due and os.path.samestat(status, os.lstat(place)):
            os.unlink(place)  # while the lock is held: a writer that has just started notices that its file is deleted
            return True
        return False
    finally:
        os.close(descriptor)


def _make(place: str, mode: int) -> int:
    """Return the descriptor of a new locked file, -1 where a cleaning run was faster."""
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        if _lock(descriptor) is not Lock.HELD and os.fstat(descriptor).st_nlink:
            return descriptor
    except BaseException:
        os.close(descriptor)
        os.unlink(place)
        raise
    os.close(descriptor)
    with suppress(OSError):
        os.unlink(place)
    return -1


def _lock(descriptor: int) -> Lock:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        return Lock.HELD if fault.errno in _BUSY else Lock.UNSUPPORTED
    return Lock.TAKEN


def _tag(directory: str) -> str:
    """Return a text that identifies the running kernel since its start, and the file system of a directory."""
    kernel = running_kernel()
    if not kernel:
        return _NO_TAG  # only the age is used
    import hashlib

    return hashlib.sha256(f"{kernel} {os.stat(directory).st_dev}".encode()).hexdigest()[:_TAG_DIGITS]


class ScratchDraft:
    """A file in the directory for temporary files (`TMPDIR`), which is always removed at the end."""

    def __init__(self, create: Callable[[str], Creation], replace: Callable[[str], None]) -> None:
        """`create` and `replace` get the local path of what they send."""
        self._create, self._replace = create, replace
        self.place = ""
        self._draft: LockedDraft | None = None

    def __enter__(self) -> Self:
        import tempfile

        try:
            directory = tempfile.gettempdir()
            self._draft = LockedDraft(directory, _PREFIX, mode=0o600)
            self.place = self._draft.place
            sweep(directory, _PREFIX, self._draft.changed_ns)
        except OSError as fault:
            raise StorageFailed(
                f"cannot create a temporary file: {(fault.strerror or str(fault)).lower()}",
                hint="set TMPDIR to a directory with free space",
            ) from fault
        return self

    def __exit__(self, *_: object) -> None:
        if self._draft is not None:
            self._draft.close()

    def publish(self, *, replace: bool = False) -> Creation:
        """Send the file."""
        if not replace:
            return self._create(self.place)
        self._replace(self.place)
        return Created()


# -- writing local files atomically and durably ------------------------------------------------------------------------

DRAFT_PREFIX = "."
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_NO_RENAME = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
_NO_COPY = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.EBADF}
"""Codes of systems and pairs of file systems between which the kernel does not copy."""
_COPIED_BYTES, _READ_BYTES = 1 << 30, 1 << 20
_HAS_UNNAMED = hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd")
_NO_UNNAMED = _NO_LINKS | {errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EXDEV}
"""Codes of file systems without unnamed temporary files, or where these cannot be linked."""
_PERMISSIONS, _OF_THE_GROUP = 0o777, 0o070
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1


Swept = Callable[[str, int], None]
"""Called with the directory of a new draft, and the time of its file system in nanoseconds."""
Here = Callable[[], None]
"""Called before a file gets its name; raises Refused where its directory is not that of the store any more."""


def create_file(
    place: str, data: bytes, modified_ms: int | None = None, *, swept: Swept | None = None, here: Here | None = None
) -> Creation:
    """Return whether the file was created; raises OSError, or NoAtomicCreate, with nothing left behind."""
    with LocalDraft(place, swept, here) as draft:
        draft.write(data, modified_ms)
        return draft.publish()


def replace(
    place: str, data: bytes, modified_ms: int | None = None, *, swept: Swept | None = None, here: Here | None = None
) -> None:
    """Write a file, replacing an existing one; raises OSError, also for a fault after the rename."""
    with LocalDraft(place, swept, here) as draft:
        draft.write(data, modified_ms)
        draft.publish(replace=True)


def create_copy(source: int, place: str, *, swept: Swept | None = None, here: Here | None = None) -> Creation:
    """Create a file with the content, the time and the permissions of an open one, and where this user may set them its
    owner and group; where the file system can, both share their blocks.

    Raises OSError, StorageFailed where the source changes meanwhile, or NoAtomicCreate.
    """
    status = os.fstat(source)
    with LocalDraft(place, swept, here) as draft:
        descriptor = os.open(draft.place, os.O_WRONLY | os.O_CLOEXEC)
        try:
            take_permissions(descriptor, status)  # before the content: nobody else may open it meanwhile
            copied = _copy(source, descriptor, status.st_size)
        finally:
            os.close(descriptor)  # a network file system may report a full disk only here
        after = os.fstat(source)
        if copied != status.st_size or (after.st_size, after.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
            raise StorageFailed(f"{place} cannot be written: the file to copy was changed meanwhile")
        os.utime(draft.place, ns=(status.st_atime_ns, status.st_mtime_ns))
        return draft.publish()


def create_copies(
    opening: Callable[[str], int], copies: Sequence[tuple[str, str]], root: str, at: int | None, here: Here
) -> list[Creation]:
    """Create files as `create_copy` does, each with its path below a root, which `opening` opens, and its place. All
    are on the disk before one of them gets its name; the names are on it after the next `sync_disk`. `at` is the root,
    held open: files have no names before theirs then, where the file system can.

    Raises OSError, and StorageFailed where a source changes meanwhile.
    """
    if at is not None and _HAS_UNNAMED:
        try:
            return _create_copies(opening, copies, root, here, _Unnamed(at))
        except OSError as fault:
            if fault.errno not in _NO_UNNAMED:
                raise
    return _create_copies(opening, copies, root, here, _Drafts(root))


class _Unnamed:
    """Unnamed temporary files (`O_TMPFILE`), of which a kill leaves nothing."""

    def __init__(self, at: int) -> None:
        self._at = at

    def make(self) -> int:
        return os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o666, dir_fd=self._at)

    def name(self, file: int, path: str, _: str) -> None:
        remove_orphaned_checksum(path, dir_fd=self._at)
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=self._at, dst_dir_fd=self._at)  # which follows the link
        remove_unfit_checksum(path, dir_fd=self._at)

    def close(self) -> None:
        """Leave nothing."""


class _Drafts:
    """Locked files with names of their own."""

    def __init__(self, root: str) -> None:
        self._pattern = f"{root}/{DRAFT_PREFIX}{os.urandom(12).hex()}%08x.{_tag(root)}.tmp"
        self._places: dict[int, str] = {}

    def make(self) -> int:
        place = self._pattern % len(self._places)
        while (file := _make(place, 0o666)) < 0:
            pass
        self._places[file] = place
        return file

    def name(self, file: int, _: str, place: str) -> None:
        remove_orphaned_checksum(place)
        _claim(self._places[file], place)
        remove_unfit_checksum(place)

    def close(self) -> None:
        for place in self._places.values():
            with suppress(OSError):
                os.unlink(place)


def _create_copies(
    opening: Callable[[str], int], copies: Sequence[tuple[str, str]], root: str, here: Here, drafts: _Unnamed | _Drafts
) -> list[Creation]:
    files: list[int] = []
    made: os.stat_result | None = None
    try:
        for path, place in copies:
            source = opening(path)
            try:
                files.append(drafts.make())
                made = made or os.fstat(files[-1])
                _fill(source, files[-1], place, made)
            finally:
                os.close(source)
        sync_disk(root)
        here()
        for directory in dict.fromkeys(place.rpartition("/")[0] for _, place in copies):
            os.makedirs(directory, exist_ok=True)
        return [_named(drafts, file, *copy) for file, copy in zip(files, copies, strict=True)]
    finally:
        drafts.close()
        for file in files:
            os.close(file)


def _fill(source: int, target: int, place: str, made: os.stat_result) -> None:
    """Write the content, the permissions and the time of a file to a new one. Raises StorageFailed."""
    status = os.fstat(source)
    if (made.st_uid, made.st_gid, made.st_mode) != (status.st_uid, status.st_gid, status.st_mode):
        take_permissions(target, status)
    after = os.fstat(source) if _copy(source, target, status.st_size) == status.st_size else None
    if after is None or (after.st_size, after.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
        raise StorageFailed(f"{place} cannot be written: the file to copy was changed meanwhile")
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _named(drafts: _Unnamed | _Drafts, file: int, path: str, place: str) -> Creation:
    try:
        drafts.name(file, path, place)
    except FileExistsError:
        return Existed()
    return Created()


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
    """Give a new file the owner, the group and the permissions of another one, as far as this user may. Where the group
    is another one, nobody loses what a new file would allow.
    """
    made = os.stat(file)
    for owner, group in ((-1, status.st_gid), (status.st_uid, -1)):
        with suppress(OSError):
            os.chown(file, owner, group)
    mode = status.st_mode & _PERMISSIONS
    if mode & _OF_THE_GROUP and os.stat(file).st_gid != status.st_gid:
        mode |= made.st_mode & _PERMISSIONS
    with suppress(OSError):
        os.chmod(file, mode)


def _copy(source: int, target: int, size: int) -> int:
    """Copy so many bytes of a file from its start, and return their number; fewer where it ends before."""
    copied = 0
    try:
        while copied < size and (
            count := os.copy_file_range(source, target, min(_COPIED_BYTES, size - copied), copied, copied)
        ):
            copied += count
    except (AttributeError, OSError) as fault:
        if isinstance(fault, OSError) and fault.errno not in _NO_COPY:
            raise
        while data := os.pread(source, min(_READ_BYTES, size - copied), copied):
            copied += os.pwrite(target, data, copied)
    return copied


class LocalDraft:
    """Yield an empty file next to the target, which is removed in any case. Raises OSError, or NoAtomicCreate."""

    def __init__(self, target: str, swept: Swept | None = None, here: Here | None = None) -> None:
        self._target = target
        self._here = here
        self._directory = os.path.dirname(target)
        self._swept = swept
        self._draft: LockedDraft | None = None
        self.place = ""

    def __enter__(self) -> Self:
        _make_directories(self._directory)
        self._draft = LockedDraft(self._directory, DRAFT_PREFIX)
        self.place = self._draft.place
        try:
            if self._swept is not None:
                self._swept(self._directory, self._draft.changed_ns)
        except BaseException:
            self._draft.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._draft is not None:
            self._draft.close()

    def write(self, data: bytes, modified_ms: int | None = None) -> None:
        """Write the file, and set its modification time."""
        descriptor = os.open(self.place, os.O_WRONLY | os.O_CLOEXEC)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)  # a network file system may report a full disk only here
        if modified_ms is not None:
            os.utime(self.place, ns=(modified_ms * 1_000_000,) * 2)

    def publish(self, *, replace: bool = False) -> Creation:
        """Sync the file and link it to the name."""
        assert self._draft is not None
        self._draft.sync()
        if self._here is not None:
            self._here()  # a directory that was switched before is found here, one that is switched later has no draft
        if replace:
            replace_file(self.place, self._target)
            _sync_directory(self._directory)
            return Created()
        return _link(self.place, self._target)


def _link(temporary: str, place: str) -> Creation:
    remove_orphaned_checksum(place)
    try:
        _claim(temporary, place)
    except FileExistsError:
        if is_no_file(place):
            raise StorageFailed(
                f"{place} cannot be written: it exists, but is not a file", hint=f"ls -ld {shlex.quote(place)}"
            ) from None
        # NFS: the answer to a successful link may get lost, and the repeated request finds the link it made itself.
        match _is_same(temporary, place):
            case None:
                return Unknown(f"{place} exists, but it cannot be determined whether it is this file")
            case False:
                return Existed()
    except OSError as fault:
        match _is_same(temporary, place):
            case None:
                return Unknown(f"{os.strerror(fault.errno or 0).lower()}, and {place} cannot be accessed")
            case False:
                raise
    remove_unfit_checksum(place)
    try:
        _sync_directory(os.path.dirname(place))
    except OSError as fault:
        reason = os.strerror(fault.errno or 0).lower()
        return Unknown(f"{place} exists but may not survive a crash: its directory cannot be synced ({reason})")
    return Created()


def replace_file(temporary: str, place: str) -> None:
    """Give a temporary file its name, replacing a file of that name and leaving no checksum file of another content.

    Raises:
        OSError: Nothing was replaced.
    """
    remove_checksum(place)
    os.replace(temporary, place)
    remove_unfit_checksum(place)


def _claim(temporary: str, place: str) -> None:
    try:
        os.link(temporary, place)
    except OSError as fault:
        if fault.errno not in _NO_LINKS:
            raise
        _rename_no_replace(temporary, place)


def _rename_no_replace(temporary: str, place: str) -> None:
    """Rename without replacing, for file systems without hard links."""
    rename = _renameat2()
    if rename is None:
        raise no_atomic_create(place, "the file system has no hard links, and this system has no renameat2")
    if rename(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(place), _RENAME_NOREPLACE) == 0:
        return
    code = ctypes.get_errno()
    if code in _NO_RENAME:
        raise no_atomic_create(place, "the file system supports neither hard links nor renames without replacing")
    raise OSError(code, os.strerror(code), place)


@cache
def _renameat2() -> Any:  # Any: a function of the C library, or None
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def _is_same(temporary: str, place: str) -> bool | None:
    """Return True if both names are one file, None where that cannot be determined.

    A missing temporary file was renamed, whatever the answer was.
    """
    try:
        mine = os.stat(temporary)
    except OSError:
        return None
    try:
        return os.path.samestat(mine, os.lstat(place))
    except FileNotFoundError:
        return False
    except OSError:
        return None


def _make_directories(directory: str) -> None:
    if os.path.isdir(directory):
        return
    above = os.path.dirname(directory)
    if above != directory:
        _make_directories(above)
    with suppress(FileExistsError):
        os.mkdir(directory)
    _sync_directory(above)


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as fault:
        if fault.errno != errno.EINVAL:  # file systems that cannot sync directories do so automatically
            raise
    finally:
        os.close(descriptor)


# -- a local file that a result is written to --------------------------------------------------------------------------

_PREFIX_BYTES = 100


@contextlib.contextmanager
def replacement(output: str) -> Iterator[BinaryIO]:
    """Yield a file next to the target of `output`, which replaces it at the end and gets its mode.

    On a fault it is removed. Raises StorageFailed (`output.unwritable`). The target must be a regular file or missing,
    because anything else would be replaced by a regular file.
    """
    target = os.path.realpath(output)
    directory, name = os.path.split(target)
    encoded = os.fsencode(name)
    kept = name if len(encoded) <= _PREFIX_BYTES else encoded[:_PREFIX_BYTES].decode(errors="ignore")
    prefix = f".{kept}."
    try:
        if os.path.lexists(target) and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        draft = LockedDraft(directory, prefix)
    except OSError as fault:
        raise unwritable(output, fault) from fault
    temporary = Path(draft.place)
    try:
        sweep(directory, prefix, draft.changed_ns)
        with temporary.open("wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(os.stat(target).st_mode))
        replace_file(draft.place, target)
    except OSError as fault:
        raise unwritable(output, fault) from fault
    finally:
        draft.close()


def unwritable(output: str, fault: OSError) -> StorageFailed:
    """Return the error for a file that cannot be written, with the reason of the system."""
    try:
        place = os.path.realpath(output)
    except ValueError:  # no file can have such a name
        place = output
    error = disk_fault(fault, output, place, "written")
    error.code = "output.unwritable"
    above = os.path.dirname(output)
    if fault.errno == errno.ENOENT and above and not os.path.lexists(above):
        error.hint = f"mkdir -p {quote_table(above)}"
    return error
