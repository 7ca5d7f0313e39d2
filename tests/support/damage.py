"""Named damages of the files of a table. Each returns a `Damage` for `TableBuilder.damaged`.

A damage that finds nothing to damage is an error: a test must not pass because it broke nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.builder import HINT, LOG, Damage, Files, StoredFile, commit_path


def gap(version: int, last: int | None = None) -> Damage:
    """The commit of a version, or of all versions up to `last`, is gone."""

    def apply(files: Files) -> None:
        for missing in range(version, (version if last is None else last) + 1):
            del files[commit_path(missing)]

    return apply


def head_cleaned(before: int) -> Damage:
    """Log cleanup has deleted every commit below a version."""
    return gap(0, before - 1)


def zero_byte_commit(version: int) -> Damage:
    """A commit whose write was torn before its first byte."""
    return _replaced(commit_path(version), lambda _: b"")


def truncate_commit(version: int, *, drop: int = 5) -> Damage:
    """A commit that lacks its last bytes, in the middle of a line."""
    return _replaced(commit_path(version), lambda data: data.rstrip(b"\n")[:-drop])


def commit_line(version: int, line: int, text: bytes) -> Damage:
    """One line of a commit (from 1) reads `text`."""

    def changed(data: bytes) -> bytes:
        lines = data.split(b"\n")
        lines[line - 1] = text
        return b"\n".join(lines)

    return _replaced(commit_path(version), changed)


def zero_byte_checkpoint(version: int) -> Damage:
    """The top-level files of a version's checkpoints are empty."""
    return _each(_top_files, version, lambda _: b"")


def truncate(version: int) -> Damage:
    """The top-level files of a version's checkpoints lack their second half."""
    return _each(_top_files, version, lambda data: data[: len(data) // 2].rstrip(b"\n}"))


def corrupt_footer(version: int) -> Damage:
    """The Parquet footers of a version's checkpoints are noise; the length and the magic at the end are right."""
    return _each(_top_files, version, lambda data: data[:-40] + b"\xff" * 32 + data[-8:])


def corrupt_page(version: int, column: str = "add.path", *, sidecars: bool = False) -> Damage:
    """The pages of one column are noise in every Parquet file of a version's checkpoints; the footers are whole."""
    return _each(_sidecar_files if sidecars else _top_files, version, lambda data: _without_pages(data, column))


def drop_part(version: int, part: int = 1) -> Damage:
    """One file of a multi-part checkpoint is gone."""

    def apply(files: Files) -> None:
        names = [
            name
            for name in _top_files(files, version)
            if name.split(".")[2].isdigit() and int(name.split(".")[2]) == part
        ]
        assert len(names) == 1, names
        del files[names[0]]

    return apply


def drop_sidecar(version: int, index: int = 0) -> Damage:
    """One sidecar of a version's checkpoint is gone."""

    def apply(files: Files) -> None:
        del files[_sidecar_files(files, version)[index]]

    return apply


def drop_checkpoint(version: int) -> Damage:
    """The top-level files of a version's checkpoints are gone."""

    def apply(files: Files) -> None:
        for name in _top_files(files, version):
            del files[name]

    return apply


def torn_hint(keep: int = 9) -> Damage:
    """`_last_checkpoint` ends in the middle."""
    return _replaced(HINT, lambda data: data[:keep])


def _replaced(path: str, change: Callable[[bytes], bytes]) -> Damage:
    def apply(files: Files) -> None:
        old = files[path]
        new = change(old.data)
        assert new != old.data, f"{path} is not damaged"
        files[path] = StoredFile(new, old.modified_ms)

    return apply


def _each(find: Callable[[Files, int], list[str]], version: int, change: Callable[[bytes], bytes]) -> Damage:
    def apply(files: Files) -> None:
        for path in find(files, version):
            _replaced(path, change)(files)

    return apply


def _top_files(files: Files, version: int) -> list[str]:
    found = sorted(name for name in files if name.startswith(f"{LOG}/{version:020d}.checkpoint."))
    assert found, f"no checkpoint of version {version}"
    return found


def _sidecar_files(files: Files, version: int) -> list[str]:
    found = sorted(name for name in files if name.startswith(f"{LOG}/_sidecars/{version:020d}.checkpoint."))
    assert found, f"no sidecar of version {version}"
    return found


def _without_pages(data: bytes, column: str) -> bytes:
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    damaged = bytearray(data)
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(index)
            if chunk.path_in_schema == column:
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                damaged[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    return bytes(damaged)
