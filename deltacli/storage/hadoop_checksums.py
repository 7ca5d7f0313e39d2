"""Hadoop's checksum files: `.NAME.crc` contains a CRC-32 for each 512 bytes of the file `NAME`.

Hadoop's local file system writes a checksum file for each file that Spark writes to a `file:` path.
When Hadoop reads `NAME` and `.NAME.crc` exists, it compares them:

    _delta_log/00000000000000000010.checkpoint.parquet         replaced by deltacli
    _delta_log/.00000000000000000010.checkpoint.parquet.crc    still describes the file that Spark wrote

If the checksums do not match, Spark fails with a ChecksumException and cannot read the table. If no
checksum file exists, Hadoop reads the file without checking it. All code that creates, replaces or
deletes a file on a local disk therefore removes the checksum file:

* It is removed before the file changes. If the process is killed in between, the file has no
  checksum file, which is harmless.
* deltacli never writes checksum files. No system call replaces two files at the same time, so a
  reader could combine a new file with an old checksum file.
* Spark writes a file first and its checksum file afterwards. If Spark and deltacli replace a file at
  the same time, a checksum file of Spark's version may appear after deltacli has published its own.
  `remove_mismatched_checksum` therefore checks after publishing.

See docs/decisions/0166-hadoop-checksum-files-are-removed-first.md.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple, Self

# The header: `crc\0` and the number of bytes per chunk, as a big-endian integer.
_HEADER = struct.Struct(">4si")
_MAGIC = b"crc\0"
HEADER_BYTES = _HEADER.size

CHECKSUM_BYTES = 4
"""The size of one checksum."""

_PREFIX = "."
_SUFFIX = ".crc"

# Error codes for a checksum file that does not exist. ENAMETOOLONG: its name is 5 bytes longer than
# that of the file, and may exceed the limit of 255 bytes.
_MISSING_FILE_ERRORS = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}

_READ_BYTES = 1 << 20


class HadoopChecksum(NamedTuple):
    """The content of a checksum file.

    Attributes:
        chunk_bytes: The number of bytes of the file for which there is one checksum. The last chunk
            of a file may be shorter.
        checksums: The CRC-32 of each chunk, 4 bytes each, big-endian.
    """

    chunk_bytes: int
    checksums: bytes

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """Parse a checksum file.

        Returns:
            The content; None if the file does not begin with Hadoop's header. Hadoop ignores such a
            file.
        """
        if len(data) < HEADER_BYTES:
            return None
        magic, chunk_bytes = _HEADER.unpack_from(data)
        return cls(chunk_bytes, data[HEADER_BYTES:]) if magic == _MAGIC else None

    def matches_chunk(self, offset: int, chunk: bytes | memoryview) -> bool:
        """Return whether a chunk of the file matches its checksum.

        Args:
            offset: The offset of the chunk in the file.
            chunk: The bytes of the chunk.
        """
        start = offset // self.chunk_bytes * CHECKSUM_BYTES
        expected = self.checksums[start : start + CHECKSUM_BYTES]
        return zlib.crc32(chunk).to_bytes(CHECKSUM_BYTES, "big") == expected

    def find_mismatch(self, blocks: Iterable[bytes]) -> int | None:
        """Compare a file with its checksums.

        Args:
            blocks: The bytes of the file in order, in blocks of any size.

        Returns:
            The offset of the first chunk that does not match or has no checksum; None if the whole
            file matches.
        """
        if self.chunk_bytes <= 0:
            return 0

        offset = 0
        for chunk in _split_into_chunks(blocks, self.chunk_bytes):
            if not self.matches_chunk(offset, chunk):
                return offset
            offset += len(chunk)
        return None if has_enough_checksums(len(self.checksums), self.chunk_bytes, offset) else offset


def has_enough_checksums(checksums_bytes: int, chunk_bytes: int, size_bytes: int) -> bool:
    """Return whether a checksum file contains a complete checksum for each chunk of a file.

    Additional checksums are allowed: Hadoop stops at the end of the file.

    Args:
        checksums_bytes: The size of the checksum file without its header.
        chunk_bytes: The number of bytes per chunk.
        size_bytes: The size of the file.
    """
    if chunk_bytes <= 0 or checksums_bytes % CHECKSUM_BYTES:
        return False
    chunk_count = -(-size_bytes // chunk_bytes)
    return checksums_bytes >= chunk_count * CHECKSUM_BYTES


def _split_into_chunks(blocks: Iterable[bytes], chunk_bytes: int) -> Iterator[memoryview]:
    """Yield the bytes of consecutive blocks in chunks of `chunk_bytes`. The last chunk may be shorter."""
    incomplete_chunk = b""
    for block in blocks:
        data = memoryview(incomplete_chunk + block if incomplete_chunk else block)
        end = len(data) // chunk_bytes * chunk_bytes
        for start in range(0, end, chunk_bytes):
            yield data[start : start + chunk_bytes]
        incomplete_chunk = bytes(data[end:])
    if incomplete_chunk:
        yield memoryview(incomplete_chunk)


def make_checksum_file(data: bytes, chunk_bytes: int = 512) -> bytes:
    """Return the checksum file that Hadoop writes for a file with the content `data`."""
    checksums = (zlib.crc32(chunk).to_bytes(CHECKSUM_BYTES, "big") for chunk in _split_into_chunks([data], chunk_bytes))
    return _HEADER.pack(_MAGIC, chunk_bytes) + b"".join(checksums)


def get_checksum_path(path: str) -> str | None:
    """Return the path of the checksum file of a file: `a/b.parquet` -> `a/.b.parquet.crc`.

    Returns None if `path` is itself a checksum file.
    """
    directory, separator, name = path.rpartition("/")
    if not name or is_checksum_name(name):
        return None
    return f"{directory}{separator}{_PREFIX}{name}{_SUFFIX}"


def is_checksum_name(name: str) -> bool:
    """Return whether a file name is that of a Hadoop checksum file.

    Delta's version checksums, such as `00000000000000000010.crc`, do not begin with a dot and are
    not Hadoop checksum files.
    """
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX) and len(name) > len(_PREFIX + _SUFFIX)


def get_checksummed_path(checksum_path: str) -> str:
    """Return the path of the file that a checksum file describes: `a/.b.parquet.crc` -> `a/b.parquet`."""
    directory, separator, name = checksum_path.rpartition("/")
    return f"{directory}{separator}{name[len(_PREFIX) : -len(_SUFFIX)]}"


def remove_checksum(file_path: str, *, dir_fd: int | None = None) -> None:
    """Remove the checksum file of a file, before the file is replaced.

    Args:
        file_path: The path of the file, relative to `dir_fd` if that is given.
        dir_fd: The descriptor of an open directory.

    Raises:
        OSError: If the checksum file cannot be removed. The caller must not replace the file.
    """
    checksum_path = get_checksum_path(file_path)
    if checksum_path is not None and _checksum_exists(checksum_path, dir_fd):
        _unlink_if_exists(checksum_path, dir_fd)


def remove_orphaned_checksum(file_path: str, *, dir_fd: int | None = None) -> None:
    """Remove an old checksum file before a file with a new name is created.

    Nothing is removed if the file exists: then another writer has created it, and the checksum file
    is probably correct. Hadoop publishes a file before its checksum file. A checksum file without
    its file is therefore always a leftover.

    Args:
        file_path: The path of the file to create, relative to `dir_fd` if that is given.
        dir_fd: The descriptor of an open directory.

    Raises:
        OSError: If the checksum file cannot be removed. The caller must not create the file.
    """
    checksum_path = get_checksum_path(file_path)
    if checksum_path is None or not _checksum_exists(checksum_path, dir_fd) or _file_exists(file_path, dir_fd):
        return
    _unlink_if_exists(checksum_path, dir_fd)


def remove_mismatched_checksum(file_path: str, *, dir_fd: int | None = None) -> None:
    """Remove a checksum file that does not match a file that was just published.

    This happens if another writer, such as Spark, published a file with the same name at the same
    time. Errors are ignored: the file is already published, and `validate` reports checksum files
    that do not match.

    Args:
        file_path: The path of the published file, relative to `dir_fd` if that is given.
        dir_fd: The descriptor of an open directory.
    """
    checksum_path = get_checksum_path(file_path)
    if checksum_path is None:
        return
    with suppress(OSError):
        if _checksum_exists(checksum_path, dir_fd) and not _matches(checksum_path, file_path, dir_fd):
            _unlink_if_exists(checksum_path, dir_fd)


def remove_checksum_before_deletion(file_path: str, *, dir_fd: int | None = None) -> None:
    """Remove the checksum file of a file, before the file is deleted. The file may already be missing.

    Errors are ignored: a checksum file without its file is harmless, so the deletion can go on.

    Args:
        file_path: The path of the file to delete, relative to `dir_fd` if that is given.
        dir_fd: The descriptor of an open directory.
    """
    checksum_path = get_checksum_path(file_path)
    if checksum_path is None:
        return
    with suppress(OSError):
        if _checksum_exists(checksum_path, dir_fd) and not _is_directory(file_path, dir_fd):
            _unlink_if_exists(checksum_path, dir_fd)


def _checksum_exists(checksum_path: str, dir_fd: int | None) -> bool:
    """Return whether a checksum file exists. A directory with its name does not count: Hadoop ignores it."""
    try:
        mode = os.stat(checksum_path, dir_fd=dir_fd, follow_symlinks=False).st_mode
    except OSError as error:
        if error.errno in _MISSING_FILE_ERRORS:
            return False
        raise
    except ValueError:
        # The name contains NUL, so no such file can exist.
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _file_exists(file_path: str, dir_fd: int | None) -> bool:
    """Return whether a path exists, also as a broken link."""
    try:
        os.stat(file_path, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_directory(file_path: str, dir_fd: int | None) -> bool:
    try:
        return stat.S_ISDIR(os.stat(file_path, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _unlink_if_exists(path: str, dir_fd: int | None) -> None:
    # Another process may have removed the file since it was found.
    with suppress(FileNotFoundError):
        os.unlink(path, dir_fd=dir_fd)


def _matches(checksum_path: str, file_path: str, dir_fd: int | None) -> bool:
    """Return whether Hadoop can read a file together with a checksum file.

    Raises:
        OSError: If one of the files cannot be read.
    """
    content = HadoopChecksum.parse(b"".join(_read_blocks(checksum_path, dir_fd)))
    return content is None or content.find_mismatch(_read_blocks(file_path, dir_fd)) is None


def _read_blocks(file_path: str, dir_fd: int | None) -> Iterator[bytes]:
    # O_NONBLOCK: opening a named pipe would otherwise wait for a writer.
    descriptor = os.open(file_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=dir_fd)
    try:
        while block := os.read(descriptor, _READ_BYTES):
            yield block
    finally:
        os.close(descriptor)
