"""The result of `convert`: the table that was made of Parquet files, or the conflicts that prevent it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.cli.output.columns import make_item_columns
from deltacli.cli.output.results import SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.typing import Json
from deltacli.core.units import plural

if TYPE_CHECKING:
    from deltacli.operations.change.convert import ConvertPlan

_MAX_LISTED = 10
"""The number of respelled values and of conflicts that people see. JSON and CSV contain all of them."""

_COLUMNS = make_item_columns(("path", "column", "seen", "expected"))
"""The columns of a conflict between files. Each one is a field of the JSON document."""


def make_convert_result(uri: str, plan: ConvertPlan, *, dry_run: bool) -> SingleResult:
    """Return a planned or committed conversion as the result of the command.

    Args:
        uri: The directory of the Parquet files.
        plan: The plan. After the commit, it contains the version that was committed.
        dry_run: Whether the plan is only shown.
    """
    content = plan.as_json(dry_run=dry_run)
    return SingleResult(
        "convert", uri, content, lambda: list(_make_sections(uri, plan)), content["conflicts"], _COLUMNS
    )


def _make_sections(uri: str, plan: ConvertPlan) -> Iterator[Section]:
    """Yield the conversion as labelled lines."""
    totals = format_file_totals(plan.amount.files, plan.amount.size_bytes)
    rows = "" if plan.amount.rows is None else f", {plural(plan.amount.rows, 'row')}"
    yield Section("directory", [uri])
    yield Section("files", [totals + rows])
    yield Section("left out", list(_describe_omitted_files(plan)))

    yield Section("columns", list(_describe_data_columns(plan)))
    yield Section("partitions", list(_describe_partition_columns(plan)))
    yield Section("written as", list(_describe_respelled_values(plan)))

    yield Section("conflicts", list(_describe_conflicts(plan)), Style.PROBLEM)
    uncertainties = [f"{uncertainty.message} ({uncertainty.evidence})" for uncertainty in plan.unknowable]
    yield Section("cannot be known", uncertainties, Style.PROBLEM)
    if plan.committed_version is not None:
        yield Section("version", [f"{plan.committed_version}, committed"])
    yield make_refusal_section(f"{refusal.message} [{refusal.code}]" for refusal in plan.refusals)


def _describe_omitted_files(plan: ConvertPlan) -> Iterator[str]:
    if plan.hidden:
        yield f"{plan.hidden:,} hidden"
    if plan.excluded:
        yield f"{plan.excluded:,} by --exclude"


def _describe_data_columns(plan: ConvertPlan) -> Iterator[str]:
    """Yield the columns that the files contain, such as `price decimal(10,2)`."""
    partition_names = {column.name for column in plan.partitions}
    for field in plan.schema.get("fields", ()):
        name = str(field["name"])
        if name not in partition_names:
            yield f"{name} {_format_type(field['type'])}"


def _format_type(data_type: Json) -> str:
    """Return the name of a type. Nested types are JSON objects: `{"type": "struct", "fields": …}` is `struct`."""
    return str(data_type["type"]) if isinstance(data_type, dict) else str(data_type)


def _describe_partition_columns(plan: ConvertPlan) -> Iterator[str]:
    for column in plan.partitions:
        origin = " (inferred)" if column.inferred else ""
        yield f"{column.name} {column.type}{origin}"


def _describe_respelled_values(plan: ConvertPlan) -> Iterator[str]:
    """Yield partition values that the log contains in another spelling than the directory, such as `1` for `01`."""
    for value in plan.respelled[:_MAX_LISTED]:
        yield f"{value.column} {value.directory}: {value.value}"
    yield from _describe_unlisted(len(plan.respelled))


def _describe_conflicts(plan: ConvertPlan) -> Iterator[str]:
    for conflict in plan.conflicts[:_MAX_LISTED]:
        place = conflict.path if conflict.column is None else f"{conflict.path}, {conflict.column}"
        yield f"{place}: {conflict.seen}, expected {conflict.expected}"
    yield from _describe_unlisted(len(plan.conflicts))


def _describe_unlisted(count: int) -> Iterator[str]:
    """Yield a line about the entries of a list of `count` entries that are not shown, if there are any."""
    unlisted = count - _MAX_LISTED
    if unlisted > 0:
        yield f"{unlisted:,} more; --json has all"
