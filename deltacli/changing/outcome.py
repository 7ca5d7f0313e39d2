"""Outcomes: records of what a change did, and errors for the part of the plan that it could not do.

Example: a vacuum has deleted 98 of 100 files. Its outcome contains the numbers, and `build_incomplete_error` returns
the PartlyDone error `2 files could not be deleted`, which `require_complete` raises.
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

MAX_FAILURE_EXAMPLES = 1_000
"""Maximum number of files that `DeletionFailures` lists by default. A vacuum may fail to delete millions."""


class Outcome(Protocol):
    """A record of what a change did. It is updated during the execution, so it is also valid after an error."""

    def describe_progress(self) -> str:
        """Return a phrase that says what was done so far: `version 7 was committed`."""

    def build_incomplete_error(self) -> errors.DeltacliError | None:
        """Return the error for a change that did not do everything that was planned.

        Returns:
            PartlyDone if something was done, another error if nothing was done. None if everything was done.
        """


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


def require_complete(outcome: Outcome) -> None:
    """Require that a change did everything that was planned.

    Raises:
        PartlyDone: If only a part was done.
        DeltacliError: If nothing was done.
    """
    error = outcome.build_incomplete_error()
    if error is not None:
        raise error


class CompleteOutcome:
    """Base class for outcomes of changes that either do everything or raise an error."""

    __slots__ = ()

    def build_incomplete_error(self) -> None:
        """Return None, because everything was done."""


@dataclass(frozen=True, slots=True)
class SingleCommitChange(CompleteOutcome):
    """Base class for changes that consist of one commit, such as `alter`.

    Plan and outcome of such a change have the same fields, so a subclass represents both. The outcome is a copy of the
    plan in which `committed_version` is set.

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
        examples: The path of each file and the reason, for the first `max_examples` files:
            `[("part-0.parquet", "permission denied")]`.
        max_examples: The maximum length of `examples`; None for no limit.
        permission_error_count: The number of files that could not be deleted for lack of permission.
        first_permission_error: The first permission error; None if there was none.
    """

    count: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)
    max_examples: int | None = field(default=MAX_FAILURE_EXAMPLES, compare=False)
    permission_error_count: int = field(default=0, compare=False)
    first_permission_error: errors.PermissionRefused | None = field(default=None, compare=False)

    def add(self, path: str, failure: Failed) -> None:
        """Add a file that could not be deleted.

        Args:
            path: The path of the file, relative to the table directory.
            failure: The answer of the store.
        """
        self.count += 1
        permission_error = failure.denied
        if permission_error is not None:
            self.permission_error_count += 1
            if self.first_permission_error is None:
                self.first_permission_error = permission_error
        if self.max_examples is None or len(self.examples) < self.max_examples:
            self.examples.append((path, failure.reason))

    def as_json(self) -> list[Json]:
        """Return the files in `examples` as an array of a JSON document."""
        return [{"path": path, "reason": reason} for path, reason in self.examples]

    def build_error(
        self, message: str, *, code: str, has_deleted: bool, hint: str | None = None
    ) -> errors.DeltacliError | None:
        """Return the error for a change with these failures. Its facts contain the first file as an example.

        Args:
            message: The message of the error: `3 manifests could not be deleted`.
            code: The code of the error.
            has_deleted: Whether other files were deleted.
            hint: The command that tries again; None if there is none.

        Returns:
            None if there are no failures. PermissionRefused if the store permitted no deletion at all, because a hint
            to try again would be misleading. Otherwise PartlyDone.
        """
        if not self.count:
            return None
        path, reason = self.examples[0]
        facts = {"first": path, "why": reason}

        is_nothing_permitted = not has_deleted and self.permission_error_count >= self.count
        if is_nothing_permitted and self.first_permission_error is not None:
            return _build_permission_error(self.count, facts, self.first_permission_error)
        return errors.PartlyDone(message, code=code, facts=facts, hint=hint)


def _build_permission_error(
    count: int, facts: Mapping[str, str], cause: errors.PermissionRefused
) -> errors.PermissionRefused:
    """Return the error for a change that was not permitted to delete any file.

    Args:
        count: The number of files.
        facts: The first file, and the reason.
        cause: The permission error of the first file. Its hint and its path are copied, because they say which
            permission is missing.
    """
    message = f"nothing was deleted: no permission to delete {plural(count, 'file')}"
    error = errors.PermissionRefused(message, facts=facts, hint=cause.hint)
    error.denied_path = cause.denied_path
    error.__cause__ = cause
    return error
