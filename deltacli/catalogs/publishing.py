"""Publish ratified commits: copy them in order, read each copy back and compare it, then report it to the catalog.

It can be run again after any other run, also one that was interrupted. Spec: Catalog-managed tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

import orjson

from deltacli.catalogs.base import Ratified
from deltacli.catalogs.ratified import DIVERGED, RatifiedLog, View, require_newest_commit, staged_path
from deltacli.core import errors
from deltacli.delta.log.actions import split_lines
from deltacli.delta.log.segment import LOG_DIRECTORY, commit_name
from deltacli.storage import ReadStorage, Storage
from deltacli.storage.outcomes import Created

UNREPORTED = "catalog.published-unreported"
_BLOCK_BYTES = 4 << 20


class Publication(NamedTuple):
    """The versions published and compared by now, those published before, and the newest that was reported."""

    published: tuple[int, ...] = ()
    there: tuple[int, ...] = ()
    reported: int | None = None


def publish(
    log: RatifiedLog,
    store: Storage,
    view: View | None = None,
    *,
    up_to: int | None = None,
    published: list[int] | None = None,
) -> Publication:
    """Publish the commits that the catalog holds, oldest first, up to a version or all, and report the newest one.
    `published` gets each version that is published, so that it is known whatever ends the run.

    Raises CatalogAnswerInvalid where the answer contradicts itself; Refused (`catalog.diverged`) where a commit is not
    what the catalog ratified, a published file has other content, or an earlier version is missing; PartlyDone where
    copies are there that could not be reported (`catalog.published-unreported`), or where a later one failed;
    StorageFailed. What was published before is reported.
    """
    view = log.reload() if view is None else view
    require_consistent_answer(store, view)
    due = [commit for version, commit in sorted(view.commits.items()) if up_to is None or version <= up_to]
    published, there = [] if published is None else published, list[int]()
    fault: errors.DeltacliError | None = None
    try:
        for commit in due:
            if not published:
                _require_before(store, commit.version)
            if _require_as_ratified(store, commit):
                log.note_replaced(commit.version)
                is_new = False
            else:
                is_new = store.copy_within(staged_path(commit), _published_path(commit.version)) == Created()
                _require_same(store, commit)
            if not is_new:
                there.append(commit.version)
            published.append(commit.version)
    except errors.DeltacliError as failed:
        fault = failed
    reported = _report(log, view, published[-1]) if published else None
    if fault is not None:
        if published:
            raise errors.PartlyDone.from_cause(fault, f"published up to version {published[-1]}") from fault
        raise fault
    return Publication(tuple(published), tuple(there), reported)


def require_consistent_answer(store: ReadStorage, view: View) -> None:
    """Raise CatalogAnswerInvalid where an answer contradicts itself, as reading the table does."""
    if not view.commits or view.latest in view.commits:
        return  # and the log need not be listed
    try:
        files = {stat.name: stat for stat in store.list_from(LOG_DIRECTORY)}
    except errors.FileMissing:
        files = {}
    require_newest_commit(view, files)


def _report(log: RatifiedLog, view: View, version: int) -> int:
    """Report that all versions up to one are published, also those that other processes committed."""
    try:
        log.take(log.catalog.report_published(view.table, version))
    except errors.DeltacliError as fault:
        raise errors.PartlyDone(
            f"commits up to version {version} are published, but not reported to the catalog: {fault.reason}",
            code=UNREPORTED,
            facts=fault.facts,
            hint=errors.command("catalog publish"),
        ) from fault
    return version


def is_published(store: ReadStorage, version: int) -> bool:
    return size_listed(store, _published_path(version)) is not None


def size_listed(store: ReadStorage, path: str) -> int | None:
    """Return the size of a file as it is listed; None where it is not there. With credentials for a prefix, asking S3
    for a missing file is denied (403), and listing is not.
    """
    directory, _, name = path.rpartition("/")
    try:
        found = next(store.list_from(directory, name), None)
    except errors.FileMissing:
        return None
    return found.size_bytes if found is not None and found.name == name else None


def _require_before(store: ReadStorage, version: int) -> None:
    if version > 0 and not is_published(store, version - 1):
        raise _diverged(
            f"version {version - 1} is neither published nor in the catalog, so no later version can be published",
            version - 1,
        )


def require_publishable(store: ReadStorage, commit: Ratified, *, is_first: bool) -> bool:
    """Return whether a commit is published with the same content. Raises Refused where it cannot be."""
    if is_first:
        _require_before(store, commit.version)
    if _require_as_ratified(store, commit):
        return True
    if not is_published(store, commit.version):
        return False
    _require_same(store, commit)
    return True


def _require_same(store: ReadStorage, commit: Ratified) -> None:
    if not same_lines(store, staged_path(commit), _published_path(commit.version)):
        raise _diverged(
            f"the published file of version {commit.version} differs from the commit that the catalog ratified",
            commit.version,
        )


def _require_as_ratified(store: ReadStorage, commit: Ratified) -> bool:
    """Raise Refused unless a staged file has the size and the time that the catalog has, and is a whole commit.

    Return True where it is gone, and the published file has all of this instead. Somebody copied it and deleted it
    before the catalog was told, so nothing is lost.
    """
    version = commit.version
    try:
        found = _read_commit(store, staged_path(commit))
    except (errors.FileMissing, errors.PermissionRefused):
        if size_listed(store, staged_path(commit)) is not None:
            raise
        if is_published_as_ratified(store, commit):
            return True
        raise _diverged(
            f"the staged file of version {version} is missing, although the catalog ratified it", version
        ) from None

    if found is None:
        raise _diverged(f"the staged file of version {version} is not a complete commit", version)
    if not found.has_size_of(commit):
        raise _diverged(
            f"the staged file of version {version} has {found.size_bytes} bytes, and the catalog has "
            f"{commit.size_bytes}",
            version,
        )
    if found.timestamp_ms != commit.timestamp_ms:
        raise _diverged(
            f"the staged file of version {version} has the in-commit timestamp {found.timestamp_ms}, and the catalog "
            f"has {commit.timestamp_ms}",
            version,
        )
    return False


def is_published_as_ratified(store: ReadStorage, commit: Ratified) -> bool:
    """Return whether the published file of a version is a whole commit of the size and the time that the catalog has.

    This is all that a catalog knows of a commit. It is asked where the staged file is gone.
    """
    path = _published_path(commit.version)
    if size_listed(store, path) != commit.size_bytes:
        return False
    found = _read_commit(store, path)
    return found is not None and found.timestamp_ms == commit.timestamp_ms


class _CommitFile(NamedTuple):
    """What a commit file has that a catalog knows: its bytes, and the value of its in-commit timestamp."""

    size_bytes: int
    timestamp_ms: object

    def has_size_of(self, commit: Ratified) -> bool:
        # The last line may lack its end, which is counted here.
        return self.size_bytes in (commit.size_bytes, commit.size_bytes + 1)


def _read_commit(store: ReadStorage, path: str) -> _CommitFile | None:
    """Read a commit file to its end; None for one that is not a whole commit. Raises what the store raises."""
    size_bytes = 0
    timestamp_ms: object = None
    try:
        for number, line in enumerate(read_lines(store, path)):
            size_bytes += len(line) + 1
            action = orjson.loads(line)
            if number == 0:
                timestamp_ms = action["commitInfo"].get("inCommitTimestamp")
            elif type(action) is not dict:
                return None
    except (ValueError, KeyError, TypeError, AttributeError, errors.CommitCorrupt):
        return None
    return _CommitFile(size_bytes, timestamp_ms)


def same_lines(store: ReadStorage, source: str, target: str) -> bool:
    """Return whether two files have the same lines. Raises StorageFailed where the second cannot be read."""
    try:
        pairs = zip_longest(read_lines(store, source), read_lines(store, target))
        return all(one == other for one, other in pairs)
    except errors.FileMissing:
        raise errors.StorageFailed(f"{target} was written, but is missing") from None
    except errors.CommitCorrupt:
        return False


def read_lines(store: ReadStorage, path: str) -> Iterator[bytes]:
    """Yield the lines of a commit file without their ends. Raises CommitCorrupt, and what the store raises."""
    return split_lines(_blocks(store, path), path)


def _blocks(store: ReadStorage, path: str) -> Iterator[bytes]:
    offset = 0
    while True:
        block = store.read_range(path, offset, _BLOCK_BYTES)
        yield block
        offset += len(block)
        if len(block) < _BLOCK_BYTES:
            return


def _published_path(version: int) -> str:
    return f"{LOG_DIRECTORY}/{commit_name(version)}"


def _diverged(message: str, version: int) -> errors.Refused:
    return errors.Refused(
        message, code=DIVERGED, facts={"version": str(version)}, hint=errors.command("catalog status")
    )
