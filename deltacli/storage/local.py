"""The local file system as a store.

Three things need care on a disk:

* **Links.** Every method resolves the links in the path of a file before anything is opened
  (`local_bounds.py`), and listings follow none (`local_listing.py`).
* **Atomic creation.** A file is written as a draft beside its target and gets its name by a hard
  link, which fails if the name exists (`local_write.py`).
* **Another directory at the same path.** A store for a change is bound to the directory that was
  there when the change was planned (`directory_identity.py`), and checks before each write that it
  is still there.
"""

from __future__ import annotations

import copy
import errno
import os
import stat as stat_module
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from deltacli.core import errors
from deltacli.storage.allowed_prefixes import NO_PREFIXES, AllowedPrefixes
from deltacli.storage.base import Capabilities, Draft, FileStat, PathKind, ShouldDescend, WalkEntry
from deltacli.storage.directory_identity import BoundDirectory, DirectoryIdentity, other_directory_refusal
from deltacli.storage.local_bounds import LocalBounds
from deltacli.storage.local_deletion import delete_local_file, remove_entry, remove_local_directory
from deltacli.storage.local_files import is_absent, local_uri, open_regular_file, translate_local_error
from deltacli.storage.local_listing import leads_elsewhere, list_local_directory, stat_many
from deltacli.storage.os_errors import describe_os_error
from deltacli.storage.outcomes import Creation, Deleted, Deletion, Failed, Missing

_CAPABILITIES = Capabilities(has_cheap_requests=True, parallel_reads=1, atomic_create=True, has_directories=True)

# Linux reads at most 2 GiB at a time.
_LONGEST_READ = 1 << 30

# Where drafts of earlier runs are looked for, besides the directories that are written to.
_LOG_DIRECTORIES = ("_delta_log", "_delta_log/_sidecars")

# Codes for opening a link that must not be followed. The second one is FreeBSD's.
_IS_LINK = {errno.ELOOP, errno.EMLINK}


