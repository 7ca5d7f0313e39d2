"""The interface of outcomes: what a change did, and what it had to leave undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from deltacli.core import errors
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.storage import Failed

if TYPE_CHECKING:
    from deltacli.changing.basis import Basis

MAX_NAMED_FAILURES = 1_000


class PartialFailure:
    """The reason why a change could not do everything that was planned.

    `require_complete` makes a PartlyDone of it.

    Attributes:
        code: The code of the error.
        message: What was left undone.
        facts: What is known about it, such as the first file.
        hint: The command that does the rest; None if there is none.
    """

    def __init__(self, code: str, message: str, facts: Mapping[str, str], hint: str | None = None) -> None:
        self.code = code
        self.message = message
        self.facts = facts
        self.hint = hint


OutcomeProblem = PartialFailure | errors.DeltacliError | None
"""What is wrong with an outcome. A DeltacliError if nothing at all was done, None if everything was done."""


class Outcome(Protocol):
    """A record of what a change did. It is filled while the change is executed."""

    def describe_progress(self) -> str:
        """Return in words what was done so far, for the report about an error or an interruption."""

    def build_partial_failure(self) -> OutcomeProblem:
        """Return what was left undone; None if nothing was."""


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


def require_complete(outcome: Outcome) -> None:
    """Require that a change did everything that was planned.

    Raises:
        PartlyDone: If something was left undone.
        DeltacliError: The error of the outcome, if nothing was done at all.
    """
    problem = outcome.build_partial_failure()
    if problem is None:
        return
    if isinstance(problem, errors.DeltacliError):
        raise problem
    raise errors.PartlyDone(problem.message, code=problem.code, facts=problem.facts, hint=problem.hint)


class CompleteOutcome:
    """Base class of outcomes that are complete, because the change ends with an error otherwise."""

    __slots__ = ()

    def build_partial_failure(self) -> None:
        """Return None: nothing is left undone."""


@dataclass(frozen=True, slots=True)
class SingleCommitChange(CompleteOutcome):
    """A change that consists of one commit; the same class is its plan and its outcome.

    Attributes:
        basis: The version that it was planned on.
        committed_version: The version that was committed; None if nothing was committed yet.
    """

    basis: Basis = field(repr=False)
    committed_version: int | None = field(default=None, kw_only=True)

    def describe_progress(self) -> str:
        """Return which version was committed."""
        version = "a version" if self.committed_version is None else f"version {self.committed_version}"
        return f"{version} was committed"


@dataclass
class DeletionFailures:
    """The files that could not be deleted. Of more than `limit` files, the later ones are only counted.

    Attributes:
        count: The number of failures.
        named: Path and reason of the first ones.
        limit: How many are named; None for all.
        denied: How many failed for lack of permission.
        denial: The first error of these.
    """

    count: int = 0
    named: list[tuple[str, str]] = field(default_factory=list)
    limit: int | None = field(default=MAX_NAMED_FAILURES, compare=False)
    denied: int = field(default=0, compare=False)
    denial: errors.PermissionRefused | None = field(default=None, compare=False)

    def note(self, path: str, failure: Failed) -> None:
        """Count a file that could not be deleted."""
        self.count += 1
        if failure.denied is not None:
            self.denied += 1
            self.denial = self.denial or failure.denied
        if self.limit is None or len(self.named) < self.limit:
            self.named.append((path, failure.reason))

    def as_json(self) -> list[Json]:
        """Return the named files as an array of a document."""
        return [{"path": path, "reason": reason} for path, reason in self.named]

    def build_partial_failure(
        self, noun: str, *, code: str, has_deleted: bool, hint: str | None = None, where: str = ""
    ) -> OutcomeProblem:
        """Return the problem that these failures make of an outcome, with the first file as an example.

        Args:
            noun: What the files are called, in the singular.
            code: The code of the problem.
            has_deleted: Whether other files were deleted, so that the change was done in part.
            hint: The command that tries again.
            where: Words that follow the number of files.

        Returns:
            None without failures. PermissionRefused if nothing was deleted and no deletion was permitted: the same
            command would fail again, so "done in part, try again" would mislead.
        """
        if not self.count:
            return None
        path, reason = self.named[0]
        facts = {"first": path, "why": reason}
        if self.denial is not None and not has_deleted and self.denied >= self.count:
            return self._build_permission_error(self.denial, facts)
        return PartialFailure(code, f"{plural(self.count, noun)}{where} could not be deleted", facts, hint)

    def _build_permission_error(
        self, denial: errors.PermissionRefused, facts: Mapping[str, str]
    ) -> errors.PermissionRefused:
        message = f"nothing was deleted: no permission to delete {plural(self.count, 'file')}"
        error = errors.PermissionRefused(message, facts=facts, hint=denial.hint)
        error.denied_path = denial.denied_path
        error.__cause__ = denial
        return error
