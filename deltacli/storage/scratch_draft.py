"""Drafts of files that are sent to a store over a network: they are in the directory for temporary files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from deltacli.core.errors import StorageFailed
from deltacli.storage.locked_drafts import LockedDraft, remove_abandoned_drafts
from deltacli.storage.outcomes import Created, Creation

_PREFIX = "deltacli-"


class ScratchDraft:
    """A file in the directory for temporary files (`TMPDIR`), which is removed at the end of a `with` block.

    Attributes:
        local_path: The path of the file, once the block has begun.
    """

    def __init__(self, create: Callable[[str], Creation], replace: Callable[[str], None]) -> None:
        """Both functions receive the local path of the file to send."""
        self.local_path = ""
        self._create = create
        self._replace = replace
        self._draft: LockedDraft | None = None

    def __enter__(self) -> Self:
        """Create the file, and remove those of killed runs."""
        import tempfile

        try:
            directory = tempfile.gettempdir()
            # Readable by this user only: others use the directory, too.
            self._draft = LockedDraft(directory, _PREFIX, mode=0o600)
            self.local_path = self._draft.local_path
            remove_abandoned_drafts(directory, _PREFIX, self._draft.changed_ns)
        except OSError as error:
            raise StorageFailed(
                f"cannot create a temporary file: {(error.strerror or str(error)).lower()}",
                hint="set TMPDIR to a directory with free space",
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._draft is not None:
            self._draft.close()

    def publish(self, *, replace: bool = False) -> Creation:
        """Send the file."""
        if not replace:
            return self._create(self.local_path)
        self._replace(self.local_path)
        return Created()
