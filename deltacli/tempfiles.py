"""Temporary files of this process, so that whoever must leave at once can still remove them."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

_present: set[Path] = set()


def remember(path: Path) -> None:
    """Note a temporary file or directory that was just made."""
    _present.add(path)


def forget(path: Path) -> None:
    """Drop one that its maker has removed or renamed."""
    _present.discard(path)


def remove_all() -> None:
    """Remove whatever is noted; faults are passed over, because the process is about to end."""
    for path in list(_present):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