class LocalStorage:
    """The files below a local directory.

    Names that are not UTF-8 have surrogate escapes, as Python returns them.

    Reading, writing or deleting outside the root through links or `..` raises PathExternal, except
    below the allowed prefixes.

    Attributes:
        root: The absolute path of the directory, which may be a link.
        bounds: Resolves the links in paths below the root.
    """

    def __init__(self, root: str, allowed: AllowedPrefixes = NO_PREFIXES) -> None:
        self.root = os.path.abspath(root)
        self.bounds = LocalBounds(self.root, allowed)
        self._directory: BoundDirectory | None = None
        # Directories in which abandoned drafts were removed already.
        self._swept: set[str] = set()

    @property
    def uri(self) -> str:
        return local_uri(self.root)

    @property
    def aliases(self) -> tuple[str, ...]:
        real = os.path.realpath(self.root)
        return () if real == self.root else (local_uri(real),)

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def versions(self) -> None:
        return None

    @property
    def directory_identity(self) -> DirectoryIdentity | None:
        return None if self._directory is None else self._directory.identity

    def bind_to_directory(self, identity: DirectoryIdentity | None = None) -> LocalStorage:
        """Return the store bound to the directory at its path (`StoreOfDirectory.bind_to_directory`)."""
        if self._directory is not None and identity in (None, self.directory_identity):
            self.require_same_directory()
            return self

        directory = BoundDirectory.at(self.root)
        found_identity = None if directory is None else directory.identity
        if identity is not None and identity != found_identity:
            # An identity of another kernel proves nothing: this machine numbers its devices in its
            # own way.
            is_of_this_kernel = found_identity is None or identity[0] == found_identity[0]
            if is_of_this_kernel:
                raise other_directory_refusal(self.root)

        store = copy.copy(self)
        store._directory = directory
        return store

    def require_same_directory(self) -> None:
        if self._directory is not None and not self._directory.is_at(self.root):
            raise other_directory_refusal(self.root)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files of a directory. All names are read and sorted first: the system returns them in no order."""
        full_path = self.full_path(directory)
        try:
            with os.scandir(full_path) as entries:
                names = [entry.name for entry in entries if entry.name >= start]
        except (OSError, ValueError) as error:
            raise translate_local_error(error, full_path) from error
        names.sort(key=os.fsencode)
        for name in names:
            try:
                status = os.stat(f"{full_path}/{name}")
            except FileNotFoundError:
                continue  # deleted since the directory was listed, or a dangling link
            except OSError as error:
                if error.errno == errno.ELOOP:
                    continue  # a link to itself
                raise translate_local_error(error, f"{full_path}/{name}") from error
            if stat_module.S_ISREG(status.st_mode):
                yield FileStat(name, status.st_size, status.st_mtime_ns // 1_000_000)

    def list_directories(self, directory: str) -> list[str]:
        full_path = self.full_path(directory)
        try:
            with os.scandir(full_path) as entries:
                return sorted(entry.name for entry in entries if _is_directory(entry))
        except (OSError, ValueError) as error:
            raise translate_local_error(error, full_path) from error

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        """Yield all entries below a directory, one directory at a time.

        Raises:
            FileMissing: If the directory is behind a link. Links are not followed.
        """
        if leads_elsewhere(self.root, directory):
            raise errors.FileMissing(f"{self.full_path(directory)} is behind a link, and links are not followed")

        waiting = [directory]
        while waiting:
            path = waiting.pop()
            full_path = self.full_path(path)
            subdirectories = list[str]()
            try:
                yield from list_local_directory(full_path, path, subdirectories)
            except (OSError, ValueError) as fault:
                error = translate_local_error(fault, full_path)
                if isinstance(error, errors.FileMissing) and path != directory:
                    continue  # deleted, or replaced by a link, since its parent was listed
                raise error from fault
            for name in enter(path, sorted(subdirectories)):
                waiting.append(f"{path}/{name}" if path else name)

    def read(self, path: str) -> bytes:
        """Return the whole file, by as few calls of the system as possible."""
        full_path = self.full_path(path)
        try:
            descriptor = self.open_inside(path)[0]
            try:
                # Twice as fast as a file object on ten thousand small commits. One byte more than
                # the size is asked for: if exactly `size` bytes come, that was the end. Otherwise
                # the file is growing or shrinking, or is larger than one call returns, and is read
                # until nothing comes.
                size = os.fstat(descriptor).st_size
                data = os.read(descriptor, size + 1)
                while len(data) != size:
                    block = os.read(descriptor, _LONGEST_READ)
                    if not block:
                        break
                    data += block
                return data
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            raise translate_local_error(error, full_path) from error

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a range of a file, without moving a position that other threads could share."""
        full_path = self.full_path(path)
        try:
            descriptor = self.open_inside(path)[0]
            try:
                data = os.pread(descriptor, length, offset)
                # One call may return less than there is.
                while len(data) < length:
                    block = os.pread(descriptor, length - len(data), offset + len(data))
                    if not block:
                        break
                    data += block
                return data
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            raise translate_local_error(error, full_path) from error

    def open(self, path: str) -> Any:
        # Commands that only read logs, such as `history`, need no pyarrow, whose import takes 100
        # ms.
        import pyarrow as pa

        full_path = self.full_path(path)
        try:
            descriptor, real = self.open_inside(path)
            os.close(descriptor)
            # Reads in C without the interpreter lock; a memory map would raise SIGBUS for a
            # truncated file.
            return pa.OSFile(os.fsencode(real), "rb")
        except (OSError, ValueError) as error:
            raise translate_local_error(error, full_path) from error

    def tag(self, path: str, opened: Any) -> str:
        full_path = self.full_path(path)
        try:
            try:
                status = os.fstat(opened.fileno())
            except AttributeError:
                # `OSFile.fileno` is broken before pyarrow 24. The name, looked at after it was
                # opened, does as well: it may lead to a newer file than the open one, and then the
                # reading is refused for nothing.
                status = os.stat(full_path)
        except OSError as error:
            raise translate_local_error(error, full_path) from error
        return f"{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"

    def kind_of(self, path: str) -> PathKind:
        full_path = self.full_path(path)
        try:
            mode = os.stat(full_path).st_mode
        except ValueError:
            return PathKind.MISSING  # no file can have such a name
        except OSError as error:
            if is_absent(error, full_path):
                return PathKind.MISSING
            raise translate_local_error(error, full_path) from error
        return PathKind.DIRECTORY if stat_module.S_ISDIR(mode) else PathKind.FILE

    def stat(self, path: str) -> FileStat:
        full_path = self.full_path(path)
        try:
            status = os.stat(full_path)
        except (OSError, ValueError) as error:
            raise translate_local_error(error, full_path) from error
        if not stat_module.S_ISREG(status.st_mode):
            raise errors.FileMissing(f"{full_path} is not a file")
        return FileStat(os.path.basename(full_path), status.st_size, status.st_mtime_ns // 1_000_000)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        try:
            return stat_many(self.root, paths)
        except OSError as error:
            raise translate_local_error(error, os.fsdecode(error.filename)) from error

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        from deltacli.storage.local_write import create_file

        full_path = self._path_to_write(path)
        try:
            return create_file(
                full_path, data, modified_ms, sweep=self._sweep, require_same_directory=self.require_same_directory
            )
        except OSError as error:
            raise translate_local_error(error, full_path, "written") from error

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        from deltacli.storage.local_write import replace

        full_path = self._path_to_write(path)
        try:
            replace(full_path, data, modified_ms, sweep=self._sweep, require_same_directory=self.require_same_directory)
        except OSError as error:
            raise translate_local_error(error, full_path, "written") from error

    def draft(self, path: str) -> Draft:
        return _LocalDraft(self._path_to_write(path), self._sweep, self.require_same_directory)

    def copy_within(self, source: str, target: str) -> Creation:
        """Copy a file with its permissions and times."""
        from deltacli.storage.local_copy import create_copy

        full_path = self._path_to_write(target)
        try:
            descriptor = self.open_inside(source)[0]
        except (OSError, ValueError) as error:
            raise translate_local_error(error, self.full_path(source)) from error
        try:
            return create_copy(
                descriptor, full_path, sweep=self._sweep, require_same_directory=self.require_same_directory
            )
        except OSError as error:
            raise translate_local_error(error, full_path, "written") from error
        finally:
            os.close(descriptor)

    def copy_group(self, origin: LocalStorage, paths: Sequence[str]) -> list[Creation]:
        """Copy files of another directory of the disk to the same paths, as `copy_within` does.

        All of them are on the disk before the first one gets its name. The names are on the disk
        after the next `sync`.

        Args:
            origin: The store of the other directory.
            paths: Paths of the files, in both stores.

        Returns:
            The outcome of each file.
        """
        from deltacli.storage.local_copy import create_copies

        def open_source(path: str) -> int:
            try:
                return origin.open_inside(path)[0]
            except (OSError, ValueError) as error:
                raise translate_local_error(error, origin.full_path(path)) from error

        self.require_same_directory()
        root_descriptor = None if self._directory is None else self._directory.descriptor
        try:
            copies = [(path, self._path_inside(path)) for path in paths]
            return create_copies(open_source, copies, self.root, root_descriptor, self.require_same_directory)
        except OSError as error:
            raise translate_local_error(error, self.root, "written") from error

    def sync(self) -> None:
        """Write the file system to the disk, and remove abandoned drafts of the root.

        A draft of its own shows what time it is on the file system, by which the age of others is judged.
        """
        from deltacli.storage.local_copy import sync_disk
        from deltacli.storage.locked_drafts import LockedDraft

        self.require_same_directory()
        try:
            draft = LockedDraft(self.root, ".")
            self._sweep(self.root, draft.changed_ns)
            draft.close()
            sync_disk(self.root)
        except OSError as error:
            raise translate_local_error(error, self.root, "written") from error

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        self.require_same_directory()
        for path in paths:
            try:
                self.bounds.directory_of(path)
            except errors.PathExternal:
                yield path, Failed("a link leads outside the table")
            else:
                yield path, delete_local_file(self.full_path(path), self._directory, path)

    def remove_directory(self, path: str) -> Deletion:
        """Remove an empty directory. The root of the store is never removed, and a link to a directory neither."""
        self.require_same_directory()
        if not path:
            return Failed("it is the root of the store")

        full_path = self.full_path(path)
        try:
            if leads_elsewhere(self.root, path):
                return Failed("a link leads to it")
            remove_entry(remove_local_directory, full_path, self._directory, path)
        except ValueError:
            return Missing()  # no directory can have such a name
        except OSError as error:
            return Failed(describe_os_error(error)) if os.path.lexists(full_path) else Missing()
        return Deleted()

    def _sweep(self, directory: str, now_ns: int) -> None:
        """Remove abandoned drafts, once per directory: in one that is written to, and in those of the log.

        Args:
            directory: The full path of the directory that a draft is in.
            now_ns: The time of its file system.
        """
        from deltacli.storage.local_write import DRAFT_PREFIX
        from deltacli.storage.locked_drafts import sweep

        for full_path in (directory, *(self.full_path(log) for log in _LOG_DIRECTORIES)):
            if full_path not in self._swept:
                self._swept.add(full_path)
                sweep(full_path, DRAFT_PREFIX, now_ns)

    def full_path(self, path: str) -> str:
        """Return the absolute path of a path below the root, whose links are not resolved."""
        return f"{self.root}/{path}" if path else self.root

    def open_inside(self, path: str) -> tuple[int, str]:
        """Open a regular file for reading.

        The usual file is no link, and opening it with `O_NOFOLLOW` proves that. Only a link costs
        the calls that resolve it, and it is resolved and checked before anything outside the root
        is opened.

        Returns:
            The descriptor, and the path that was opened.

        Raises:
            PathExternal: If the path leads outside the root and the allowed prefixes.
            OSError: If the file cannot be opened.
        """
        full_path = self._path_inside(path)
        try:
            return open_regular_file(full_path, os.O_NOFOLLOW), full_path
        except OSError as error:
            if error.errno not in _IS_LINK or not os.path.islink(full_path):
                raise

        resolved = self.bounds.file(path)
        return open_regular_file(resolved), resolved

    def _path_inside(self, path: str) -> str:
        """Return the full path of a file. Raises PathExternal if its directory is outside."""
        self.bounds.directory_of(path)
        return self.full_path(path)

    def _path_to_write(self, path: str) -> str:
        """Return the full path of a file to write.

        Raises:
            PathExternal: If its directory is outside.
            Refused: If another directory is at the root than the one that the store is bound to.
        """
        self.require_same_directory()
        return self._path_inside(path)


class _LocalDraft:
    """A draft beside its target, which raises errors of deltacli instead of those of the system."""

    def __init__(
        self, target: str, sweep: Callable[[str, int], None], require_same_directory: Callable[[], None]
    ) -> None:
        from deltacli.storage.local_write import LocalDraft

        self._target = target
        self._require_same_directory = require_same_directory
        self._draft = LocalDraft(target, sweep, require_same_directory)

    @property
    def local_path(self) -> str:
        return self._draft.local_path

    def __enter__(self) -> Self:
        try:
            self._draft.__enter__()
        except OSError as error:
            raise translate_local_error(error, self._target, "written") from error
        return self

    def __exit__(self, *exception: object) -> None:
        self._draft.__exit__(*exception)

    def publish(self, *, replace: bool = False) -> Creation:
        try:
            return self._draft.publish(replace=replace)
        except OSError as error:
            # If another directory was put at the path, the error is a consequence, and that is the
            # cause to report.
            self._require_same_directory()
            raise translate_local_error(error, self._target, "written") from error


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a directory or a link to one. A cyclic or dangling link is none. Raises OSError."""
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise
