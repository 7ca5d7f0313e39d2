"""A registry of the temporary files and directories of this process.

After a second signal the process exits immediately, without running the `with` blocks that would remove the files.
`remove_all` removes them in that case.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

_existing_paths: set[Path] = set()


def remember(path: Path) -> None:
    """Register a temporary file or directory that was just created."""
    _existing_paths.add(path)


def forget(path: Path) -> None:
    """Unregister a file or directory that has been removed or renamed."""
    _existing_paths.discard(path)


def remove_all() -> None:
    """Remove all registered files and directories. Errors are ignored, because the process is about to exit."""
    for path in list(_existing_paths):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
