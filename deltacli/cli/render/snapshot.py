"""The state of a Delta table at a version as a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.render.json import envelope
from deltacli.cli.results import Document, Emit, Grid, Result, field_grid, line_of
from deltacli.typing import Json

if TYPE_CHECKING:
    from deltacli.cli.render.sections import Section
    from deltacli.cli.terminal.term import Terminal
    from deltacli.operations.read.snapshot import SnapshotSummary

_COUNTS = ("version", "timestampMs", "timestamp", "timestampSource", "files", "tombstones")


@dataclass
class SnapshotResult(Result):
    """The state of a table at a version; `name`: the table as the user wrote it; `only_counts`: its numbers alone."""

    summary: SnapshotSummary
    name: str
    only_counts: bool

    def document(self) -> Document:
        return Document(envelope("deltacli.snapshot", self._uri, complete=True) | self._content())

    def lines(self, emit: Emit) -> bool:
        emit(line_of({"table": self._uri, **self._content()}, "snapshot"))
        return True

    def grid(self) -> Grid:
        """Return two columns, `field` and `value`: nested fields with dots, arrays and maps as JSON."""
        return field_grid(_flatten({"table": self._uri, **self._content()}, ""))

    def sections(self, terminal: Terminal) -> Sequence[Section]:
        from deltacli.cli.render.snapshot_sections import state_sections

        return state_sections(self.summary, terminal, only_counts=self.only_counts)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if not terminal.is_drawn or self.only_counts:
            super().draw(sink, terminal)
            return
        from deltacli.cli.render.terminal.snapshot import draw_snapshot
        from deltacli.operations.read.file_sizes import MOST_FILES, file_sizes

        layout = file_sizes(self.summary.snapshot) if self.summary.files.count <= MOST_FILES else None
        draw_snapshot(sink, terminal, self.summary, layout, self.name)

    @property
    def _uri(self) -> str:
        return self.summary.snapshot.table.uri

    def _content(self) -> dict[str, Json]:
        content = self.summary.as_json()
        return {name: content[name] for name in _COUNTS} if self.only_counts else content


def _flatten(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    for name, item in value.items():
        if isinstance(item, dict) and name not in ("configuration", "options"):
            yield from _flatten(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item
