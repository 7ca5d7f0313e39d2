"""What a catalog says of the commits of a table, checked, and the log as it decides it.

Spec: Catalog-managed tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from deltacli.catalogs.base import Catalog, CatalogTable, Maintenance, Ratified, invalid
from deltacli.core.errors import NOTHING_CHANGED, CatalogNameUnknown, LogIncomplete, Refused, command
from deltacli.core.machine import MACHINE, Machine
from deltacli.core.ranges import name_ranges
from deltacli.delta.log import segment
from deltacli.storage.base import RETRY_BUDGET, FileStat

STAGED_DIRECTORY = f"{segment.LOG_DIRECTORY}/_staged_commits"
FRESH_SECONDS, OPENED_SECONDS = 1.0, 5.0
"""The age up to which an answer is used for another listing of a table that only is read, as servers of shares use
theirs, and that of the opening for the first one.
"""
DIVERGED = "catalog.diverged"
_STAGED_NAME = re.compile(r"([0-9]{1,20})\.[^./\\%?#\x00-\x1f\x7f]+\.json")


def staged_version(name: str) -> int | None:
    """Return the version in the name of a staged commit; None for another name."""
    match = _STAGED_NAME.fullmatch(name)
    return int(match[1]) if match is not None else None


def staged_path(commit: Ratified) -> str:
    return f"{STAGED_DIRECTORY}/{commit.file_name}"


def commit_version(path: str) -> int | None:
    """Return the version of the path of a commit below the table; None for another path."""
    directory, _, name = path.rpartition("/")
    found = segment.parse_log_path(name) if directory == segment.LOG_DIRECTORY else None
    return found.version if found is not None and found.kind is segment.LogFileKind.COMMIT else None


class View(NamedTuple):
    """One answer of a catalog: `commits` by version are those that it holds, up to `latest`."""

    table: CatalogTable
    latest: int
    commits: Mapping[int, Ratified]

    @property
    def published(self) -> int:
        """The newest version that the catalog knows to be published."""
        return min(self.commits) - 1 if self.commits else self.latest


def view_of(table: CatalogTable) -> View:
    """Return an answer, checked: no version twice or missing, none above the latest, each staged in a file of its own
    that is named after it. Raises CatalogAnswerInvalid.
    """
    name, latest = table.name, table.latest
    if type(latest) is not int or not 0 <= latest < 2**63:
        raise invalid(name, "the latest version is not an integer between 0 and 2^63", latest)
    commits: dict[int, Ratified] = {}
    for commit in sorted(table.commits):
        version, file = commit.version, commit.file_name
        if version in commits:
            raise invalid(name, f"two commits have version {version}")
        if version > latest:
            raise invalid(name, f"the newest commit has version {version}, and the latest version is {latest}")
        if (named := staged_version(file)) is None:
            raise invalid(name, f"the file name of version {version} is not one of a staged commit", file)
        if named != version:
            raise invalid(name, f"the file name of version {version} is that of version {named}", file)
        if commits and version - 1 not in commits:
            raise invalid(name, f"the commit of version {version - 1} is missing")
        if commit.size_bytes <= 0:
            raise invalid(name, f"version {version} has {commit.size_bytes} bytes")
        commits[version] = commit
    return View(table, latest, commits)


class RatifiedLog:
    """The commits of one table as its catalog knows them, for one run: the table must stay the same one, by its uuid.

    `note` gets what a reader should know although reading goes on. `budget_seconds` bounds the pauses of a proposal
    that is sent again. Thread-safe: answers are replaced as a whole.
    """

    def __init__(
        self,
        catalog: Catalog,
        table: CatalogTable,
        *,
        machine: Machine = MACHINE,
        note: Callable[[str], None] = lambda _: None,
        budget_seconds: float = RETRY_BUDGET.total_seconds(),
    ) -> None:
        self.catalog, self.machine, self.note, self.budget_seconds = catalog, machine, note, budget_seconds
        self.view = view_of(table)
        self.is_changing = False
        """Whether the table is being changed: then each listing asks the catalog first."""
        self.unsound: str | None = None
        """Why nothing may be changed, although reading goes on."""
        self.is_mended_by_publishing = False
        """Whether `catalog publish` ends that, because the published file is as the catalog ratified it."""
        self.ended: Refused | None = None
        """Why the run cannot go on: the name has no table, another one, or one that the catalog does not manage."""
        self.unsettled: set[int] = set()
        """Versions that were proposed by this run without an answer that decides."""
        self.seen: dict[int, Ratified] = dict(self.view.commits)
        """Every commit that was ratified and not published yet at some time of the run."""
        self.newest_seen = self.view.latest
        self.tolerates_loss = False
        """Whether the log is listed although its latest version is lost, as `validate` does to check the rest."""
        self.lost_latest: int | None = None
        """The latest version, where the last listing had neither its staged nor its published file."""
        self.beyond: frozenset[int] = frozenset()
        """Versions above the latest that had a published commit when the log was listed."""
        self._replaced: set[int] = set()
        self._noted_beyond: set[int] = set()
        self._loaded_at, self._is_unused = machine.monotonic(), True

    @property
    def uri(self) -> str:
        return str(self.view.table.name)

    def reload(self) -> View:
        """Ask the catalog again. Raises Refused where the name has no table, another one, or none that it manages."""
        began = self.machine.monotonic()
        try:
            table = self.catalog.load(self.view.table.name)
        except CatalogNameUnknown as fault:
            self.ended = Refused(
                f"{self.uri} was dropped or renamed: {fault.message}",
                preamble=NOTHING_CHANGED,
                code="plan.other-table",
                facts=fault.facts,
                hint=fault.hint,
            )
            raise self.ended from fault
        self.take(table)
        self._loaded_at = began
        return self.view

    def take(self, table: CatalogTable) -> View:
        """Take the state of an answer. Raises as `reload`."""
        own = self.view.table
        if table.uuid != own.uuid:
            self.ended = Refused(
                f"{own.name} is another table by now",
                preamble=NOTHING_CHANGED,
                code="plan.other-table",
                facts={"opened": f"table {own.uuid}", "found": f"table {table.uuid}"},
            )
        elif not table.is_managed:
            self.ended = Refused(
                f"{own.name} is no longer managed by the catalog, and what it staged may be lost",
                preamble=NOTHING_CHANGED,
                code="catalog.managed",
                facts={"opened with": "the feature catalogManaged", "found": "a table without it"},
                hint=command("catalog status"),
            )
        if self.ended is not None:
            raise self.ended
        view = view_of(table)
        self.seen |= view.commits
        self.newest_seen = max(self.newest_seen, view.latest)
        self.view = view
        return view

    def note_replaced(self, version: int) -> str:
        """Note, once per version, that the published file stands for the staged one, which is gone; return why."""
        why = f"the staged file of version {version} is gone, although the catalog holds it"
        if version not in self._replaced:
            self._replaced.add(version)
            self.note(f"{why}: the published one, of the same size, is read")
        return why

    def _note_beyond(self) -> None:
        """Note, once for each, the published versions that the catalog has not ratified, which are left out."""
        new = sorted(self.beyond - self._noted_beyond)
        if not new:
            return
        self._noted_beyond.update(new)
        published = f"{name_ranges('version', new)} {'is' if len(new) == 1 else 'are'} published"
        self.note(
            f"{published}, but the catalog has version {self.view.latest} as the latest: left out (catalog status)"
        )

    def view_to_list(self) -> View:
        """Return the answer for a listing that begins now: that of the opening is used once, and while the table is
        only read for a second; else the catalog is asked again.
        """
        age, is_first = self.machine.monotonic() - self._loaded_at, self._is_unused
        self._is_unused = False
        if self.is_changing:
            may_use = is_first and 0 <= age <= OPENED_SECONDS
        else:
            may_use = 0 <= age <= (OPENED_SECONDS if is_first else FRESH_SECONDS)
        if may_use:
            return self.view
        return self.reload()

    def listed(self, list_files: Callable[[], Iterable[FileStat]], start: str) -> Iterator[FileStat]:
        """Return the files of the log from a name on, as the catalog decides them: no version above the latest, its own
        commits in the place of published ones. Where a version is in neither, a publisher may have worked between the
        two requests, so both are sent once more. Raises LogIncomplete where the latest version is in neither, unless
        that is tolerated.
        """
        view = self.view_to_list()
        files = self._files(view, list_files(), start)
        base = max(_newest_checkpoint(files), _first_of(start) - 1)
        if any(segment.commit_name(version) not in files for version in range(base + 1, view.latest + 1)):
            view = self.reload()
            files = self._files(view, list_files(), start)
        if self.beyond:
            # A version may have been ratified and published between the two requests.
            view = self.reload()
            files = self._files(view, list_files(), start)
            self._note_beyond()
        require_newest_commit(view, files)
        is_lost = not _has_latest(files, view.latest, start)
        self.lost_latest = view.latest if is_lost else None
        if is_lost and not self.tolerates_loss:
            raise LogIncomplete(
                f"version {view.latest} is lost: the catalog ratified it, but it is neither staged nor published",
                facts={"needed": segment.commit_name(view.latest)},
                hint=command("catalog status"),
            )
        return iter([files[name] for name in sorted(files)])

    def _files(self, view: View, listed: Iterable[FileStat], start: str) -> dict[str, FileStat]:
        found, beyond = dict[str, FileStat](), set[int]()
        for stat in listed:
            path = segment.parse_log_path(stat.name)
            if path.newest > view.latest:
                if path.kind is segment.LogFileKind.COMMIT:
                    beyond.add(path.version)
            elif not _covers_staged(path, view):
                known = self.seen.get(path.version) if path.kind is segment.LogFileKind.COMMIT else None
                found[stat.name] = stat if known is None else stat_of(known, stat)
        for commit in view.commits.values():
            if (name := segment.commit_name(commit.version)) >= start:
                found[name] = stat_of(commit)
        self.beyond = frozenset(beyond)
        return found


def require_newest_commit(view: View, files: Mapping[str, FileStat]) -> None:
    """Raise CatalogAnswerInvalid for an answer with commits, but without that of its latest version.

    Below a checkpoint this does no harm: no reader needs the commits that are missing from the answer.

    Args:
        view: The answer.
        files: The files of the log by name, at least its checkpoints.
    """
    if not view.commits or view.latest in view.commits:
        return
    newest = max(view.commits)
    if _newest_checkpoint(files) < newest:
        what = f"the newest commit has version {newest}, and the latest version is {view.latest}"
        raise invalid(view.table.name, what)


def stat_of(commit: Ratified, published: FileStat | None = None) -> FileStat:
    """Return name, size and time of a listed commit: during a run the same before and after it is published."""
    if published is not None and published.size_bytes != commit.size_bytes:
        return published
    return FileStat(segment.commit_name(commit.version), commit.size_bytes, commit.modified_ms)


def _covers_staged(path: segment.LogPath, view: View) -> bool:
    """Return whether a file is a compaction of commits that the catalog holds: its bytes may be those of other ones."""
    return path.kind is segment.LogFileKind.COMPACTED_COMMIT and any(
        path.version <= version <= path.last_version for version in view.commits
    )


def _has_latest(files: Mapping[str, FileStat], latest: int, start: str) -> bool:
    return segment.commit_name(latest) in files or _first_of(start) > latest or _newest_checkpoint(files) == latest


def _newest_checkpoint(files: Mapping[str, FileStat]) -> int:
    listing = segment.read_listing(
        segment.make_log_file(*stat[:3]) for name, stat in files.items() if ".checkpoint." in name
    )
    return max((one.version for one in listing.checkpoints), default=-1)


def _first_of(start: str) -> int:
    """Return the first version whose commit is listed from a name on."""
    digits = start[:20]
    if len(digits) < 20 or not digits.isdigit():
        return 0
    return int(digits) + (segment.commit_name(int(digits)) < start)


def missing_permission(view: View, needed: Maintenance, what: str) -> Refused:
    """Return the error for a maintenance that the catalog does not permit, which names it."""
    allowed = view.table.permissions
    named = "nothing: the catalog names no maintenance" if allowed is None else ", ".join(sorted(allowed)) or "nothing"
    return Refused(
        f"the catalog does not permit clients to {what}: {needed} is missing",
        preamble=NOTHING_CHANGED,
        code="catalog.permission",
        facts={"needed": str(needed), "permitted": named},
        hint=command("catalog status"),
    )
