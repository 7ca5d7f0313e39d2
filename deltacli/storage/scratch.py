"""Drafts of stores without a file system of their own: a temporary local file, sent when it is published."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from deltacli import leftovers
from deltacli.errors import StorageFailed
from deltacli.storage.base import Creation


class ScratchDraft:
    """A file in the directory for temporary files (`TMPDIR`), gone at the end whatever happens."""

    def __init__(self, send: Callable[[str, bool], Creation]) -> None:
        """`send` takes the local path, and whether to replace what is there."""
        self._send = send
        self.place = ""

    def __enter__(self) -> Self:
        try:
            descriptor, self.place = tempfile.mkstemp(prefix="deltacli-", suffix=".tmp")
            leftovers.remember(Path(self.place))
        except OSError as fault:
            raise StorageFailed(
                f"no temporary file can be made: {(fault.strerror or str(fault)).lower()}",
                hint="set TMPDIR to a directory with room",
            ) from fault
        os.close(descriptor)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.unlink(self.place)
        leftovers.forget(Path(self.place))

    def publish(self, *, replace: bool = False) -> Creation:
        """Send the file."""
        return self._send(self.place, replace)
