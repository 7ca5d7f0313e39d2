"""Recognize writers of Delta tables by the names of their data files.

Spark names a file `part-00000-ID-c000.snappy.parquet`, or `part-00000-ID.c000.snappy.parquet` if it writes partitions
or buckets. Writers of Delta tables use both forms as well. What differs is the id, and the file `_SUCCESS`:

| writer | id | `_SUCCESS` |
|---|---|---|
| Spark, `df.write.parquet` | the same for all files of a job | written at the end of each job |
| Spark, Delta table | another for each file | never |
| delta-rs | another for each file | never |

So files with an id of their own are in doubt. `_SUCCESS` explains them if it is at least as new as every data file
below its directory: the last job ended after all of them were written. A file that is newer shows that somebody went on
writing, or that the directory is a copy, whose times say nothing about jobs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from deltacli.core.units import plural

SUCCESS = "_SUCCESS"
"""The name of the empty file that a job of Spark or Hadoop writes into its output directory when it is done."""

_HEX = "[0-9a-f]"
_ID = f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
_BUCKET = r"(?:_\d{5,})?"
_NAME = re.compile(rf"(?:.*/)?part-\d{{5,}}-({_ID}){_BUCKET}[-.]c\d{{3,}}\.[^/]*")


class WritersByName(NamedTuple):
    """What the names of data files show.

    Attributes:
        sign_of_delta: A description of the files that a writer of Delta tables has probably written; None if plain
            Spark may have written all of them.
        explained: How many files have an id of their own, which only `_SUCCESS` explains.
    """

    sign_of_delta: str | None
    explained: int


def find_writers(
    paths: Iterable[str], success_ms: Mapping[str, int], modified_ms: Callable[[str], int]
) -> WritersByName:
    """Look at the names and times of data files for signs of a writer of Delta tables.

    Two files in doubt are a sign, because the second may replace the first. One is a sign if it was written into the
    output of a job that had ended, as by a table that the directory was converted to.

    Args:
        paths: The data files, also those that are excluded.
        success_ms: The time of each `_SUCCESS`, by its directory ("" for the root).
        modified_ms: Returns the time of a data file. It is called only if there is a `_SUCCESS`.
    """
    paths = sorted(paths)
    newest_ms = _find_newest_times(paths, success_ms, modified_ms)
    ended = {directory for directory, end_ms in success_ms.items() if newest_ms.get(directory, end_ms) <= end_ms}

    with_own_id = _find_files_with_own_id(paths)
    doubted = [path for path in with_own_id if ended.isdisjoint(_list_directories_above(path))]
    explained = len(with_own_id) - len(doubted)
    if len(doubted) > 1:
        found = plural(len(doubted), "file")
        sign = f"{found} with different ids in their names, which no {SUCCESS} explains, the first {doubted[0]}"
        return WritersByName(sign, explained)
    if doubted and _is_behind_job(doubted[0], paths, success_ms, modified_ms):
        return WritersByName(f"{doubted[0]} is newer than {SUCCESS}, and other files are not", explained)
    return WritersByName(None, explained)


def _find_newest_times(
    paths: Iterable[str], success_ms: Mapping[str, int], modified_ms: Callable[[str], int]
) -> dict[str, int]:
    """Return the time of the newest data file below each directory that has a `_SUCCESS`."""
    newest_ms: dict[str, int] = {}
    for path in paths:
        for directory in _list_directories_above(path):
            if directory in success_ms:
                newest_ms[directory] = max(modified_ms(path), newest_ms.get(directory, 0))
    return newest_ms


def _is_behind_job(
    path: str, paths: Iterable[str], success_ms: Mapping[str, int], modified_ms: Callable[[str], int]
) -> bool:
    """Return True if a file is newer than a `_SUCCESS` above it, and another file below that is not."""
    for directory in _list_directories_above(path):
        end_ms = success_ms.get(directory)
        if end_ms is None or modified_ms(path) <= end_ms:
            continue
        others = (other for other in paths if directory in _list_directories_above(other))
        if any(modified_ms(other) <= end_ms for other in others):
            return True
    return False


def _find_files_with_own_id(paths: Iterable[str]) -> list[str]:
    """Return the files named as Spark names them whose id no other file has."""
    by_id: dict[str, list[str]] = {}
    for path in paths:
        if match := _NAME.fullmatch(path):
            by_id.setdefault(match[1], []).append(path)
    return [same_id[0] for same_id in by_id.values() if len(same_id) == 1]


def _list_directories_above(path: str) -> list[str]:
    """Return the directories that a file is in, up to the root (""): a job may have written one partition only."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:length]) for length in range(len(parts), -1, -1)]
