"""Write the modules of deltacli as the archive that executors import."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

from deltacli.core.release import VERSION

_LEFT_OUT = ("cli", "api", "__pycache__")
"""Directories that executors never import."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_package(directory: str | os.PathLike[str]) -> Path:
    """Write `deltacli-VERSION-HASH.zip` into a directory and return its path; an existing one is kept.

    The content is the same for the same sources. If deltacli itself runs from an archive, that one is returned. Raises
    OSError.
    """
    root = _find_package_root()
    if root.parent.is_file():
        return root.parent
    entries = list(_list_entries(root))
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


def _find_package_root() -> Path:
    return Path(__file__).parents[2]  # not while a module is imported: those that are carried to executors have no file


def _list_entries(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the modules and data files of the package by their names in the archive, sorted."""
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root)
        if path.is_file() and not set(inner.parts[:-1]) & set(_LEFT_OUT) and path.suffix != ".pyc":
            yield f"deltacli/{inner.as_posix()}", path.read_bytes()
