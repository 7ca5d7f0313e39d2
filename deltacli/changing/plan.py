"""What plans and outcomes of changes have in common: one commit, amounts of files, files that were not deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from deltacli.core.errors import DeltacliError, PermissionRefused
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.storage import Failed

if TYPE_CHECKING:
    from deltacli.changing.basis import Basis
    from deltacli.table.handle import TableHandle

NAMED_FAILURES = 1_000


class Shortfall:
    """What a change left undone, as the fields of the error that `changing.change` makes of it."""

    def __init__(self, code: str, message: str, facts: Mapping[str, str], hint: str | None = None) -> None:
        self.code, self.message, self.facts, self.hint = code, message, facts, hint


Undone = Shortfall | DeltacliError | None
"""What an outcome lacks: the error itself where nothing was done. None: nothing."""


class Whole:
    """The outcome of a change that is made, or ends with an error."""

    __slots__ = ()

    def shortfall(self) -> None:
        """Return None: nothing is left undone."""


class OnTable:
    """A plan or an outcome with the table of its basis, bound to the directory where it was planned."""

    __slots__ = ()
    basis: Basis

    @property
    def table(self) -> TableHandle:
        return self.basis.table


class OnTableAt:
    """A plan or an outcome with the URI of the table of its basis."""

    __slots__ = ()
    basis: Basis

    @property
    def table(self) -> str:
        return self.basis.table.uri


class Unopposed:
    """A plan without objections: what forbids it is found before it is planned."""

    __slots__ = ()

    def objection(self) -> None:
        """Return None."""


@dataclass(frozen=True, slots=True)
class OneCommit(Whole):
    """A change of one commit, planned or made. `committed_version` is None where nothing was committed."""

    basis: Basis = field(repr=False)
    committed_version: int | None = field(default=None, kw_only=True)

    def so_far(self) -> str:
        version = "a version" if self.committed_version is None else f"version {self.committed_version}"
        return f"{version} was committed"


class Amount(NamedTuple):
    """The number of files, their bytes as far as they are known, and their rows; None: not all of them are known."""

    files: int = 0
    size_bytes: int = 0
    rows: int | None = None

    @classmethod
    def of(cls, sizes: Iterable[int]) -> Amount:
        found = list(sizes)
        return cls(len(found), sum(found))

    def __add__(self, other: Amount) -> Amount:  # type: ignore[override]
        """Return both together; the rows are known where they are known of both."""
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        return Amount(self.files + other.files, self.size_bytes + other.size_bytes, rows)

    def as_json(self, **names: str) -> dict[str, Json]:
        """Return the amount as in a document, given its names and the field that each has: `count="files"`."""
        names = names or {"files": "files", "sizeBytes": "size_bytes"}
        return {name: getattr(self, field_name) for name, field_name in names.items()}


NO_FILES = Amount()


@dataclass
class Failures:
    """The deletions that failed: their number, path and reason of the first ones, and which of them lacked permission.

    Of more than `limit` files the others are only counted.
    """

    count: int = 0
    named: list[tuple[str, str]] = field(default_factory=list)
    limit: int | None = field(default=NAMED_FAILURES, compare=False)
    denied: int = field(default=0, compare=False)
    denial: PermissionRefused | None = field(default=None, compare=False)
    """The first refusal for lack of permission."""

    def note(self, path: str, failure: Failed) -> None:
        """Count the failure of a file."""
        self.count += 1
        if failure.denied is not None:
            self.denied += 1
            self.denial = self.denial or failure.denied
        if self.limit is None or len(self.named) < self.limit:
            self.named.append((path, failure.reason))

    def as_json(self) -> list[Json]:
        return [{"path": path, "reason": reason} for path, reason in self.named]

    def shortfall(self, what: str, *, code: str, has_deleted: bool, hint: str | None = None, where: str = "") -> Undone:
        """Return what names the first file, where a deletion failed; the files are called `what`. Where nothing was
        deleted and each deletion lacked permission, return that error: the same command would fail again.
        """
        if not self.count:
            return None
        path, reason = self.named[0]
        facts = {"first": path, "why": reason}
        if self.denial is not None and not has_deleted and self.denied >= self.count:
            message = f"nothing was deleted: no permission to delete {plural(self.count, 'file')}"
            refused = PermissionRefused(message, facts=facts, hint=self.denial.hint)
            refused.denied_path = self.denial.denied_path
            refused.__cause__ = self.denial
            return refused
        return Shortfall(code, f"{plural(self.count, what)}{where} could not be deleted", facts, hint)
