"""The results of `checkpoint`: a checkpoint that was written or planned, and the comparison of existing checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.cli.output.columns import Column, format_exact
from deltacli.cli.output.results import ListResult, SingleResult
from deltacli.cli.output.sections import Section
from deltacli.cli.output.surface import Labelled, Surface
from deltacli.cli.render.plans import make_section_rows
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.documents import dumps, envelope
from deltacli.core.ranges import format_spans
from deltacli.core.units import format_count, format_size, plural

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.operations.checkpoint.checkpoint import CheckpointResult
    from deltacli.operations.checkpoint.file_writer import CheckpointFile
    from deltacli.operations.checkpoint.verify import Verification

_MAX_LISTED = 10
"""The number of files that people see. JSON and CSV contain all of them."""

_MAX_VALUE_LENGTH = 80
"""The number of characters of a field's JSON text that people see. A field can contain the whole schema."""

_FILE_COLUMNS: Sequence[Column[CheckpointFile]] = (
    Column("path", lambda file: file.path, title="file"),
    Column(
        "sizeBytes",
        lambda file: file.size_bytes,
        text=lambda file: format_size(file.size_bytes),
        style=lambda _: Style.SIZE,
        align_right=True,
        title="size",
    ),
    Column(
        "rows",
        lambda file: file.rows,
        text=lambda file: "" if file.rows is None else format_count(file.rows),
        align_right=True,
    ),
)
"""The columns of a file of a checkpoint."""


def _explain_verdict(verification: Verification) -> str:
    """Return why a checkpoint could not be read or compared, or the fields that differ; "" if it matches the log."""
    if verification.reason:
        return verification.reason
    if verification.verdict == "alone":
        return "could be read completely; no older state is left to compare it with"
    differences = [
        f"{field} is {_shorten_json(checkpoint_value)}, expected from the log: {_shorten_json(log_value)}"
        for field, checkpoint_value, log_value in verification.details
    ]
    return "; ".join(differences)


def _shorten_json(value: object) -> str:
    return dumps(value).decode()[:_MAX_VALUE_LENGTH]


_VERIFICATION_COLUMNS: Sequence[Column[Verification]] = (
    Column("version", lambda verification: verification.checkpoint.version, align_right=True, priority=1),
    Column("file", lambda verification: verification.checkpoint.files[0].name, priority=2, keep_end=True),
    Column("files", lambda verification: len(verification.checkpoint.files), align_right=True),
    Column("verdict", lambda verification: verification.verdict.value, priority=1),
    Column("details", _explain_verdict, priority=3),
)
"""The columns of an existing checkpoint that was compared with the log."""


def checkpoint_result(uri: str, result: CheckpointResult) -> SingleResult:
    """Return a checkpoint that was written, or would be, as the result of the command. CSV has a row per file."""
    return SingleResult(
        "checkpoint",
        uri,
        result.as_json(),
        lambda: checkpoint_sections(result),
        result.files,
        _FILE_COLUMNS,
        lambda surface: draw_checkpoint(surface, result),
    )


def checkpoint_sections(result: CheckpointResult) -> list[Section]:
    """Return a checkpoint as labelled lines; a single line if there was nothing to do."""
    uri = result.plan.snapshot.table.uri
    if result.skipped:
        return [Section("nothing to do", [f"{uri}, version {result.version}: {_explain_skipping(result)}"])]

    layout = result.plan.layout
    outcome = f"{layout}, would be written" if result.dry_run else f"{layout}, written and read back"
    action_counts = [f"{format_count(count)} {kind}" for kind, count in sorted(result.actions.items())]
    dropped = result.expired_tombstones_dropped
    return [
        Section("table", [uri]),
        Section("version", [str(result.version)]),
        Section("checkpoint", [outcome]),
        Section("files", _list_files(result)),
        Section("actions", [", ".join(action_counts)] if action_counts else []),
        Section("dropped", [plural(dropped, "expired tombstone")] if dropped else []),
        Section("readers", [_describe_replay(result)]),
        Section("hint", [] if result.dry_run else [_describe_hint(result)]),
    ]


def _explain_skipping(result: CheckpointResult) -> str:
    """Return why no checkpoint was written."""
    plan = result.plan
    if plan.present is None and not result.files:
        return f"{plural(plan.behind, 'commit')} since the last checkpoint, --if-behind is {plan.request.if_behind}"
    return f"its {plan.layout} checkpoint exists; --force writes it again"


