"""`catalog status`: how far a catalog and the log are; `staged`: what became of staged files; and `publish`.

Nothing is repaired: the log stays right where both differ. Spec: Catalog-managed tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from deltacli.catalogs.lockstep import CLUSTERING, ROW_TRACKING, TABLE_IDS, is_synthetic, named_other_table, named_table
from deltacli.catalogs.publishing import (
    is_published,
    is_published_as_ratified,
    publish,
    require_consistent_answer,
    require_publishable,
    same_lines,
    size_listed,
)
from deltacli.catalogs.ratified import STAGED_DIRECTORY, View, staged_path, staged_version
from deltacli.catalogs.unity.addresses import is_address
from deltacli.changing.base_version import BaseVersion
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.outcome import CompleteOutcome
from deltacli.core.errors import NOTHING_CHANGED, FileMissing, Refused, Unreadable, UsageError, command
from deltacli.core.ranges import format_ranges
from deltacli.core.short_repr import short_repr
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFileKind, commit_name, make_log_file, parse_log_path
from deltacli.delta.protocol.features import OPEN_BY_NAME, READER_FEATURES_VERSION
from deltacli.operations.forgotten_commits import (
    ForgottenCommit,
    find_forgotten_commits,
    propose_again,
    refuse_proposal,
)
from deltacli.storage import ReadStorage, is_address_of
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.rebuild import read_snapshot
from deltacli.work.commits.provenance import read_provenance

if TYPE_CHECKING:
    from deltacli.catalogs.managed_store import ManagedStore
    from deltacli.changing.execution import ChangeExecution
    from deltacli.table.version import Snapshot


NOT_MANAGED = "catalog.not-managed"


def require_managed(table: TableHandle) -> ManagedStore:
    """Return the store of a table that its catalog manages. Raises UsageError for another."""
    if (managed := managed_store(table.storage)) is None:
        raise not_managed(table, table.name or "")
    return managed


def not_managed(table: TableHandle, address: str) -> UsageError:
    """Return the error for a table that was opened by an address, and whose commits no catalog manages."""
    facts = {"table": table.uri}
    if is_address(address):
        return UsageError(
            "the catalog does not decide the versions of this table: it is an external table with a log of its own",
            code=NOT_MANAGED,
            facts=facts,
            hint=command("history"),
        )
    return UsageError(
        "no catalog manages the commits of this table, or it was not opened by its name there",
        code=NOT_MANAGED,
        facts={**facts, "a managed one": "uc://CATALOG.SCHEMA.TABLE"},
        hint=OPEN_BY_NAME,
    )


# -- status ------------------------------------------------------------------------------------------------------------


class DivergenceKind(StrEnum):
    """What differs between log and catalog."""

    SCHEMA = "schema"
    PROTOCOL = "protocol"
    PROPERTY = "property"
    DOMAIN = "domain"
    LOCATION = "location"
    VERSION = "version"
    MISSING_STAGED = "missing-staged"


class Divergence(NamedTuple):
    """One difference: what it is, what the log has, and what the catalog has; None: nothing."""

    kind: DivergenceKind
    name: str
    log: Json
    catalog: Json

    def as_json(self) -> dict[str, Json]:
        return {"kind": self.kind.value, "name": self.name, "log": self.log, "catalog": self.catalog}


class Unpublished(NamedTuple):
    """A ratified version that is not published, and for how long."""

    version: int
    age_ms: int


@short_repr("latest_ratified", "latest_published", "unpublished", "divergence")
@dataclass(frozen=True, repr=False)
class CatalogStatus:
    """Where a catalog and the log of a table stand."""

    table: str
    latest_ratified: int
    latest_published: int | None
    """The newest version up to which all are published; None where none is known to be."""
    unpublished: tuple[Unpublished, ...]
    permissions: tuple[str, ...] | None
    """The maintenance that clients may do; None where the catalog names none, which permits nothing."""
    divergence: tuple[Divergence, ...]
    notes: tuple[str, ...] = ()
    proposable: tuple[int, ...] = ()
    """Published versions that the catalog has forgotten, and that `catalog publish` proposes again."""

    @property
    def agrees(self) -> bool:
        return not self.divergence

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.catalog-status`, without the envelope."""
        return {
            "latestRatified": self.latest_ratified,
            "latestPublished": self.latest_published,
            "unpublished": [{"version": one.version, "ageMs": one.age_ms} for one in self.unpublished],
            "permissions": None if self.permissions is None else list(self.permissions),
            "divergence": [one.as_json() for one in self.divergence],
        }


