"""Names of scratch files, and their removal.

They are in the table directory itself, never in `_delta_log`. Readers of a Delta table open only files that the log
names. Readers of plain Parquet directories leave out names that begin with `_`, and so does the vacuum of every engine.
There is no directory of its own, which stores with directories would keep after its files are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from deltacli.core.errors import StorageFailed
from deltacli.storage import Failed
from deltacli.storage.probing.subject import Subject

PREFIX = "_deltacli-doctor-"


@dataclass
class Scratch:
    """The scratch files of one run. `names` are all that may exist."""

    run: str = field(default_factory=lambda: uuid4().hex[:12])
    names: list[str] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        return f"{PREFIX}{self.run}-"

    def name(self, word: str) -> str:
        """Return the name of a scratch file, which is deleted at the end of the run."""
        name = f"{self.prefix}{word}"
        if name not in self.names:
            self.names.append(name)
        return name

    def clear(self, subject: Subject) -> list[str]:
        """Delete all scratch files and return those that may be left."""
        if not self.names:
            return []
        try:
            outcomes = subject.delete(self.names)
        except StorageFailed:
            return list(self.names)
        failed = [name for name, outcome in outcomes if isinstance(outcome, Failed)]
        try:
            return sorted({*failed, *subject.names(self.prefix)})
        except StorageFailed:
            return failed
