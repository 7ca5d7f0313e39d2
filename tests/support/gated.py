"""Slow work on command: a file system for fsspec whose reads wait at a gate until a test opens it.

`gated:///path` is the local directory. A read of a file whose name contains `GATE_AT` writes a byte on the descriptor
`GATE_BELL` when it arrives, and goes on when it has read one from `GATE_KEY`.

`python -m tests.support.gated ARGUMENTS` runs the command line with it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fsspec


class GatedFileSystem(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """The local disk, read only, with a gate."""

    protocol = "gated"
    cachable = False

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        found = [self.info(f"{path}/{name}") for name in sorted(os.listdir(path))]
        return found if detail else [entry["name"] for entry in found]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        status = Path(path).stat()
        return {
            "name": path,
            "size": status.st_size,
            "type": "directory" if Path(path).is_dir() else "file",
            "mtime": status.st_mtime,
        }

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        self._wait(path)
        return Path(path).read_bytes()[start:end]

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        self._wait(path)
        return open(path, mode)

    @staticmethod
    def _wait(path: str) -> None:
        if os.environ["GATE_AT"] in path:
            os.write(int(os.environ["GATE_BELL"]), b".")
            os.read(int(os.environ["GATE_KEY"]), 1)


def main() -> None:
    """Run the command line, which finds `gated://` among fsspec's file systems."""
    from deltacli.__main__ import main as deltacli

    fsspec.register_implementation("gated", GatedFileSystem)
    deltacli()


if __name__ == "__main__":
    main()
