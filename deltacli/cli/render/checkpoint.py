"""A checkpoint that was written, and checkpoints that were compared with the log, for the eye."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.cli.render.columns import Column
from deltacli.cli.render.json import dumps, envelope
from deltacli.cli.render.sections import Section
from deltacli.cli.results import Listing
from deltacli.units import format_count, format_size, format_spans, plural

if TYPE_CHECKING:
    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.operations.checkpoint.execute import CheckpointResult
    from deltacli.operations.checkpoint.verify import Verification

_LISTED = 10


def checkpoint_sections(result: CheckpointResult) -> list[Section]:
    """The sections of a result, those with nothing to say left out; one line where there was nothing to do."""
    plan = result.plan
    if result.skipped:
        return [Section("nothing to do", [f"{plan.snapshot.table.uri}, version {result.version}: {_reason(result)}"])]
    return [
        Section("table", [plan.snapshot.table.uri]),
        Section("version", [str(result.version)]),
        Section("checkpoint", [_outcome(result)]),
        Section("files", _files(result)),
        Section("actions", [_actions(result)] if result.actions else []),
        Section("dropped", [_dropped(result)] if result.expired_tombstones_dropped else []),
        Section("readers", [_readers(result)]),
        Section("hint", [_hint(result)] if not result.dry_run else []),
    ]


def draw_checkpoint(canvas: Canvas, result: CheckpointResult) -> None:
    """Draw the same on a terminal."""
    from deltacli.cli.render.terminal import log_plans

    log_plans.draw_checkpoint(canvas, result, checkpoint_sections(result))


def _outcome(result: CheckpointResult) -> str:
    layout = result.plan.layout
    return f"{layout}, would be written" if result.dry_run else f"{layout}, written and read back"


def _reason(result: CheckpointResult) -> str:
    plan = result.plan
    if plan.present is None and not result.files:
        return f"{plural(plan.behind, 'commit')} since the last checkpoint, --if-behind is {plan.request.if_behind}"
    return f"its {plan.layout} checkpoint exists; --force writes it again"


def _files(result: CheckpointResult) -> list[str]:
    lines = []
    for file in result.files[:_LISTED]:
        rows = "" if file.rows is None else f", {plural(file.rows, 'row')}"
        lines.append(f"{file.path}, {format_size(file.size_bytes)}{rows}")
    rest = result.files[_LISTED:]
    if rest:
        size = format_size(sum(file.size_bytes for file in rest))
        lines.append(f"and {plural(len(rest), 'more file')}, {size}: --json names all")
    return lines


def _actions(result: CheckpointResult) -> str:
    return ", ".join(f"{format_count(count)} {kind}" for kind, count in sorted(result.actions.items()))


def _dropped(result: CheckpointResult) -> str:
    return f"{plural(result.expired_tombstones_dropped, 'expired tombstone')}"


def _readers(result: CheckpointResult) -> str:
    version = result.version
    fewer = f"{plural(result.plan.behind, 'commit')} fewer to replay"
    snapshot, found = result.plan.snapshot, result.plan.listing.checkpoints
    later = [one.version for one in found if one.version > version and one.files[0].name not in snapshot.set_aside]
    if later:
        readable = format_spans([(version, min(later) - 1)])
        are = f"of version {readable} begins" if min(later) == version + 1 else f"of versions {readable} begin"
        return f"{are} here, {fewer}; newer versions begin at the checkpoint of version {min(later)} or later"
    newer = snapshot.newest_version - version
    rest = f", then {plural(newer, 'commit')}" if newer else ""
    return f"begin at version {version}{rest}; {fewer}"


def _hint(result: CheckpointResult) -> str:
    if result.hint_version is None:
        return "unchanged, it names a newer checkpoint"
    return f"_last_checkpoint names version {result.hint_version}"


def verifications(uri: str, checks: Sequence[Verification]) -> Listing[Verification]:
    """Return what became of each checkpoint."""
    columns: list[Column[Verification]] = [
        Column("version", lambda one: one.checkpoint.version, right=True, priority=1),
        Column("file", lambda one: one.checkpoint.files[0].name, priority=2, keep_end=True),
        Column("files", lambda one: len(one.checkpoint.files), right=True),
        Column("verdict", lambda one: one.verdict.value, priority=1),
        Column("details", _details, priority=3),
    ]
    fields = envelope("deltacli.checkpoint-verification", uri, complete=True)
    return Listing(fields, "verification", [one.as_json() for one in checks], columns, checks, items_name="checkpoints")


def _details(one: Verification) -> str:
    if one.reason:
        return one.reason
    if one.verdict == "alone":
        return "could be read completely; no older state is left to compare it with"
    return "; ".join(
        f"{name} is {dumps(ours).decode()[:80]}, expected from the log: {dumps(theirs).decode()[:80]}"
        for name, ours, theirs in one.details
    )
