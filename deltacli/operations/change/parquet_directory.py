"""The data files of a directory of other writers, and what shows that another format, or a lost table, has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.errors import Refused, command
from deltacli.core.units import plural
from deltacli.delta.data_files import VECTOR_FILE
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.spelling import decode
from deltacli.operations.change.file_names import SUCCESS, WritersByName, find_writers

if TYPE_CHECKING:
    from deltacli.core.typing import RecordBatch
    from deltacli.storage import ReadStorage, WalkEntry

_ICEBERG = re.compile(r"metadata/[^/]*\.metadata\.json")
_ACID = re.compile(r"base_\d+(?:_v\d+)?|(?:delete_)?delta_\d+_\d+(?:_\d+)?(?:_v\d+)?")
"""Directories of transactional tables of Hive."""
_DRAFT = re.compile(r"\.[0-9a-f]{32}(?:\.[0-9a-f]{12})?\.tmp")
"""An unfinished commit of an earlier run."""


class Conflict(NamedTuple):
    """What keeps a file from being part of the table; `column` is None where it is about the file."""

    path: str
    column: str | None
    seen: str
    expected: str


class Listed(NamedTuple):
    """The data files of a directory, and what else tells about it."""

    files: dict[str, tuple[int, int]]
    """Path -> bytes and time."""
    hidden: int
    excluded: int
    conflicts: tuple[Conflict, ...]
    evidence: tuple[str, ...]
    vectors: int
    has_log: bool
    """There is a directory `_delta_log`."""
    has_temporary: bool
    explained_by_success: int
    """How many files have an id of their own in their names, which only `_SUCCESS` explains."""


def list_data_files(storage: ReadStorage, exclude: Sequence[str]) -> Listed:
    """List the data files: Hive's hidden names are left out, unless a directory is one of a partition.

    Raises Refused for a directory whose files only Iceberg, or a streaming query of Spark, knows.
    """
    files: dict[str, tuple[int, int]] = {}
    conflicts, evidence = dict[str, Conflict](), dict[str, str]()
    seen, named = set[str](), list[str]()
    success_ms = dict[str, int]()
    hidden = excluded = vectors = 0

    def see(place: str) -> None:
        if place in seen:
            return
        seen.add(place)
        above, _, name = place.rpartition("/")
        _require_plain(place, name)
        if name == LOG_DIRECTORY and above:
            conflicts[above] = Conflict(above, None, "a Delta table of its own", "data files only")
        elif name == LOG_DIRECTORY:
            others, is_empty = _content_of_log(storage)
            expected = "no file of a log without versions"
            conflicts.update((one, Conflict(one, None, "a file of a log", expected)) for one in others)
            if others or is_empty:
                evidence.setdefault(name, f"the directory {place}")
        elif name in ("_change_data", "_delta_index"):
            evidence.setdefault(name, f"the directory {place}")

    def enter(directory: str, names: Sequence[str]) -> Iterable[str]:
        for name in names:
            see(f"{directory}/{name}" if directory else name)
        return [name for name in names if not _is_hidden(name)]

    for walked in storage.walk("", enter):
        below = f"{walked.directory}/" if walked.directory else ""
        for place, found in enumerate(walked.names):
            path = below + found
            *directories, name = path.split("/")
            for depth in range(1, len(directories) + 1):  # where a store lists flat
                see("/".join(directories[:depth]))
            _require_plain(path, name)
            if any(map(_is_hidden, directories)) or name.startswith(("_", ".")):
                hidden += 1
                if name == SUCCESS and not any(map(_is_hidden, directories)):
                    success_ms["/".join(directories)] = _size_and_time(storage, walked, place, path)[1]
                continue
            if VECTOR_FILE.fullmatch(path):
                vectors += 1
                evidence.setdefault("vector", f"the deletion vector {path}")
                continue
            if _ICEBERG.fullmatch(path):
                raise Refused(
                    "this is an Iceberg table, whose files count only as far as its metadata names them",
                    code="convert.iceberg",
                    facts={"file": path},
                )
            named.append(path)
            if any(fnmatchcase(path, glob) or fnmatchcase(name, glob) for glob in exclude):
                excluded += 1
                continue
            files[path] = _size_and_time(storage, walked, place, path)
        for name in walked.special:
            if not name.rstrip("/") or name.endswith(("/", "_$folder$")):
                continue
            if not _is_hidden(name) or (name == LOG_DIRECTORY and not below):
                conflicts[below + name] = Conflict(below + name, None, "a link or no regular file", "a regular file")
    writers = _find_writers(storage, named, files, success_ms)
    traces = (*evidence.values(), *filter(None, [writers.sign_of_delta]))
    return Listed(
        dict(sorted(files.items())),
        hidden,
        excluded,
        tuple(conflicts.values()),
        traces,
        vectors,
        has_log=LOG_DIRECTORY in seen,
        has_temporary=any(place.rpartition("/")[2] == "_temporary" for place in seen),
        explained_by_success=writers.explained,
    )


def _find_writers(
    storage: ReadStorage, paths: Sequence[str], files: Mapping[str, tuple[int, int]], success_ms: Mapping[str, int]
) -> WritersByName:
    """Return what the names of files show about their writers.

    Excluded files are among the `paths`, because they tell about the directory as well, but not among the `files`.
    """

    def modified_ms(path: str) -> int:
        return files[path][1] if path in files else storage.stat(path).modified_ms

    return find_writers(paths, success_ms, modified_ms)


def _size_and_time(storage: ReadStorage, walked: WalkEntry, place: int, path: str) -> tuple[int, int]:
    if walked.sizes is not None and walked.modified_ms is not None:
        return walked.sizes[place], walked.modified_ms[place]
    stat = storage.stat(path)
    return stat.size_bytes, stat.modified_ms


def _require_plain(place: str, name: str) -> None:
    """Raise Refused for a name that shows another format, whose files count only as far as it says."""
    if name == "_spark_metadata":
        raise Refused(
            "a streaming query of Spark wrote this directory: its files count only as far as _spark_metadata "
            "names them, which deltacli does not read",
            code="convert.spark-metadata",
            hint="CONVERT TO DELTA of Spark reads it",
        )
    other = (
        "a Hudi table" if name.startswith(".hoodie") else "a transactional table of Hive" * bool(_ACID.fullmatch(name))
    )
    if other:
        raise Refused(
            f"this is {other}, whose files count only as far as its metadata says",
            code="convert.other-format",
            facts={"found": place},
        )


def _content_of_log(storage: ReadStorage) -> tuple[list[str], bool]:
    """Return what is in a log without versions, but for unfinished commits of earlier runs, and whether it is empty."""
    found, is_empty = list[str](), True
    for walked in storage.walk(LOG_DIRECTORY, lambda _, names: names):
        names = [name for name in (*walked.names, *walked.special) if name.rstrip("/")]
        is_empty = is_empty and not names
        found += [f"{walked.directory}/{name}" for name in names if not _DRAFT.fullmatch(name)]
        if walked.directory != LOG_DIRECTORY:
            found.append(walked.directory)
    return sorted(set(found)), is_empty and not found


def _is_hidden(directory: str) -> bool:
    return directory.startswith(("_", ".")) and "=" not in directory


def require_same_files(planned: Iterable[RecordBatch], now: dict[str, tuple[int, int]]) -> None:
    """Raise Refused unless the files of adds are those of a listing, which is used up."""
    changed = []
    for adds in planned:
        columns = (adds.column(name).to_pylist() for name in ("path", "size", "modificationTime"))
        for written, *found in zip(*columns, strict=True):
            path = decode(written)
            if now.pop(path, None) != (*found,):
                changed.append(path)
    changed = sorted([*changed, *now])
    if not changed:
        return
    facts = {f"file {number}": path for number, path in enumerate(changed[:5], 1)}
    raise Refused(
        f"{plural(len(changed), 'file')} arrived, changed or went since the plan",
        code="convert.files-changed",
        facts=facts,
        hint=command("convert", dry_run=True),
    )
