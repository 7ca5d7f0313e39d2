"""A snapshot for the eye: sections of labelled lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.cli.render.sections import Section
from deltacli.cli.terminal.term import Style, Terminal
from deltacli.storage.base import StoreOfVersions
from deltacli.units import format_age, format_count, format_moment, format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.read.snapshot import SnapshotSummary
    from deltacli.operations.table.version import Snapshot

_LISTED = 10


def state_sections(summary: SnapshotSummary, terminal: Terminal, *, only_counts: bool) -> list[Section]:
    """The sections of a snapshot, those with nothing to say left out."""
    snapshot = summary.snapshot
    sections = [
        Section("table", [snapshot.table.uri]),
        Section("version", [_version(summary, terminal)]),
        *([] if only_counts else _about(snapshot)),
        Section("files", _files(summary)),
        Section("tombstones", [_tombstones(summary)]),
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


def _version(summary: SnapshotSummary, terminal: Terminal) -> str:
    snapshot = summary.snapshot
    if snapshot.time is None:
        is_shared = isinstance(snapshot.table.storage, StoreOfVersions)
        return f"{snapshot.version}" + ("" if is_shared else ", its commit file is gone")
    moment = snapshot.time.timestamp_ms
    committed = f"{snapshot.version}, committed {format_moment(moment)} UTC"
    if terminal.is_drawn:
        return f"{committed}, {format_age(moment, summary.now_ms)}"
    return f"{committed} ({snapshot.time.source})"


def _about(snapshot: Snapshot) -> Iterator[Section]:
    protocol, metadata = snapshot.protocol, snapshot.metadata
    yield Section("protocol", [f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"])
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
    if counts.rows is not None:
        rows = plural(counts.rows, "row")
    else:
        unknown = plural(counts.files_without_records, "file")
        rows = f"{plural(counts.records, 'record')} counted, {unknown} without a record count"
    lines = [f"{plural(counts.count, 'file')}, {format_size(counts.size_bytes)}, {rows}"]
    if counts.deletion_vectors:
        deleted = plural(counts.deleted_rows, "row")
        lines.append(f"{plural(counts.deletion_vectors, 'file')} with a deletion vector, {deleted} deleted")
    return lines


def _tombstones(summary: SnapshotSummary) -> str:
    counts = summary.tombstones
    if not counts.count:
        return "none"
    expired = {0: "none", counts.count: "all"}.get(counts.expired, format_count(counts.expired))
    return f"{format_count(counts.count)}, {expired} of them expired by deletion time"


def _rest(snapshot: Snapshot, terminal: Terminal) -> Iterator[Section]:
    listed = _LISTED if terminal.is_terminal else None
    transactions = [f"{t.app_id} at version {t.version}" for t in snapshot.transactions]
    yield Section("transactions", _some(transactions, listed))
    yield Section("domains", _some([f"{d.domain} = {d.configuration}" for d in snapshot.domains], listed))
    yield Section("rebuilt from", [_rebuilt(snapshot)])


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
