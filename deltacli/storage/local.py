"""The store for the local file system.

Local disks need care in three respects:

* **Links.** A table may contain links to files outside its directory. The links in a path are resolved
  and checked before a file is opened (`local_bounds.py`), and listings do not follow links
  (`local_listing.py`).
* **Atomic creation.** A file is written under a temporary name first. A hard link then gives it its
  final name, and fails if the name exists (`local_write.py`).
* **Replaced directories.** While a change is planned and carried out, another directory may appear at
  the path of the table. The store can be bound to the directory (`directory_identity.py`), and then
  checks before each write that the directory is still the same.
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
from deltacli.storage.local_listing import has_link_in_path, list_local_directory, stat_many
from deltacli.storage.os_errors import describe_os_error
from deltacli.storage.outcomes import Creation, Deleted, Deletion, Failed, Missing

_CAPABILITIES = Capabilities(has_cheap_requests=True, parallel_reads=1, atomic_create=True, has_directories=True)

# Linux reads at most 2 GiB per call.
_MAX_READ_BYTES = 1 << 30

# Directories in which abandoned drafts are removed, in addition to those that are written to.
_LOG_DIRECTORIES = ("_delta_log", "_delta_log/_sidecars")

# Error codes for opening a link with O_NOFOLLOW. FreeBSD returns EMLINK.
_IS_LINK_ERRORS = {errno.ELOOP, errno.EMLINK}


class LocalStorage:
    """The files below a local directory. Implements `Storage` and `DirectoryStore`.

    File names that are not valid UTF-8 contain surrogate escapes, as in `os.fsdecode`.

    Methods with a path raise PathExternal if the path is outside the root because of a link or `..`,
    unless it is below an allowed prefix.

    Attributes:
        root: The absolute path of the directory. It may be a link.
        bounds: Resolves and checks the links in paths.
    """

    def __init__(self, root: str, allowed: AllowedPrefixes = NO_PREFIXES) -> None:
        self.root = os.path.abspath(root)
        self.bounds = LocalBounds(self.root, allowed)
        self._directory: BoundDirectory | None = None
        # Directories in which abandoned drafts were already removed.
        self._cleaned_directories: set[str] = set()

    @property
    def uri(self) -> str:
        return local_uri(self.root)

    @property
    def aliases(self) -> tuple[str, ...]:
        resolved_root = os.path.realpath(self.root)
        return () if resolved_root == self.root else (local_uri(resolved_root),)

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
        """Return a store that is bound to the directory at the root path (see `DirectoryStore`)."""
        if self._directory is not None and identity in (None, self.directory_identity):
            self.require_same_directory()
            return self

        directory = BoundDirectory.at(self.root)
        current_identity = None if directory is None else directory.identity
        if identity is not None and identity != current_identity:
            # The identity may come from another machine, or from this one before a restart. Then the
            # numbers cannot be compared, and the directory may be the same.
            is_comparable = current_identity is None or identity[0] == current_identity[0]
            if is_comparable:
                raise other_directory_refusal(self.root)

        store = copy.copy(self)
        store._directory = directory
        return store

    def require_same_directory(self) -> None:
        if self._directory is not None and not self._directory.is_at(self.root):
            raise other_directory_refusal(self.root)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        """Yield the files of a directory, sorted by name.

        The system returns names in no particular order, so all of them are read and sorted first.
        """
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
                # The file was deleted meanwhile, or is a broken link.
                continue
            except OSError as error:
                # A cyclic link is not a file.
                if error.errno == errno.ELOOP:
                    continue
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
        """Yield all entries below a directory, one directory after another.

        Raises:
            FileMissing: If the path of the directory contains a link. Links are not followed.
        """
        if has_link_in_path(self.root, directory):
            raise errors.FileMissing(f"{self.full_path(directory)} is behind a link, and links are not followed")

        pending = [directory]
        while pending:
            path = pending.pop()
            full_path = self.full_path(path)
            subdirectories = list[str]()
            try:
                for part in list_local_directory(full_path, path):
                    subdirectories += part.subdirectories
                    yield part.walk_entry
            except (OSError, ValueError) as fault:
                error = translate_local_error(fault, full_path)
                if isinstance(error, errors.FileMissing) and path != directory:
                    # The directory was deleted, or replaced by a link, after its parent was listed.
                    continue
                raise error from fault

            for name in enter(path, sorted(subdirectories)):
                pending.append(f"{path}/{name}" if path else name)

    def read(self, path: str) -> bytes:
        """Return the content of a file with as few system calls as possible.

        For a log of 10,000 small commits, this takes half the time of `open(path).read()`.
        """
        full_path = self.full_path(path)
        try:
            descriptor, _ = self.open_inside(path)
            try:
                # Request one byte more than the size. If exactly `size` bytes are returned, that was
                # the end of the file. Otherwise the file is being written, or is larger than a single
                # call returns: read until the end.
                size = os.fstat(descriptor).st_size
                data = os.read(descriptor, size + 1)
                while len(data) != size:
                    block = os.read(descriptor, _MAX_READ_BYTES)
                    if not block:
                        break
                    data += block
                return data
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            raise translate_local_error(error, full_path) from error

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        full_path = self.full_path(path)
        try:
            descriptor, _ = self.open_inside(path)
            try:
                data = os.pread(descriptor, length, offset)
                # A single call may return less than requested.
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
        # Imported here, because it takes 100 ms, and commands that only read logs do not need it.
        import pyarrow as pa

        full_path = self.full_path(path)
        try:
            descriptor, resolved_path = self.open_inside(path)
            os.close(descriptor)
            # OSFile reads without holding the interpreter lock. A memory map would crash the process
            # with SIGBUS if the file is truncated.
            return pa.OSFile(os.fsencode(resolved_path), "rb")
        except (OSError, ValueError) as error:
            raise translate_local_error(error, full_path) from error

    def tag(self, path: str, opened: Any) -> str:
        full_path = self.full_path(path)
        try:
            try:
                status = os.fstat(opened.fileno())
            except AttributeError:
                # `OSFile.fileno` is broken before pyarrow 24. The tag of the path is sufficient: if
                # the file was replaced after it was opened, the tag is that of the newer file, and
                # the caller rejects a read that was correct. That is safe.
                status = os.stat(full_path)
        except OSError as error:
            raise translate_local_error(error, full_path) from error
        return f"{status.st_dev}-{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"

    def kind_of(self, path: str) -> PathKind:
        full_path = self.full_path(path)
        try:
            mode = os.stat(full_path).st_mode
        except ValueError:
            # The path contains NUL, so no such file can exist.
            return PathKind.MISSING
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
                full_path,
                data,
                modified_ms,
                remove_old_drafts=self._remove_old_drafts,
                require_same_directory=self.require_same_directory,
            )
        except OSError as error:
            raise translate_local_error(error, full_path, "written") from error

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        from deltacli.storage.local_write import replace

        full_path = self._path_to_write(path)
        try:
            replace(
                full_path,
                data,
                modified_ms,
                remove_old_drafts=self._remove_old_drafts,
                require_same_directory=self.require_same_directory,
            )
        except OSError as error:
            raise translate_local_error(error, full_path, "written") from error

    def draft(self, path: str) -> Draft:
        return _LocalDraft(self._path_to_write(path), self._remove_old_drafts, self.require_same_directory)

    def copy_within(self, source: str, target: str) -> Creation:
        """Copy a file with its permissions and modification time to a path that does not exist."""
        from deltacli.storage.local_copy import create_copy

        full_path = self._path_to_write(target)
        try:
            descriptor, _ = self.open_inside(source)
        except (OSError, ValueError) as error:
            raise translate_local_error(error, self.full_path(source)) from error

        try:
            return create_copy(
                descriptor,
                full_path,
                remove_old_drafts=self._remove_old_drafts,
                require_same_directory=self.require_same_directory,
            )
        except OSError as error:
            raise translate_local_error(error, full_path, "written") from error
        finally:
            os.close(descriptor)

    def copy_group(self, origin: LocalStorage, paths: Sequence[str]) -> list[Creation]:
        """Copy files of another local store to the same paths of this store, as `copy_within` does.

        The contents of all files are synced to the disk before the first file gets its name. Call
        `sync` afterwards to sync the names.

        Args:
            origin: The store to copy from.
            paths: The paths, relative to the roots of both stores.

        Returns:
            The outcome for each file.
        """
        from deltacli.storage.local_copy import create_copies

        def open_source(path: str) -> int:
            try:
                descriptor, _ = origin.open_inside(path)
            except (OSError, ValueError) as error:
                raise translate_local_error(error, origin.full_path(path)) from error
            return descriptor

        self.require_same_directory()
        root_descriptor = None if self._directory is None else self._directory.descriptor
        try:
            copies = [(path, self._path_inside(path)) for path in paths]
            return create_copies(open_source, copies, self.root, root_descriptor, self.require_same_directory)
        except OSError as error:
            raise translate_local_error(error, self.root, "written") from error

    def sync(self) -> None:
        """Write all changes of the file system to the disk, and remove abandoned drafts."""
        from deltacli.storage.local_copy import sync_disk
        from deltacli.storage.locked_drafts import LockedDraft

        self.require_same_directory()
        try:
            # A new file shows the current time of the file system.
            draft = LockedDraft(self.root, ".")
            self._remove_old_drafts(self.root, draft.changed_ns)
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
        """Remove an empty directory, but never the root of the store, and no link to a directory."""
        self.require_same_directory()
        if not path:
            return Failed("it is the root of the store")

        full_path = self.full_path(path)
        try:
            if has_link_in_path(self.root, path):
                return Failed("a link leads to it")
            remove_entry(remove_local_directory, full_path, self._directory, path)
        except ValueError:
            # The path contains NUL, so no such directory can exist.
            return Missing()
        except OSError as error:
            return Failed(describe_os_error(error)) if os.path.lexists(full_path) else Missing()
        return Deleted()

    def _remove_old_drafts(self, directory: str, now_ns: int) -> None:
        """Remove abandoned drafts from a directory and from the log. Each directory is only searched once.

        Args:
            directory: The absolute path of a directory to which a draft is written.
            now_ns: The current time of its file system.
        """
        from deltacli.storage.local_write import DRAFT_PREFIX
        from deltacli.storage.locked_drafts import remove_abandoned_drafts

        for full_path in (directory, *(self.full_path(log) for log in _LOG_DIRECTORIES)):
            if full_path not in self._cleaned_directories:
                self._cleaned_directories.add(full_path)
                remove_abandoned_drafts(full_path, DRAFT_PREFIX, now_ns)

    def full_path(self, path: str) -> str:
        """Return the absolute path for a path relative to the root. Links are not resolved."""
        return f"{self.root}/{path}" if path else self.root

    def open_inside(self, path: str) -> tuple[int, str]:
        """Open a regular file for reading.

        Most files are not links. Opening with `O_NOFOLLOW` succeeds for these without further calls.
        If it fails because the file is a link, the link is resolved and its target is checked before
        it is opened.

        Args:
            path: The path relative to the root.

        Returns:
            The file descriptor, and the path that was opened.

        Raises:
            PathExternal: If the file is outside the root and the allowed prefixes.
            OSError: If the file cannot be opened.
        """
        full_path = self._path_inside(path)
        try:
            return open_regular_file(full_path, os.O_NOFOLLOW), full_path
        except OSError as error:
            if error.errno not in _IS_LINK_ERRORS or not os.path.islink(full_path):
                raise

        target = self.bounds.file(path)
        return open_regular_file(target), target

    def _path_inside(self, path: str) -> str:
        """Return the absolute path of a file. Raises PathExternal if its directory is outside the root."""
        self.bounds.directory_of(path)
        return self.full_path(path)

    def _path_to_write(self, path: str) -> str:
        """Return the absolute path of a file to write.

        Raises:
            PathExternal: If the directory of the file is outside the root and the allowed prefixes.
            Refused: If the store is bound to a directory, and another one is at the root path.
        """
        self.require_same_directory()
        return self._path_inside(path)


class _LocalDraft:
    """Wraps `local_write.LocalDraft`, and translates its errors. Implements `Draft`."""

    def __init__(
        self,
        target: str,
        remove_old_drafts: Callable[[str, int], None],
        require_same_directory: Callable[[], None],
    ) -> None:
        from deltacli.storage.local_write import LocalDraft

        self._target = target
        self._require_same_directory = require_same_directory
        self._draft = LocalDraft(target, remove_old_drafts, require_same_directory)

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
            # If another directory is at the path now, that is the cause of the error. Report it.
            self._require_same_directory()
            raise translate_local_error(error, self._target, "written") from error


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a directory or a link to one. Broken and cyclic links are not."""
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise
