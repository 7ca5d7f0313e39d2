"""Outcomes: what a change did, and which part of the plan it could not do.

An operation returns its outcome if everything was done. If a part could not be done, `require_complete` raises
PartlyDone instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from deltacli.core import errors
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.storage import Failed

if TYPE_CHECKING:
    from deltacli.changing.base_version import BaseVersion

MAX_NAMED_FAILURES = 1_000


@dataclass(frozen=True, slots=True)
class PartialFailure:
    """The reason why a change could not do everything that was planned. It becomes a PartlyDone error.

    Attributes:
        code: The code of the error.
        message: The part that was not done: `3 files could not be deleted`.
        facts: Details, such as the first of the files.
        hint: The command that does the missing part; None if there is none.
    """

    code: str
    message: str
    facts: Mapping[str, str]
    hint: str | None = None


OutcomeProblem = PartialFailure | errors.DeltacliError | None
"""The problem of an outcome. None if everything was done, a DeltacliError if nothing was done."""


class Outcome(Protocol):
    """A record of what a change did. It is updated during the execution, so it is also valid after an error."""

    def describe_progress(self) -> str:
        """Return a phrase that says what was done so far: `version 7 was committed`."""

    def build_partial_failure(self) -> OutcomeProblem:
        """Return the reason why something was not done; None if everything was done."""


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


def require_complete(outcome: Outcome) -> None:
    """Require that a change did everything that was planned.

    Raises:
        PartlyDone: If only a part was done.
        DeltacliError: If nothing was done. It is the error that the outcome returns.
    """
    problem = outcome.build_partial_failure()
    if problem is None:
        return
    if isinstance(problem, errors.DeltacliError):
        raise problem
    raise errors.PartlyDone(problem.message, code=problem.code, facts=problem.facts, hint=problem.hint)


class CompleteOutcome:
    """Base class for outcomes of changes that either do everything or raise an error."""

    __slots__ = ()

    def build_partial_failure(self) -> None:
        """Return None, because everything was done."""


@dataclass(frozen=True, slots=True)
class SingleCommitChange(CompleteOutcome):
    """Base class for changes that consist of one commit. A subclass is both the plan and the outcome of its change.

    Attributes:
        base_version: The version that the change was planned for.
        committed_version: The version that was committed; None in a plan.
    """

    base_version: BaseVersion = field(repr=False)
    committed_version: int | None = field(default=None, kw_only=True)

    def describe_progress(self) -> str:
        """Return a phrase that says which version was committed."""
        version = "a version" if self.committed_version is None else f"version {self.committed_version}"
        return f"{version} was committed"


@dataclass
class DeletionFailures:
    """The files that a change could not delete.

    Attributes:
        count: The number of files.
        named: The path of each file and the reason, for the first `limit` files.
        limit: The maximum length of `named`; None for no limit.
        denied: The number of files that could not be deleted for lack of permission.
        denial: The first permission error; None if there was none.
    """

    count: int = 0
    named: list[tuple[str, str]] = field(default_factory=list)
    limit: int | None = field(default=MAX_NAMED_FAILURES, compare=False)
    denied: int = field(default=0, compare=False)
    denial: errors.PermissionRefused | None = field(default=None, compare=False)

    def note(self, path: str, failure: Failed) -> None:
        """Record a file that could not be deleted."""
        self.count += 1
        if failure.denied is not None:
            self.denied += 1
            self.denial = self.denial or failure.denied
        if self.limit is None or len(self.named) < self.limit:
            self.named.append((path, failure.reason))

    def as_json(self) -> list[Json]:
        """Return the files in `named` as an array of a JSON document."""
        return [{"path": path, "reason": reason} for path, reason in self.named]

    def build_partial_failure(
        self, noun: str, *, code: str, has_deleted: bool, hint: str | None = None, where: str = ""
    ) -> OutcomeProblem:
        """Return the problem of an outcome with these failures. It has the first file as an example.

        Args:
            noun: The kind of files, in the singular: `manifest`.
            code: The code of the error.
            has_deleted: Whether other files were deleted.
            hint: The command that tries again.
            where: Words that follow the number of files in the message, with a leading space: ` of the quarantine`.

        Returns:
            None if there are no failures. PermissionRefused if no file was deleted, because no deletion was permitted:
            PartlyDone with a hint to try again would be misleading. Otherwise a PartialFailure.
        """
        if not self.count:
            return None
        path, reason = self.named[0]
        facts = {"first": path, "why": reason}
        nothing_was_permitted = self.denied >= self.count and not has_deleted
        if self.denial is not None and nothing_was_permitted:
            return self._build_permission_error(self.denial, facts)
        return PartialFailure(code, f"{plural(self.count, noun)}{where} could not be deleted", facts, hint)

    def _build_permission_error(
        self, denial: errors.PermissionRefused, facts: Mapping[str, str]
    ) -> errors.PermissionRefused:
        """Return the error for a change that was not permitted to delete any file."""
        message = f"nothing was deleted: no permission to delete {plural(self.count, 'file')}"
        error = errors.PermissionRefused(message, facts=facts, hint=denial.hint)
        error.denied_path = denial.denied_path
        error.__cause__ = denial
        return error
