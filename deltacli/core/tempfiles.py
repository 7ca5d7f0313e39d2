"""Temporary files of this process, so that an immediate exit can still remove them."""

from __future__ import annotations

import contextlib
from pathlib import Path

_present: set[Path] = set()


def remember(path: Path) -> None:
    """Register a temporary file or directory that was just created."""
    _present.add(path)


def forget(path: Path) -> None:
    """Unregister one that its creator has removed or renamed."""
    _present.discard(path)


def remove_all() -> None:
    """Remove everything registered. Errors are ignored, because the process is about to end."""
    for path in list(_present):
        if path.is_dir():
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
