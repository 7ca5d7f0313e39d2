"""All rules and checks for Paimon tables, and what they look at: one schema file, two neighbouring schemas, and a
branch as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from deltacli.core.errors import Unreadable
from deltacli.delta.log.segment import Place
from deltacli.paimon.schema import Schema
from deltacli.paimon.snapshots import MAIN_BRANCH, schema_path
from deltacli.rules.framework.base import Catalogue


class Profile(StrEnum):
    """The reader that has to accept the table."""

    JAVA = "java"
    CPP = "cpp"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class SchemaFileView:
    """One schema file: its content, or why it cannot be read.

    Attributes:
        is_in_use: True for the newest schema, which engines open the table with, and for one that a snapshot, a tag or
            a data file names.
    """

    id: int
    content: Schema | Unreadable
    branch: str = MAIN_BRANCH
    profile: Profile = Profile.JAVA
    is_in_use: bool = True

    def place(self, key: str | None = None) -> Place:
        """Return the place of a field or an option in the file."""
        return Place(schema_path(self.id, self.branch), version=self.id, key=key)

    @property
    def schema(self) -> Schema | None:
        """The schema, None if it cannot be read."""
        return None if isinstance(self.content, Unreadable) else self.content


@dataclass(frozen=True, slots=True)
class EvolutionView:
    """Two neighbouring schemas of a branch. `has_snapshots`: the table had a snapshot in between."""

    before: Schema
    after: Schema
    has_snapshots: bool
    branch: str = MAIN_BRANCH

    def place(self, key: str | None = None) -> Place:
        """Return the place of a field or an option in the later file."""
        return Place(schema_path(self.after.id, self.branch), version=self.after.id, key=key)


@dataclass(frozen=True, slots=True)
class BranchView:
    """A branch: the ids of its schema files, other files beside them, schemas in use with their users in words, and
    files that cannot be read (path, rule, reason).
    """

    branch: str
    ids: Sequence[int]
    strays: Sequence[str]
    users: Mapping[int, str]
    broken: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class BranchesView:
    """All branches of a table, with the newest schema of each; None where it cannot be read."""

    newest: Mapping[str, Schema | None]


PAIMON_CATALOGUE = Catalogue(
    "deltacli.rules.paimon",
    {
        "schema_files": "SchemaFileView",
        "table_options": "SchemaFileView",
        "engine_support": "SchemaFileView",
        "branches": "BranchView BranchesView EvolutionView",
    },
)
