"""The state of a Delta table at a version: documents, sections of lines, and panels with a histogram of file sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.output.grids import Grid, WriteItems, encode_line, make_field_grid
from deltacli.cli.output.results import Document, Result
from deltacli.cli.output.sections import Section, format_file_totals
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.core.documents import envelope
from deltacli.core.errors import is_shared, quote_table
from deltacli.core.times import format_age, format_moment
from deltacli.core.typing import Json
from deltacli.core.units import format_count, format_size, format_size_limit, plural
from deltacli.delta.log.state import DEFAULT_CHECKPOINT_INTERVAL, parse_integer_property
from deltacli.operations.read.snapshot import SnapshotSummary, knows_protocol

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.operations.read.file_sizes import FileLayout
    from deltacli.table.version import Snapshot
    from deltacli.table.version_from_checksum import VersionFromChecksum

_COUNTS = ("version", "timestampMs", "timestamp", "timestampSource", "files", "tombstones")


@dataclass
class SnapshotResult(Result):
    """The state at a version; `name`: as the user wrote it; `only_counts`: numbers alone; `source`: of a checksum."""

    summary: SnapshotSummary | VersionFromChecksum
    name: str
    only_counts: bool
    source: str | None = None

    def document(self) -> Document:
        return Document(envelope("deltacli.snapshot", self._uri, complete=True) | self._content())

    def lines(self, write_items: WriteItems) -> bool:
        write_items(encode_line({"table": self._uri, **self._content()}, "snapshot"))
        return True

    def grid(self) -> Grid:
        """Return two columns, `field` and `value`: nested fields with dots, arrays and maps as JSON."""
        return make_field_grid(_flatten({"table": self._uri, **self._content()}, ""))

    def sections(self, terminal: Terminal) -> Sequence[Section]:
        return state_sections(self.summary, terminal, only_counts=self.only_counts)

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        if not terminal.is_drawn or self.only_counts or not isinstance(self.summary, SnapshotSummary):
            super().draw(sink, terminal)
            return
        from deltacli.operations.read.file_sizes import MOST_FILES, file_sizes

        layout = file_sizes(self.summary.snapshot) if self.summary.files.count <= MOST_FILES else None
        from deltacli.cli.render.terminal.console import Canvas
        from deltacli.cli.render.terminal.tables import MAX_PANEL_CELLS, make_panel

        canvas = Canvas(sink, terminal)
        sections = {section.label: section for section in state_sections(self.summary, terminal, only_counts=False)}
        others = sections.keys() - {label for _, labels in _PANELS for label in labels}
        for title, labels in _PANELS:
            content: list[RenderableType] = []
            drawn = [*labels, *sorted(others)] if title == "table" else labels
            rows = [row for label in drawn if label in sections for row in _panel_rows(canvas, sections[label])]
            if title == "log" and not self.summary.snapshot.table.is_shared:
                rows = [*rows[:1], *_checkpoint_rows(canvas, self.summary), *rows[1:]]
            if rows:
                content.append(canvas.grid(rows, width=min(canvas.width, MAX_PANEL_CELLS) - 4))
            if title == "data" and layout is not None:
                content += _layout_parts(
                    canvas, layout, None if is_shared(self.summary.snapshot.table.uri) else self.name
                )
            if content:
                canvas.draw(
                    make_panel(canvas, title, *content, style=Style.PROBLEM if title == "problems" else Style.FRAME)
                )

    @property
    def _uri(self) -> str:
        found = self.summary
        return (found.snapshot if isinstance(found, SnapshotSummary) else found).table.uri

    def _content(self) -> dict[str, Json]:
        content = self.summary.as_json()
        if self.only_counts:
            content = {name: content[name] for name in _COUNTS if name in content}
        return content if self.source is None else {**content, "source": self.source}


def _flatten(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    for name, item in value.items():
        if isinstance(item, dict) and name not in ("configuration", "options"):
            yield from _flatten(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item


_LISTED = 10


def state_sections(
    summary: SnapshotSummary | VersionFromChecksum, terminal: Terminal, *, only_counts: bool
) -> list[Section]:
    """The sections of a snapshot, those with nothing to say left out."""
    if not isinstance(summary, SnapshotSummary):
        return list(_stated_sections(summary, terminal, only_counts=only_counts))
    snapshot = summary.snapshot
    sections = [
        Section("table", [snapshot.table.uri]),
        Section("version", [_version(snapshot, summary.now_ms, terminal)]),
        *([] if only_counts else _about(snapshot)),
        Section("files", _files(summary)),
        Section("tombstones", [] if snapshot.table.is_shared else [_tombstones(summary)]),
        *([] if only_counts else _rest(snapshot, terminal)),
    ]
    if summary.digests is not None:
        digests = summary.digests
        lines = (
            ("paths", digests.paths),
            ("raw paths", digests.raw_paths),
            ("keys", digests.keys),
            ("tombstones", digests.tombstone_keys),
        )
        sections.append(Section("sha256", [f"{name:<10}  {value}" for name, value in lines]))
    if snapshot.problems:
        sections.append(Section("problems", list(snapshot.problems), Style.PROBLEM))
    return [section for section in sections if section.lines]


def _stated_sections(stated: VersionFromChecksum, terminal: Terminal, *, only_counts: bool) -> Iterator[Section]:
    checksum = stated.checksum
    yield Section("table", [stated.table.uri])
    yield Section("version", [_version(stated, stated.table.clock(), terminal)])
    if not only_counts:
        yield from (section for section in _about(stated) if section.lines)
    files = [format_file_totals(checksum.files, checksum.size_bytes)]
    if checksum.vectors and checksum.deleted_rows is not None:
        files.append(_with_vectors(checksum.vectors, checksum.deleted_rows))
    yield Section("files", files)
    if checksum.histogram is not None and not only_counts:
        first, counts, sizes = checksum.histogram.values()
        bins = zip(first, [*first[1:], None], counts, sizes, strict=True)
        lines = [
            f"{_class_name(low, high)}: {format_file_totals(files, size)}" for low, high, files, size in bins if files
        ]
        yield Section("file sizes", lines)
    if not only_counts:
        yield from (section for section in _small_actions(stated, terminal) if section.lines)
    yield Section("read from", [f"the checksum of version {stated.version}"])


def _version(snapshot: Snapshot | VersionFromChecksum, now_ms: int, terminal: Terminal) -> str:
    if snapshot.time is None:
        is_shared = snapshot.table.is_shared
        return f"{snapshot.version}" + ("" if is_shared else ", its commit file is gone")
    moment = snapshot.time.timestamp_ms
    committed = f"{snapshot.version}, committed {format_moment(moment)} UTC"
    if terminal.is_drawn:
        return f"{committed}, {format_age(moment, now_ms)}"
    return f"{committed} ({snapshot.time.source})"


def _about(snapshot: Snapshot | VersionFromChecksum) -> Iterator[Section]:
    protocol, metadata = snapshot.protocol, snapshot.metadata
    versions = f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"
    yield Section("protocol", [versions] if knows_protocol(snapshot) else [])
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    both, rest = sorted(readers), sorted(writers - readers)
    lines = [f"{'to read':<8}  {', '.join(both)}"] if both else []
    yield Section("features", [*lines, *([f"{'to write':<8}  {', '.join(rest)}"] if rest else [])])
    yield Section("id", [metadata.id])
    yield Section("name", [metadata.name] if metadata.name else [])
    yield Section("description", [metadata.description] if metadata.description else [])
    yield Section(
        "created", [f"{format_moment(metadata.created_time)} UTC"] if metadata.created_time is not None else []
    )
    if metadata.provider != "parquet":
        yield Section("format", [metadata.provider])
    partitions = f", partitioned by {', '.join(metadata.partition_columns)}" if metadata.partition_columns else ""
    yield Section("columns", [plural(len(snapshot.schema.fields), "column") + partitions])
    yield Section("properties", [f"{key} = {value}" for key, value in sorted(metadata.configuration.items())])


def _files(summary: SnapshotSummary) -> list[str]:
    counts = summary.files
    if summary.doubts:
        rows = f"{plural(counts.records, 'record')} counted, rows unknown: {', '.join(summary.doubts)}"
    elif counts.rows is not None:
        rows = plural(counts.rows, "row")
    else:
        unknown = plural(counts.files_without_records, "file")
        rows = f"{plural(counts.records, 'record')} counted, {unknown} without a record count"
    lines = [f"{format_file_totals(counts.count, counts.size_bytes)}, {rows}"]
    if counts.deletion_vectors:
        lines.append(_with_vectors(counts.deletion_vectors, counts.deleted_rows))
    return lines


def _with_vectors(files: int, deleted_rows: int) -> str:
    return f"{plural(files, 'file')} with a deletion vector, {plural(deleted_rows, 'row')} deleted"


def _tombstones(summary: SnapshotSummary) -> str:
    counts = summary.tombstones
    if not counts.count:
        return "none"
    expired = {0: "none", counts.count: "all"}.get(counts.expired, format_count(counts.expired))
    return f"{format_count(counts.count)}, {expired} of them expired by deletion time"


def _small_actions(snapshot: Snapshot | VersionFromChecksum, terminal: Terminal) -> Iterator[Section]:
    listed = _LISTED if terminal.is_terminal else None
    transactions = [f"{t.app_id} at version {t.version}" for t in snapshot.transactions or ()]
    yield Section("transactions", _some(transactions, listed))
    yield Section("domains", _some([f"{d.domain} = {d.configuration}" for d in snapshot.domains or ()], listed))


def _rest(snapshot: Snapshot, terminal: Terminal) -> Iterator[Section]:
    yield from _small_actions(snapshot, terminal)
    is_log_made = snapshot.table.is_shared
    yield Section("rebuilt from", [] if is_log_made else [_rebuilt(snapshot)])


def _some(lines: list[str], limit: int | None) -> list[str]:
    if limit is None or len(lines) <= limit:
        return lines
    return [*lines[:limit], f"and {len(lines) - limit:,} more: --json shows all"]


def _rebuilt(snapshot: Snapshot) -> str:
    segment, parts = snapshot.segment, []
    if segment.checkpoint is not None:
        files = plural(len(segment.checkpoint.files), "file")
        sidecars = f", {plural(snapshot.sidecars, 'sidecar')}" if snapshot.sidecars else ""
        parts.append(f"checkpoint {segment.checkpoint.version} ({snapshot.checkpoint_layout}, {files}{sidecars})")
    if segment.commits:
        first, last = segment.commits[0].version, segment.commits[-1].version
        parts.append(f"commit {first}" if first == last else f"commits {first} to {last}")
    return " and ".join(parts)


_PANELS = (
    ("table", ("table", "version", "name", "description", "id", "created", "format")),
    ("protocol and features", ("protocol", "features")),
    ("properties", ("properties",)),
    ("data", ("columns", "files", "sha256")),
    ("log", ("rebuilt from", "tombstones", "transactions", "domains")),
    ("problems", ("problems",)),
)
"""The panels and the sections in each. A section that is in none is drawn in the first."""

_BAR_CELLS = 24
_NARROW = 60
_PARTITIONS = 5
_MANY_SMALL_FILES = 10

Row = tuple[str, "str | RenderableType"]


def _panel_rows(canvas: Canvas, section: Section) -> Iterator[Row]:
    if section.label == "properties":
        for line in section.lines:
            key, _, value = line.partition(" = ")
            yield key, canvas.text(value)
        return
    if section.label == "features":
        for line in section.lines:
            use, _, names = line.partition("  ")
            yield f"features {use}", canvas.text(names.strip())
        return
    for number, line in enumerate(section.lines):
        yield "" if number else section.label, canvas.text(line, section.style)


def _checkpoint_rows(canvas: Canvas, summary: SnapshotSummary) -> Iterator[Row]:
    """How many commits the last checkpoint is behind."""
    snapshot = summary.snapshot
    interval = parse_integer_property(snapshot.properties, "delta.checkpointInterval") or DEFAULT_CHECKPOINT_INTERVAL
    checkpoint = snapshot.segment.checkpoint
    behind = len(snapshot.segment.commits) if checkpoint is None else snapshot.version - checkpoint.version
    if checkpoint is None:
        text = f"none; readers replay {plural(behind, 'commit')}"
    elif behind:
        text = f"{plural(behind, 'commit')} behind, at version {format_count(checkpoint.version)}"
    else:
        text = "at this version"
    is_late = behind > 2 * interval
    usual = f" (delta.checkpointInterval is {format_count(interval)})" if is_late else ""
    yield "checkpoint", canvas.text(text + usual, Style.WARNING if is_late else Style.PLAIN)


def _layout_parts(canvas: Canvas, layout: FileLayout, name: str | None) -> Iterator[RenderableType]:
    classes = layout.classes()
    total = sum(files for _, _, files in classes)
    if not total:
        return
    yield canvas.text("")
    yield canvas.matrix(("file size", "files", ""), _histogram(canvas, classes), right=(1,))
    if (remark := _small_files(layout, total)) is not None:
        yield canvas.text(remark if name is None else f"{remark}; to merge them:", Style.WARNING)
        if name is not None:
            yield canvas.text(f"deltacli optimize {quote_table(name)} --dry-run")
    if layout.partition_bytes:
        count = len(layout.partition_bytes)
        title = "partition" if count <= _PARTITIONS else f"largest of {plural(count, 'partition')}"
        yield canvas.text("")
        yield canvas.matrix((title, "files", "size", ""), _partitions(canvas, layout), right=(1, 2))


def _histogram(canvas: Canvas, classes: Sequence[tuple[int, int | None, int]]) -> Iterator[Sequence[str | Text]]:
    from deltacli.cli.render.terminal.tables import make_bar

    largest = max(files for _, _, files in classes)
    for lower, upper, files in classes:
        yield _class_name(lower, upper), format_count(files), make_bar(canvas, files, largest, _bar_cells(canvas))


def _class_name(lower: int, upper: int | None) -> str:
    if upper is None:
        return f"{format_size_limit(lower)} or more"
    return f"{format_size_limit(lower)} to {format_size_limit(upper)}" if lower else f"below {format_size_limit(upper)}"


def _partitions(canvas: Canvas, layout: FileLayout) -> Iterator[Sequence[str | Text]]:
    from deltacli.cli.render.terminal.tables import make_bar

    shown = layout.largest_partitions(_PARTITIONS)
    largest = max(size for _, _, size in shown)
    for name, files, size in shown:
        drawn = make_bar(canvas, size, largest, _bar_cells(canvas))
        yield canvas.text(name, Style.PATH), format_count(files), canvas.text(format_size(size), Style.SIZE), drawn


def _bar_cells(canvas: Canvas) -> int:
    return min(_BAR_CELLS, canvas.width // 4) if canvas.width >= _NARROW else 0


def _small_files(layout: FileLayout, total: int) -> str | None:
    """Return a word on small files where most files are small and partitions have several of them."""
    from deltacli.delta.log.file_actions import SMALL_FILE_BYTES

    small = layout.small_files
    if small < _MANY_SMALL_FILES or 2 * small <= total or small <= 2 * len(layout.partition_bytes):
        return None
    limit = format_size_limit(SMALL_FILE_BYTES)
    mean = format_size(layout.small_bytes // small)
    share = 100 * small // total
    counted = f"{format_count(small)} of {plural(total, 'file')} ({share} %)"
    return f"{counted} are below {limit}, {mean} on average, and take longer to open than to read"
