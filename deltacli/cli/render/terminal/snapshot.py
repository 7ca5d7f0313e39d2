"""The state of a table on a terminal: panels, a histogram of file sizes, the largest partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from rich.text import Text

from deltacli.cli.render.sections import Section
from deltacli.cli.render.snapshot_sections import state_sections
from deltacli.cli.render.terminal.console import Canvas
from deltacli.cli.render.terminal.sections import PANEL_WIDTH, grid, panel
from deltacli.cli.render.terminal.tables import bar, matrix
from deltacli.cli.terminal.shell import quoted_table
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.delta.protocol.read_property import DEFAULT_CHECKPOINT_INTERVAL, parse_integer
from deltacli.hints import is_shared
from deltacli.units import format_count, format_limit, format_size, plural

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.operations.read.file_sizes import FileLayout
    from deltacli.operations.read.snapshot import SnapshotSummary

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


def draw_snapshot(
    sink: BinaryIO, terminal: Terminal, summary: SnapshotSummary, layout: FileLayout | None, name: str
) -> None:
    """Draw the panels of a snapshot; without a layout there are no file sizes and no partitions."""
    canvas = Canvas(sink, terminal)
    sections = {section.label: section for section in state_sections(summary, terminal, only_counts=False)}
    others = sections.keys() - {label for _, labels in _PANELS for label in labels}
    for title, labels in _PANELS:
        content: list[RenderableType] = []
        drawn = [*labels, *sorted(others)] if title == "table" else labels
        rows = [row for label in drawn if label in sections for row in _rows(canvas, sections[label])]
        if title == "log":
            rows = [*rows[:1], *_checkpoint_rows(canvas, summary), *rows[1:]]
        if rows:
            content.append(grid(canvas, rows, width=min(canvas.width, PANEL_WIDTH) - 4))
        if title == "data" and layout is not None:
            content += _layout_parts(canvas, layout, None if is_shared(summary.snapshot.table.uri) else name)
        if content:
            canvas.draw(panel(canvas, title, *content, style=Style.PROBLEM if title == "problems" else Style.FRAME))


def _rows(canvas: Canvas, section: Section) -> Iterator[Row]:
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
    interval = parse_integer(snapshot.properties, "delta.checkpointInterval") or DEFAULT_CHECKPOINT_INTERVAL
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
    yield Text("")
    yield matrix(canvas, ("file size", "files", ""), _histogram(canvas, classes), right=(1,))
    if (remark := _small_files(layout, total)) is not None:
        yield canvas.text(remark if name is None else f"{remark}; to merge them:", Style.WARNING)
        if name is not None:
            yield canvas.text(f"deltacli optimize {quoted_table(name)} --dry-run")
    if layout.partition_bytes:
        count = len(layout.partition_bytes)
        title = "partition" if count <= _PARTITIONS else f"largest of {plural(count, 'partition')}"
        yield Text("")
        yield matrix(canvas, (title, "files", "size", ""), _partitions(canvas, layout), right=(1, 2))


def _histogram(canvas: Canvas, classes: Sequence[tuple[int, int | None, int]]) -> Iterator[Sequence[str | Text]]:
    largest = max(files for _, _, files in classes)
    for lower, upper, files in classes:
        yield _class_name(lower, upper), format_count(files), bar(canvas, files, largest, _bar_cells(canvas))


def _class_name(lower: int, upper: int | None) -> str:
    if upper is None:
        return f"{format_limit(lower)} or more"
    return f"{format_limit(lower)} to {format_limit(upper)}" if lower else f"below {format_limit(upper)}"


def _partitions(canvas: Canvas, layout: FileLayout) -> Iterator[Sequence[str | Text]]:
    shown = layout.largest_partitions(_PARTITIONS)
    largest = max(size for _, _, size in shown)
    for name, files, size in shown:
        drawn = bar(canvas, size, largest, _bar_cells(canvas))
        yield canvas.text(name, Style.PATH), format_count(files), canvas.text(format_size(size), Style.SIZE), drawn


def _bar_cells(canvas: Canvas) -> int:
    return min(_BAR_CELLS, canvas.width // 4) if canvas.width >= _NARROW else 0


def _small_files(layout: FileLayout, total: int) -> str | None:
    """Return a word on small files where most files are small and partitions have several of them."""
    from deltacli.delta.log.file_actions import SMALL_FILE_BYTES

    small = layout.small_files
    if small < _MANY_SMALL_FILES or 2 * small <= total or small <= 2 * len(layout.partition_bytes):
        return None
    limit = format_limit(SMALL_FILE_BYTES)
    mean = format_size(layout.small_bytes // small)
    share = 100 * small // total
    counted = f"{format_count(small)} of {plural(total, 'file')} ({share} %)"
    return f"{counted} are below {limit}, {mean} on average, and take longer to open than to read"
