"""One line of a JSON file of the log, so that a finding can be shown where it is."""

from __future__ import annotations

from deltacli.errors import DeltacliError
from deltacli.storage import Storage

MOST_BYTES = 4 << 20
"""How far into a file is read; commits of megabytes are not worth a wait."""
LONGEST_LINE = 64 << 10
_PIECE = 256 << 10


def read_log_line(storage: Storage, path: str, line: int) -> bytes | None:
    """Return line `line` (from 1) of a file, without its end; None where it is too far in, too long, or unreadable."""
    data, read = b"", 0
    try:
        while read < MOST_BYTES:
            piece = storage.read_range(path, read, _PIECE)
            read += len(piece)
            *whole, data = (data + piece).split(b"\n")
            if line <= len(whole):
                return _short(whole[line - 1])
            line -= len(whole)
            if len(piece) < _PIECE:
                return _short(data) if line == 1 else None
    except DeltacliError:
        pass  # the finding says what is wrong without its line
    return None


def _short(line: bytes) -> bytes | None:
    return line if 0 < len(line) <= LONGEST_LINE else None
