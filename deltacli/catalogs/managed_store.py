"""The store of a table that a catalog manages: its log has the versions that the catalog ratified, and no others.

Reading `_delta_log/<v>.json` reads the staged file of a version that is not published yet. Creating that path stages a
file and proposes it to the catalog. Publication before a checkpoint and permission before a deletion are enforced here,
so no operation can omit them. Everything else is read from and written to the store of the location.

Spec: Catalog-managed tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from deltacli.catalogs.base import Catalog, CatalogTable, Maintenance, Ratified
from deltacli.catalogs.lockstep import (
    REQUIRED,
    named_other_table,
    require_managed,
    require_no_other_table,
    require_ratifiable_content,
    require_takes_commits,
    unmet_contract,
)
from deltacli.catalogs.publishing import is_published, is_published_as_ratified, publish, size_listed
from deltacli.catalogs.ratified import (
    DIVERGED,
    STAGED_DIRECTORY,
    RatifiedLog,
    commit_version,
    missing_permission,
    staged_path,
    stat_of,
)
from deltacli.catalogs.ratifying import Content, Ratification, content_of, publish_after_commit, require_permission
from deltacli.core import errors
from deltacli.core.machine import MACHINE, Machine
from deltacli.core.ranges import name_ranges
from deltacli.core.typing import BinaryFile
from deltacli.delta.log import segment
from deltacli.delta.protocol.features import Protocol, require_commits_supported
from deltacli.storage.base import RETRY_BUDGET, Capabilities, Draft, FileStat, PathKind, ShouldDescend, WalkEntry
from deltacli.storage.directory_identity import DirectoryIdentity, is_directory_store
from deltacli.storage.optional_interfaces import is_store_with_grant
from deltacli.storage.outcomes import Creation, Deletion, Failed

if TYPE_CHECKING:
    from deltacli.delta.log.commit_content import CommitRequest, PreviousVersion
    from deltacli.storage import Storage
    from deltacli.storage.versions import VersionedObjects

K = TypeVar("K")
T = TypeVar("T")
_HINT = f"{segment.LOG_DIRECTORY}/{segment.HINT_NAME}"
_FILES_A_BATCH = 1_000
_MOST_KEPT = 32
_UNPROVEN_BYTES = 32 << 20
"""Commits of at least this size are read in blocks. The size that a catalog states for them is compared first."""
_DERIVED = (
    segment.LogFileKind.CLASSIC_CHECKPOINT,
    segment.LogFileKind.MULTI_PART_CHECKPOINT,
    segment.LogFileKind.UUID_CHECKPOINT,
    segment.LogFileKind.COMPACTED_COMMIT,
)
"""Files of the log that may only be there for versions that are published."""


def open_managed(
    store: Storage,
    catalog: Catalog,
    table: CatalogTable,
    *,
    machine: Machine = MACHINE,
    note: Callable[[str], None] = lambda _: None,
    budget_seconds: float = RETRY_BUDGET.total_seconds(),
) -> ManagedStore:
    """Return the store of a table that its catalog manages, from its answer and the store of its location. `note` and
    `budget_seconds`: as of RatifiedLog. Raises CatalogAnswerInvalid.
    """
    log = RatifiedLog(catalog, table, machine=machine, note=note, budget_seconds=budget_seconds)
    return ManagedStore(store, log)


class ManagedStore:
    """The store of one table. Once the table is being changed, the catalog is asked at each listing."""

    def __init__(self, inner: Storage, log: RatifiedLog) -> None:
        self.inner, self.log = inner, log
        self._bases: dict[int, PreviousVersion] = {}
        """The versions that the newest commits of this run follow; several, because threads commit at the same time."""
        self._ratifications: dict[tuple[int, bytes], Ratification] = {}
        self._noted: str | None = None
        self._noted_breaches: set[str] = set()
        self._lacking: set[int] = set()
        """Versions whose staged file is gone and whose published one is read."""
        self._staged_sizes: dict[str, int | None] = {}
        """Sizes in bytes, by file name, of staged files that are large by the word of the catalog; None: missing."""

    @property
    def catalog_store(self) -> ManagedStore:
        """The store itself, which others find by this name behind a store that remembers files."""
        return self

    @property
    def held_names(self) -> set[str]:
        return {commit.file_name for commit in self.log.view.commits.values()}

    def set_previous_version(self, base: PreviousVersion) -> None:
        """Remember the version that the next commit follows. Its changes of metadata are derived from it."""
        self._bases = {**_newest(self._bases), base.version: base}

    def note_table(self, properties: Mapping[str, str]) -> None:
        """Note, once, a version with these properties that is of another table than the name in the catalog."""
        own = self.log.view.table
        named = named_other_table(properties, own.uuid)
        if named not in (None, self._noted):
            self._noted = named
            self.log.note(
                f"the log is of table {named}, and {own.name} is table {own.uuid}: its rows may be of another table"
            )

    def publish_if_ratified(self, version: int) -> None:
        """Publish a version that turned out to be ratified although no answer said so."""
        if version in self.log.unsettled:
            self.log.unsettled.discard(version)
            publish_after_commit(self.log, self.inner, version)

    def require_commits_supported(self, protocol: Protocol, properties: Mapping[str, str], version: int) -> None:
        """Raise Refused unless commits can follow a version of the table that the catalog manages."""
        require_commits_supported(protocol, properties, version, by_catalog=True)
        require_managed(protocol, properties, version, self.log.view.table.uuid)

    def require_registered_table(self, properties: Mapping[str, str], version: int) -> None:
        """Raise Refused where a version is of another table than the name in the catalog."""
        require_no_other_table(properties, version, self.log.view.table.uuid)

    def require_accepted_by_catalog(self, request: CommitRequest, base: PreviousVersion) -> None:
        """Raise Refused where the table is not that of the catalog, or the catalog does not accept such a commit."""
        table = self.log.view.table
        require_takes_commits(table)
        require_managed(base.protocol, base.metadata.configuration, base.version, table.uuid)
        require_ratifiable_content(request, base, has_uniform=table.has_uniform)
        if request.metadata is not None:
            self._note_breach(base.metadata.configuration, request.metadata.get("configuration") or {})

    def _note_breach(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Note, once for each, the properties that the catalog requires and that a change takes away."""
        lost = {key: value for key, value in unmet_contract(after).items() if key not in unmet_contract(before)}
        for key, value in lost.items():
            if key in self._noted_breaches:
                continue
            self._noted_breaches.add(key)
            self.log.note(
                f"Unity Catalog requires {key}={value} of the tables that it manages: after this change it refuses "
                "commits that add or drop features"
            )

    def request_write_access(self) -> None:
        """Ask for credentials that suffice to write, once, where those so far are to read."""
        if is_store_with_grant(self.inner):
            self.inner.request_write_access()

    def require_droppable(self, feature: str) -> None:
        """Raise Refused for a feature that tables have as long as the catalog manages them."""
        if feature in REQUIRED:
            raise errors.Refused(
                f"the feature {feature} cannot be dropped as long as a catalog manages the table",
                preamble=errors.NOTHING_CHANGED,
                code="catalog.feature",
            )

    def permits(self, needed: Maintenance) -> bool:
        """Return whether the catalog permits a maintenance, as it answered last."""
        return needed in (self.log.view.table.permissions or ())

    def require_permission(self, needed: str, what: str, *, asks: bool = True) -> None:
        """Raise Refused (`catalog.permission`) unless the catalog permits a maintenance, now or as last said."""
        require_permission(self.log, Maintenance(needed), what, asks=asks)

    def refuse(self, what: str) -> NoReturn:
        """Raise Refused for an operation that decides about the log itself."""
        raise errors.Refused(
            f"{what} does not work on a table that a catalog manages: the catalog decides which commits its log has",
            preamble=errors.NOTHING_CHANGED,
            code="catalog.managed",
            hint=errors.command("catalog status"),
        )

    @property
    def directory_identity(self) -> DirectoryIdentity | None:
        """The directory that the store is bound to, None without one."""
        return self.inner.directory_identity if is_directory_store(self.inner) else None

    def bind_to_directory(self, identity: DirectoryIdentity | None = None) -> ManagedStore:
        """Return the store for a change, bound to the directory at its path. Raises Refused (`plan.other-place`)."""
        self.log.is_changing = True
        inner = self.inner.bind_to_directory(identity) if is_directory_store(self.inner) else self.inner
        return self if inner is self.inner else ManagedStore(inner, self.log)

    def require_same_directory(self) -> None:
        """Raise Refused (`plan.other-place`) where another directory is at the path."""
        if is_directory_store(self.inner):
            self.inner.require_same_directory()

    @contextmanager
    def tolerating_loss(self) -> Iterator[None]:
        """List the log also where its latest version is lost (`RatifiedLog.lost_latest`)."""
        before = self.log.tolerates_loss
        self.log.tolerates_loss = True
        try:
            yield
        finally:
            self.log.tolerates_loss = before

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(has_cheap_requests=False)

    @property
    def aliases(self) -> tuple[str, ...]:
        return self.inner.aliases

    @property
    def versions(self) -> VersionedObjects | None:
        return self.inner.versions

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        if directory != segment.LOG_DIRECTORY:
            yield from self.inner.list_from(directory, start)
            return
        if start >= segment.AFTER_VERSIONED_NAMES:
            yield from self.inner.list_from(directory, start)
            return
        rest: list[Iterator[FileStat]] = []

        def versioned() -> Iterator[FileStat]:
            entries = self.inner.list_from(segment.LOG_DIRECTORY, start)
            for stat in entries:
                if stat.name >= segment.AFTER_VERSIONED_NAMES:
                    rest[:] = [chain([stat], entries)]
                    return
                yield stat

        for stat in self.log.listed(versioned, start):
            yield self._with_real_size(stat)
        for entries in rest:
            yield from entries

    def _with_real_size(self, stat: FileStat) -> FileStat:
        """Return the listed file, with the size that a large commit of the catalog has in the store.

        Readers plan the blocks of a large commit by its size, before they read any of it. With the size in an answer of
        the catalog, 2^62 bytes would be as many blocks as no memory can hold. That the size is not the ratified one is
        an error when the commit is read.
        """
        version = commit_version(f"{segment.LOG_DIRECTORY}/{stat.name}")
        commit = None if version is None else self.log.view.commits.get(version)
        if commit is None or stat.size_bytes < _UNPROVEN_BYTES:
            return stat
        size_bytes = self._staged_size(commit)
        if size_bytes is None:
            size_bytes = size_listed(self.inner, f"{segment.LOG_DIRECTORY}/{stat.name}")
        if size_bytes is None:
            # The version is lost, which the first attempt to read it reports.
            size_bytes = _UNPROVEN_BYTES
        return stat._replace(size_bytes=size_bytes)

    def _staged_size(self, commit: Ratified) -> int | None:
        """Return the size of a staged file in the store, which is asked once; None if the file is missing."""
        name = commit.file_name
        if name not in self._staged_sizes:
            self._staged_sizes[name] = size_listed(self.inner, staged_path(commit))
        return self._staged_sizes[name]

    def list_directories(self, directory: str) -> list[str]:
        return self.inner.list_directories(directory)

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        return self.inner.walk(directory, enter)

    def read(self, path: str) -> bytes:
        def read(place: str) -> bytes:
            data = self.inner.read(place)
            commit = self._staged_at(place, path)
            if commit is not None:
                _require_ratified_size(commit, len(data))
            return data

        return self._reading(path, read)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        def read(place: str) -> bytes:
            commit = self._staged_at(place, path)
            if commit is not None and commit.size_bytes >= _UNPROVEN_BYTES:
                size_bytes = self._staged_size(commit)
                # Small files are read as a whole, and compared then.
                if size_bytes is not None and size_bytes >= _UNPROVEN_BYTES:
                    _require_ratified_size(commit, size_bytes)
            return self.inner.read_range(place, offset, length)

        data = self._reading(path, read)
        if path == _HINT and offset == 0:
            hint = segment.read_hint(data)
            if isinstance(hint, segment.Hint) and hint.version > self.log.newest_seen:
                raise errors.FileMissing(f"{path} names version {hint.version}, which is not ratified")
        return data

    def open(self, path: str) -> BinaryFile:
        return self._reading(path, self.inner.open)

    def tag(self, path: str, opened: Any) -> str:  # Any: a file, as in the port
        return self._reading(path, lambda place: self.inner.tag(place, opened))

    def kind_of(self, path: str) -> PathKind:
        try:
            return self._reading(path, self.inner.kind_of)
        except errors.FileMissing:
            return PathKind.MISSING

    def stat(self, path: str) -> FileStat:
        version = commit_version(path)
        if version is not None and (commit := self.log.view.commits.get(version)) is not None:
            return self._with_real_size(stat_of(commit))
        found = self._reading(path, self.inner.stat)
        known = None if version is None else self.log.seen.get(version)
        return found if known is None else stat_of(known, found)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        return self.inner.stat_many(paths)

    def _staged_at(self, place: str, path: str) -> Ratified | None:
        """Return the commit at a path of the log if it is read from its staged file; None for another file."""
        version = commit_version(path)
        commit = None if version is None else self.log.view.commits.get(version)
        return commit if commit is not None and place == staged_path(commit) else None

    def _reading(self, path: str, read: Callable[[str], T]) -> T:
        """Read a file, staged or published. Raises FileMissing for a version above the latest of the catalog."""
        version = commit_version(path)
        if version is None:
            return read(path)
        if version > self.log.newest_seen:
            raise errors.FileMissing(f"{path} is of a version that is not ratified")
        commit = self.log.view.commits.get(version)
        if commit is None or version in self._lacking:
            return read(path)
        try:
            found = read(staged_path(commit))
            if found is not PathKind.MISSING:
                return found
        except (errors.FileMissing, errors.PermissionRefused):
            if size_listed(self.inner, staged_path(commit)) is not None:
                raise
        return read(self._published_instead(commit, path))

    def _published_instead(self, commit: Ratified, path: str) -> str:
        """Return the path of the published file of a version whose staged one is gone: someone has published it.

        Raises LogIncomplete where the version is lost, DataUnreadable where the file is another one.
        """
        version = commit.version
        if version not in self.log.reload().commits:
            return path
        lost = {"staged": staged_path(commit), "published": segment.commit_name(version)}
        size_bytes = size_listed(self.inner, path)
        if size_bytes is None:
            raise errors.LogIncomplete(
                f"version {version} is lost: the catalog ratified it, but it is neither staged nor published",
                facts=lost,
                hint=errors.command("catalog status"),
            )
        if size_bytes != commit.size_bytes:
            raise errors.DataUnreadable(
                f"the staged file of version {version} is gone, and the published one has {size_bytes} bytes "
                f"instead of {commit.size_bytes}",
                code=DIVERGED,
                facts=lost,
                hint=errors.command("catalog status"),
            )
        self._lacking.add(version)
        self.log.unsound = self.log.note_replaced(version)
        self.log.is_mended_by_publishing = is_published_as_ratified(self.inner, commit)
        return path

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        version = commit_version(path)
        if version is None:
            self._require_published(path)
            return self.inner.put_if_absent(path, data, modified_ms=modified_ms)
        key = version, hashlib.sha256(data).digest()
        if (ratification := self._ratifications.get(key)) is None:
            ratification = self._ratification(version, lambda at: self.inner.put_if_absent(at, data))
            self._ratifications = {**_newest(self._ratifications), key: ratification}
        return ratification.send(lambda: content_of(data.splitlines(keepends=True), segment.commit_name(version)))

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:
        if commit_version(path) is not None or path.startswith(f"{STAGED_DIRECTORY}/"):
            raise _not_replaced(path)
        self.inner.put(path, data, modified_ms=modified_ms)

    def draft(self, path: str) -> Draft:
        version = commit_version(path)
        if version is None:
            return _DerivedDraft(self.inner.draft(path), lambda: self._require_published(path))
        return _CommitDraft(self, version)

    def copy_within(self, source: str, target: str) -> Creation:
        if commit_version(target) is not None:
            raise _not_replaced(target)
        return self._reading(source, lambda place: self.inner.copy_within(place, target))

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        """Delete as the port says, a batch at a time, and ask the catalog before each.

        Raises Refused (`catalog.permission`) where it does not permit the clean-up of these files, and
        (`catalog.diverged`) where the log has published versions that the catalog does not know.
        """
        rest = iter(paths)
        while batch := list(islice(rest, _FILES_A_BATCH)):
            view = self.log.reload()
            self._require_none_beyond(view.latest)
            needed = {
                Maintenance.METADATA_CLEANUP
                if path.startswith(f"{segment.LOG_DIRECTORY}/")
                else Maintenance.DATA_CLEANUP
                for path in batch
            }
            for one in sorted(needed - (view.table.permissions or frozenset())):
                raise missing_permission(view, one, "delete files")
            kept = {staged_path(commit) for commit in view.commits.values()}
            done = iter(self.inner.delete_many([path for path in batch if path not in kept]))
            for path in batch:
                if path in kept:
                    yield path, Failed("the catalog holds this commit")
                elif (answer := next(done, None)) is not None:
                    yield answer

    def _require_none_beyond(self, latest: int) -> None:
        """Raise Refused where the log has published versions above the latest one of the catalog.

        Nothing counts the files that they add as needed, and without these files they cannot be ratified any more.
        """
        unknown = sorted(version for version in self.log.beyond if version > latest)
        if unknown:
            raise errors.Refused(
                f"the catalog does not know {name_ranges('version', unknown)}, which the log has: nothing is deleted "
                "as long as their files may be needed",
                code=DIVERGED,
                facts={"version": str(unknown[0])},
                hint=errors.command("catalog status"),
            )

    def remove_directory(self, path: str) -> Deletion:
        return self.inner.remove_directory(path)

    def _ratification(self, version: int, stage: Callable[[str], Creation]) -> Ratification:
        self.log.is_changing = True
        return Ratification(self.log, self.inner, version, self._bases.get(version - 1), stage)

    def _require_published(self, path: str) -> None:
        """Publish what a checkpoint or compaction stands on, or raise Refused. Spec: Catalog-managed tables."""
        directory, _, name = path.rpartition("/")
        found = segment.parse_log_path(name)
        if directory != segment.LOG_DIRECTORY or found.kind not in _DERIVED:
            return
        view = self.log.view if found.newest not in self.log.view.commits else self.log.reload()
        if found.newest in view.commits:
            done = publish(self.log, self.inner, view, up_to=found.newest)
            if new := sorted({*done.published} - {*done.there}):
                self.log.note(f"published {name_ranges('version', new)} first: the new {found.kind} stands on them")
        elif not is_published(self.inner, found.newest):
            raise errors.Refused(
                f"version {found.newest} is not published, and a {found.kind} must not be written before it is",
                code="checkpoint.unpublished",
                hint=errors.command("catalog status"),
            )


