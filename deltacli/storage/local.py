"""The local file system: its store, listing without following links, and the limits within which files are opened; and
which store an address names.
"""

from __future__ import annotations

import copy
import errno
import os
import re
import shlex
import stat as stat_module
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote, unquote_to_bytes

from deltacli.core import errors
from deltacli.core.texts import require_path
from deltacli.storage.base import (
    NOTHING,
    Allowed,
    Capabilities,
    Draft,
    FileStat,
    PathKind,
    Place,
    ReadStorage,
    ShouldDescend,
    Storage,
    WalkEntry,
    disk_fault,
    is_below,
    is_no_file,
    other_place,
    path_external,
    reason_of,
    running_kernel,
)
from deltacli.storage.hadoop_checksums import is_checksum_name, remove_checksum_before_deletion
from deltacli.storage.outcomes import Creation, Deleted, Deletion, Failed, Missing

if TYPE_CHECKING:
    from deltacli.storage.retry import Retry

_LOCAL = Capabilities(cheap_listing=True, parallel_reads=1, atomic_create=True, has_directories=True)
_LONGEST_READ = 1 << 30  # Linux gives at most 2 GiB at a time
_LOG_DIRECTORIES = ("_delta_log", "_delta_log/_sidecars")
_LONGEST_NAME = 255  # bytes, of every file system in use
_ABSENT = {errno.ENOENT, errno.ENOTDIR}
_LINK = {errno.ELOOP, errno.EMLINK}  # the second is FreeBSD's


