"""Reading a log for the checks: file by file, so that an unreadable one affects no other, and adds in columns.

Both are read leniently: an unreadable part is None, not an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from deltacli.core import errors
from deltacli.core.units import plural
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.delta.log.segment import HINT_NAME, LOG_DIRECTORY, LogFile, LogListing, Place, commit_name
from deltacli.delta.log.state import (
    Metadata,
    MetadataOfVersion,
    OlderMetadata,
    TableConfiguration,
    read_metadata,
    read_protocol,
)
from deltacli.delta.paths.spelling import decode
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.types import StructType, parse_schema
from deltacli.engine.base import Engine
from deltacli.operations.validate.findings import Collector
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.choice import FILE_OUTSIDE
from deltacli.rules.framework.views import CommitView, FilesView, LocatedAction
from deltacli.rules.log.commit_lines import BAD_JSON, WRONG_TYPE, LineScanner, ScannedLines
from deltacli.storage import ReadStorage
from deltacli.table.find_log import read_hint_file
from deltacli.work.commits.reading import is_large_commit, stream_lines

if TYPE_CHECKING:
    import pyarrow

# -- files read one by one ---------------------------------------------------------------------------------------------

MOST_BYTES = 4 << 20
"""How far into a file is read; commits of megabytes are not worth a wait."""
LONGEST_LINE = 64 << 10
_PIECE = 256 << 10


def read_log_line(storage: ReadStorage, path: str, line: int) -> bytes | None:
    """Return line `line` (from 1) of a file, without its end; None where it is too far in, too long, or unreadable."""
    data, read = b"", 0
    try:
        while read < MOST_BYTES:
            piece = storage.read_range(path, read, _PIECE)
            read += len(piece)
            *whole, data = (data + piece).split(b"\n")
            if line <= len(whole):
                return _short(whole[line - 1])
            line -= len(whole)
            if len(piece) < _PIECE:
                return _short(data) if line == 1 else None
    except errors.DeltacliError:
        pass  # the finding says what is wrong without its line
    return None


def _short(line: bytes) -> bytes | None:
    return line if 0 < len(line) <= LONGEST_LINE else None


class RefusedLogFiles:
    """The refused files of the log of a table at a URI; `refused` has the refusals by name."""

    def __init__(self, uri: str) -> None:
        self._table = decode(uri.removeprefix("file://")) if uri.startswith("file://") else uri
        self.refused: dict[str, errors.PathExternal] = {}

    def not_checked(self) -> Iterator[str]:
        """Yield one sentence about all of them."""
        if self.refused:
            yield f"{self._files}: not opened without {self._command}"

    def findings(self, listing: LogListing, *, is_rebuilt: bool) -> Iterator[Finding]:
        """Yield the finding for a table whose newest version, rebuilt or not, needs one of them."""
        if not self.refused or not (self._are_needed(listing) if is_rebuilt else self._hold_actions(listing)):
            return
        first, refusal = next(iter(self.refused.items()))
        rule = FILE_OUTSIDE._replace(fix=FILE_OUTSIDE.fix._replace(advice=f"if you trust the table: {self._command}"))
        message = f"the newest version cannot be read without {self._files}, which was not opened"
        yield rule.at(Place(f"{LOG_DIRECTORY}/{first}"), message, seen=refusal.facts.get("leads to"))

    def _are_needed(self, listing: LogListing) -> bool:
        """Return whether a commit after the newest checkpoint was refused, or a file of each of its forms."""
        newest = max((checkpoint.version for checkpoint in listing.checkpoints), default=-1)
        forms = [checkpoint.files for checkpoint in listing.checkpoints if checkpoint.version == newest]
        commits = (file.name for version, file in listing.commits.items() if version > newest)
        return any(name in self.refused for name in commits) or (
            bool(forms) and all(any(file.name in self.refused for file in files) for files in forms)
        )

    def _hold_actions(self, listing: LogListing) -> bool:
        """Return whether a commit or a checkpoint was refused, so that an older start has to be used."""
        checkpoints = (file.name for checkpoint in listing.checkpoints for file in checkpoint.files)
        commits = (file.name for file in listing.commits.values())
        return not self.refused.keys().isdisjoint([*checkpoints, *commits])

    @property
    def _files(self) -> str:
        count = len(self.refused)
        which = "which lies" if count == 1 else f"the first {next(iter(self.refused))}, which lie"
        name = next(iter(self.refused)) if count == 1 else plural(count, "file")
        return f"{name} of the log, {which} outside the table"

    @property
    def _command(self) -> str:
        prefix = next(iter(self.refused.values())).prefix or "PREFIX"
        return errors.command("validate", table=self._table, allow_external=[prefix])


CatalogFault = errors.LogIncomplete | errors.DataUnreadable | errors.CommitCorrupt
"""The reason why the store of a catalog does not give a commit: it is lost, or is not what the catalog ratified."""

Fault = errors.StorageFailed | errors.PathExternal | CatalogFault
"""The reason why a file could not be read."""

_OF_CATALOGS = (errors.LogIncomplete, errors.DataUnreadable, errors.CommitCorrupt)
BOTOCORE_ERRORS = (errors.StorageFailed, errors.PathExternal, *_OF_CATALOGS)


def is_of_one_commit(fault: CatalogFault) -> bool:
    """Return whether an error is about one commit that a catalog ratified; not about an answer of the catalog."""
    from deltacli.catalogs.ratified import DIVERGED  # which only tables of catalogs need

    return isinstance(fault, errors.LogIncomplete) or fault.code == DIVERGED


Scan = ScannedLines | Fault
"""The lines of a file, or the reason why it could not be read."""


class LogReader:
    """Reads files of one log, several at a time where that is faster; the scanner caches valid lines."""

    def __init__(self, storage: ReadStorage, engine: Engine) -> None:
        self.scanner = LineScanner()
        self._storage = storage
        self._engine = engine

    def scan(self, files: Sequence[LogFile]) -> dict[str, Scan]:
        """Scan commits or compactions; return the lines or the fault by name. Large files are read in blocks."""
        small = [file for file in files if not is_large_commit(file)]
        content = dict(zip([file.name for file in small], self.read(small), strict=True))
        scans: dict[str, Scan] = {}
        for file in files:
            place = Place(f"{LOG_DIRECTORY}/{file.name}", None, file.version)
            data = content.get(file.name)
            if data is None:
                scans[file.name] = self._scan_large(file, place)
            else:
                scans[file.name] = data if isinstance(data, BOTOCORE_ERRORS) else self.scanner.scan(data, place)
        return scans

    def actions_of(self, files: Sequence[LogFile]) -> list[list[LocatedAction]] | None:
        """Return the actions of each file, None if one of them cannot be read completely."""
        scanned = self.scan(files).values()
        sound = [lines for lines in scanned if not isinstance(lines, BOTOCORE_ERRORS)]
        if len(sound) < len(files) or not all(lines.is_readable and not lines.broken for lines in sound):
            return None
        return [lines.actions for lines in sound]

    def read(self, files: Sequence[LogFile]) -> list[bytes | Fault]:
        """Return the bytes of files, or the reason why they could not be read."""
        at_once = self._storage.capabilities.parallel_reads
        return list(self._engine.run(self._read_one, files, at_once=at_once))

    def _read_one(self, file: LogFile) -> bytes | Fault:
        try:
            if file.name == HINT_NAME:
                return read_hint_file(self._storage)
            return self._storage.read(f"{LOG_DIRECTORY}/{file.name}")
        except BOTOCORE_ERRORS as fault:
            self.require_tolerable(fault)
            return fault

    def require_tolerable(self, fault: Fault) -> None:
        """Raise a fault that would affect every other file, too, such as one of the network; not one of a file."""
        if isinstance(fault, _OF_CATALOGS):
            if not is_of_one_commit(fault):
                raise fault
            return
        if (
            not isinstance(fault, errors.FileMissing | errors.PermissionRefused | errors.PathExternal)
            and not self._storage.capabilities.has_cheap_requests
        ):
            raise fault

    def _scan_large(self, file: LogFile, place: Place) -> Scan:
        try:
            return self.scanner.scan_lines(stream_lines(self._storage, file), place)
        except BOTOCORE_ERRORS as fault:
            if isinstance(fault, errors.CommitCorrupt) and not is_of_one_commit(fault):
                # A line that does not fit into memory, or a file that was truncated meanwhile.
                return ScannedLines([], [], [BAD_JSON.at(place, fault.message)], False)
            self.require_tolerable(fault)
            return fault


# -- adds of many commits ----------------------------------------------------------------------------------------------

_MOST_ROWS = 16_384
_VIEWS_AT_ONCE = 6
_FEW_ROWS = 4_096
"""Checked before threads would have begun."""
_HALF_KNOWN = TableConfiguration()


class FileRows:
    """Collects adds and passes them to the checks, some ten thousand at a time."""

    def __init__(self, engine: Engine, collector: Collector, now_ms: int, uri: str) -> None:
        self._engine = engine
        self._collector = collector
        self._now_ms = now_ms
        self._uri = uri
        self._is_needed = collector.looks_at(FilesView)
        self._config: TableConfiguration | None = None
        self._clustering: str | None = None
        self._adds: list[Action] = []
        self._versions: list[int] = []
        self._lines: list[int] = []
        self._waiting: list[FilesView] = []

    def take(self, commit: CommitView, clustering: str | None) -> None:
        """Take the adds of a commit; `clustering` is the configuration of that domain from this commit on."""
        if not self._is_needed or not commit.adds:
            return
        config = commit.after
        if config.protocol is None or config.metadata is None:
            config = _HALF_KNOWN  # without metadata it is not known whether names are physical or logical
        if self._config is not config or self._clustering != clustering:
            self._make_view()
            self._config, self._clustering = config, clustering
        start = 0
        while start < len(commit.adds):
            part = commit.adds[start : start + _MOST_ROWS - len(self._adds)]
            start += len(part)
            self._adds += [_with_plain_tags(add) if "tags" in add else add for _, add, _ in part]
            self._versions += [commit.version] * len(part)
            self._lines += [line for _, _, line in part]
            if len(self._adds) >= _MOST_ROWS:
                self._make_view()

    def flush(self) -> None:
        """Pass the collected adds to the checks."""
        self._make_view()
        self.reconcile()

    def _make_view(self) -> None:
        if not self._adds or self._config is None:
            return
        adds, versions, lines = self._adds, self._versions, self._lines
        self._adds, self._versions, self._lines = [], [], []
        try:
            rows = build_action_batch(adds, action_schemas().add, "")
        except errors.CommitCorrupt:
            self._show_one_by_one(adds, versions, lines)
            return
        self._show_rows(rows, versions, lines)

    def _show_rows(self, rows: pyarrow.RecordBatch, versions: list[int], lines: list[int]) -> None:
        if self._config is not None:
            view = FilesView(rows, self._config, versions, lines, now_ms=self._now_ms, clustering=self._clustering)
            view.uri = self._uri
            self._show(view)

    def show(
        self, rows: pyarrow.RecordBatch, config: TableConfiguration, path: str, version: int, clustering: str | None
    ) -> None:
        """Pass adds of a checkpoint to the checks."""
        if self._is_needed and rows.num_rows:
            view = FilesView(rows, config, None, None, path, version, self._now_ms, clustering, uri=self._uri)
            self._show(view)

    def reconcile(self) -> None:
        """Run the checks on the pending views, several at a time, and collect the findings in order."""
        waiting, self._waiting = self._waiting, []
        at_once = 1 if sum(view.adds.num_rows for view in waiting) < _FEW_ROWS else None
        for findings in self._engine.run(self._judge, waiting, at_once=at_once):
            self._collector.take(findings)

    def _show(self, view: FilesView) -> None:
        self._waiting.append(view)
        if len(self._waiting) >= _VIEWS_AT_ONCE:
            self.reconcile()

    def _judge(self, view: FilesView) -> list[Finding]:
        return self._collector.findings_of(view, view.place(0))

    def _show_one_by_one(self, adds: list[Action], versions: list[int], lines: list[int]) -> None:
        """Report the rows that Arrow cannot represent, and pass the others to the checks."""
        kept: list[int] = []
        for position, add in enumerate(adds):
            try:
                build_action_batch([add], action_schemas().add, "")
                kept.append(position)
            except errors.CommitCorrupt as fault:
                version = versions[position]
                place = Place(f"{LOG_DIRECTORY}/{commit_name(version)}", lines[position], version)
                self._collector.take([WRONG_TYPE.at(place, f"add: {fault.message}", seen=fault.facts.get("found"))])
        if kept and self._config is not None:
            rows = build_action_batch([adds[position] for position in kept], action_schemas().add, "")
            self._show_rows(rows, [versions[position] for position in kept], [lines[position] for position in kept])


def _with_plain_tags(add: Action) -> Action:
    """Return an add with string tags only; other tags are reported by `action.tags-null-value`."""
    tags = add.get("tags")
    if not tags or all(type(value) is str for value in tags.values()):
        return add
    return add | {"tags": {key: value for key, value in tags.items() if type(value) is str}}


class SeenMetadata:
    """The metaData actions that a walk through a log has met so far, for `TableConfiguration.older_metadata`."""

    def __init__(self, *, begins_with_table: bool) -> None:
        """`begins_with_table`: the log has the first commit of the table."""
        self._found: list[MetadataOfVersion] = []
        self._reaches_back = begins_with_table

    def __call__(self) -> OlderMetadata:
        """Return the actions, oldest first."""
        return OlderMetadata(tuple(self._found), self._reaches_back)

    def add(self, version: int, action: Action) -> None:
        """Add the metaData of the next version that has one."""
        self._found.append(MetadataOfVersion(version, action))

    def note_gap(self) -> None:
        """Note that commits are missing or unreadable, whose metadata stays unknown."""
        self._reaches_back = False


def next_config(before: TableConfiguration, actions: Iterable[LocatedAction], version: int) -> TableConfiguration:
    """Return the configuration after a commit: the same object where it has neither protocol nor metaData."""
    after = before
    path = f"{LOG_DIRECTORY}/{commit_name(version)}"
    for placed in actions:
        if placed.kind == "protocol":
            after = with_protocol(after, placed.action, Place(path, placed.line, version), version)
        elif placed.kind == "metaData":
            after = with_metadata(after, placed.action, Place(path, placed.line, version), version)
    return after


def with_protocol(config: TableConfiguration, action: Action, place: Place, version: int) -> TableConfiguration:
    """Return the configuration with another protocol."""
    return replace(
        config, protocol=_protocol_of(action), raw_protocol=action, protocol_place=place, protocol_version=version
    )


def with_metadata(config: TableConfiguration, action: Action, place: Place, version: int) -> TableConfiguration:
    """Return the configuration with another metadata."""
    metadata = _metadata_of(action)
    return replace(
        config,
        metadata=metadata,
        schema=_schema_of(metadata.schema_string) if metadata and metadata.schema_string is not None else None,
        raw_metadata=action,
        metadata_place=place,
        metadata_version=version,
    )


def _protocol_of(action: Action) -> Protocol | None:
    try:
        return read_protocol(action, "")
    except errors.DeltacliError:
        return None


def _metadata_of(action: Action) -> Metadata | None:
    try:
        return read_metadata(action, "")
    except errors.DeltacliError:
        return None


@lru_cache(maxsize=16)
def _schema_of(text: str) -> StructType | None:
    try:
        return parse_schema(text)
    except errors.DeltacliError:
        return None
