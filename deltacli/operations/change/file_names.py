"""Recognize writers of Delta tables by the names of their data files.

Spark names a file `part-00000-ID-c000.snappy.parquet`, or `part-00000-ID.c000.snappy.parquet` if it writes partitions
or buckets. Writers of Delta tables use both forms as well. What differs is the id, and the file `_SUCCESS`:

| writer | id | `_SUCCESS` |
|---|---|---|
| Spark, `df.write.parquet` | the same for all files of a job | written at the end of each job |
| Spark, Delta table | another for each file | never |
| delta-rs | another for each file | never |

So files with an id of their own are in doubt, unless a `_SUCCESS` shows that a job ended after they were written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from deltacli.core.units import plural

SUCCESS = "_SUCCESS"
"""The name of the empty file that a job of Spark or Hadoop writes into its output directory when it is done."""

_HEX = "[0-9a-f]"
_ID = f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
_BUCKET = r"(?:_\d{5,})?"
_NAME = re.compile(rf"(?:.*/)?part-\d{{5,}}-({_ID}){_BUCKET}[-.]c\d{{3,}}\.[^/]*")


def find_sign_of_delta(
    paths: Iterable[str], success_ms: Mapping[str, int], modified_ms: Callable[[str], int]
) -> str | None:
    """Return a description of the files that a writer of Delta tables has probably written.

    The result is None if plain Spark may have written all of them.

    Two files with an id of their own are a sign, because the second may replace the first. One is a sign if it is
    newer than `_SUCCESS` and other files are not: it was written into the output of a finished job, as by a table that
    the directory was converted to. One that is newer together with all other files is none, because a copy of the
    directory gives every file a new time.

    Args:
        paths: The data files, also those that are excluded.
        success_ms: The time of each `_SUCCESS`, by its directory ("" for the root).
        modified_ms: Returns the time of a data file. It is called only if there is a `_SUCCESS`.
    """
    paths = sorted(paths)
    doubted: list[str] = []
    newer: list[str] = []
    for path in _find_files_with_own_id(paths):
        job_ends = list(_find_job_ends(path, success_ms))
        if not job_ends:
            doubted.append(path)
        elif modified_ms(path) > max(job_ends):
            newer.append(path)

    if newer and (len(doubted) + len(newer) > 1 or _has_file_of_finished_job(paths, success_ms, modified_ms)):
        return f"{plural(len(newer), 'file')} with an id each in the name, newer than {SUCCESS}, the first {newer[0]}"
    if len(doubted) > 1:
        return f"{plural(len(doubted), 'file')} with an id each in the name, without {SUCCESS}, the first {doubted[0]}"
    return None


def _find_files_with_own_id(paths: Iterable[str]) -> list[str]:
    """Return the files named as Spark names them whose id no other file has."""
    by_id: dict[str, list[str]] = {}
    for path in paths:
        if match := _NAME.fullmatch(path):
            by_id.setdefault(match[1], []).append(path)
    return [same_id[0] for same_id in by_id.values() if len(same_id) == 1]


def _find_job_ends(path: str, success_ms: Mapping[str, int]) -> Iterator[int]:
    """Yield the time of each `_SUCCESS` in a directory above a file: a job may have written one partition only."""
    directory = path
    while directory:
        directory = directory.rpartition("/")[0]
        if directory in success_ms:
            yield success_ms[directory]


def _has_file_of_finished_job(
    paths: Iterable[str], success_ms: Mapping[str, int], modified_ms: Callable[[str], int]
) -> bool:
    """Return True if any data file is as old as a `_SUCCESS` above it, so that the times are those of the jobs."""
    return any(modified_ms(path) <= end for path in paths for end in _find_job_ends(path, success_ms))
