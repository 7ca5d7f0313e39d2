"""The difference between a version of a shared table and its local copy: files to download, to add and to remove."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from deltacli.core.errors import DataUnreadable
from deltacli.core.typing import JsonObject
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.stats.record_counts import parse_num_records
from deltacli.delta.vectors import vector_file
from deltacli.sharing.client.faults import DIFFERS, PullRefused, invalid
from deltacli.sharing.pulling.local_actions import TAG, PullSource, add_line, adds_of, key_of, remove_line
from deltacli.sharing.pulling.local_table import PulledTable
from deltacli.sharing.pulling.verifying import WantedFile, decode, verify
from deltacli.table.version import Snapshot


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The live files of the local table: their keys, and their sizes by name."""

    keys: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)


NO_FILES = LocalFiles()


def read_local_files(table: PulledTable, directory: str) -> LocalFiles:
    """Return the live files of a local table. Raises PullRefused where some of them were not pulled."""
    keys, sizes = set[str](), dict[str, int]()
    for add in adds_of(table.snapshot.files()):
        if TAG not in add["tags"]:
            raise PullRefused(
                f"{directory} has rows of its own: it was written to after it was pulled",
                facts={"file": str(add["path"]), "why": "a pull would remove files that are not of the shared table"},
                hint="pull into another directory",
            )
        keys.add(key_of(add))
        sizes[add["path"]] = add["size"]
    return LocalFiles(frozenset(keys), sizes)


@dataclass(frozen=True, slots=True)
class Difference:
    """What a pull does. `wanted` are the files to download, whose declared sizes add up to `wanted_bytes`; `present`
    is the number of files that are there already; `added_rows` counts the rows of files that say how many they have.
    """

    keys: frozenset[str]
    wanted: tuple[WantedFile, ...]
    present: int
    added: int = 0
    removed: int = 0
    added_bytes: int = 0
    added_rows: int = 0

    @property
    def wanted_bytes(self) -> int:
        """Return the bytes to download. Files of deletion vectors count with what is needed of them."""
        return sum(file.least_bytes for file in self.wanted)


def compare(shared: Snapshot, local: LocalFiles, directory: str, *, decodes: bool = False) -> Difference:
    """Return the difference to the local files. `decodes`: files whose data is damaged count as not there.

    Raises DataUnreadable, and AnswerInvalid for files without a name.
    """
    keys, added, added_bytes, added_rows = set[str](), 0, 0, 0
    data: dict[str, WantedFile] = {}
    vectors: dict[str, list[JsonObject]] = {}
    for add in adds_of(shared.files()):
        name, key = add["path"], key_of(add)
        require_name(name)
        keys.add(key)
        records = parse_num_records(add.get("stats") or "")
        if key not in local.keys:
            added, added_bytes, added_rows = added + 1, added_bytes + add["size"], added_rows + (records or 0)
        if local.sizes.get(name, add["size"]) != add["size"]:
            raise invalid("it changed the size of a file", {"file": name, "code": DIFFERS})
        data[name] = WantedFile(name, add["size"], records)
        if (vector := add.get("deletionVector")) is not None and vector["storageType"] == "u":
            vectors.setdefault(_vector_name(vector), []).append(vector)
    files = [*data.values(), *(WantedFile(name, vectors=tuple(found)) for name, found in vectors.items())]
    wanted = tuple(file for file in files if not _is_present(directory, file))
    if decodes:
        missing = {file.name for file in wanted}
        present = [file for file in files if file.name not in missing]
        with ThreadPoolExecutor() as pool:
            flags = pool.map(lambda file: _is_intact(directory, file), present)
            wanted += tuple(file for file, is_intact in zip(present, flags, strict=True) if not is_intact)
    in_place, removed = len(files) - len(wanted), len(local.keys - keys)
    return Difference(frozenset(keys), wanted, in_place, added, removed, added_bytes, added_rows)


def require_name(name: str) -> None:
    """Raise AnswerInvalid unless a path is one plain name. The client makes them; this holds whatever it does."""
    if "/" in name or "\\" in name or "\0" in name or "%" in name or name.startswith((".", "_")) or not name.isascii():
        raise invalid("a file has a name that a local table cannot have", {"file": name})


def _vector_name(vector: Mapping[str, Any]) -> str:
    name = vector_file(vector["pathOrInlineDv"])
    if name is None:
        raise invalid("a deletion vector has no name")
    require_name(name)
    return name


def _is_present(directory: str, file: WantedFile) -> bool:
    """Return True for a regular file of the right size. A pull gives files their names only when they are verified."""
    try:
        found = os.stat(f"{directory}/{file.name}", follow_symlinks=False)
    except OSError:
        return False
    is_whole = found.st_size == file.size_bytes if file.size_bytes is not None else found.st_size >= file.least_bytes
    return is_whole and (found.st_mode & 0o170000) == 0o100000


def _is_intact(directory: str, file: WantedFile) -> bool:
    """Return True for a file that passes the checks of a download, all of its data decoded."""
    try:
        with open(f"{directory}/{file.name}", "rb") as opened:
            number, size_bytes = opened.fileno(), os.fstat(opened.fileno()).st_size

            def read(offset: int, length: int) -> bytes:
                return os.pread(number, length, offset)

            verify(file, size_bytes, read)
            if not file.vectors:
                decode(file, size_bytes, read)
    except (DataUnreadable, OSError):
        return False
    return True


def file_actions(
    shared: Snapshot,
    table: PulledTable | None,
    local: LocalFiles,
    difference: Difference,
    source: PullSource,
    now_ms: int,
) -> Iterator[Action]:
    """Yield the tombstones of files that the version does not have, then the files that the local table lacks."""
    if table is not None:
        for add in adds_of(table.snapshot.files()):
            if key_of(add) not in difference.keys:
                yield remove_line(add, now_ms)
    for add in adds_of(shared.files()):
        if key_of(add) not in local.keys:
            yield add_line(add, source, now_ms)
