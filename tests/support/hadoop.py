"""Checksum files as Hadoop writes them beside the files of a local disk, and verifies them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

CHUNK_BYTES = 512


def checksum_content(data: bytes) -> bytes:
    """Return what Hadoop writes beside a file: `crc\\0`, the size of a chunk, and the CRC-32 of each chunk."""
    chunks = (data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES))
    return (
        b"crc\0" + struct.pack(">I", CHUNK_BYTES) + b"".join(struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    )


def checksum_file(path: Path) -> Path:
    """Return where the checksum file of a file is."""
    return path.with_name(f".{path.name}.crc")


def write_checksum(path: Path, data: bytes | None = None) -> Path:
    """Write the checksum file of a file, or that of other bytes at its place, and return it."""
    target = checksum_file(path)
    target.write_bytes(checksum_content(path.read_bytes() if data is None else data))
    return target


def write_all_checksums(root: Path) -> None:
    """Give every file of a table the checksum file that it has if Spark has written it."""
    for path in _files(root):
        write_checksum(path)


def unfit_checksums(root: Path) -> list[str]:
    """Return the files that Hadoop would not read, below the table. Those of a backup are not part of it."""
    return [
        path.relative_to(root).as_posix()
        for path in _files(root)
        if checksum_file(path).exists() and checksum_file(path).read_bytes() != checksum_content(path.read_bytes())
    ]


def orphaned_checksums(root: Path) -> list[str]:
    """Return the checksum files whose files are gone, below the table."""
    checksums = (path for path in sorted(root.rglob(".*.crc")) if "_deltacli_backup" not in path.parts)
    return [
        path.relative_to(root).as_posix()
        for path in checksums
        if not path.with_name(path.name.removeprefix(".").removesuffix(".crc")).exists()
    ]


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.name.startswith(".") and "_deltacli_backup" not in path.parts:
            yield path