def catalog_status(table: TableHandle) -> CatalogStatus:
    """Ask the catalog, list the log, and compare both. Raises UsageError where no catalog manages the table, and what
    the catalog and the store raise; a log that cannot be read is a divergence.
    """
    managed = require_managed(table)
    store, notes, found = managed.inner, list[str](), list[Divergence]()
    managed.log.reload()
    unreadable: Unreadable | None = None
    try:
        snapshot = read_snapshot(table)
        found += _of_metadata(snapshot, managed.log.view, notes)
    except Unreadable as fault:
        unreadable = fault
    published = _published(store)
    found += (of_versions := [*_of_versions(managed, published)])
    view, now_ms = managed.log.view, table.clock()
    if unreadable is not None and not of_versions:
        found.append(Divergence(DivergenceKind.VERSION, str(view.latest), unreadable.message, "ratified"))
    if not is_address_of(store, re.sub(r"^s3[an]://", "s3://", view.table.location.rstrip("/"))):
        found.append(Divergence(DivergenceKind.LOCATION, "location", store.uri, view.table.location))
    waiting = [commit for version, commit in sorted(view.commits.items()) if version not in published]
    if unreported := [version for version in view.commits if version in published]:
        notes.append(f"published, but not reported to the catalog: {format_ranges(unreported)}")
    if replaced := replaced_staged_files(managed):
        notes.append(f"published as ratified, but no longer staged: {format_ranges(replaced)}")
    forgotten = find_forgotten_commits(table, managed)
    notes += map(_describe_forgotten, forgotten)
    if view.table.has_uniform:
        notes.append("the table is kept readable as Iceberg: deltacli does not change it")
    return CatalogStatus(
        str(view.table.name),
        view.latest,
        _latest_published(published, view.latest),
        tuple(Unpublished(commit.version, max(now_ms - commit.timestamp_ms, 0)) for commit in waiting),
        None if view.table.permissions is None else tuple(sorted(map(str, view.table.permissions))),
        tuple(found),
        tuple(notes),
        tuple(commit.version for commit in forgotten if not commit.obstacle),
    )


def _describe_forgotten(commit: ForgottenCommit) -> str:
    """Return the note on a published commit that the catalog does not know."""
    forgotten = f"the catalog has forgotten version {commit.version}, which is published"
    if commit.obstacle:
        return f"{forgotten} and cannot be proposed again: {commit.obstacle}"
    return f"{forgotten}: catalog publish proposes {commit.staged_path} again, which has the same lines"


