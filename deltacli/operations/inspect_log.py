"""The walk of `validate` through a log: commits ascending, and at each version what claims to know its state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltacli.delta.commit_lines import Action
from deltacli.delta.known_files import KnownFiles
from deltacli.delta.log_path import LOG_DIRECTORY, LogFileKind
from deltacli.delta.raw_lines import LineScanner, ScannedLines
from deltacli.delta.rules.base import Place
from deltacli.delta.rules.commit_lines import EMPTY
from deltacli.delta.rules.views import (
    ChecksumView,
    CommitView,
    CompactionView,
    ExpectedState,
    HintView,
    MetadataView,
    Placed,
    ProtocolView,
    Regime,
    RegimeView,
    StateView,
)
from deltacli.delta.segment import LogFile
from deltacli.engine.base import Engine
from deltacli.operations.file_rows import FileRows
from deltacli.operations.findings import Collector
from deltacli.operations.inspect_checkpoint import CheckpointInspector
from deltacli.operations.inspect_storage import WholeLog
from deltacli.operations.regimes import next_regime
from deltacli.progress import Progress
from deltacli.storage import Storage
from deltacli.work.checkpoints import sidecar_location
from deltacli.work.inspection import read_or_none

if TYPE_CHECKING:
    from deltacli.delta.rules.views import CheckpointView

_WINDOW_BYTES = 16 << 20
_WINDOW_COMMITS = 500


class LogInspector:
    """Walks through one log and shows the checks what it meets. Afterwards `newest`, `files` and `commits` tell the
    state that could be rebuilt.
    """

    def __init__(
        self, storage: Storage, engine: Engine, collector: Collector, log: WholeLog, now_ms: int, progress: Progress
    ) -> None:
        self.newest = Regime()
        self.version = -1
        self.files = KnownFiles(is_known=False)
        self.commits: list[CommitView] = []
        self.counts: dict[int, Counter[str]] = {}
        self.cdc: list[tuple[Placed, int]] = []
        self.not_checked: list[str] = []
        self.transactions: dict[str, tuple[int, int | None]] = {}
        self.domains: dict[str, str] = {}
        self._storage = storage
        self._engine = engine
        self._collector = collector
        self._log = log
        self._now_ms = now_ms
        self._progress = progress
        self._scanner = LineScanner()
        self._memory: dict[str, Any] = {}  # Any: what checks remember
        self._rows = FileRows(engine, collector, now_ms, storage.uri)
        self._checkpoints: dict[int, list[CheckpointView]] = {}
        self._is_whole = True
        self._expects_from_zero = 0 in log.listing.commits

    def run(self) -> None:
        """Walk through the whole log, oldest version first."""
        by_version: dict[int, list[Any]] = defaultdict(list)
        for instance in self._log.listing.checkpoints:
            by_version[instance.version].append(instance)
        checksums = {file.version: file for file in self._log.files if file.path.kind is LogFileKind.CHECKSUM}
        versions = sorted(set(self._log.listing.commits) | set(by_version) | set(checksums))
        if self._expects_from_zero:
            self.files = KnownFiles(is_known=True)
        total = len(self._log.listing.commits)
        with self._progress.step("checking the log", unit="commits", total=total) as step:
            scanned: dict[int, ScannedLines | None] = {}
            for position, version in enumerate(versions):
                if version in self._log.listing.commits:
                    if version not in scanned:
                        scanned = self._scan_window(versions[position:])
                    self._take_commit(self._log.listing.commits[version], scanned.pop(version))
                    step.advance()
                for instance in by_version.get(version, ()):
                    self._take_checkpoint(version, instance, scanned)
                if version in checksums:
                    self._take_checksum(checksums[version])
        self._rows.flush()
        self._take_compactions()
        self._take_hint()

    def state_view(self) -> StateView | None:
        """The newest state, None where none could be rebuilt."""
        if not self.files.is_known or self.version < 0:
            return None
        return StateView(
            self.version,
            self.newest,
            self.transactions,
            self.domains,
            self.files.live_columns(),
            self._now_ms,
            self._memory,
            uri=self._storage.uri,
        )

    def all_removes(self) -> list[Action]:
        """Every remove of a visible commit, and the tombstones that a checkpoint had before, each once."""
        visible = [placed.action for commit in self.commits for placed in commit.removes]
        seen = {id(action) for action in visible}
        return [*visible, *(action for action in self.files.tombstones() if id(action) not in seen)]

    def named_sidecars(self) -> frozenset[str] | None:
        """The names of the sidecars that complete checkpoints name; None where one of these could not be read."""
        views = [view for of_version in self._checkpoints.values() for view in of_version]
        if not all(view.small_is_whole for view in views):
            return None
        return frozenset(
            sidecar_location(action).rsplit("/", 1)[-1]
            for view in views
            for kind, action, _ in view.small
            if kind == "sidecar" and isinstance(action.get("path"), str)
        )

    # -- commits --------------------------------------------------------------------------------------------------

    def _scan_window(self, versions: Sequence[int]) -> dict[int, ScannedLines | None]:
        """Read and scan the next commits, and take what they touch out of the checkpoint's columns at one go."""
        chosen: list[LogFile] = []
        size = 0
        for version in versions:
            file = self._log.listing.commits.get(version)
            if file is None:
                continue
            chosen.append(file)
            size += file.size_bytes
            if size >= _WINDOW_BYTES or len(chosen) >= _WINDOW_COMMITS:
                break
        at_once = self._storage.capabilities.parallel_reads
        data = self._engine.run(lambda file: read_or_none(self._storage, file), chosen, at_once=at_once)
        scanned: dict[int, ScannedLines | None] = {}
        for file, content in zip(chosen, data, strict=True):
            place = Place(f"{LOG_DIRECTORY}/{file.name}", None, file.version)
            scanned[file.version] = None if content is None else self._scanner.scan(content, place)
        self._prefetch(scanned)
        return scanned

    def _prefetch(self, scanned: dict[int, ScannedLines | None]) -> None:
        self.files.prefetch(
            placed.action["path"]
            for lines in scanned.values()
            if lines is not None
            for placed in lines.actions
            if placed.kind in ("add", "remove")
        )

    def _take_commit(self, file: LogFile, lines: ScannedLines | None) -> None:
        version = file.version
        if lines is None:
            self._lose_track(f"{file.name} vanished while the log was read")
            return
        if version > 0 and version - 1 != self.version and self.files.is_known:
            self._lose_track(None)
        self._collector.take(lines.findings)
        if file.size_bytes == 0:
            self._report_empty(file)
            self._is_whole = False
        commit = self._make_commit(file, lines)
        self._show_regime(commit, lines)
        self._collector.look(commit, commit.place())
        self._take_small(commit)
        self._rows.take(commit, self.domains.get("delta.clustering"))
        self.files.apply(version, commit.added, commit.removed)
        self._is_whole &= lines.is_readable and not lines.broken
        self.counts[version] = Counter(placed.kind for placed in lines.actions)
        self.cdc.extend((placed, version) for placed in commit.others if placed.kind == "cdc")
        self.newest, self.version = commit.after, version
        self.commits.append(replace(commit, adds=[], previous=None))

    def _make_commit(self, file: LogFile, lines: ScannedLines) -> CommitView:
        by_kind: dict[str, list[Placed]] = {"add": [], "remove": []}
        others: list[Placed] = []
        for placed in lines.actions:
            by_kind.get(placed.kind, others).append(placed)
        previous = self.commits[-1] if self.commits and self.commits[-1].version == file.version - 1 else None
        return CommitView(
            file.version,
            file.size_bytes,
            file.modified_ms,
            others,
            by_kind["add"],
            by_kind["remove"],
            lines.actions[0].kind if lines.actions else None,
            self.newest,
            next_regime(self.newest, [*others, *lines.broken], file.version),
            self.files.live_of,
            previous,
            self._now_ms,
            lines.is_readable and file.size_bytes > 0,
            self.files.totals.files if self.files.is_known and self._is_whole else None,
            self.files.tombstone_of,
        )

    def _show_regime(self, commit: CommitView, lines: ScannedLines) -> None:
        """Show the metaData and protocol actions of a commit, faulty ones too, and the pair that is in force then."""
        brought = sorted((*commit.others, *lines.broken), key=lambda placed: placed.line)
        previous = commit.before if commit.before != Regime() else None
        for placed in brought:
            place = commit.place(placed.line)
            if placed.kind == "protocol":
                view = ProtocolView(place, commit.version, placed.action, commit.after, previous, commit)
                self._collector.look(view, place)
            elif placed.kind == "metaData":
                self._show_metadata(place, commit.version, placed.action, commit.after, previous, commit)
        if commit.after is not commit.before:
            self._show_pair(commit.after, commit.version)

    def _show_metadata(
        self,
        place: Place,
        version: int,
        raw: Action,
        regime: Regime,
        previous: Regime | None,
        commit: CommitView | None,
    ) -> None:
        view = MetadataView(place, version, raw, regime, previous, commit, self._memory)
        self._collector.look(view, place)

    def _show_pair(self, regime: Regime, version: int) -> None:
        from_metadata = regime.metadata_version == version or regime.protocol_place is None
        place = (regime.metadata_place if from_metadata else regime.protocol_place) or Place(LOG_DIRECTORY)
        self._collector.look(RegimeView(place, version, regime, self._memory), place)

    def _take_small(self, commit: CommitView) -> None:
        """Keep transactions and domains up to date."""
        for placed in commit.others:
            self._take_small_action(placed.kind, placed.action)

    def _take_small_action(self, kind: str, action: Action) -> None:
        if kind == "txn" and action.get("appId") is not None and action.get("version") is not None:
            self.transactions[action["appId"]] = (action["version"], action.get("lastUpdated"))
        elif kind == "domainMetadata" and action.get("domain") is not None:
            if action.get("removed"):
                self.domains.pop(action["domain"], None)
            else:
                self.domains[action["domain"]] = action.get("configuration") or ""

    def _report_empty(self, file: LogFile) -> None:
        """An empty commit is an error where replay needs it, a warning where a checkpoint covers it."""
        from deltacli.delta.rules.base import Severity

        newest = max((found.version for found in self._log.listing.checkpoints), default=-1)
        is_covered = newest >= file.version
        message = "the commit is empty: a torn write; " + (
            "a checkpoint covers it, so only older versions suffer" if is_covered else "rows are lost or come back"
        )
        severity = Severity.WARNING if is_covered else None
        place = Place(f"{LOG_DIRECTORY}/{file.name}", None, file.version)
        self._collector.take([EMPTY.at(place, message, seen="0 bytes", severity=severity)])

    def _lose_track(self, why: str | None) -> None:
        """A commit is missing: nothing is known of the files until the next checkpoint."""
        if why:
            self.not_checked.append(why)
        self.files = KnownFiles(is_known=False)
        self._is_whole = True

    # -- files that claim to know a state -------------------------------------------------------------------------

    def expected(self, version: int) -> ExpectedState | None:
        """What replay made of a version, if it got there."""
        if not self.files.is_known or self.version != version:
            return None
        last = self.commits[-1] if self.commits and self.commits[-1].version == version else None
        return ExpectedState(
            version,
            self.newest,
            dict(self.transactions),
            dict(self.domains),
            self.files.totals,
            self.files.live,
            self.files.tombstones,
            last.in_commit_timestamp if last and self.newest.has_ict else None,
            self._is_whole,
            self.files.whole_adds,
            self.files.live_columns,
        )

    def _take_checkpoint(self, version: int, instance: Any, scanned: dict[int, ScannedLines | None]) -> None:
        expected = self.expected(version)
        if expected is not None and not expected.is_whole:
            expected = None
        self._rows.flush()
        inspector = CheckpointInspector(self._storage, instance, expected, self._scanner, self._now_ms)
        begins = expected is None
        if begins:
            inspector.judge_files_with(self._rows)
        view = inspector.run()
        self._rows.settle()
        self._collector.take(inspector.findings)
        if begins and inspector.is_readable:
            self._begin_with(inspector, view, scanned)
        self._collector.look(view, view.place())
        self._checkpoints.setdefault(version, []).append(view)

    def _begin_with(
        self, inspector: CheckpointInspector, view: CheckpointView, scanned: dict[int, ScannedLines | None]
    ) -> None:
        """Go on from a checkpoint: the log that would tell more is gone, or can't be read."""
        self.files = inspector.known_files()
        self._prefetch(scanned)
        previous = self.newest if self.newest != Regime() else None
        raw_metadata = view.regime.raw_metadata
        if self.version != view.version or not self.commits or self.newest.metadata is None:
            self.newest = view.regime
            if raw_metadata is not None:
                place = view.place()
                self._show_metadata(place, view.version, raw_metadata, view.regime, previous, None)
            if view.regime.raw_protocol is not None:
                place = view.place()
                shown = ProtocolView(place, view.version, view.regime.raw_protocol, view.regime, previous, None)
                self._collector.look(shown, place)
            self._show_pair(view.regime, view.version)
        self.version = view.version
        self._is_whole = True
        for kind, action, _ in view.small:
            self._take_small_action(kind, action)

    def _take_checksum(self, file: LogFile) -> None:
        if not self._collector.looks_at(ChecksumView):
            return
        data = read_or_none(self._storage, file)
        if data is None:
            return
        expected = self.expected(file.version)
        if expected is not None and not expected.is_whole:
            expected = None
        view = ChecksumView(file.version, data, expected, file.version in self._log.listing.commits)
        self._collector.look(view, view.place())

    def _take_compactions(self) -> None:
        if not self._collector.looks_at(CompactionView):
            return
        for file in self._log.files:
            if file.path.kind is not LogFileKind.COMPACTED_COMMIT:
                continue
            data = read_or_none(self._storage, file)
            if data is None:
                continue
            place = Place(f"{LOG_DIRECTORY}/{file.name}")
            scanned = self._scanner.scan(data, place)
            self._collector.take(scanned.findings)
            view = CompactionView(
                file, scanned.actions, self._commits_of(file), scanned.is_readable and not scanned.broken
            )
            self._collector.look(view, view.place())

    def _commits_of(self, file: LogFile) -> list[list[Placed]] | None:
        """The actions of the commits that a compaction stands for."""
        found = []
        for version in range(file.version, min(file.path.last_version, file.version + 100_000) + 1):
            commit = self._log.listing.commits.get(version)
            data = read_or_none(self._storage, commit) if commit else None
            if not data:
                return None
            scanned = self._scanner.scan(data, Place(""))
            if not scanned.is_readable or scanned.broken:
                return None
            found.append(scanned.actions)
        return found or None

    def _take_hint(self) -> None:
        if not self._log.has_hint or not self._collector.looks_at(HintView):
            return
        data = read_or_none(self._storage, next(f for f in self._log.files if f.name == "_last_checkpoint"))
        if data is None:
            return
        view = HintView(data, self._log.listing, self._hinted(data), self._now_ms)
        self._collector.look(view, view.place())

    def _hinted(self, data: bytes) -> CheckpointView | None:
        """The checkpoint that the hint names, of several of one version the one it describes."""
        from deltacli.delta.checkpoint.hint import Hint, read_hint

        hint = read_hint(data)
        version = hint.version if isinstance(hint, Hint) else _version_in(data)
        found = self._checkpoints.get(version, [])
        for view in found:
            has_parts = view.instance.kind is LogFileKind.MULTI_PART_CHECKPOINT
            if has_parts == (b'"parts"' in data) and (
                view.instance.kind is not LogFileKind.UUID_CHECKPOINT or view.instance.files[0].name.encode() in data
            ):
                return view
        return found[0] if found else None


def _version_in(data: bytes) -> int:
    import json

    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return -1
    version = value.get("version") if isinstance(value, dict) else None
    return version if type(version) is int else -1
