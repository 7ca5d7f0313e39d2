"""The trend file of `validate --trend FILE`: append a run, and compare it with an earlier one."""

from __future__ import annotations

import errno
import os
import stat
import time

from deltacli import __version__
from deltacli.cli.invocation import invocation
from deltacli.cli.output.destination import require_file_outside_tables
from deltacli.cli.running.trend_entries import TrendEntry, find_comparable_entry, read_trend
from deltacli.core.errors import UsageError, quote_table
from deltacli.core.texts import summarize_names
from deltacli.core.times import format_timestamp
from deltacli.core.units import plural
from deltacli.storage.output_file import unwritable_error

_MAX_NAMES = 5
"""How many rules a comparison names."""
_LOCK_ATTEMPTS = 200
_LOCK_PAUSE_SECONDS = 0.01
"""A run tries for 2 seconds to lock the file. Other runs hold the lock for milliseconds."""


class Trend:
    """A trend file."""

    def __init__(self, name: str) -> None:
        """Read the file before any table is checked.

        Args:
            name: The path of the file. It need not exist.

        Raises:
            UsageError: If the file is inside a table, is not a trend file, or cannot be read.
            StorageFailed: If the file cannot be written.
        """
        require_file_outside_tables(name, "--trend")
        self._name = name
        self._entries = read_trend(_read(name), name)

    def append(self, entry: TrendEntry) -> None:
        """Append a run in a single write, so that the lines of concurrent runs do not mix.

        Raises:
            StorageFailed: If the file cannot be written.
        """
        invocation.record_output(self._name)
        try:
            descriptor = os.open(self._name, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                _lock(descriptor, is_exclusive=True)
                _append_line(descriptor, entry.encode_line(__version__))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise unwritable_error(self._name, error) from error

    def compare(self, entry: TrendEntry) -> str | None:
        """Compare a run with the last one of the same tables and limits. None if there is none."""
        earlier_entry = find_comparable_entry(self._entries, entry)
        return None if earlier_entry is None else compare_entries(earlier_entry, entry)


def compare_entries(earlier_entry: TrendEntry, entry: TrendEntry) -> str:
    """Return the differences between two runs in one line.

    For example, `2 errors more, 1 warning fewer than 2026-01-09; new: log.gap; gone: hint.bad-json`.
    """
    earlier_tally = earlier_entry.tally
    tally = entry.tally
    changes = []
    for noun, before, after in (
        ("error", earlier_tally.errors, tally.errors),
        ("warning", earlier_tally.warnings, tally.warnings),
        ("info", earlier_tally.infos, tally.infos),
    ):
        if before != after:
            changes.append(f"{plural(abs(after - before), noun)} {'more' if after > before else 'fewer'}")

    # The date is enough to identify the earlier run, unless both runs were on the same day.
    earlier_time = format_timestamp(earlier_entry.timestamp_ms)
    is_same_day = earlier_time[:10] == format_timestamp(entry.timestamp_ms)[:10]
    earlier_run = f"{earlier_time[:19]}Z" if is_same_day else earlier_time[:10]

    parts = [f"{', '.join(changes)} than {earlier_run}" if changes else f"as many findings as on {earlier_run}"]
    new_rules = [rule for rule in tally.rules if rule not in earlier_tally.rules]
    if new_rules:
        parts.append(f"new: {summarize_names(new_rules, _MAX_NAMES)}")
    gone_rules = [rule for rule in earlier_tally.rules if rule not in tally.rules]
    if gone_rules:
        parts.append(f"gone: {summarize_names(gone_rules, _MAX_NAMES)}")
    return "; ".join(parts)


def _read(name: str) -> bytes:
    """Return the content of the file. Empty if it does not exist.

    Raises:
        UsageError: If it is not a regular file, cannot be read, or its directory does not exist.
        StorageFailed: If no line could be appended, because of missing permissions.
    """
    parent = os.path.dirname(os.path.abspath(name))
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise UsageError(f"--trend {name} is not a regular file", code="usage.history")
        with open(name, "rb") as file:
            _lock(file.fileno(), is_exclusive=False)
            data = file.read()
    except FileNotFoundError:
        if not os.path.isdir(parent):
            raise UsageError(
                f"--trend {name}: directory {parent} not found",
                code="usage.history",
                hint=f"mkdir -p {quote_table(os.path.dirname(name))}",
            ) from None
        _require_write_permission(parent, name)
        return b""
    except OSError as error:
        raise UsageError(
            f"--trend {name} cannot be read: {(error.strerror or str(error)).lower()}", code="usage.history"
        ) from error
    _require_write_permission(name, name)
    return data


def _require_write_permission(path: str, name: str) -> None:
    """Require that the file, or the directory in which it will be created, can be written. Raises StorageFailed."""
    if not os.access(path, os.W_OK):
        raise unwritable_error(name, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def _lock(descriptor: int, *, is_exclusive: bool) -> None:
    """Lock an open file until it is closed, so that no run reads a partial line.

    Continue without a lock on Windows, on file systems without locks, and if another process keeps the lock, as in
    `flock trend.ndjson deltacli validate … --trend trend.ndjson`.
    """
    try:
        import fcntl
    except ImportError:
        return
    operation = fcntl.LOCK_EX if is_exclusive else fcntl.LOCK_SH
    for _ in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_SECONDS)
        except OSError:
            return
        else:
            return


def _append_line(descriptor: int, line: bytes) -> None:
    """Append a line. If the last line of the file has no line feed, one is added before the new line."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size:
        os.lseek(descriptor, size - 1, os.SEEK_SET)
        if os.read(descriptor, 1) != b"\n":
            line = b"\n" + line
    written = os.write(descriptor, line)
    if written < len(line):
        # The disk is full. The second write raises the error.
        os.write(descriptor, line[written:])