def log_divergence(managed: ManagedStore, properties: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return the versions of which the log has another commit than the catalog, with what differs in words; the latest
    one where the properties of the table name another table.
    """
    found = _of_versions(managed, _published(managed.inner))
    words = [(int(one.name), one.log, one.catalog) for one in found]
    view = managed.log.view
    if (named := named_other_table(properties, view.table.uuid)) is not None:
        words.append((view.latest, f"table {named}", f"table {view.table.uuid}"))
    return [
        (version, f"the log has {'nothing' if log is None else log}, and the catalog {catalog or 'nothing'}")
        for version, log, catalog in words
    ]


def lost_commits(managed: ManagedStore) -> list[tuple[int, str]]:
    """Return the versions that the catalog ratified and that are neither staged nor published.

    With each comes the path below the table of the file that would bring it back.
    """
    store, view = managed.inner, managed.log.view
    published = _published(store)
    lost = [
        (version, staged_path(commit))
        for version, commit in sorted(view.commits.items())
        if version not in published and size_listed(store, staged_path(commit)) is None
    ]
    latest = managed.log.lost_latest
    if latest is not None and latest not in view.commits:
        lost.append((latest, f"{LOG_DIRECTORY}/{commit_name(latest)}"))
    return lost


def replaced_staged_files(managed: ManagedStore) -> list[int]:
    """Return the versions whose staged file is gone, and whose published file is as the catalog ratified it."""
    store = managed.inner
    return [
        version
        for version, commit in sorted(managed.log.view.commits.items())
        if size_listed(store, staged_path(commit)) is None and is_published_as_ratified(store, commit)
    ]


def _published(store: ReadStorage) -> set[int]:
    """Return the versions that have a published file, whatever is in it."""
    try:
        paths = [parse_log_path(stat.name) for stat in store.list_from(LOG_DIRECTORY)]
    except FileMissing:
        return set()
    return {path.version for path in paths if path.kind is LogFileKind.COMMIT}


def _latest_published(published: Set[int], latest: int) -> int | None:
    """Return the newest version of the last run of published commits that has no gap, at most the latest."""
    known = [version for version in published if version <= latest]
    if not known:
        return None
    first = min(known)
    return next(version for version in count(first) if version + 1 not in published or version == latest)


def _of_versions(managed: ManagedStore, published: Set[int]) -> Iterator[Divergence]:
    """Yield where commits differ. A version that was published behind an answer is looked for in another one."""
    store, view = managed.inner, managed.log.view
    if max(published, default=-1) > view.latest:
        view = managed.log.reload()
    for version in sorted(version for version in published if version > view.latest):
        yield Divergence(DivergenceKind.VERSION, str(version), commit_name(version), None)
    first = min(view.commits, default=view.latest + 1)
    known = [version for version in published if version < first]
    if known and first - 1 not in published and first > 0:
        yield Divergence(DivergenceKind.VERSION, str(first - 1), None, "ratified")
    for version, commit in sorted(view.commits.items()):
        path = staged_path(commit)
        size = size_listed(store, path)
        if size is None:
            if not is_published_as_ratified(store, commit):
                yield Divergence(DivergenceKind.MISSING_STAGED, str(version), None, path)
            continue
        if size != commit.size_bytes:
            yield Divergence(DivergenceKind.VERSION, str(version), f"{size} bytes", f"{commit.size_bytes} bytes")
            continue
        file = make_log_file(commit_name(version), commit.size_bytes, commit.modified_ms)
        stamp = read_provenance(managed, file).in_commit_timestamp
        if stamp != commit.timestamp_ms:
            yield Divergence(DivergenceKind.VERSION, str(version), stamp, commit.timestamp_ms)
        if version in published and not same_lines(store, path, f"{LOG_DIRECTORY}/{commit_name(version)}"):
            yield Divergence(DivergenceKind.VERSION, str(version), commit_name(version), path)


def _of_metadata(snapshot: Snapshot, view: View, notes: list[str]) -> Iterator[Divergence]:
    table = view.table
    yield from _of_protocol(snapshot, table.features)
    if table.columns is not None:
        log = _columns(json.loads(snapshot.metadata.schema_string or '{"fields":[]}'))
        catalog = _columns(table.columns)
        for name in dict.fromkeys([*log, *catalog]):
            if log.get(name) != catalog.get(name):
                yield Divergence(DivergenceKind.SCHEMA, name, log.get(name), catalog.get(name))
        if [*log] != [*catalog] and {*log} == {*catalog}:
            yield Divergence(DivergenceKind.SCHEMA, "order of columns", [*log], [*catalog])
    columns = list(snapshot.metadata.partition_columns)
    if table.partition_columns is not None and columns != [*table.partition_columns]:
        yield Divergence(DivergenceKind.SCHEMA, "partition columns", columns, [*table.partition_columns])
    own = {key: value for key, value in snapshot.properties.items() if not is_synthetic(key)}
    for key, value in sorted(own.items()):
        if key not in TABLE_IDS and table.properties.get(key) != value:
            yield Divergence(DivergenceKind.PROPERTY, key, value, table.properties.get(key))
    if (named := named_table(own)) != table.uuid:
        yield Divergence(DivergenceKind.PROPERTY, TABLE_IDS[0], named, table.uuid)
    yield from _of_domains(snapshot, table.domains, notes)


def _of_protocol(snapshot: Snapshot, features: frozenset[str]) -> Iterator[Divergence]:
    protocol = snapshot.protocol
    if protocol.min_reader_version < READER_FEATURES_VERSION:
        yield Divergence(DivergenceKind.PROTOCOL, "minReaderVersion", protocol.min_reader_version, None)
    own = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    for name in sorted(own ^ features):
        log, catalog = ("supported" if name in one else None for one in (own, features))
        yield Divergence(DivergenceKind.PROTOCOL, name, log, catalog)


def _columns(schema: Json) -> dict[str, Json]:
    """Return the columns of a schema by name, types without the spaces that catalogs put into them."""
    fields = schema.get("fields", ()) if isinstance(schema, Mapping) else ()
    return {str(one.get("name")): _plain(one) for one in fields if isinstance(one, Mapping)}


def _plain(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {
            key: inner.replace(" ", "") if key.lower().endswith("type") and isinstance(inner, str) else _plain(inner)
            for key, inner in value.items()
            if not (key == "metadata" and not inner)
        }
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _of_domains(snapshot: Snapshot, catalog: Mapping[str, Any], notes: list[str]) -> Iterator[Divergence]:
    """Yield where the two domains that catalogs know differ, as far as the catalog says anything of them."""
    log = {one.domain: one.configuration for one in snapshot.domains}
    for name, key in ((CLUSTERING, "clusteringColumns"), (ROW_TRACKING, "rowIdHighWaterMark")):
        if name not in catalog:
            continue
        try:
            own = json.loads(log[name]).get(key)
        except (KeyError, ValueError, AttributeError):
            own = None
        told = catalog[name].get(key)
        if name == ROW_TRACKING and type(own) is int and type(told) is int and told < own:
            notes.append(f"the catalog knows row ids up to {told}, and the log has {own}")
        elif own != told:
            yield Divergence(DivergenceKind.DOMAIN, name, own, told)


# -- staged files ------------------------------------------------------------------------------------------------------


class StagedClass(StrEnum):
    """What became of a staged file: the version, not the version, or nobody knows yet."""

    RATIFIED = "ratified"
    LOST = "lost"
    UNKNOWN = "unknown"


class StagedFile(NamedTuple):
    """A staged file; the version is that of its name, None where it has none."""

    path: str
    version: int | None
    fate: StagedClass
    size_bytes: int
    age_ms: int

    def as_json(self) -> dict[str, Json]:
        return {
            "path": self.path,
            "version": self.version,
            "class": self.fate.value,
            "sizeBytes": self.size_bytes,
            "ageMs": self.age_ms,
        }


@short_repr("items")
@dataclass(frozen=True, repr=False)
class StagedFiles:
    """The staged files of a table, by name."""

    table: str
    items: tuple[StagedFile, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.catalog-staged`, without the envelope."""
        return {"items": [one.as_json() for one in self.items]}


def staged_files(table: TableHandle) -> StagedFiles:
    """List the staged files and say what became of each. Raises as `catalog_status`."""
    managed = require_managed(table)
    store, now_ms = managed.inner, table.clock()
    try:
        listed = [stat for stat in store.list_from(STAGED_DIRECTORY) if not stat.name.startswith(".")]
    except FileMissing:
        listed = []
    view = managed.log.reload()  # behind the listing: what was ratified meanwhile is not lost
    items = []
    for stat in listed:
        version, path = staged_version(stat.name), f"{STAGED_DIRECTORY}/{stat.name}"
        fate = StagedClass.UNKNOWN if version is None else _fate(store, view, version, path)
        items.append(StagedFile(path, version, fate, stat.size_bytes, max(now_ms - stat.modified_ms, 0)))
    return StagedFiles(str(view.table.name), tuple(items))


def _fate(store: ReadStorage, view: View, version: int, path: str) -> StagedClass:
    """Return what became of a staged file of a version."""
    if version > view.latest:
        return StagedClass.UNKNOWN  # in flight, or left behind
    commit = view.commits.get(version)
    if commit is not None:
        return StagedClass.RATIFIED if staged_path(commit) == path else StagedClass.LOST
    if not is_published(store, version):
        return StagedClass.UNKNOWN
    is_same = same_lines(store, path, f"{LOG_DIRECTORY}/{commit_name(version)}")
    return StagedClass.RATIFIED if is_same else StagedClass.LOST


def way_to_publish(status: CatalogStatus) -> str | None:
    """Return the command that publishes what is due; None where nothing is, or where it would be refused."""
    if status.proposable:
        return command("catalog publish")
    return command("catalog publish") if status.unpublished and status.agrees else None


# -- `catalog publish` -------------------------------------------------------------------------------------------------


class ToPublish(NamedTuple):
    """A commit that the catalog holds; `is_there`: a copy with the same content is published already.

    `is_forgotten`: the catalog does not hold it any more, and its staged file is proposed again.
    """

    version: int
    path: str
    size_bytes: int
    age_ms: int
    is_there: bool
    is_forgotten: bool = False


@short_repr("items", "latest_published", "refusal")
@dataclass(frozen=True, repr=False)
class PublishPlan:
    """What would be published, oldest first. Nothing has been done."""

    base_version: BaseVersion
    items: tuple[ToPublish, ...]
    latest_published: int
    """The newest version that the catalog knows to be published."""
    refusal: Refused | None = None

    @property
    def is_noop(self) -> bool:
        return not self.items

    def build_refusal(self) -> Refused | None:
        return self.refusal

    def effects(self) -> Iterator[str]:
        for item in self.items:
            verb = "proposed to the catalog again" if item.is_forgotten else "published"
            yield f"version {item.version} is {verb}"


@short_repr("published", "latest_published")
@dataclass(repr=False)
class PublishOutcome(CompleteOutcome):
    """What was published, or would be by a plan that was not executed."""

    plan: PublishPlan
    published: tuple[int, ...] = ()
    reported: int | None = None

    @property
    def latest_published(self) -> int:
        """The newest version that the catalog knows to be published."""
        return self.plan.latest_published if self.reported is None else self.reported

    def describe_progress(self) -> str:
        return f"{plural(len(self.published), 'version')} published"

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """Return the document `deltacli.catalog-publish`, without the envelope."""
        versions = [one.version for one in self.plan.items] if dry_run else list(self.published)
        return {"published": versions, "latestPublished": self.latest_published, "dryRun": dry_run}


@dataclass(frozen=True)
class Publish:
    """The publication of every commit that the catalog holds."""

    kind: ClassVar[ChangeKind] = ChangeKind.DERIVE_LOG_FILES

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> PublishPlan:  # noqa: ARG002  (asks the catalog)
        """Ask the catalog, and look at every commit. Raises UsageError where no catalog manages the table, and what the
        catalog and the store raise; that a commit cannot be published is part of the plan.
        """
        managed = require_managed(table)
        view, now_ms = managed.log.reload(), table.clock()
        require_consistent_answer(managed.inner, view)
        items, refusal = list[ToPublish](), None
        for version, commit in sorted(view.commits.items()):
            is_there = False
            if refusal is None:
                try:
                    is_there = require_publishable(managed.inner, commit, is_first=not items)
                except Refused as fault:
                    refusal = Refused(
                        fault.reason, preamble=NOTHING_CHANGED, code=fault.code, facts=fault.facts, hint=fault.hint
                    )
            age_ms = max(now_ms - commit.timestamp_ms, 0)
            items.append(ToPublish(version, staged_path(commit), commit.size_bytes, age_ms, is_there))
        if refusal is None:
            items += _items_to_propose(table, managed, now_ms)
        if not items:
            # A latest version that is neither held by the catalog nor published is lost, which the listing reports.
            list_log(table.storage)
        elif refusal is None:
            refusal = _refusal_of_another_table(table, managed)
        return PublishPlan(BaseVersion(table, view.latest, now_ms), tuple(items), view.published, refusal)

    def outcome(self, plan: PublishPlan) -> PublishOutcome:
        return PublishOutcome(plan)

    def execute(self, execution: ChangeExecution[PublishPlan, PublishOutcome]) -> None:
        """Publish what the catalog holds by now, and report it. Raises what `publish` raises."""
        managed, published = require_managed(execution.table), list[int]()
        # The table may have been created anew while a question was open.
        if (refusal := _refusal_of_another_table(execution.table, managed)) is not None:
            raise refusal
        wanted = [item.version for item in execution.plan.items if item.is_forgotten]
        try:
            execution.outcome.reported = publish(managed.log, managed.inner, published=published).reported
            for version in wanted:
                self._propose_again(execution, managed, version)
                published.append(version)
                execution.outcome.reported = version
        finally:
            execution.has_begun, execution.outcome.published = bool(published), tuple(published)

    def _propose_again(
        self, execution: ChangeExecution[PublishPlan, PublishOutcome], managed: ManagedStore, version: int
    ) -> None:
        """Propose a forgotten commit of the plan, after a look at what is there by now."""
        first = next(iter(find_forgotten_commits(execution.table, managed)), None)
        if first is None or first.version != version or first.obstacle:
            why = "it is not the next one by now" if first is None else first.obstacle or "another one comes first"
            raise refuse_proposal(version, why)
        propose_again(execution.table, managed, first)


def _items_to_propose(table: TableHandle, managed: ManagedStore, now_ms: int) -> Iterator[ToPublish]:
    """Yield the commits that the catalog has forgotten and that can be proposed again, oldest first."""
    for commit in find_forgotten_commits(table, managed):
        if commit.obstacle:
            return
        stat = managed.inner.stat(commit.staged_path)
        age_ms = max(now_ms - stat.modified_ms, 0)
        yield ToPublish(commit.version, commit.staged_path, commit.size_bytes, age_ms, True, is_forgotten=True)


def _refusal_of_another_table(table: TableHandle, managed: ManagedStore) -> Refused | None:
    """Return why nothing can be published where the log is that of another table than the name in the catalog.

    Raises what `read_snapshot` raises: no commit is added to a log that cannot be read.
    """
    newest = read_snapshot(table)
    try:
        managed.require_registered_table(newest.properties, newest.version)
    except Refused as refusal:
        return refusal
    return None
