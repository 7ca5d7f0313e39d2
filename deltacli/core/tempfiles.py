"""Temporary files and directories of this process, so that an immediate exit can still remove them.

A second signal ends the process without unwinding, so no `with` block cleans up.
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
    """Unregister a path that its creator has removed or renamed."""
    _existing_paths.discard(path)


def remove_all() -> None:
    """Remove everything registered. Errors are ignored, because the process is about to end."""
    for path in list(_existing_paths):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
