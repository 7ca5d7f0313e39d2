"""The columns of `history`: what each shows, and which come first where the screen is narrow. `_drawn_columns` in
`history.py` replaces the texts of some on a terminal.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.cli.render.columns import Column, exact, unknown_column
from deltacli.cli.terminal.term import Style
from deltacli.core.cached import cached_property
from deltacli.core.hints import nearest_name
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_age, format_count, format_moment, format_size

if TYPE_CHECKING:
    from deltacli.delta.log.segment import CommitTime
    from deltacli.operations.read.history import HistoryItem

_NEARLY_THE_SAME = 0.81
"""The similarity above which a name counts as a misspelt column: `verison`, but not the key `clusterId`."""

_PROVENANCE: Mapping[str, Mapping[str, Any]] = {  # Any: fields of Column
    "engineInfo": {"priority": 7, "least": 12, "title": "engine"},
    "userName": {"priority": 6, "least": 8, "title": "user"},
    "userMetadata": {"priority": 7, "least": 12, "title": "message"},
}


@dataclass(frozen=True)
class HistoryLine:
    """A row of the table: a commit, or a gap between two."""

    item: HistoryItem | None
    gap: str | None = None

    @cached_property
    def fields(self) -> JsonObject:
        """The fields of the commit, made once for all columns."""
        return {} if self.item is None else self.item.as_json()

    @property
    def time(self) -> CommitTime | None:
        """When the version was committed, as far as it is known."""
        return None if self.item is None else self.item.time


def history_columns(now_ms: int, *, counts: bool) -> list[Column[HistoryLine]]:
    """Return every column, in the order of a full row; `on_screen` and `in_pipe` say where it is shown unasked."""
    from deltacli.operations.read.history import PROVENANCE_FIELDS

    def column(name: str, **looks: Any) -> Column[HistoryLine]:  # Any: fields of Column
        return Column(name, lambda line: line.fields.get(name), **looks)

    hidden = {"on_screen": False}
    found = [
        column("version", right=True, priority=1, least=7),
        column(
            "timestamp",
            text=lambda line: format_moment(line.time.timestamp_ms) if line.time else "",
            priority=2,
            least=19,
            title="committed (UTC)",
        ),
        Column(
            "age",
            lambda _: None,
            text=lambda line: format_age(line.time.timestamp_ms, now_ms) if line.time else "",
            style=lambda _: Style.TIME,
            priority=6,
            least=13,
            in_pipe=False,
        ),
        column("timestampSource", **hidden),
        column("hasCommitInfo", **hidden),
        column("commitInfoTimestampMs", **hidden),
        column("inCommitTimestampMs", **hidden),
        column("operation", text=_operation, style=_operation_style, priority=1, least=10),
        column("operationParameters", text=_parameters, priority=3, least=12, title="parameters"),
        column("operationMetrics", text=_changes, priority=3, least=16, title="changes"),
    ]
    found += [
        column(name, **_PROVENANCE.get(name, hidden))
        for name in PROVENANCE_FIELDS
        if name not in ("operation", "operationParameters", "operationMetrics")
    ]
    if counts:
        found += [
            column("actions", text=_action_counts, priority=5, least=20),
            *(
                column(name, text=_number(name, write), right=True, priority=priority, least=least, title=title)
                for name, write, priority, least, title in (
                    ("addedFiles", format_count, 2, 7, "files +"),
                    ("removedFiles", format_count, 2, 7, "files -"),
                    ("addedBytes", format_size, 4, 9, "bytes +"),
                    ("removedBytes", format_size, 4, 9, "bytes -"),
                )
            ),
        ]
    found.append(column("problem", style=lambda _: Style.PROBLEM, priority=1, least=12))
    found.append(column("commitInfo", on_screen=False, in_pipe=False))
    return found


def keys_of_commit_info(wanted: str | None, available: Sequence[Column[HistoryLine]]) -> list[Column[HistoryLine]]:
    """Return a column for each wanted name that is not a column: writers add keys of their own to commitInfo.

    Raises UsageError for a name that is nearly one of a column.
    """
    known = [column.name.lower() for column in available]
    others = [name for name in map(str.strip, (wanted or "").split(",")) if name and name.lower() not in known]
    for name in others:
        if nearest_name(name, known, ignores_case=True, alike=_NEARLY_THE_SAME) is not None:
            raise unknown_column(name, [column.name for column in available])
    return [_key_column(name) for name in others]


def _key_column(name: str) -> Column[HistoryLine]:
    return Column(name, lambda line: key_of_commit_info(name, line.item) if line.item else None, priority=7, least=8)


def key_of_commit_info(name: str, item: HistoryItem) -> object:
    """Return the value of a key of commitInfo, also of one with the name of a field that is not a column here."""
    return (item.commit_info or {}).get(name)


def _operation(line: HistoryLine) -> str:
    """Return the operation with its mode: `WRITE append`."""
    if line.item is None or line.item.operation is None:
        return "" if line.item is None or line.item.problem else "(not recorded)"
    parameters = (line.item.commit_info or {}).get("operationParameters")
    mode = parameters.get("mode") if isinstance(parameters, dict) else None
    return f"{line.item.operation} {str(mode).lower()}" if mode else line.item.operation


def _operation_style(line: HistoryLine) -> Style:
    """Return how an operation is shown, by what it does to a table; PLAIN for one that is not known."""
    name = ((line.item.operation if line.item else None) or "").upper()
    return next((style for style, prefixes in _OPERATIONS if name.startswith(prefixes)), Style.PLAIN)


_OPERATIONS: tuple[tuple[Style, tuple[str, ...]], ...] = (
    (Style.MAINTENANCE, ("VACUUM", "OPTIMIZE", "REORG", "COMPACT", "CHECKPOINT", "CLUSTER", "LOG ", "FSCK")),
    (
        Style.SCHEMA_CHANGE,
        (
            *("ADD COLUMN", "CHANGE COLUMN", "RENAME COLUMN", "DROP COLUMN", "REPLACE COLUMN", "WIDEN", "ALTER"),
            *("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD FEATURE", "DROP FEATURE", "UPGRADE PROTOCOL"),
            *("ADD CONSTRAINT", "DROP CONSTRAINT", "UPDATE COLUMN METADATA", "UPDATE SCHEMA", "DOMAIN METADATA"),
            *("SET ", "UNSET ", "ADD PROPERTIES", "COMPUTE STATS"),
        ),
    ),
    (Style.DELETES, ("DELETE", "TRUNCATE", "RESTORE", "DROP", "REMOVE")),
    (
        Style.WRITES,
        ("WRITE", "STREAMING", "MERGE", "UPDATE", "COPY", "CREATE", "REPLACE", "CONVERT", "CLONE", "INSERT"),
    ),
)
"""The first row with a prefix of the operation decides: `DROP COLUMN` changes the schema, `DROP` deletes."""


def _parameters(line: HistoryLine) -> str:
    """Return the operation's parameters without empty ones and the mode."""
    return ", ".join(f"{name}={value}" for name, value in _filled_parameters(line).items())


