"""`validate --trend FILE`: the file with one line per run, and the sentence that compares a run with the last one."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence

from deltacli import __version__
from deltacli.cli.invocation import invocation
from deltacli.cli.output.destination import require_file_outside_tables
from deltacli.cli.running.trend_entries import Entry, find_comparable_entry, read_trend
from deltacli.core.errors import UsageError, quote_table
from deltacli.core.texts import summarize_names
from deltacli.core.times import format_timestamp
from deltacli.core.units import plural
from deltacli.storage.output_file import unwritable_error

_NAMED = 5
_ATTEMPTS, _PAUSE_SECONDS = 200, 0.01
"""Of locking the file: 2 seconds. A run holds the lock for milliseconds."""


class Trend:
    """A trend file. It is read before anything is checked, and an invalid one is refused."""

    def __init__(self, name: str) -> None:
        require_file_outside_tables(name, "--trend")
        self._name = name
        self._entries = read_trend(_read(name), name)

    def append(self, entry: Entry) -> None:
        """Append a line in one write, so that lines of concurrent runs do not mix. Raises StorageFailed."""
        invocation.writes(self._name)
        try:
            descriptor = os.open(self._name, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                _lock(descriptor, is_exclusive=True)
                _append(descriptor, entry.line(__version__))
            finally:
                os.close(descriptor)
        except OSError as fault:
            raise unwritable_error(self._name, fault) from fault

    def compare(self, entry: Entry) -> str | None:
        """Compare a run with the last one of the same tables and options; None without one."""
        before = find_comparable_entry(self._entries, entry)
        return None if before is None else comparison(before, entry)


def comparison(before: Entry, now: Entry) -> str:
    """Return what changed between two runs, in one line."""
    changes = [
        f"{plural(abs(new - old), noun)} {'more' if new > old else 'fewer'}"
        for noun, old, new in zip(("error", "warning", "info"), before.tally[:3], now.tally[:3], strict=True)
        if new != old
    ]
    then, today = format_timestamp(before.timestamp_ms), format_timestamp(now.timestamp_ms)
    day = then[:10] if then[:10] != today[:10] else f"{then[:19]}Z"
    parts = [f"{', '.join(changes)} than {day}" if changes else f"as many findings as on {day}"]
    old_rules, new_rules = before.tally.rules, now.tally.rules
    parts += _named("new", [rule for rule in new_rules if rule not in old_rules])
    parts += _named("gone", [rule for rule in old_rules if rule not in new_rules])
    return "; ".join(parts)


def _named(what: str, rules: Sequence[str]) -> list[str]:
    if not rules:
        return []
    return [f"{what}: {summarize_names(rules, _NAMED)}"]


def _read(name: str) -> bytes:
    """Return the content of the file, empty where it does not exist. Raises UsageError where no line could be added."""
    parent = os.path.dirname(os.path.abspath(name))
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise UsageError(f"--trend {name} is not a regular file", code="usage.history")
        with open(name, "rb") as file:
            _lock(file.fileno(), is_exclusive=False)
            data = file.read()
    except FileNotFoundError:
        if not os.path.isdir(parent):
            message, hint = (
                f"--trend {name}: directory {parent} not found",
                f"mkdir -p {quote_table(os.path.dirname(name))}",
            )
            raise UsageError(message, code="usage.history", hint=hint) from None
        target, data = parent, b""
    except OSError as fault:
        raise UsageError(
            f"--trend {name} cannot be read: {(fault.strerror or str(fault)).lower()}", code="usage.history"
        ) from fault
    else:
        target = name
    if not os.access(target, os.W_OK):
        raise unwritable_error(name, PermissionError(13, os.strerror(13)))
    return data


def _lock(descriptor: int, *, is_exclusive: bool) -> None:
    """Lock an open file until it is closed, so that no run reads a partial line.

    Continue without a lock on Windows, on file systems without locks, and if another process keeps the lock, as in
    `flock trend.ndjson deltacli validate … --trend trend.ndjson`.
    """
    try:
        import fcntl
    except ImportError:
        return
    kind = fcntl.LOCK_EX if is_exclusive else fcntl.LOCK_SH
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_SECONDS)
        except OSError:
            return
        else:
            return


def _append(descriptor: int, line: bytes) -> None:
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size:
        os.lseek(descriptor, size - 1, os.SEEK_SET)
        line = line if os.read(descriptor, 1) == b"\n" else b"\n" + line
    written = os.write(descriptor, line)
    if written < len(line):  # a full disk: the next write raises the error
        os.write(descriptor, line[written:])
