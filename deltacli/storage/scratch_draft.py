"""Drafts for stores on a network: temporary files in the directory for temporary files (`TMPDIR`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from deltacli.core.errors import StorageFailed
from deltacli.storage.locked_drafts import LockedDraft, remove_abandoned_drafts
from deltacli.storage.outcomes import Created, Creation

_PREFIX = "deltacli-"


class ScratchDraft:
    """A temporary file that is uploaded when it is published. Implements `Draft`.

    The file exists inside the `with` block.

    Attributes:
        local_path: The path of the file.
    """

    def __init__(self, create: Callable[[str], Creation], replace: Callable[[str], None]) -> None:
        """Prepare a draft. The file is created at the beginning of the `with` block.

        Args:
            create: Uploads the file at a local path, if the target does not exist.
            replace: Uploads the file at a local path, and replaces the target.
        """
        self.local_path = ""
        self._create = create
        self._replace = replace
        self._draft: LockedDraft | None = None

    def __enter__(self) -> Self:
        """Create the file, and remove the drafts of processes that were killed."""
        import tempfile

        try:
            directory = tempfile.gettempdir()
            # Other users may have access to the directory. Only this user may read the file.
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
        """Upload the file.

        Args:
            replace: Whether to replace an existing file.
        """
        if not replace:
            return self._create(self.local_path)
        self._replace(self.local_path)
        return Created()