def _newest(known: dict[K, T]) -> dict[K, T]:
    return dict(islice(known.items(), max(len(known) - _MOST_KEPT, 0), None))


class _CommitDraft:
    """A commit of any size, which is staged and proposed when it is published."""

    def __init__(self, store: ManagedStore, version: int) -> None:
        self._version = version
        self._ratification = store._ratification(version, lambda _: self._draft.publish())
        self._draft = store.inner.draft(self._ratification.path)

    @property
    def local_path(self) -> str:
        return self._draft.local_path

    def publish(self, *, replace: bool = False) -> Creation:
        if replace:
            raise _not_replaced(segment.commit_name(self._version))
        return self._ratification.send(self._content)

    def _content(self) -> Content:
        with open(self.local_path, "rb") as file:
            return content_of(file, segment.commit_name(self._version))

    def __enter__(self) -> Self:
        self._draft.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._draft.__exit__(*exception)


class _DerivedDraft:
    """A file that may have to wait for a publication before it appears."""

    def __init__(self, draft: Draft, before: Callable[[], None]) -> None:
        self._draft, self._before = draft, before

    @property
    def local_path(self) -> str:
        return self._draft.local_path

    def publish(self, *, replace: bool = False) -> Creation:
        self._before()
        return self._draft.publish(replace=replace)

    def __enter__(self) -> Self:
        self._draft.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._draft.__exit__(*exception)


def _require_ratified_size(commit: Ratified, size_bytes: int) -> None:
    """Raise CommitCorrupt (`catalog.diverged`) for a staged file of another size than the catalog ratified."""
    if size_bytes == commit.size_bytes:
        return
    raise errors.CommitCorrupt(
        f"{staged_path(commit)} has {size_bytes} bytes, and the catalog ratified {commit.size_bytes}",
        file=segment.commit_name(commit.version),
        code=DIVERGED,
        facts={"version": str(commit.version)},
        hint=errors.command("catalog status"),
    )


def _not_replaced(path: str) -> errors.Refused:
    return errors.Refused(
        f"{path} is a commit of a table that a catalog manages, and cannot be replaced",
        code="catalog.managed",
        hint=errors.command("catalog status"),
    )
