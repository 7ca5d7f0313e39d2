"""Hadoop's checksum files, which Spark keeps beside the files that it writes to `file:` paths.

For a file `NAME`, Hadoop writes `.NAME.crc` with a CRC-32 of each 512 bytes, and compares both when it reads `NAME`:

    _delta_log/00000000000000000010.checkpoint.parquet         written by deltacli
    _delta_log/.00000000000000000010.checkpoint.parquet.crc    of the file that Spark had written before

If they do not fit, Spark raises a ChecksumException and cannot read the table. A file without a
checksum file is read without a comparison. Therefore whatever creates, replaces or deletes a file
on a local disk removes its checksum file, always before the file itself changes: a process that is
killed in between leaves a file without a checksum file, never new bytes with an old checksum. None
is written: no rename replaces two files at once, so that readers could meet the new one of both
with the old one of the other.

Hadoop itself renames the file first and then its checksum file. Another writer may therefore put a
checksum file beside a file that was replaced in between; `remove_unfit_checksum` looks for it
afterwards.
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

_HEADER = struct.Struct(">4si")
"""`crc\\0`, and the number of bytes of each chunk."""
HEADER_BYTES = _HEADER.size
CHECKSUM_BYTES = 4
_MAGIC = b"crc\0"
_PREFIX = "."
_SUFFIX = ".crc"
_NO_SUCH_NAME = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
"""Codes of the system for a checksum file that does not exist; the last one because its name is longer by 5 bytes."""
_READ_BYTES = 1 << 20


class HadoopChecksum(NamedTuple):
    """The content of a checksum file: one CRC-32 for each chunk of the file, the last of which may be shorter."""

    chunk_bytes: int
    checksums: bytes

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """Return the content of a checksum file; None for a file that Hadoop ignores, because its header is another."""
        if len(data) < HEADER_BYTES:
            return None
        magic, chunk_bytes = _HEADER.unpack_from(data)
        return cls(chunk_bytes, data[HEADER_BYTES:]) if magic == _MAGIC else None

    def fits_chunk(self, offset: int, chunk: bytes | memoryview) -> bool:
        """Return whether the chunk that begins at an offset of the file has its checksum."""
        start = offset // self.chunk_bytes * CHECKSUM_BYTES
        expected = self.checksums[start : start + CHECKSUM_BYTES]
        return zlib.crc32(chunk).to_bytes(CHECKSUM_BYTES, "big") == expected

    def find_mismatch(self, blocks: Iterable[bytes]) -> int | None:
        """Return where the first chunk begins that does not fit; None if all of them fit.

        Args:
            blocks: The bytes of the file in order, in blocks of any size.
        """
        if self.chunk_bytes <= 0:
            return 0

        offset = 0
        for chunk in _split(blocks, self.chunk_bytes):
            if not self.fits_chunk(offset, chunk):
                return offset
            offset += len(chunk)
        return None if has_enough_checksums(len(self.checksums), self.chunk_bytes, offset) else offset


def has_enough_checksums(checksums_bytes: int, chunk_bytes: int, size_bytes: int) -> bool:
    """Return whether a file of some size has a checksum for each chunk, all of them complete.

    More checksums than the file has chunks do not matter: Hadoop stops where the file ends.
    """
    if chunk_bytes <= 0 or checksums_bytes % CHECKSUM_BYTES:
        return False
    chunks = -(-size_bytes // chunk_bytes)
    return checksums_bytes >= chunks * CHECKSUM_BYTES


def _split(blocks: Iterable[bytes], chunk_bytes: int) -> Iterator[memoryview]:
    """Yield the bytes of blocks in chunks of one size; the last one may be shorter."""
    pending = b""
    for block in blocks:
        data = memoryview(pending + block if pending else block)
        whole = len(data) // chunk_bytes * chunk_bytes
        yield from (data[start : start + chunk_bytes] for start in range(0, whole, chunk_bytes))
        pending = bytes(data[whole:])
    if pending:
        yield memoryview(pending)


def make_checksum_file(data: bytes, chunk_bytes: int = 512) -> bytes:
    """Return the checksum file that Hadoop writes for a file with this content."""
    checksums = (zlib.crc32(chunk).to_bytes(CHECKSUM_BYTES, "big") for chunk in _split([data], chunk_bytes))
    return _HEADER.pack(_MAGIC, chunk_bytes) + b"".join(checksums)


def get_checksum_path(path: str) -> str | None:
    """Return the path of the checksum file of a file; None for one that is a checksum file itself."""
    directory, separator, name = path.rpartition("/")
    if not name or is_checksum_name(name):
        return None
    return f"{directory}{separator}{_PREFIX}{name}{_SUFFIX}"


def is_checksum_name(name: str) -> bool:
    """Return whether Hadoop takes a name for that of a checksum file; `N.crc` of Delta is not one."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX) and len(name) > len(_PREFIX + _SUFFIX)


