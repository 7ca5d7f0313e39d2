"""File descriptors that are closed when the object that holds them is deleted."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NoReturn, Self


class OpenDescriptor:
    """A file descriptor that is closed when this object is deleted.

    Two objects must never hold the same descriptor. Both would close it, and between the first and the second time,
    another thread may have opened another file, which gets the same number. That file would be closed instead. So a
    copy of a result that refers to an open file refers to this same object, and the object cannot be pickled.

    Attributes:
        number: The number of the descriptor.
    """

    def __init__(self, number: int) -> None:
        self.number = number

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("open stores cannot be sent to another process; send their location")

    def __del__(self) -> None:
        # Python would print an error of a destructor, but nobody can act on it: nothing was written through the
        # descriptor that is not synced already. A program that closes all descriptors to become a daemon has also
        # closed this one.
        with suppress(OSError):
            os.close(self.number)
