"""The result of `clone`: a table that shares the data files of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.output.columns import make_item_columns
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.terminal.capabilities import Style

if TYPE_CHECKING:
    from deltacli.operations.clone import ClonePlan

_COLUMNS = make_item_columns(("source", "target", "version", "tableId", "committedVersion"))
"""The columns of the clone. Each one is a field of the JSON document."""


def make_clone_result(plan: ClonePlan) -> SingleResult:
    """Return a planned or committed clone as the result of the command.

    Args:
        plan: The plan. If `plan.dry_run` is false, it contains the version that was committed.
    """
    content = plan.as_json()
    return SingleResult("clone", plan.target, content, lambda: _make_sections(plan), [content], _COLUMNS)


def _make_sections(plan: ClonePlan) -> list[Section]:
    """Return the clone as labelled lines."""
    files_label = "would use" if plan.dry_run else "uses"
    files = format_file_totals(plan.files.files, plan.files.size_bytes)
    # `reads` is None if it is unknown whether the client reads absolute paths.
    incompatible_clients = [client.name for client in plan.clients if client.reads is False]
    refusals = [f"{refusal.message} [{refusal.code}]" for refusal in plan.refusals]
    return [
        Section("table", [plan.target]),
        Section("source", [f"{plan.source.table.uri}, version {plan.version}"]),
        Section(files_label, [files], Style.GOOD),
        Section("table id", [plan.metadata["id"]]),
        Section("note", [] if plan.note is None else [f"{plan.note.path} of the source"]),
        Section("noted also in", plan.owners.uris),
        Section("cannot read", [", ".join(incompatible_clients)] if incompatible_clients else [], Style.WARNING),
        make_refusal_section(refusals),
    ]