class LocalStorage:
    """Files below a local directory. Names that are not UTF-8 have surrogate escapes.

    Reading, writing or deleting outside the root through links or `..` raises PathExternal, except below `allowed`
    prefixes.
    """

    def __init__(self, root: str, allowed: Allowed = NOTHING) -> None:
        self.root = os.path.abspath(root)
        self._swept: set[str] = set()
        self._directory: _HeldDirectory | None = None
        self.bounds = LocalBounds(self.root, allowed)

    @property
    def uri(self) -> str:
        return local_uri(self.root)

    @property
    def aliases(self) -> tuple[str, ...]:
        real = os.path.realpath(self.root)
        return () if real == self.root else (local_uri(real),)

    @property
    def place(self) -> Place | None:
        return None if self._directory is None else self._directory.place

    def held(self, place: Place | None = None) -> LocalStorage:
        if self._directory is not None and place in (None, self.place):
            self.require_place()
            return self
        directory = _HeldDirectory.at(self.root)
        found = None if directory is None else directory.place
        if place is not None and place != found and (found is None or place[0] == found[0]):
            raise other_place(self.root)
        store = copy.copy(self)
        store._directory = directory
        return store

    def require_place(self) -> None:
        if self._directory is not None and not self._directory.is_at(self.root):
            raise other_place(self.root)

    @property
    def versions(self) -> None:
        return None

    @property
    def capabilities(self) -> Capabilities:
        return _LOCAL

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        place = self._at(directory)
        try:
            with os.scandir(place) as entries:
                names = [entry.name for entry in entries if entry.name >= start]
        except (OSError, ValueError) as fault:
            raise _translate(fault, place) from fault
        names.sort(key=os.fsencode)
        for name in names:
            try:
                status = os.stat(f"{place}/{name}")
            except FileNotFoundError:
                continue  # deleted since the listing, or a dangling link: skip it
            except OSError as fault:
                if fault.errno == errno.ELOOP:
                    continue
                raise _translate(fault, f"{place}/{name}") from fault
            if stat_module.S_ISREG(status.st_mode):
                yield FileStat(name, status.st_size, status.st_mtime_ns // 1_000_000)

    def list_directories(self, directory: str) -> list[str]:
        place = self._at(directory)
        try:
            with os.scandir(place) as entries:
                return sorted(entry.name for entry in entries if _is_directory(entry))
        except (OSError, ValueError) as fault:
            raise _translate(fault, place) from fault

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        if leads_elsewhere(self.root, directory):
            raise errors.FileMissing(f"{self._at(directory)} is behind a link, and links are not followed")
        waiting = [directory]
        while waiting:
            path = waiting.pop()
            place, directories = self._at(path), list[str]()
            try:
                yield from look(place, path, directories)
            except (OSError, ValueError) as fault:
                error = _translate(fault, place)
                if isinstance(error, errors.FileMissing) and path != directory:
                    continue  # deleted or replaced meanwhile: skip it
                raise error from fault
            entered = enter(path, sorted(directories))
            waiting += [f"{path}/{name}" if path else name for name in entered]

    def read(self, path: str) -> bytes:
        place = self._at(path)
        try:
            descriptor = self._open(path)[0]
            try:
                # Twice as fast as a file object on ten thousand small commits. One byte more than there should be: an
                # answer of the right length is the end; else the file changed, or is larger than one read may be.
                size = os.fstat(descriptor).st_size
                data = os.read(descriptor, size + 1)
                while len(data) != size and (more := os.read(descriptor, _LONGEST_READ)):
                    data += more
                return data
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as fault:
            raise _translate(fault, place) from fault

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        place = self._at(path)
        try:
            descriptor = self._open(path)[0]
            try:
                data = os.pread(descriptor, length, offset)
                while len(data) < length and (more := os.pread(descriptor, length - len(data), offset + len(data))):
                    data += more
                return data
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as fault:
            raise _translate(fault, place) from fault

    def open(self, path: str) -> Any:
        import pyarrow as pa  # here, because commands that read logs only, as `history`, need no pyarrow: 100 ms

        place = self._at(path)
        try:
            descriptor, real = self._open(path)
            os.close(descriptor)
            # Reads in C without the interpreter lock; a memory map would raise SIGBUS for a truncated file.
            return pa.OSFile(os.fsencode(real), "rb")
        except (OSError, ValueError) as fault:
            raise _translate(fault, place) from fault

    def tag(self, path: str, opened: Any) -> str:
        place = self._at(path)
        try:
            try:
                status = os.fstat(opened.fileno())
            except AttributeError:
                # `OSFile.fileno` is broken before pyarrow 24. The name, looked at after it was opened, does as well: it
                # may lead to a newer file than the open one, and then the reading is refused for nothing.
                status = os.stat(place)
        except OSError as fault:
            raise _translate(fault, place) from fault
        return f"{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"

    def kind_of(self, path: str) -> PathKind:
        place = self._at(path)
        try:
            mode = os.stat(place).st_mode
        except ValueError:
            return PathKind.MISSING  # no file can have such a name
        except OSError as fault:
            if _is_absent(fault, place):
                return PathKind.MISSING
            raise _translate(fault, place) from fault
        return PathKind.DIRECTORY if stat_module.S_ISDIR(mode) else PathKind.FILE

    def stat(self, path: str) -> FileStat:
        place = self._at(path)
        try:
            status = os.stat(place)
        except (OSError, ValueError) as fault:
            raise _translate(fault, place) from fault
        if not stat_module.S_ISREG(status.st_mode):
            raise errors.FileMissing(f"{place} is not a file")
        return FileStat(os.path.basename(place), status.st_size, status.st_mtime_ns // 1_000_000)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        try:
            return stat_many(self.root, paths)
        except OSError as fault:
            raise _translate(fault, os.fsdecode(fault.filename)) from fault

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        from deltacli.storage.local_write import create_file

        place = self._to_write(path)
        try:
            return create_file(place, data, modified_ms, swept=self._sweep, here=self.require_place)
        except OSError as fault:
            raise _translate(fault, place, "written") from fault

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        from deltacli.storage.local_write import replace

        place = self._to_write(path)
        try:
            replace(place, data, modified_ms, swept=self._sweep, here=self.require_place)
        except OSError as fault:
            raise _translate(fault, place, "written") from fault

    def draft(self, path: str) -> Draft:
        return _LocalDraft(self._to_write(path), self._sweep, self.require_place)

    def copy_within(self, source: str, target: str) -> Creation:
        from deltacli.storage.local_write import create_copy

        place = self._to_write(target)
        try:
            descriptor = self._open(source)[0]
        except (OSError, ValueError) as fault:
            raise _translate(fault, self._at(source)) from fault
        try:
            return create_copy(descriptor, place, swept=self._sweep, here=self.require_place)
        except OSError as fault:
            raise _translate(fault, place, "written") from fault
        finally:
            os.close(descriptor)

    def copy_group(self, origin: LocalStorage, paths: Sequence[str]) -> list[Creation]:
        """Copy files of another directory of the disk to the same paths, as `copy_within` does. All are on the disk
        before one of them gets its name, which the next call of `sync` keeps.
        """
        from deltacli.storage.local_write import create_copies

        def opened(path: str) -> int:
            try:
                return origin._open(path)[0]
            except (OSError, ValueError) as fault:
                raise _translate(fault, origin._at(path)) from fault

        self.require_place()
        at = None if self._directory is None else self._directory.descriptor
        try:
            copies = [(path, self._bounded(path)) for path in paths]
            return create_copies(opened, copies, self.root, at, self.require_place)
        except OSError as fault:
            raise _translate(fault, self.root, "written") from fault

    def sync(self) -> None:
        """Write the file system to the disk, and remove abandoned drafts of the root."""
        from deltacli.storage.local_write import LockedDraft, sync_disk

        self.require_place()
        try:
            draft = LockedDraft(self.root, ".")
            self._sweep(self.root, draft.changed_ns)
            draft.close()
            sync_disk(self.root)
        except OSError as fault:
            raise _translate(fault, self.root, "written") from fault

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        self.require_place()
        for path in paths:
            try:
                self.bounds.directory_of(path)
            except errors.PathExternal:
                yield path, Failed("a link leads outside the table")
            else:
                yield path, _delete(self._at(path), self._directory, path)

    def remove_directory(self, path: str) -> Deletion:
        self.require_place()
        place = self._at(path)
        try:
            if not path or leads_elsewhere(self.root, path):
                return Failed("it is the root of the store" if not path else "a link leads to it")
            _remove(_remove_directory, place, self._directory, path)
        except ValueError:
            return Missing()  # not a valid directory name
        except OSError as fault:
            return Failed(reason_of(fault)) if os.path.lexists(place) else Missing()
        return Deleted()

    def _sweep(self, directory: str, now_ns: int) -> None:
        """Remove abandoned drafts in the log and in directories that are written to, once per directory."""
        from deltacli.storage.local_write import DRAFT_PREFIX, sweep

        for place in (directory, *(self._at(log) for log in _LOG_DIRECTORIES)):
            if place not in self._swept:
                self._swept.add(place)
                sweep(place, DRAFT_PREFIX, now_ns)

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def _to_write(self, path: str) -> str:
        """Return the place of a file to write. Raises PathExternal, and Refused where the root is another directory."""
        self.require_place()
        return self._bounded(path)

    def _bounded(self, path: str) -> str:
        """Return the place of a file. Raises PathExternal."""
        self.bounds.directory_of(path)
        return self._at(path)

    def _open(self, path: str) -> tuple[int, str]:
        """Open a regular file and return it with its place. Raises PathExternal before anything outside is opened."""
        place = self._bounded(path)
        try:
            return _open(place, os.O_NOFOLLOW), place
        except OSError as fault:
            if fault.errno not in _LINK or not os.path.islink(place):
                raise
        real = self.bounds.file(path)
        return _open(real), real


class _HeldDirectory:
    """A directory that is kept open, so that no other one gets its inode number meanwhile."""

    def __init__(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.descriptor = descriptor
        self.place: Place = (running_kernel(), status.st_dev, status.st_ino)

    @classmethod
    def at(cls, path: str) -> Self | None:
        """Return the directory at a path; None where there is none, or where the path shows another identity."""
        try:
            found = cls(os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError:
            return None
        return found if found.is_at(path) else None

    def is_at(self, path: str) -> bool:
        try:
            status = os.stat(path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.place[1:]

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self.descriptor)


class _LocalDraft:
    """A draft next to its target, with errors of deltacli."""

    def __init__(self, target: str, swept: Callable[[str, int], None], here: Callable[[], None]) -> None:
        from deltacli.storage.local_write import LocalDraft

        self._target, self._here = target, here
        self._draft = LocalDraft(target, swept, here)

    @property
    def place(self) -> str:
        return self._draft.place

    def __enter__(self) -> Self:
        try:
            self._draft.__enter__()
        except OSError as fault:
            raise _translate(fault, self._target, "written") from fault
        return self

    def __exit__(self, *exception: object) -> None:
        self._draft.__exit__(*exception)

    def publish(self, *, replace: bool = False) -> Creation:
        try:
            return self._draft.publish(replace=replace)
        except OSError as fault:
            self._here()
            raise _translate(fault, self._target, "written") from fault


def local_uri(root: str) -> str:
    return "file://" + quote(os.fsencode(root))


def link_targets(storage: ReadStorage, links: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (final target, link) of links inside a store, both below its root; no links to targets outside."""
    if not storage.capabilities.has_directories:
        return
    root = os.path.realpath(os.fsdecode(unquote_to_bytes(storage.uri.removeprefix("file://"))))
    inside = f"{root.rstrip('/')}/"
    for link in links:
        target = os.path.realpath(inside + link)
        if target == root or target.startswith(inside):
            yield target[len(inside) :], link


def require_inside(storage: ReadStorage, path: str) -> None:
    """Raise PathExternal where a link in the path of a file leads outside the store and its allowed prefixes."""
    if isinstance(storage, LocalStorage):
        storage.bounds.directory_of(path)


def leads_outside(storage: ReadStorage, directory: str) -> bool:
    """Return whether a link in the path of a directory leads outside the store and its allowed prefixes."""
    try:
        require_inside(storage, f"{directory}/")
    except errors.PathExternal:
        return True
    return False


def will_read(storage: ReadStorage, path: str) -> None:
    """Let the system fetch a file of a local disk while others are read. Errors show when it is read."""
    if isinstance(storage, LocalStorage) and hasattr(os, "posix_fadvise"):
        with suppress(errors.DeltacliError, OSError, ValueError):
            descriptor, _ = storage._open(path)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(descriptor)


def is_taken(storage: ReadStorage, path: str) -> bool:
    """Return whether a name of a local disk is taken by something else than a file, which no listing has."""
    if not isinstance(storage, LocalStorage):
        return False
    place = storage._at(path)
    return os.path.lexists(place) and is_no_file(place)


def has_link(storage: ReadStorage, directory: str, below: str) -> bool:
    """Return whether a part of `below`, a path relative to `directory`, is a link."""
    return isinstance(storage, LocalStorage) and leads_elsewhere(f"{storage.root}/{directory}", below)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Return True for a directory or a link to one, False for a cyclic or dangling link. Raises OSError."""
    try:
        return entry.is_dir()
    except OSError as fault:
        if fault.errno == errno.ELOOP:
            return False
        raise


def _open(place: str, flags: int = 0) -> int:
    """Open a regular file for reading. Refuse any other kind, because a pipe or a device could block forever."""
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    if stat_module.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise errors.StorageFailed(
        "it is not a regular file", preamble=f"{place} cannot be read: ", hint=f"ls -ld {shlex.quote(place)}"
    )


def _remove_directory(place: str, *, dir_fd: int | None = None) -> None:
    """Remove a directory without entries, or with checksum files of Hadoop only, whose files are gone.

    Raises:
        OSError: It has other entries, which are kept.
        ValueError: No directory can have such a name.
    """
    try:
        os.rmdir(place, dir_fd=dir_fd)
    except OSError as fault:
        if fault.errno != errno.ENOTEMPTY:
            raise
        _empty_of_checksums(place, dir_fd)
        os.rmdir(place, dir_fd=dir_fd)


def _empty_of_checksums(place: str, dir_fd: int | None) -> None:
    """Delete the entries of a directory if all of them are checksum files. Raises OSError."""
    descriptor = os.open(place, _DIRECTORY | os.O_NOFOLLOW, dir_fd=dir_fd)
    try:
        with os.scandir(descriptor) as entries:
            names = [entry.name for entry in entries if _is_checksum_file(entry)]
        if len(names) == len(os.listdir(descriptor)):
            for name in names:
                os.unlink(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _is_checksum_file(entry: os.DirEntry[str]) -> bool:
    return is_checksum_name(entry.name) and entry.is_file(follow_symlinks=False)


def _remove(remove: Callable[..., None], place: str, directory: _HeldDirectory | None, path: str) -> None:
    """Remove a file or a directory at a place; below a directory that is held, whatever is at its path by now."""
    if directory is None:
        remove(place)
    else:
        remove(path, dir_fd=directory.descriptor)


def _unlink_with_checksum(place: str, *, dir_fd: int | None = None) -> None:
    """Delete a file, and before it its checksum file. Raises OSError, ValueError."""
    remove_checksum_before_deletion(place, dir_fd=dir_fd)
    os.unlink(place, dir_fd=dir_fd)


def _delete(place: str, directory: _HeldDirectory | None, path: str) -> Deletion:
    try:
        _remove(_unlink_with_checksum, place, directory, path)
    except ValueError:
        return Missing()  # no file can have such a name
    except OSError as fault:
        if fault.errno in _ABSENT:
            return Missing()
        if os.path.isdir(place):
            return Failed("it is a directory")
        error = _translate(fault, place, "deleted")
        return Failed(reason_of(fault), error if isinstance(error, errors.PermissionRefused) else None)
    return Deleted()


def _translate(fault: OSError | ValueError, place: str, what: str = "read") -> errors.StorageFailed:
    """Return our error for one of the system, naming the file; an invalid file name is a ValueError."""
    if isinstance(fault, ValueError):
        return errors.FileMissing(f"{place} does not exist")
    if what == "read" and _is_absent(fault, place):
        return errors.FileMissing(f"{place} does not exist")
    return disk_fault(fault, place, place, what)


def _is_absent(fault: OSError, place: str) -> bool:
    """Return True where a path does not exist, also for a name longer than the limit of the file system."""
    if fault.errno == errno.ENAMETOOLONG:
        return any(len(os.fsencode(name)) > _LONGEST_NAME for name in place.split("/"))
    return fault.errno in _ABSENT


# -- listing local directories and reading the properties of many paths ------------------------------------------------

_PIECE = 1 << 16
"""Number of names returned at a time for a large directory."""

_FILES_AT_ONCE = 1_000
_is_link, _is_file = os.DirEntry.is_symlink, os.DirEntry.is_file

_NO_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def look(place: str, path: str, directories: list[str]) -> Iterator[WalkEntry]:
    """Yield what is in one directory, and add the names of those in it to `directories`.

    The system returns the kind of an entry with its name, so no call per file is needed. Raises OSError.
    """
    # Only the root itself may be a link; a directory that was replaced by a link meanwhile is not followed.
    descriptor = os.open(place, _DIRECTORY | os.O_NOFOLLOW if path else _DIRECTORY)
    try:
        with os.scandir(descriptor) as entries:
            is_empty = True
            while piece := list(islice(entries, _PIECE)):
                # Checksum files without their files, in a directory that an older vacuum has emptied otherwise.
                is_empty = is_empty and all(map(_is_checksum_file, piece))
                if any(map(_is_link, piece)) or not all(map(_is_file, piece)):
                    names = [entry.name for entry in piece if entry.is_file(follow_symlinks=False)]
                    special = _sort_out(piece, directories)
                else:  # fast path for directories of regular files only, in two thirds of the time
                    names, special = [entry.name for entry in piece], []
                yield WalkEntry(path, names, None, None, special)
    finally:
        os.close(descriptor)
    if is_empty:
        # Read after it was found empty, so that a new entry makes it look newer. By its name, which fails for a
        # directory that was removed meanwhile.
        modified_ms = os.lstat(place).st_mtime_ns // 1_000_000
        yield WalkEntry(path, [], None, None, [], is_empty=True, directory_modified_ms=modified_ms)


def _sort_out(entries: list[os.DirEntry[str]], directories: list[str]) -> list[str]:
    """Add the names of directories to `directories` and return those that are neither directories nor regular files."""
    special = []
    for entry in entries:
        if entry.is_file(follow_symlinks=False):
            continue
        if entry.is_dir(follow_symlinks=False):
            directories.append(entry.name)
        elif entry.is_symlink() or _is_there(entry):
            special.append(entry.name)
    return special


def _is_there(entry: os.DirEntry[str]) -> bool:
    """Return False for a deleted entry: file systems that do not return kinds with names deny every kind then."""
    try:
        entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def stat_many(root: str, paths: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return sizes and times in ms; -1 for a path that is not a regular file inside the root. Raises OSError."""
    sizes: list[int] = []
    times: list[int] = []
    for start in range(0, len(paths), _FILES_AT_ONCE):
        some = paths[start : start + _FILES_AT_ONCE]
        stats = _stat_plain(root, some)
        if stats is None:
            stats = [_stat_one(root, path) for path in some]
        sizes += [size for size, _ in stats]
        times += [modified_ms for _, modified_ms in stats]
    return sizes, times


def _stat_plain(root: str, paths: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return sizes and times if each path is a regular file inside the root: the usual case, in half the time."""
    try:
        if any(leads_elsewhere(root, directory) for directory in {path.rpartition("/")[0] for path in paths}):
            return None
        stats = list(map(os.lstat, [f"{root}/{path}" for path in paths]))
    except (OSError, ValueError):
        return None
    if not all(stat_module.S_ISREG(status.st_mode) for status in stats):
        return None
    return [(status.st_size, status.st_mtime_ns // 1_000_000) for status in stats]


def _stat_one(root: str, path: str) -> tuple[int, int]:
    try:
        if leads_elsewhere(root, path.rpartition("/")[0]):
            return -1, -1
        status = os.lstat(f"{root}/{path}")
    except ValueError:
        return -1, -1  # no file can have such a name
    except OSError as fault:
        if fault.errno in _NO_FILE:
            return -1, -1
        raise
    return (status.st_size, status.st_mtime_ns // 1_000_000) if stat_module.S_ISREG(status.st_mode) else (-1, -1)


def leads_elsewhere(root: str, path: str) -> bool:
    """Return True if a part of the path is a link or `..`, so that it may be outside the root. Raises OSError."""
    require_openable(path)
    parts = path.split("/") if path else []
    return ".." in parts or any(
        os.path.islink(f"{root}/{'/'.join(parts[:count])}") for count in range(1, len(parts) + 1)
    )


# -- limits on the location of files to open ---------------------------------------------------------------------------

_MOST_KNOWN = 1 << 16
"""Number of directories whose resolved path is cached."""

_LONGEST_PATH = 32_767
"""Of Windows; of others it is 4,096."""


def require_openable(path: str) -> None:
    """Raise OSError for a path that is longer than any system opens, before each directory of it is looked at."""
    if len(path) > _LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


class LocalBounds:
    """Resolves directories below a local root. Raises PathExternal outside the root and the allowed prefixes."""

    def __init__(self, root: str, allowed: Allowed) -> None:
        self.allowed = allowed
        self._root = root
        self._real: dict[str, str] = {}

    def directory_of(self, path: str) -> str:
        """Return the resolved path of the directory that contains `path`, which is relative to the root."""
        require_openable(path)
        directory = path.rpartition("/")[0]
        known = self._real.get(directory)
        return known if known is not None else self._place(directory, path)

    def file(self, path: str) -> str:
        real = os.path.realpath(f"{self.directory_of(path)}/{path.rpartition('/')[2]}")
        self._require(real, path)
        return real

    def _place(self, directory: str, path: str) -> str:
        known = self._real.get("")
        if known is None:
            known = self._real[""] = os.path.realpath(self._root)
        place = known
        parts = directory.split("/") if directory else []
        for count, name in enumerate(parts, 1):
            above = "/".join(parts[:count])
            if (real := self._real.get(above)) is None:
                real = f"{place.rstrip('/')}/{name}"
                if name in ("", ".", "..") or os.path.islink(real):
                    real = os.path.realpath(real)
                    self._require(real, path, is_directory=True)
                if len(self._real) >= _MOST_KNOWN:
                    self._real.clear()
                self._real[above] = real
            place = real
        return place

    def _require(self, real: str, path: str, *, is_directory: bool = False) -> None:
        """Check that `real`, the resolved path of `path` or of a directory above it, is allowed."""
        root = os.path.realpath(self._root)
        if is_below(real, root) or self.allowed.has_directory(real):
            return
        self._real.clear()  # the root may be a link that was changed
        raise path_external(f"{self._root}/{path}", self._root, real, is_directory=is_directory)


# -- which store an address names, of which a path is a local one ------------------------------------------------------

_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]+)://"
_FILE_URI = r"(?i)file:(?://(?P<host>[^/]*))?(?=/|$)"

_S3_SCHEMES = ("s3", "s3a", "s3n")  # the last two are Hadoop's names for the same store
_GCS_SCHEMES = ("gs", "gcs")
_AZURE_SCHEMES = ("abfss", "abfs", "wasbs", "wasb", "az")
_MAY_BE_OF_A_STORE = ("arn:", "http://", "https://", *(f"{scheme}://arn:" for scheme in _S3_SCHEMES))
"""Beginnings of addresses that other tools show of a store."""
_AZURE_HOST = r"(?i)[a-z0-9-]+\.(?:blob|dfs)\.(?:core|fabric)\.[a-z0-9.-]+/"


def open_storage(
    uri: str, options: Mapping[str, str] | None = None, allowed: Allowed = NOTHING, *, retry: Retry | None = None
) -> Storage:
    """Return the store of `uri`: a path, a `file:` URI, or any scheme with a file system of fsspec. `allowed`: prefixes
    that links of a local directory may point to, besides the directory itself. `retry` is the policy for repeating
    calls over a network.

    Raises UsageError for an unknown scheme or an extra that is not installed.
    """
    if not uri:
        raise errors.UsageError("the table is an empty string", code="usage.table")
    require_path(uri, "the path")
    if uri.lower().startswith(_MAY_BE_OF_A_STORE):
        from deltacli.storage.other_addresses import require_store_address

        require_store_address(uri)
    if local := re.match(_FILE_URI, uri):
        if (local["host"] or "localhost").lower() != "localhost":
            raise errors.UsageError(
                f"{uri} names another host", code="usage.scheme", hint="mount it, then pass the path"
            )
        return LocalStorage(unquote(uri[local.end() :], errors="surrogateescape"), allowed)
    scheme = re.match(_SCHEME, uri)
    if scheme is None:
        return LocalStorage(os.path.expanduser(uri), allowed)
    name, rest = scheme[1].lower(), uri[scheme.end() :]
    if name == "uc":
        raise errors.UsageError(
            f"{uri} is a table of a catalog, which cannot be used here",
            code="usage.scheme",
            facts={"expected": "a path, or a URI of a store"},
        )
    if name in _S3_SCHEMES:
        from deltacli.storage.s3.store import open_s3

        return open_s3(f"{name}://{rest}", options or {}, retry=retry)
    if name in _GCS_SCHEMES:
        from deltacli.storage.gcs.store import open_gcs

        return open_gcs(f"{name}://{rest}", options or {}, retry=retry)
    if name in _AZURE_SCHEMES or (name == "https" and re.match(_AZURE_HOST, rest)):
        from deltacli.storage.azure.store import open_azure

        return open_azure(f"{name}://{rest}", options or {}, retry=retry)
    from deltacli.storage.fsspec_storage import RemoteStorage

    return RemoteStorage(f"{name}://{rest}", options or {}, retry=retry)


def usable_schemes() -> dict[str, str]:
    """Return the schemes of addresses that can be opened here, each with the back end that serves it."""
    stores = (
        ("s3", "bucket", _S3_SCHEMES),
        ("gcs", "bucket", _GCS_SCHEMES),
        ("azure", "container@account.dfs.core.windows.net", _AZURE_SCHEMES),
        *(("fsspec", "host", (scheme,)) for scheme in ("ftp", "hdfs", "http", "memory", "sftp", "smb", "webhdfs")),
    )
    found = {"file": "local"}
    for name, host, schemes in stores:
        try:
            open_storage(f"{schemes[0]}://{host}/path")
        except errors.UsageError:
            continue
        found |= dict.fromkeys(schemes, name)
    return found


def is_inside(inner: ReadStorage, outer: ReadStorage) -> bool:
    """Return True if one store's root is another's or below it, by links and other names of a store, too."""

    def roots(store: ReadStorage) -> tuple[str, ...]:
        return (os.path.realpath(store.root),) if isinstance(store, LocalStorage) else (store.uri, *store.aliases)

    return any(f"{below}/".startswith(f"{above.rstrip('/')}/") for below in roots(inner) for above in roots(outer))


def is_address_of(store: ReadStorage, uri: str) -> bool:
    """Return True for a URI, noted earlier, that names the root of a store now; links of local paths are followed."""

    def place(address: str) -> str:
        local = re.match(_FILE_URI, address)
        if local is None:
            return address.rstrip("/")
        try:
            return os.path.realpath(unquote(address[local.end() :], errors="surrogateescape"))
        except ValueError:
            return address  # no file can have a name with NUL or half of a surrogate, which JSON can have

    return place(uri) in {place(address) for address in (store.uri, *store.aliases)}