def _list_files(result: CheckpointResult) -> list[str]:
    """Return a line per file, such as `_delta_log/….checkpoint.parquet, 3.2 MiB, 1,000 rows`."""
    lines: list[str] = []
    for file in result.files[:_MAX_LISTED]:
        rows = "" if file.rows is None else f", {plural(file.rows, 'row')}"
        lines.append(f"{file.path}, {format_size(file.size_bytes)}{rows}")

    unlisted_files = result.files[_MAX_LISTED:]
    if unlisted_files:
        size = format_size(sum(file.size_bytes for file in unlisted_files))
        lines.append(f"and {plural(len(unlisted_files), 'more file')}, {size}: --json names all")
    return lines


def _describe_replay(result: CheckpointResult) -> str:
    """Return which versions are read from the checkpoint, and how many commits readers need not replay any more."""
    version = result.version
    snapshot = result.plan.snapshot
    saving = f"{plural(result.plan.behind, 'commit')} fewer to replay"
    later_versions = [
        checkpoint.version
        for checkpoint in result.plan.listing.checkpoints
        if checkpoint.version > version and checkpoint.files[0].name not in snapshot.skipped_checkpoints
    ]
    if later_versions:
        # A reader begins with the last checkpoint at or before the version that it reads.
        next_version = min(later_versions)
        span = format_spans([(version, next_version - 1)])
        beginning = f"of version {span} begins" if next_version == version + 1 else f"of versions {span} begin"
        return f"{beginning} here, {saving}; newer versions begin at the checkpoint of version {next_version} or later"

    newer_commits = snapshot.newest_version - version
    following = f", then {plural(newer_commits, 'commit')}" if newer_commits else ""
    return f"begin at version {version}{following}; {saving}"


def _describe_hint(result: CheckpointResult) -> str:
    """Return the version in `_last_checkpoint`, which is never replaced by an older one."""
    if result.hint_version is None:
        return "unchanged, it names a newer version"
    return f"_last_checkpoint names version {result.hint_version}"


def draw_checkpoint(surface: Surface, result: CheckpointResult) -> None:
    """Draw a checkpoint that was written, or would be: labelled lines, and a table of its files between them."""
    sections = checkpoint_sections(result)
    if result.skipped:
        surface.draw_parts(make_section_rows(surface, sections))
        return

    headings = ("table", "version", "checkpoint")
    sections_above = [section for section in sections if section.label in headings]
    sections_below = [section for section in sections if section.label not in (*headings, "files")]
    parts: list[RenderableType | list[Labelled]] = [make_section_rows(surface, sections_above)]
    if result.files:
        parts.append(_make_file_table(surface, result.files))
    parts.append(make_section_rows(surface, sections_below))
    surface.draw_parts(*parts)


def _make_file_table(surface: Surface, files: Sequence[CheckpointFile]) -> RenderableType:
    """Return a table of the files. On a terminal, it ends with a row for the files that are not listed."""
    listed_files = files if surface.never_cuts else files[:_MAX_LISTED]
    rows = [[_make_cell(surface, column, file) for column in _FILE_COLUMNS] for file in listed_files]

    unlisted_files = files[len(listed_files) :]
    if unlisted_files:
        size_bytes = sum(file.size_bytes for file in unlisted_files)
        rows.append(
            [
                f"and {plural(len(unlisted_files), 'more file')}: --json names all",
                surface.text(format_size(size_bytes), Style.SIZE),
                "",
            ]
        )

    titles = [column.heading() for column in _FILE_COLUMNS]
    right_aligned = [index for index, column in enumerate(_FILE_COLUMNS) if column.align_right]
    return surface.matrix(titles, rows, right=right_aligned)


def _make_cell(surface: Surface, column: Column[CheckpointFile], file: CheckpointFile) -> RenderableType:
    text = format_exact(column.value(file)) if column.text is None else column.text(file)
    return surface.text(text, Style.PLAIN if column.style is None else column.style(file))


def verifications(uri: str, checks: Sequence[Verification]) -> ListResult[Verification]:
    """Return the comparison of existing checkpoints with the log as the result of `checkpoint --verify`."""
    fields = envelope("deltacli.checkpoint-verification", uri, complete=True)
    items = [verification.as_json() for verification in checks]
    return ListResult(fields, "verification", items, _VERIFICATION_COLUMNS, checks, items_name="checkpoints")
