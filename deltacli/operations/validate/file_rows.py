"""Adds in columns for the checks, those of many commits together, as long as the protocol and the metadata in force are
the same. Both are read leniently: an unreadable part is None, not an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from deltacli.core.errors import CommitCorrupt, DeltacliError
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.file_actions import action_schemas, whole_actions
from deltacli.delta.log.log_path import LOG_DIRECTORY, Place, commit_name
from deltacli.delta.log.state import Metadata, TableConfiguration, read_metadata, read_protocol
from deltacli.delta.protocol.protocol_action import Protocol
from deltacli.delta.schema.types import StructType, parse_schema
from deltacli.engine.base import Engine
from deltacli.operations.validate.findings import Collector
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.views import CommitView, FilesView, LocatedAction
from deltacli.rules.log.commit_lines import WRONG_TYPE

if TYPE_CHECKING:
    import pyarrow

_MOST_ROWS = 16_384
_VIEWS_AT_ONCE = 6
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
            rows = whole_actions(adds, action_schemas().add, "")
        except CommitCorrupt:
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
        for findings in self._engine.run(self._judge, waiting):
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
                whole_actions([add], action_schemas().add, "")
                kept.append(position)
            except CommitCorrupt as fault:
                from deltacli.delta.log.log_path import LOG_DIRECTORY, commit_name

                version = versions[position]
                place = Place(f"{LOG_DIRECTORY}/{commit_name(version)}", lines[position], version)
                self._collector.take([WRONG_TYPE.at(place, f"add: {fault.message}", seen=fault.facts.get("found"))])
        if kept and self._config is not None:
            rows = whole_actions([adds[position] for position in kept], action_schemas().add, "")
            self._show_rows(rows, [versions[position] for position in kept], [lines[position] for position in kept])


def _with_plain_tags(add: Action) -> Action:
    """Return an add with string tags only; other tags are reported by `action.tags-null-value`."""
    tags = add.get("tags")
    if not tags or all(type(value) is str for value in tags.values()):
        return add
    return add | {"tags": {key: value for key, value in tags.items() if type(value) is str}}


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
        config,
        protocol=_protocol_of(action),
        raw_protocol=action,
        protocol_place=place,
        protocol_version=version,
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
    except DeltacliError:
        return None


def _metadata_of(action: Action) -> Metadata | None:
    try:
        return read_metadata(action, "")
    except DeltacliError:
        return None


@lru_cache(maxsize=16)
def _schema_of(text: str) -> StructType | None:
    try:
        return parse_schema(text)
    except DeltacliError:
        return None
