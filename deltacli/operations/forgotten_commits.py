"""Commits that a catalog has forgotten: published in the log, and newer than the latest version of the catalog.

A catalog can lose its newest commits, for example when its database is set back after a crash. Nobody can write then,
because the number of the next version is taken. As long as the staged file of the commit is there, with the lines of
the published one, the catalog can be asked for the same commit again.

Spec: Catalog-managed tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from deltacli.catalogs.publishing import read_lines, same_lines, size_listed
from deltacli.catalogs.ratified import DIVERGED, STAGED_DIRECTORY, commit_version, staged_version
from deltacli.catalogs.ratifying import Content, Ratification, content_of
from deltacli.core.errors import (
    NOTHING_CHANGED,
    CommitCorrupt,
    DeltacliError,
    FileMissing,
    OutcomeUnknown,
    Refused,
    command,
)
from deltacli.delta.data_files import vector_file
from deltacli.delta.log.commit_content import PreviousVersion
from deltacli.delta.log.segment import LOG_DIRECTORY, commit_name
from deltacli.storage.outcomes import Created, Existed, Unknown
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.catalogs.managed_store import ManagedStore
    from deltacli.delta.log.actions import Action
    from deltacli.storage import ReadStorage
    from deltacli.table.handle import TableHandle


class ForgottenCommit(NamedTuple):
    """A published commit above the latest version of the catalog.

    Attributes:
        version: The version of the published file.
        staged_name: The name of a staged file with the same lines; '' if there is none.
        size_bytes: The size of that file.
        obstacle: Why the commit cannot be proposed again; '' if it can be.
    """

    version: int
    staged_name: str = ""
    size_bytes: int = 0
    obstacle: str = ""

    @property
    def staged_path(self) -> str:
        return f"{STAGED_DIRECTORY}/{self.staged_name}"


def find_forgotten_commits(table: TableHandle, managed: ManagedStore) -> list[ForgottenCommit]:
    """Return the published commits above the latest version of the catalog, by version.

    The catalog is asked again behind the listing of the log, so that a commit that was ratified and published meanwhile
    is none of them.
    """
    published = _published_versions(managed.inner)
    if not published or published[-1] <= managed.log.view.latest:
        return []
    latest = managed.log.reload().latest
    found: list[ForgottenCommit] = []
    for version in published:
        if version <= latest:
            continue
        before = found[-1] if found else None
        if version != latest + 1 + len(found):
            found.append(ForgottenCommit(version, obstacle="an earlier version is missing"))
        elif before is not None and before.obstacle:
            found.append(ForgottenCommit(version, obstacle=f"version {before.version} cannot be proposed again"))
        else:
            found.append(_examine(table, managed.inner, version))
    return found


def propose_again(table: TableHandle, managed: ManagedStore, forgotten: ForgottenCommit) -> None:
    """Propose the staged file of a forgotten commit, which follows the latest version of the catalog.

    Raises:
        Refused: If the catalog does not take the commit, or has another one for the version by now.
        OutcomeUnknown: If nobody knows whether the catalog took it. Running the same command again is safe.
    """
    version = forgotten.version
    before = read_snapshot(table)
    if before.version != version - 1:
        raise refuse_proposal(version, "it is not the next one of the catalog by now")
    managed.require_commits_supported(before.protocol, before.properties, before.version)
    ratification = Ratification(
        managed.log,
        managed.inner,
        version,
        PreviousVersion(before.version, before.protocol, before.metadata),
        lambda _: Existed(),
        forgotten_file_name=forgotten.staged_name,
    )
    match ratification.send(lambda: _read_content(managed.inner, forgotten.staged_path)):
        case Created():
            return
        case Unknown(cause):
            outcome = cause
        case _:
            outcome = ""
    view = managed.log.reload()
    if view.latest < version and outcome:
        raise OutcomeUnknown(
            f"whether the catalog took version {version} is unknown",
            facts={"staged": forgotten.staged_path, "reason": outcome},
            hint=command("catalog publish"),
        )
    held = view.commits.get(version)
    if view.latest < version or (held is not None and held.file_name != forgotten.staged_name):
        raise refuse_proposal(version, "it is not the next one of the catalog by now")


def refuse_proposal(version: int, why: str) -> Refused:
    """Return the refusal to propose a forgotten commit again."""
    return Refused(
        f"version {version} cannot be proposed again: {why}",
        preamble=NOTHING_CHANGED,
        code=DIVERGED,
        facts={"version": str(version)},
        hint=command("catalog status"),
    )


def _published_versions(store: ReadStorage) -> list[int]:
    try:
        paths = [f"{LOG_DIRECTORY}/{stat.name}" for stat in store.list_from(LOG_DIRECTORY)]
    except FileMissing:
        return []
    return sorted(version for version in map(commit_version, paths) if version is not None)


def _examine(table: TableHandle, store: ReadStorage, version: int) -> ForgottenCommit:
    """Look for the staged file of a version, and for what stands against proposing it."""
    published_path = f"{LOG_DIRECTORY}/{commit_name(version)}"
    try:
        names = [stat.name for stat in store.list_from(STAGED_DIRECTORY, f"{version:020d}.")]
    except FileMissing:
        names = []
    for name in names:
        path = f"{STAGED_DIRECTORY}/{name}"
        if staged_version(name) == version and same_lines(store, path, published_path):
            size_bytes = size_listed(store, path) or 0
            return ForgottenCommit(version, name, size_bytes, _obstacle(table, store, path, size_bytes))
    return ForgottenCommit(version, obstacle="no staged file has its lines")


def _obstacle(table: TableHandle, store: ReadStorage, path: str, size_bytes: int) -> str:
    """Return why a staged file cannot be proposed; '' if it can be."""
    try:
        content = _read_content(store, path)
    except (ValueError, CommitCorrupt) as fault:
        return f"its staged file is not a whole commit: {fault}"
    if content.size_bytes != size_bytes:
        return "the last line of its staged file has no end"
    # Nobody counted the files of the commit as needed as long as the catalog did not know it.
    for file in _added_files(store, path):
        try:
            where, name = table.files().locate(file)
            is_missing = size_listed(where, name) is None
        except DeltacliError as fault:
            return f"{file} cannot be looked for: {fault.message}"
        if is_missing:
            return f"{file} is missing, which it adds"
    return ""


def _added_files(store: ReadStorage, path: str) -> Iterator[str]:
    """Yield the data files, deletion vectors and change data that a commit adds, as paths of the log."""
    for line in read_lines(store, path):
        action: Action = orjson.loads(line)
        for kind in ("add", "cdc"):
            if isinstance(body := action.get(kind), dict):
                yield from chain([body["path"]], _vector_of(body))


def _vector_of(add: dict[str, Any]) -> Iterator[str]:
    """Yield the file of the deletion vector of an add, if it has one."""
    descriptor = add.get("deletionVector")
    if not isinstance(descriptor, dict):
        return
    match descriptor.get("storageType"):
        case "u":
            yield vector_file(descriptor["pathOrInlineDv"]) or descriptor["pathOrInlineDv"]
        case "p":
            yield descriptor["pathOrInlineDv"]


def _read_content(store: ReadStorage, path: str) -> Content:
    return content_of((line + b"\n" for line in read_lines(store, path)), path)
