"""The walk of `validate` through a log: commits ascending, and at each version the files that contain its state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltacli.core.errors import FileMissing, PathExternal
from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.progress import Progress, start_weighed_step
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import HINT_NAME, LOG_DIRECTORY, CheckpointInstance, LogFile, LogFileKind, Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.paths.spelling import sidecar_location
from deltacli.engine.base import Engine
from deltacli.operations.validate.findings import Collector
from deltacli.operations.validate.inspect_storage import Foresight, WholeLog, is_hint_ahead
from deltacli.operations.validate.log_reader import (
    BOTOCORE_ERRORS,
    CatalogFault,
    Fault,
    FileRows,
    LogReader,
    RefusedLogFiles,
    Scan,
    SeenMetadata,
    next_config,
)
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.framework.choice import CHECK_CRASHED, FILE_UNREADABLE
from deltacli.rules.framework.known_files import KnownFiles
from deltacli.rules.framework.views import (
    CheckpointView,
    ChecksumView,
    CommitView,
    CompactionView,
    ExpectedState,
    HintView,
    LocatedAction,
    MetadataView,
    ProtocolView,
    StateView,
    TableConfigurationView,
    rows_added,
)
from deltacli.rules.log.commit_lines import CRLF_OR_BLANK, EMPTY, ScannedLines
from deltacli.storage import ReadStorage

if TYPE_CHECKING:
    from deltacli.operations.validate.inspect_checkpoint import CheckpointInspector

_WINDOW_BYTES = 16 << 20
_WINDOW_COMMITS = 500
_MOST_COMPACTED = 100_000
_MOST_ROWS_COMPARED = 20_000_000
"""Maximum number of live files counted for the histograms of all checksums: a million take a tenth of a second."""

_SEVERITY_IF_COVERED = {CRLF_OR_BLANK.id: Severity.INFO}
"""Rules about what only commits have -> the severity where a checkpoint covers the commit, if it is not a warning."""

_USED_BY_ADDS = {"deletionVector": "deletionVectors", "baseRowId": "rowTracking"}
"""Field of an add -> the feature that it uses."""


class LogInspector:
    """Walks through one log and runs the checks. Afterwards `newest`, `files` and `commits` have the rebuilt state; the
    files of a checkpoint have their statistics if these are kept.
    """

    def __init__(
        self,
        storage: ReadStorage,
        engine: Engine,
        collector: Collector,
        log: WholeLog,
        now_ms: int,
        progress: Progress,
        foresight: Foresight,
        *,
        keeps_statistics: bool = False,
    ) -> None:
        self._keeps_statistics = keeps_statistics
        self._seen_metadata = SeenMetadata(begins_with_table=0 in log.listing.commits)
        self.newest = TableConfiguration(older_metadata=self._seen_metadata)
        self.last_known = TableConfiguration()
        self.version = -1
        self.files = KnownFiles(is_known=False)
        self.commits: list[CommitView] = []
        self.counts: dict[int, Counter[str]] = {}
        self.used_by_adds: set[str] = set()
        self.cdc: list[tuple[LocatedAction, int]] = []
        self.rows_added: dict[int, int] = {}
        """Version -> number of rows it adds, for versions with change data where the log has it."""
        self.not_checked: list[str] = []
        self.transactions: dict[str, tuple[int, int | None]] = {}
        self.domains: dict[str, str] = {}
        self._storage = storage
        self._engine = engine
        self._collector = collector
        self._log = log
        self._now_ms = now_ms
        self._progress = progress
        self._foresight = foresight
        self._reader = LogReader(storage, engine)
        self._memory: dict[str, Any] = {}  # Any: state of checks
        self._rows = FileRows(engine, collector, now_ms, storage.uri)
        self._checkpoints: dict[int, list[CheckpointView]] = {}
        self._rows_compared = 0
        self._outside = RefusedLogFiles(storage.uri)
        self._sidecar_sizes = {file.path: file.size_bytes for file in log.sidecars}

    def run(self) -> None:
        """Walk through the whole log, oldest version first."""
        by_version: dict[int, list[Any]] = defaultdict(list)
        for instance in self._log.listing.checkpoints:
            by_version[instance.version].append(instance)
        checksums = {file.version: file for file in self._log.files if file.path.kind is LogFileKind.CHECKSUM}
        versions = sorted(set(self._log.listing.commits) | set(by_version) | set(checksums))
        if 0 in self._log.listing.commits:
            self.files = KnownFiles(is_known=True)
        commits = self._log.listing.commits
        size_bytes = sum(file.size_bytes for file in commits.values())
        with start_weighed_step(
            self._progress, "checking the log", unit="commits", total=len(commits), weight=size_bytes
        ) as step:
            scanned: dict[str, Scan] = {}
            claims: dict[str, bytes | Fault] = {}
            for position, version in enumerate(versions):
                file = self._log.listing.commits.get(version)
                if file is not None:
                    if file.name not in scanned:
                        scanned = self._scan_window(versions[position:])
                    with self._guarded(file.name, version):
                        self._take_commit(file, scanned.pop(file.name))
                    step.advance(weight=file.size_bytes)
                    self._foresight.take_config(self.newest)
                    self._foresight.take_live(file.size_bytes, self.files.totals if self.files.is_known else None)
                for instance in by_version.get(version, ()):
                    with self._guarded(instance.files[0].name, version):
                        self._take_checkpoint(version, instance, scanned)
                if version in checksums and self._collector.looks_at(ChecksumView):
                    checksum = checksums[version]
                    if checksum.name not in claims:
                        claims = self._read_claims(checksums, versions[position:])
                    with self._guarded(checksum.name, version):
                        self._take_checksum(checksum, claims.pop(checksum.name))
            with self._guarded("", self.version):
                self._rows.flush()
        self._take_compactions()
        self._take_hint()
        self._collector.take(self._outside.findings(self._log.listing, is_rebuilt=self._is_rebuilt))
        self.not_checked.extend(self._outside.not_checked())

    def note_lost(self, version: int) -> None:
        """Take a version that the catalog ratified last, and of which there is no file at all."""
        if version > self.version:
            self._forget(f"the consequences of commit {version}, which is missing")
            self.version = version

    @contextmanager
    def _guarded(self, name: str, version: int) -> Iterator[None]:
        """Report an error in one file, discard its content, and continue with the others."""
        try:
            yield
        except BOTOCORE_ERRORS as fault:
            self._reader.require_tolerable(fault)
            self._report_unread(name, version, fault)
        except Exception as fault:  # noqa: BLE001  (one file must not lose the findings of all others)
            raise_if_out_of_memory(fault)
            place = Place(f"{LOG_DIRECTORY}/{name}".rstrip("/"), None, version)
            message = f"deltacli failed on {name or 'the log'} with {type(fault).__name__}: {str(fault)[:300]}"
            self._collector.take([CHECK_CRASHED.at(place, message)])
        else:
            return
        is_told = name in self._outside.refused
        self._forget(
            None if is_told else f"the consequences of {name or 'the log'}, which could not be checked completely"
        )

    @property
    def _is_rebuilt(self) -> bool:
        return self.files.is_known and self.version >= 0

    def state_view(self) -> StateView | None:
        """The newest state, None where none could be rebuilt."""
        if not self._is_rebuilt:
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
            aliases=self._storage.aliases,
        )

    def all_removes(self) -> list[Action]:
        """Return every remove of a visible commit, and the earlier tombstones of a checkpoint, each once."""
        visible = [placed.action for commit in self.commits for placed in commit.removes]
        seen = {id(action) for action in visible}
        return [*visible, *(action for action in self.files.tombstones() if id(action) not in seen)]

    def named_sidecars(self) -> frozenset[str] | None:
        """Return the names of the sidecars of complete checkpoints; None where one of these could not be read."""
        views = [view for of_version in self._checkpoints.values() for view in of_version]
        if not all(view.small_is_whole for view in views):
            return None
        if not views:
            return frozenset()

        return frozenset(
            sidecar_location(action).rsplit("/", 1)[-1]
            for view in views
            for kind, action, _ in view.small
            if kind == "sidecar" and isinstance(action.get("path"), str)
        )

    # -- commits --------------------------------------------------------------------------------------------------

    def _scan_window(self, versions: Sequence[int]) -> dict[str, Scan]:
        """Read and scan the next commits, and remove their files from the checkpoint's columns in one step."""
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
        scanned = self._reader.scan(chosen)
        self._prefetch(scanned)
        return scanned

    def _read_claims(self, checksums: Mapping[int, LogFile], versions: Sequence[int]) -> dict[str, bytes | Fault]:
        chosen = [checksums[version] for version in versions if version in checksums][:_WINDOW_COMMITS]
        return dict(zip([file.name for file in chosen], self._reader.read(chosen), strict=True))

    def _prefetch(self, scanned: Mapping[str, Scan]) -> None:
        self.files.prefetch(
            placed.action["path"]
            for lines in scanned.values()
            if not isinstance(lines, BOTOCORE_ERRORS)
            for placed in lines.actions
            if placed.kind in ("add", "remove")
        )

    def _take_commit(self, file: LogFile, lines: Scan) -> None:
        version = file.version
        if self.version >= 0 and version - 1 > self.version:
            first, last = self.version + 1, version - 1
            missing = f"commit {first}, which is" if first == last else f"the commits {first} to {last}, which are"
            self._forget(f"the consequences of {missing} missing")
        if isinstance(lines, BOTOCORE_ERRORS):
            self.version = version
            raise lines
        self._collector.take(self._weigh(finding, version) for finding in lines.findings)
        if file.size_bytes == 0:
            self._report_empty(file)
        commit = self._make_commit(file, lines)
        if self.version < 0:
            self._foresight.take_first(file.size_bytes, commit.after, commit.adds)
        self._show_config(commit, lines)
        findings = self._collector.findings_of(commit, commit.place())
        self._collector.take(self._weigh(finding, version) for finding in findings)
        for placed in commit.others:
            self._take_small_action(placed.kind, placed.action)
        self._rows.take(commit, self.domains.get("delta.clustering"))
        self.files.apply(version, commit.added, commit.removed)
        self.counts[version] = Counter(placed.kind for placed in lines.actions)
        # Adds are not kept: record the features that they use.
        for key, feature in _USED_BY_ADDS.items():
            is_known = feature in self.used_by_adds
            if not is_known and any(placed.action.get(key) is not None for placed in commit.adds):
                self.used_by_adds.add(feature)
        changes = commit.of_kind("cdc")
        self.cdc.extend((placed, commit.version) for placed in changes)
        rows = rows_added(commit) if changes and commit.is_readable else None
        if rows is not None:
            self.rows_added[commit.version] = rows
        self.newest, self.version = commit.after, version
        if self.newest != TableConfiguration():
            self.last_known = self.newest
        self.commits.append(replace(commit, adds=[], previous=None))
        if not commit.is_readable:
            self._forget(f"the consequences of {file.name}, which cannot be read completely")
        elif lines.broken:
            self._forget_files(f"which files are live after {file.name}, which has faulty actions")

    def _make_commit(self, file: LogFile, lines: ScannedLines) -> CommitView:
        by_kind: dict[str, list[LocatedAction]] = {"add": [], "remove": []}
        others: list[LocatedAction] = []
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
            next_config(self.newest, [*others, *lines.broken], file.version),
            self.files.live_of,
            previous,
            self._now_ms,
            lines.is_readable and file.size_bytes > 0,
            self.files.totals.files if self.files.is_known else None,
            self.files.tombstone_of,
            self._storage.uri,
            self.files.live_of_all,
            self.files.may_have_absolute,
            self._storage.aliases,
        )

    def _show_config(self, commit: CommitView, lines: ScannedLines) -> None:
        """Check the metaData and protocol actions of a commit, also faulty ones, and the resulting configuration."""
        brought = sorted((*commit.others, *lines.broken), key=lambda placed: placed.line)
        previous = commit.before if commit.before != TableConfiguration() else None
        for placed in brought:
            place = commit.place(placed.line)
            if placed.kind == "protocol":
                view = ProtocolView(place, commit.version, placed.action, commit.after, previous, commit)
                self._collector.look(view, place)
            elif placed.kind == "metaData":
                self._seen_metadata.add(commit.version, placed.action)
                found = (place, commit.version, placed.action, commit.after, previous, commit)
                self._collector.look(MetadataView(*found, self._memory), place)
        if commit.after is not commit.before:
            self._show_pair(commit.after, commit.version)

    def _show_pair(self, config: TableConfiguration, version: int) -> None:
        from_metadata = config.metadata_version == version or config.protocol_place is None
        place = (config.metadata_place if from_metadata else config.protocol_place) or Place(LOG_DIRECTORY)
        self._collector.look(TableConfigurationView(place, version, config, self._memory), place)

    def _take_small_action(self, kind: str, action: Action) -> None:
        if kind == "txn" and action.get("appId") is not None and action.get("version") is not None:
            self.transactions[action["appId"]] = (action["version"], action.get("lastUpdated"))
        elif kind == "domainMetadata" and action.get("domain") is not None:
            if action.get("removed"):
                self.domains.pop(action["domain"], None)
            else:
                self.domains[action["domain"]] = action.get("configuration") or ""

    def _is_covered(self, version: int) -> bool:
        """Return whether readers of the newest version begin with a checkpoint, and so do not read a commit."""
        return any(checkpoint.version >= version for checkpoint in self._log.listing.checkpoints)

    def _weigh(self, finding: Finding, version: int) -> Finding:
        """Return a finding about a commit as it is for readers, of whom none may read the commit any more."""
        if not finding.ends_with_checkpoint or not self._is_covered(version):
            return finding
        return finding.as_covered(_SEVERITY_IF_COVERED.get(finding.rule.id, Severity.WARNING))

    def _report_empty(self, file: LogFile) -> None:
        """Report an empty commit: an error where replay needs it, a warning where a checkpoint covers it."""
        is_covered = self._is_covered(file.version)
        message = "the commit is empty, which indicates an interrupted write; " + (
            "a checkpoint covers it, so only older versions are affected"
            if is_covered
            else "rows are lost or deleted rows reappear"
        )
        severity = Severity.WARNING if is_covered else None
        place = Place(f"{LOG_DIRECTORY}/{file.name}", None, file.version)
        self._collector.take([EMPTY.at(place, message, seen="0 bytes", severity=severity)])

    def _forget(self, what: str | None) -> None:
        """Handle a missing or torn commit: the state is unknown until the next checkpoint."""
        self._forget_files(what)
        self._seen_metadata.note_gap()
        self.newest = TableConfiguration(older_metadata=self._seen_metadata)
        self.transactions, self.domains = {}, {}

    def _forget_files(self, what: str | None) -> None:
        if what is not None:
            self._note(f"{what}, up to the next checkpoint")
        self.files = KnownFiles(is_known=False)

    # -- files that claim to know a state -------------------------------------------------------------------------

    def expected(self, version: int) -> ExpectedState | None:
        """Return the replayed state of a version, if it could be rebuilt."""
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
            self.files.whole_adds,
            self.files.live_columns,
        )

    def _take_checkpoint(self, version: int, instance: CheckpointInstance, scanned: Mapping[str, Scan]) -> None:
        from deltacli.operations.validate.inspect_checkpoint import CheckpointInspector

        expected = self.expected(version)
        self._rows.flush()
        inspector = CheckpointInspector(
            self._storage,
            instance,
            expected,
            self._reader.scanner,
            self._now_ms,
            self._sidecar_sizes,
            keeps_statistics=self._keeps_statistics,
            progress=self._progress,
            foresight=self._foresight,
            older_metadata=self._seen_metadata,
        )
        if expected is None:
            inspector.judge_files_with(self._rows)
        view = inspector.run()
        self._rows.reconcile()
        self._collector.take(inspector.findings)
        if expected is None and inspector.is_readable:
            self._begin_with(inspector, view, scanned)
        self._collector.look(view, view.place())
        self._checkpoints.setdefault(version, []).append(view)

    def _begin_with(self, inspector: CheckpointInspector, view: CheckpointView, scanned: Mapping[str, Scan]) -> None:
        """Continue from a checkpoint, because the log before it is missing or unreadable."""
        self.files = inspector.known_files()
        self._prefetch(scanned)
        before, config, place = self.newest, view.config, view.place()
        previous = before if before != TableConfiguration() else None
        if self.version != view.version or config.metadata != before.metadata or config.protocol != before.protocol:
            self.newest = self.last_known = config
            if config.raw_metadata is not None and config.metadata != before.metadata:
                self._seen_metadata.add(view.version, config.raw_metadata)
                found = (place, view.version, config.raw_metadata, config, previous, None)
                self._collector.look(MetadataView(*found, self._memory), place)
            if config.raw_protocol is not None and config.protocol != before.protocol:
                shown = ProtocolView(place, view.version, config.raw_protocol, config, previous, None)
                self._collector.look(shown, place)
            self._show_pair(config, view.version)
        self.version = view.version
        self.transactions, self.domains = {}, {}
        for kind, action, _ in view.small:
            self._take_small_action(kind, action)

    def _take_checksum(self, file: LogFile, data: bytes | Fault) -> None:
        if isinstance(data, BOTOCORE_ERRORS):
            self._report_unread(file.name, None, data)
            return
        expected = self.expected(file.version)
        if expected is not None:
            self._rows_compared += expected.totals.files
            if self._rows_compared > _MOST_ROWS_COMPARED and file.version != max(self._log.listing.commits, default=-1):
                expected = replace(expected, columns=None)
                self._note("the histograms of all checksums except the newest, because they count millions of files")
        view = ChecksumView(file.version, data, expected)
        self._collector.look(view, view.place())

    def _note(self, sentence: str) -> None:
        """Report what is not checked, once."""
        if sentence not in self.not_checked:
            self.not_checked.append(sentence)

    def _report_unread(self, name: str, version: int | None, fault: Fault) -> None:
        """Report a file that could not be read; not one that was deleted meanwhile, or is outside the table."""
        if isinstance(fault, PathExternal):
            self._outside.refused[name] = fault
        elif not isinstance(fault, FileMissing | CatalogFault):
            # What a catalog ratified and its store does not give is found where log and catalog are compared.
            place = Place(f"{LOG_DIRECTORY}/{name}", None, version)
            is_named = f"{name} cannot be read" in fault.message  # layout: the name is not repeated
            message = fault.message if is_named else f"{name} cannot be read: {fault.message}"
            self._collector.take([FILE_UNREADABLE.at(place, message)])

    def _take_compactions(self) -> None:
        compacted = [file for file in self._log.files if file.path.kind is LogFileKind.COMPACTED_COMMIT]
        if not compacted or not self._collector.looks_at(CompactionView):
            return
        for file in compacted:
            with self._guarded(file.name, file.path.last_version):
                scanned = self._reader.scan([file])[file.name]
                if isinstance(scanned, BOTOCORE_ERRORS):
                    self._report_unread(file.name, None, scanned)
                    continue
                self._collector.take(scanned.findings)
                is_readable = scanned.is_readable and not scanned.broken
                view = CompactionView(file, scanned.actions, self._commits_of(file), is_readable)
                self._collector.look(view, view.place())

    def _commits_of(self, file: LogFile) -> list[list[LocatedAction]] | None:
        """Return the actions of the commits that a compaction replaces."""
        versions = range(file.version, min(file.path.last_version, file.version + _MOST_COMPACTED) + 1)
        files = [self._log.listing.commits.get(version) for version in versions]
        present = [commit for commit in files if commit is not None]
        if len(present) < len(files):
            return None
        return self._reader.actions_of(present) or None

    def _take_hint(self) -> None:
        if not self._log.has_hint or not self._collector.looks_at(HintView):
            return
        file = next(file for file in self._log.files if file.name == HINT_NAME)
        with self._guarded(file.name, self.version):
            (data,) = self._reader.read([file])
            if isinstance(data, BOTOCORE_ERRORS):
                self._report_unread(file.name, None, data)
                return
            if is_hint_ahead(self._storage, self._log.listing, data):
                return
            view = HintView(data, self._log.listing, self._checkpoints, self._now_ms)
            self._collector.look(view, view.place())