def get_checksummed_path(checksum: str) -> str:
    """Return the path of the file that a checksum file belongs to."""
    directory, separator, name = checksum.rpartition("/")
    return f"{directory}{separator}{name[len(_PREFIX) : -len(_SUFFIX)]}"


def remove_checksum(file_path: str, *, dir_fd: int | None = None) -> None:
    """Remove the checksum file of a file that is about to be replaced.

    Args:
        file_path: The path of the file, relative to `dir_fd` if that is given.
        dir_fd: An open directory, as functions of `os` take it.

    Raises:
        OSError: The checksum file cannot be removed. Then the file must stay as it is.
    """
    checksum = get_checksum_path(file_path)
    if checksum is not None and _is_there(checksum, dir_fd):
        _unlink(checksum, dir_fd)


def remove_orphaned_checksum(file_path: str, *, dir_fd: int | None = None) -> None:
    """Remove a checksum file at a name where a file is about to be created, unless the file exists.

    The checksum file of a writer that was faster is kept. Hadoop gives it its name after the file,
    so one that is there before the file is an old one.

    Raises:
        OSError: The checksum file cannot be removed. Then the file must not be created.
    """
    checksum = get_checksum_path(file_path)
    if checksum is None or not _is_there(checksum, dir_fd) or _exists(file_path, dir_fd):
        return
    _unlink(checksum, dir_fd)


def remove_unfit_checksum(file_path: str, *, dir_fd: int | None = None) -> None:
    """Remove a checksum file that does not fit a file that was just published.

    It can only be that of a writer that published the same name at the same time. No error is
    raised: the file is published, and `validate` reports what is left.
    """
    checksum = get_checksum_path(file_path)
    with suppress(OSError):
        if checksum is not None and _is_there(checksum, dir_fd) and not _fits(checksum, file_path, dir_fd):
            _unlink(checksum, dir_fd)


def remove_checksum_before_deletion(file_path: str, *, dir_fd: int | None = None) -> None:
    """Remove the checksum file of a file that is about to be deleted, also where the file is gone already.

    No error is raised: what matters is whether the file can be deleted, and a checksum file without
    its file does no harm.
    """
    checksum = get_checksum_path(file_path)
    with suppress(OSError):
        if checksum is not None and _is_there(checksum, dir_fd) and not _is_directory(file_path, dir_fd):
            _unlink(checksum, dir_fd)


def _is_there(checksum: str, dir_fd: int | None) -> bool:
    """Return whether a checksum file exists. Hadoop ignores a directory of its name, and so it is left alone."""
    try:
        mode = os.stat(checksum, dir_fd=dir_fd, follow_symlinks=False).st_mode
    except OSError as error:
        if error.errno in _NO_SUCH_NAME:
            return False
        raise
    except ValueError:
        return False  # no file can have such a name
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _exists(file_path: str, dir_fd: int | None) -> bool:
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


def _unlink(checksum: str, dir_fd: int | None) -> None:
    with suppress(FileNotFoundError):  # another process has removed it
        os.unlink(checksum, dir_fd=dir_fd)


def _fits(checksum: str, file_path: str, dir_fd: int | None) -> bool:
    """Return whether Hadoop reads a file with this checksum file. Raises OSError."""
    content = HadoopChecksum.parse(b"".join(_read(checksum, dir_fd)))
    return content is None or content.find_mismatch(_read(file_path, dir_fd)) is None


def _read(file_path: str, dir_fd: int | None) -> Iterator[bytes]:
    descriptor = os.open(file_path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=dir_fd)
    try:
        while block := os.read(descriptor, _READ_BYTES):
            yield block
    finally:
        os.close(descriptor)
