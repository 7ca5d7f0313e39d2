"""The corpus of real Paimon tables and its manifest, unpacked once.

`DELTACLI_PAIMON_CORPUS` names the directory that holds the archive and `manifest.json`; without it,
`shared/corpus-paimon` next to the repository.
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

from tests.support.corpus import REPOSITORY

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


def home() -> Path:
    """Return the directory of the corpus."""
    named = os.environ.get("DELTACLI_PAIMON_CORPUS")
    return Path(named) if named else REPOSITORY.parent / "shared" / "corpus-paimon"


def is_there() -> bool:
    """Return whether the corpus is there."""
    return (home() / ARCHIVE).is_file()


def absence() -> str:
    """Return why tests on the corpus are skipped."""
    return f"the corpus of Paimon tables is not in {home()}; DELTACLI_PAIMON_CORPUS names another directory"


@lru_cache(maxsize=1)
def manifest() -> Facts:
    """Return the manifest; empty without a corpus."""
    if not is_there():
        return {}
    found: Facts = json.loads((home() / "manifest.json").read_text("utf-8"))
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
        with tarfile.open(home() / ARCHIVE) as tar:
            tar.extractall(building, filter="data")
        try:
            building.rename(place)
        except OSError:  # another process was faster
            shutil.rmtree(building)
    return place
