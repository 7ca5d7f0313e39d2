"""The operation of a commit in words: its name, its look, its parameters and what it changed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deltacli.cli.output.columns import format_exact
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_count
from deltacli.delta.log.operation_metrics import ReportedChanges, read_reported_changes

_OPERATION_STYLES: Mapping[Style, tuple[str, ...]] = {
    Style.MAINTENANCE: ("VACUUM", "OPTIMIZE", "REORG", "COMPACT", "CHECKPOINT", "CLUSTER", "LOG ", "FSCK"),
    Style.SCHEMA_CHANGE: (
        "ADD COLUMN",
        "ADD CONSTRAINT",
        "ADD FEATURE",
        "ADD PROPERTIES",
        "ALTER",
        "CHANGE COLUMN",
        "COMPUTE STATS",
        "DOMAIN METADATA",
        "DROP COLUMN",
        "DROP CONSTRAINT",
        "DROP FEATURE",
        "RENAME COLUMN",
        "REPLACE COLUMN",
        "SET ",
        "UNSET ",
        "UPDATE COLUMN METADATA",
        "UPDATE SCHEMA",
        "UPGRADE PROTOCOL",
        "WIDEN",
    ),
    Style.DELETES: ("DELETE", "TRUNCATE", "RESTORE", "DROP", "REMOVE"),
    Style.WRITES: (
        "CLONE",
        "CONVERT",
        "COPY",
        "CREATE",
        "INSERT",
        "MERGE",
        "REPLACE",
        "STREAMING",
        "UPDATE",
        "WRITE",
    ),
}
"""The first row with a prefix of the operation decides: `DROP COLUMN` changes the schema, `DROP` deletes."""

_PARAMETER_PREFIXES = {
    "predicate": "",
    "zOrderBy": "zorder by ",
    "clusterBy": "cluster by ",
    "partitionBy": "partition by ",
    "properties": "",
}
"""What stands before the value of a parameter; before others stands their name."""

_EMPTY_VALUES = (None, "", "[]", "{}", "null")

_CHANGE_PATTERNS = {
    "files_added": "+{} file",
    "files_removed": "-{} file",
    "rows_added": "+{} row",
    "rows_updated": "~{} row",
    "rows_deleted": "-{} row",
}
"""Field of `ReportedChanges` -> the words for one."""


class ChangedNumber(NamedTuple):
    """A number of files or rows that a commit changed, with its sign and look: `+3` in the colour of additions."""

    number: int
    sign: str
    style: Style


ChangedNumbers = Sequence[ChangedNumber]


def style_of_operation(operation: str | None) -> Style:
    """Return how an operation is shown, by what it does to a table; PLAIN for one that is not known."""
    name = (operation or "").upper()
    for style, prefixes in _OPERATION_STYLES.items():
        if name.startswith(prefixes):
            return style
    return Style.PLAIN


def describe_operation(operation: str, commit_info: JsonObject) -> str:
    """Return an operation with its mode: `WRITE append`."""
    parameters = commit_info.get("operationParameters")
    mode = parameters.get("mode") if isinstance(parameters, dict) else None
    return f"{operation} {str(mode).lower()}" if mode else operation


def list_parameters(commit_info: JsonObject) -> str:
    """Return the parameters of the operation as the writer recorded them: `predicate=["(day < 3)"]`."""
    return ", ".join(f"{name}={value}" for name, value in _find_stated_parameters(commit_info).items())


def describe_parameters(commit_info: JsonObject) -> str:
    """Return the parameters for a narrow column: a predicate alone, `zorder by day`, `fare double`."""
    words: list[str] = []
    for name, value in _find_stated_parameters(commit_info).items():
        columns = _describe_columns(value) if name in ("column", "columns") else None
        prefix = _PARAMETER_PREFIXES.get(name, f"{name}=")
        words.append(columns or f"{prefix}{_format_parameter(value)}")
    return ", ".join(words)


def _find_stated_parameters(commit_info: JsonObject) -> dict[str, object]:
    """Return the parameters that say something. The mode is shown with the operation."""
    parameters = commit_info.get("operationParameters")
    if not isinstance(parameters, dict):
        return {}
    return {name: value for name, value in parameters.items() if name != "mode" and value not in _EMPTY_VALUES}


def _describe_columns(value: object) -> str | None:
    """Return columns that were added or changed: `fare double, tip integer after fare`.

    Spark describes a column by an object `{"name", "type", "nullable", "metadata"}`, within `{"column", "position"}`
    if it is added; other writers have its name under `column`. None for another form.
    """
    parsed = _parse_json_value(value)
    columns = parsed if isinstance(parsed, list) else [parsed]
    descriptions: list[str] = []
    for column in columns:
        description = _describe_column(column)
        if description is None:
            return None
        descriptions.append(description)
    return ", ".join(descriptions)


def _describe_column(column: object) -> str | None:
    if not isinstance(column, dict):
        return None
    inner = column.get("column")
    if isinstance(inner, dict):
        return _describe_added_column(inner, column.get("position"))

    name = column.get("name", inner)
    data_type = column.get("type")
    if isinstance(data_type, dict):  # the fields of a struct are in the log
        data_type = data_type.get("type")
    if not isinstance(name, str) or not isinstance(data_type, str):
        return None

    words = f"{name} {data_type}"
    if column.get("nullable") is False:
        words += " not null"
    metadata = column.get("metadata")
    comment = metadata.get("comment") if isinstance(metadata, dict) else None
    return f"{words} comment {comment!r}" if isinstance(comment, str) else words


def _describe_added_column(column: object, position: object) -> str | None:
    """Return a column and its position: `tip integer after fare`."""
    words = _describe_column(column)
    if words is None or not isinstance(position, str):
        return words
    keyword, blank, neighbour = position.partition(" ")
    return f"{words} {keyword.lower()}{blank}{neighbour}"


def _parse_json_value(value: object) -> object:
    """Return a parameter, which may be a list or an object as JSON."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _format_parameter(value: object) -> str:
    """Return a parameter, which may be a list or an object as JSON, as plain text: `["(day < 3)"]` as `day < 3`."""
    parsed = _parse_json_value(value)
    match parsed:
        case list():
            return ", ".join(map(_format_parameter, parsed))
        case dict():
            return ", ".join(f"{name}={_format_parameter(inner)}" for name, inner in parsed.items())
        case _:
            text = parsed if isinstance(parsed, str) else format_exact(parsed)
            inner_text = text[1:-1]
            is_in_brackets = text == f"({inner_text})" and "(" not in inner_text and ")" not in inner_text
            return inner_text if is_in_brackets else text


def describe_changes(commit_info: JsonObject) -> str:
    """Return what changed by the writer's metrics, numbers of 0 left out: `+5 files, -2 files, +120 rows`."""
    changes = read_reported_changes(commit_info)
    words: list[str] = []
    for field, pattern in _CHANGE_PATTERNS.items():
        number = getattr(changes, field)
        if number:
            plural = "" if number == 1 else "s"
            words.append(pattern.format(format_count(number)) + plural)
    return ", ".join(words)


def get_changed_files(changes: ReportedChanges) -> ChangedNumbers:
    """Return the files that were added and removed."""
    return (
        ChangedNumber(changes.files_added, "+", Style.ADDED),
        ChangedNumber(changes.files_removed, "-", Style.REMOVED),
    )


def get_changed_rows(changes: ReportedChanges) -> ChangedNumbers:
    """Return the rows that were added, updated and deleted."""
    return (
        ChangedNumber(changes.rows_added, "+", Style.ADDED),
        ChangedNumber(changes.rows_updated, "~", Style.CHANGED),
        ChangedNumber(changes.rows_deleted, "-", Style.REMOVED),
    )
