"""Drafts of stores without a file system of their own: a temporary local file, sent when it is published."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Self

from deltacli.errors import StorageFailed
from deltacli.storage.drafts import LockedDraft, sweep
from deltacli.storage.outcomes import Created, Creation

_PREFIX = "deltacli-"


class ScratchDraft:
    """A file in the directory for temporary files (`TMPDIR`), which is always removed at the end."""

    def __init__(self, create: Callable[[str], Creation], replace: Callable[[str], None]) -> None:
        """`create` and `replace` get the local path of what they send."""
        self._create, self._replace = create, replace
        self.place = ""
        self._draft: LockedDraft | None = None

    def __enter__(self) -> Self:
        try:
            directory = tempfile.gettempdir()
            self._draft = LockedDraft(directory, _PREFIX, mode=0o600)
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
        if not replace:
            return self._create(self.place)
        self._replace(self.place)
        return Created()