def parameters_in_words(line: HistoryLine) -> str:
    """Return the operation's parameters for a narrow column: a predicate alone, `zorder by day`."""
    return ", ".join(
        f"{_PARAMETER_WORDS.get(name, f'{name}=')}{_without_brackets(value)}"
        for name, value in _filled_parameters(line).items()
    )


_PARAMETER_WORDS = {
    "predicate": "",
    "zOrderBy": "zorder by ",
    "clusterBy": "cluster by ",
    "partitionBy": "partition by ",
    "properties": "",
}


def _filled_parameters(line: HistoryLine) -> dict[str, object]:
    info = (line.item.commit_info if line.item else None) or {}
    parameters = info.get("operationParameters")
    if not isinstance(parameters, dict):
        return {}
    return {
        name: value
        for name, value in parameters.items()
        if name != "mode" and value not in (None, "", "[]", "{}", "null")
    }


def _without_brackets(value: object) -> str:
    """Return a parameter, which may be a list or an object as JSON, as plain text: `["(day < 3)"]` as `day < 3`."""
    read = value
    if isinstance(value, str) and value[:1] in ("[", "{"):
        with contextlib.suppress(ValueError):
            read = json.loads(value)
    match read:
        case list():
            return ", ".join(map(_without_brackets, read))
        case dict():
            return ", ".join(f"{name}={_without_brackets(one)}" for name, one in read.items())
        case _:
            text = read if isinstance(read, str) else exact(read)
            inner = text[1:-1]
            return inner if text == f"({inner})" and "(" not in inner and ")" not in inner else text


def _changes(line: HistoryLine) -> str:
    """Return what changed by the writer's metrics: `+5 files, -2 files, +120 rows`."""
    return _in_words(changes_of(line.item.commit_info if line.item else None))


def _action_counts(line: HistoryLine) -> str:
    counted = line.item.counts.actions if line.item and line.item.counts else {}
    return ", ".join(f"{count:,} {kind}" for kind, count in counted.items())


def _number(name: str, write: Callable[[int], str]) -> Callable[[HistoryLine], str]:
    def text(line: HistoryLine) -> str:
        value = line.fields.get(name)
        return write(value) if isinstance(value, int) else ""

    return text


class Changes(NamedTuple):
    """Numbers of files and rows; 0 where the metrics are silent."""

    files_added: int = 0
    files_removed: int = 0
    rows_added: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0


_NAMES: Mapping[str, tuple[str, ...]] = {
    "files_added": (
        *("numAddedFiles", "num_added_files", "numTargetFilesAdded", "numFiles"),
        *("numFilesAdded", "filesAdded", "numRestoredFiles"),
    ),
    "files_removed": (
        *("numRemovedFiles", "num_removed_files", "numTargetFilesRemoved", "numFilesRemoved"),
        *("filesRemoved", "numDeletedFiles"),
    ),
    "rows_added": ("numTargetRowsInserted", "numOutputRows", "num_added_rows"),
    "rows_updated": ("numUpdatedRows", "numTargetRowsUpdated"),
    "rows_deleted": ("numDeletedRows", "numTargetRowsDeleted", "num_deleted_rows"),
}
"""The names of each metric among writers; the first that a commit has is taken."""

_WORDS = (
    ("files_added", "+{} file"),
    ("files_removed", "-{} file"),
    ("rows_added", "+{} row"),
    ("rows_updated", "~{} row"),
    ("rows_deleted", "-{} row"),
)


def changes_of(commit_info: JsonObject | None) -> Changes:
    """Return what the `operationMetrics` of a commitInfo say changed."""
    metrics = (commit_info or {}).get("operationMetrics")
    if not isinstance(metrics, dict):
        return Changes()
    changes = {
        field: next((_whole(metrics[name]) for name in names if name in metrics), None)
        for field, names in _NAMES.items()
    }
    return Changes(**{field: number for field, number in changes.items() if number})


def _in_words(changes: Changes) -> str:
    """Return changes as `+5 files, -2 files, +120 rows`, those of 0 left out."""
    counted = [(pattern, getattr(changes, field)) for field, pattern in _WORDS]
    return ", ".join(
        pattern.format(format_count(number)) + ("" if number == 1 else "s") for pattern, number in counted if number
    )


def _whole(value: object) -> int | None:
    """Return a metric as a number: Spark writes strings, other writers numbers. Nested ones are left out."""
    try:
        return int(value) if isinstance(value, str | int) else None
    except ValueError:
        return None
