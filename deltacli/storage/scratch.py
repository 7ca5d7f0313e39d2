"""Drafts of stores without a file system of their own: a temporary local file, sent when it is published."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Self

from deltacli.errors import StorageFailed
from deltacli.storage.base import Creation
from deltacli.storage.drafts import Draft, sweep

_PREFIX = "deltacli-"


class ScratchDraft:
    """A file in the directory for temporary files (`TMPDIR`), which is always removed at the end."""

    def __init__(self, send: Callable[[str, bool], Creation]) -> None:
        """`send` gets the local path, and whether to replace an existing file."""
        self._send = send
        self.place = ""
        self._draft: Draft | None = None

    def __enter__(self) -> Self:
        try:
            directory = tempfile.gettempdir()
            self._draft = Draft(directory, _PREFIX, mode=0o600)
            self.place = self._draft.place
            sweep(directory, _PREFIX, self._draft.changed_ns)
        except OSError as fault:
            raise StorageFailed(
                f"cannot create a temporary file: {(fault.strerror or str(fault)).lower()}",
                hint="set TMPDIR to a directory with free space",
            ) from fault
        return self

    def __exit__(self, *_: object) -> None:
        if self._draft is not None:
            self._draft.close()

    def publish(self, *, replace: bool = False) -> Creation:
        """Send the file."""
        return self._send(self.place, replace)
