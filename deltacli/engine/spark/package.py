"""The archive with which deltacli reaches executors: its own modules, with the hash of their content in the name.

A session refuses other content under the name of a file it already has, so the name has to change with the content.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

from deltacli.core.release import VERSION

_LEFT_OUT = ("cli", "api", "__pycache__")
"""Directories that executors never import."""
_ROOT = Path(__file__).parents[2]
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_package(directory: str | os.PathLike[str]) -> Path:
    """Write `deltacli-VERSION-HASH.zip` into a directory and return its path; an existing one is kept.

    The content is the same for the same sources. If deltacli itself runs from an archive, that one is returned. Raises
    OSError.
    """
    if _ROOT.parent.is_file():
        return _ROOT.parent
    entries = list(_entries())
    digest = hashlib.sha256()
    for name, content in entries:
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    path = Path(directory) / f"deltacli-{VERSION}-{digest.hexdigest()[:16]}.zip"
    if path.exists():
        return path
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in entries:
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def _entries() -> Iterator[tuple[str, bytes]]:
    """Yield the modules and data files of the package by their names in the archive, sorted."""
    for path in sorted(_ROOT.rglob("*")):
        inner = path.relative_to(_ROOT)
        if path.is_file() and not set(inner.parts[:-1]) & set(_LEFT_OUT) and path.suffix != ".pyc":
            yield f"deltacli/{inner.as_posix()}", path.read_bytes()
