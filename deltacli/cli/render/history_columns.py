"""The columns of `history` on a Delta table, each declared once for the screen, a pipe, CSV and `--columns`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from deltacli.cli.output.columns import Column, spellings_of_column, unknown_column_error
from deltacli.cli.render.operation_words import (
    ChangedNumbers,
    describe_changes,
    describe_operation,
    get_changed_files,
    get_changed_rows,
    list_parameters,
    style_of_operation,
)
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.errors import nearest_name
from deltacli.core.lock_free_property import cached_property
from deltacli.core.times import format_age, format_moment, format_timestamp
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_count, format_size
from deltacli.delta.log.operation_metrics import ReportedChanges, read_reported_changes
from deltacli.delta.log.segment import CommitTime
from deltacli.operations.read.history import ActionCounts, HistoryItem

if TYPE_CHECKING:
    from deltacli.core.machine import Clock

_MISSPELT_SIMILARITY = 0.81
"""The similarity above which a name counts as a misspelt column: `verison`, but not the key `clusterId`."""


@dataclass(frozen=True)
class HistoryLine:
    """A row of the table: a commit, or a gap between two.

    Attributes:
        item: The commit; None for a gap.
        gap: The text of the gap.
    """

    item: HistoryItem | None
    gap: str | None = None

    @cached_property
    def info(self) -> JsonObject:
        """Return the commitInfo as found, {} without one."""
        return (self.item.commit_info if self.item else None) or {}

    @property
    def counts(self) -> ActionCounts | None:
        """Return the numbers of actions; None without `--counts`."""
        return self.item.counts if self.item else None

    @property
    def time(self) -> CommitTime | None:
        """Return when the commit was made."""
        return None if self.item is None else self.item.time


def history_columns(clock: Clock, *, counts: bool) -> list[Column[HistoryLine]]:
    """Return every column, in the order of a full row.

    Args:
        clock: Asked once, if ages are shown.
        counts: Whether the columns of `--counts` are among them.
    """
    return [
        *_columns_of_commits(cache(clock)),
        *_columns_of_writers(),
        *(_columns_of_counts() if counts else []),
        Column(
            "problem",
            lambda line: line.item and line.item.problem,
            style=lambda _: Style.PROBLEM,
            priority=1,
            min_width=12,
        ),
        Column(
            "commitInfo",
            lambda line: line.item and line.item.as_json().get("commitInfo"),
            on_screen=False,
            in_pipe=False,
        ),
    ]


def _columns_of_commits(now_ms: Clock) -> list[Column[HistoryLine]]:
    """Return when each version was made, and what it did."""
    return [
        Column("version", lambda line: line.item and line.item.version, align_right=True, priority=1, min_width=7),
        Column(
            "timestamp",
            lambda line: format_timestamp(line.time.timestamp_ms) if line.time else None,
            text=lambda line: format_moment(line.time.timestamp_ms) if line.time else "",
            priority=2,
            min_width=19,
            title="committed (UTC)",
            is_rounded=True,
        ),
        Column(
            "age",
            lambda _: None,
            text=lambda line: format_age(line.time.timestamp_ms, now_ms()) if line.time else "",
            style=lambda _: Style.TIME,
            priority=6,
            min_width=13,
            in_pipe=False,
        ),
        Column("timestampSource", lambda line: line.time and line.time.source.value, on_screen=False),
        Column("hasCommitInfo", lambda line: line.item and line.item.commit_info is not None, on_screen=False),
        Column("commitInfoTimestampMs", _get_commit_info("timestamp"), on_screen=False),
        Column("inCommitTimestampMs", _get_commit_info("inCommitTimestamp"), on_screen=False),
        Column(
            "operation",
            _get_commit_info("operation"),
            text=_format_operation,
            style=lambda line: style_of_operation(line.item.operation if line.item else None),
            priority=1,
            min_width=10,
        ),
        Column(
            "operationParameters",
            _get_commit_info("operationParameters"),
            text=lambda line: list_parameters(line.info),
            priority=3,
            min_width=12,
            title="parameters",
        ),
        Column(
            "operationMetrics",
            _get_commit_info("operationMetrics"),
            text=lambda line: describe_changes(line.info),
            priority=3,
            min_width=16,
            title="changes",
        ),
        _changed_numbers_column("files", get_changed_files),
        _changed_numbers_column("rows", get_changed_rows),
    ]


def _columns_of_writers() -> list[Column[HistoryLine]]:
    """Return who made each version, and how, as the commitInfo states it."""
    return [
        Column("userId", _get_commit_info("userId"), on_screen=False),
        Column("userName", _get_commit_info("userName"), priority=6, min_width=8, title="user"),
        Column("engineInfo", _get_commit_info("engineInfo"), priority=7, min_width=12, title="engine"),
        Column("readVersion", _get_commit_info("readVersion"), on_screen=False),
        Column("isolationLevel", _get_commit_info("isolationLevel"), on_screen=False),
        Column("isBlindAppend", _get_commit_info("isBlindAppend"), on_screen=False),
        Column("userMetadata", _get_commit_info("userMetadata"), priority=7, min_width=12, title="message"),
        Column("txnId", _get_commit_info("txnId"), on_screen=False),
    ]


def _columns_of_counts() -> list[Column[HistoryLine]]:
    """Return the columns of `--counts`: the actions of each commit, and its files and bytes."""
    return [
        Column(
            "actions",
            lambda line: line.counts and dict(line.counts.actions),
            text=_list_actions,
            priority=5,
            min_width=20,
        ),
        Column(
            "addedFiles",
            lambda line: line.counts and line.counts.added_files,
            text=lambda line: format_count(line.counts.added_files) if line.counts else "",
            align_right=True,
            priority=2,
            min_width=7,
            title="files +",
        ),
        Column(
            "removedFiles",
            lambda line: line.counts and line.counts.removed_files,
            text=lambda line: format_count(line.counts.removed_files) if line.counts else "",
            align_right=True,
            priority=2,
            min_width=7,
            title="files -",
        ),
        Column(
            "addedBytes",
            lambda line: line.counts and line.counts.added_bytes,
            text=lambda line: format_size(line.counts.added_bytes) if line.counts else "",
            align_right=True,
            priority=4,
            min_width=9,
            title="bytes +",
        ),
        Column(
            "removedBytes",
            lambda line: line.counts and line.counts.removed_bytes,
            text=_format_removed_bytes,
            align_right=True,
            priority=4,
            min_width=9,
            title="bytes -",
        ),
    ]


def make_columns_of_other_keys(
    stated_names: str | None, available: Sequence[Column[HistoryLine]]
) -> list[Column[HistoryLine]]:
    """Return a column for each key of commitInfo that the user named. Writers may add any keys to it.

    Args:
        stated_names: The value of `--columns`.
        available: The columns that every history has.

    Raises:
        UsageError: If a name is nearly that of a column.
    """
    spellings = [spelling for column in available for spelling in spellings_of_column(column)]
    columns: list[Column[HistoryLine]] = []
    for name in map(str.strip, (stated_names or "").split(",")):
        if not name or name.lower() in spellings:
            continue
        if nearest_name(name, spellings, ignores_case=True, cutoff=_MISSPELT_SIMILARITY) is not None:
            raise unknown_column_error(name, [column.name for column in available])
        columns.append(Column(name, _get_commit_info(name), priority=7, min_width=8))
    return columns


def _get_commit_info(key: str) -> Callable[[HistoryLine], Json]:
    """Return the function that gets a key of the commitInfo."""
    return lambda line: line.info.get(key)


def _format_operation(line: HistoryLine) -> str:
    if line.item is None:
        return ""
    if line.item.operation is None:
        return "" if line.item.problem else "(not recorded)"
    return describe_operation(line.item.operation, line.info)


def _list_actions(line: HistoryLine) -> str:
    actions = line.counts.actions if line.counts else {}
    return ", ".join(f"{count:,} {kind}" for kind, count in actions.items())


def _format_removed_bytes(line: HistoryLine) -> str:
    # A writer may leave out the size of a file that it removes.
    if line.counts is None or line.counts.removed_bytes is None:
        return ""
    return format_size(line.counts.removed_bytes)


def _changed_numbers_column(name: str, get_numbers: Callable[[ReportedChanges], ChangedNumbers]) -> Column[HistoryLine]:
    """Return the column `files` or `rows` for a user who names it: `+5 -2`, by the writer's metrics.

    It is shown only to a user who names it. On a screen these numbers are drawn in place of the metrics.
    """

    def text(line: HistoryLine) -> str:
        numbers = get_numbers(read_reported_changes(line.info))
        return " ".join(f"{changed.sign}{changed.number}" for changed in numbers if changed.number)

    return Column(
        name,
        lambda line: text(line) or None,
        text,
        align_right=True,
        on_screen=False,
        in_pipe=False,
        priority=3,
    )
