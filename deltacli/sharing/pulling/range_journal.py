"""Which ranges of an unfinished download are there, recorded beside it, so that a later pull receives only the others.

The record is believed only together with a part of full length. Ranges are recorded after they are on disk.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from threading import Lock

from deltacli.sharing.pulling.parts import Part, is_strong_tag
from deltacli.storage.disk_faults import writing_faults
from deltacli.typing import Json

RANGE_BYTES = 16 << 20
_MOST_BYTES = 64 << 20


class RangeJournal:
    """The tag of the content, and the numbers of the ranges that are there."""

    def __init__(self, part: Part, size_bytes: int, tag: str, done: set[int]) -> None:
        self._part, self.size_bytes, self.tag, self.done = part, size_bytes, tag, done
        self._lock = Lock()

    @property
    def missing(self) -> list[int]:
        """Return the numbers of the ranges that are not there."""
        return [number for number in range(-(-self.size_bytes // RANGE_BYTES)) if number not in self.done]

    def add(self, number: int) -> None:
        """Sync the part, then record a range. Raises StorageFailed."""
        self._part.sync()
        with self._lock:
            with writing_faults(self._part.place, self._part.name), open(_place(self._part), "ab") as file:
                file.write(b"%d\n" % number)
            self.done.add(number)


def begin_journal(part: Part, size_bytes: int, tag: str) -> RangeJournal:
    """Drop the bytes of a part, give it its full length, and start a record. Raises NoSpace and StorageFailed."""
    drop_journal(part)
    part.restart(None, is_large=False)
    part.stretch(size_bytes)
    head = json.dumps({"tag": tag, "size": size_bytes, "range": RANGE_BYTES})
    with writing_faults(part.place, part.name), open(_place(part), "wb") as file:
        file.write(f"{head}\n".encode())
    return RangeJournal(part, size_bytes, tag, set())


def read_journal(part: Part, size_bytes: int) -> RangeJournal | None:
    """Return the record of an unfinished download in ranges; None where there is none that fits."""
    try:
        with open(_place(part), "rb") as file:
            lines = file.read(_MOST_BYTES).split(b"\n")[:-1]  # a last line that was cut does not count
        head: dict[str, Json] = json.loads(lines[0])
        tag, numbers = head["tag"], {int(line) for line in lines[1:]}
    except (OSError, ValueError, LookupError, TypeError):
        return None
    is_same = (head.get("size"), head.get("range")) == (size_bytes, RANGE_BYTES) and part.size_bytes == size_bytes
    return RangeJournal(part, size_bytes, tag, numbers) if is_same and is_strong_tag(tag) else None


def drop_journal(part: Part) -> None:
    """Forget the ranges of a part."""
    with writing_faults(part.place, part.name), suppress(FileNotFoundError):
        os.unlink(_place(part))


def _place(part: Part) -> str:
    return f"{part.place}.ranges"
