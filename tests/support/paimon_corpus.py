"""The corpus of real Paimon tables and its manifest, unpacked once.

Without it, each function here skips the test that calls it, or the module that calls it while it is imported.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.material import PAIMON_CORPUS

ARCHIVE = "paimon-corpus-a.tar.xz"

Facts = dict[str, Any]  # Any: JSON values


class Branch(NamedTuple):
    """A branch of a table of the corpus, and what the manifest says about it."""

    table: str
    name: str
    facts: Facts

    @property
    def is_by_java(self) -> bool:
        """Whether Java wrote the table; the others are by pypaimon."""
        return self.table.startswith("java/")


@lru_cache(maxsize=1)
def manifest() -> Facts:
    """Return the manifest."""
    found: Facts = json.loads((PAIMON_CORPUS.require() / "manifest.json").read_text("utf-8"))
    return found


def branches() -> Iterator[Branch]:
    """Yield every branch of every sound table."""
    for writer in ("pypaimon", "java"):
        for table, entry in manifest().get(writer, {}).items():
            for name, facts in entry["branches"].items():
                yield Branch(f"{writer}/{table}", name, facts)


def cases(name: str) -> list[Facts]:
    """Return the cases of one file in `cases`."""
    found: list[Facts] = json.loads((unpacked() / "cases" / f"{name}.json").read_text("utf-8"))
    return found


@lru_cache(maxsize=1)
def unpacked() -> Path:
    """Return the directory of the unpacked corpus, shared by all tests of this user."""
    place = Path(tempfile.gettempdir()) / f"deltacli-paimon-{os.getuid()}-{manifest()['sha256'][:12]}"
    if not place.is_dir():
        building = Path(tempfile.mkdtemp(prefix=f"{place.name}-"))
        with tarfile.open(PAIMON_CORPUS.require() / ARCHIVE) as tar:
            tar.extractall(building, filter="data")
        try:
            building.rename(place)
        except OSError:  # another process was faster
            shutil.rmtree(building)
    return place
