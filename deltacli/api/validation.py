"""Validate several tables, Delta or Paimon, with the same rules and options.

`Table.validate` and `Paimon.validate` validate one table. `RequestedValidation` checks the options once, before any
table is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deltacli.core.errors import UsageError

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.operations.validate.validate import Validation
    from deltacli.rules.framework.base import Finding
    from deltacli.storage import ReadStorage
    from deltacli.table.handle import TableHandle

DELTA_PROFILE = "current"
"""The only reader by which Delta tables are judged: it follows the current protocol."""


class RequestedValidation:
    """The options for the validation of several tables, which may not be opened yet."""

    def __init__(
        self,
        *,
        level: str = "log",
        sample: float = 1.0,
        where: str | None = None,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
    ) -> None:
        """Check and store the options. For their meaning see `Table.validate`.

        Raises:
            UsageError: If an option is invalid.
        """
        from deltacli.operations.validate.findings import ValidateRequest

        self._request = ValidateRequest(level=level, sample=sample, where=where, select=select, ignore=ignore)

    @property
    def level(self) -> str:
        """What to check: `log`, `storage`, `footers` or `data`."""
        return str(self._request.level)

    @property
    def sample(self) -> float:
        """The share of the data files to check, above 0 and at most 1."""
        return self._request.sample

    @property
    def where(self) -> str | None:
        """A SQL condition on the data files to check; None for all files."""
        return self._request.where

    @property
    def select(self) -> Sequence[str]:
        """Glob patterns of rule ids to check. An empty sequence selects all rules."""
        return self._request.select

    @property
    def ignore(self) -> Sequence[str]:
        """Glob patterns of rule ids to skip."""
        return self._request.ignore

    def check_delta(
        self, table: TableHandle, *, max_findings: int, on_finding: Callable[[Finding], None] | None = None
    ) -> Validation:
        """Validate a Delta table.

        Args:
            table: The table.
            max_findings: The maximum number of findings per rule. 0 for no maximum.
            on_finding: Called with each finding as soon as it is found, in no particular order.

        Raises:
            UsageError: If a condition or pattern does not match the table.
            NotATable: If the path does not exist.
        """
        from deltacli.operations.validate.validate import validate_table

        return validate_table(table, replace(self._request, max_findings=max_findings), on_finding=on_finding)

    def check_paimon(
        self,
        table: Paimon,
        *,
        profile: str,
        with_manifests: bool,
        max_findings: int,
        on_finding: Callable[[Finding], None] | None = None,
    ) -> Validation:
        """Validate all branches of a Paimon table.

        Args:
            table: The table.
            profile: The Paimon implementation that must be able to read the table: `java`, `cpp` or `python`.
            with_manifests: Whether to read manifests.
            max_findings: The maximum number of findings per rule. 0 for no maximum.
            on_finding: Called with each finding as soon as it is found, in no particular order.

        Raises:
            UsageError: If an option does not match the table, or the profile is unknown.
            NotATable: If the path is not a Paimon table.
        """
        from deltacli.operations.paimon.validate import validate_paimon_table
        from deltacli.rules.paimon.catalogue import Profile

        if profile not in set(Profile):
            raise UsageError(f"unknown profile {profile!r}", facts={"expected": ", ".join(Profile)})
        return validate_paimon_table(
            table,
            replace(self._request, max_findings=max_findings),
            profile=Profile(profile),
            with_manifests=with_manifests,
            on_finding=on_finding,
        )


def read_log_line(storage: ReadStorage, path: str, line: int) -> bytes | None:
    """Return a line of a log file, to show it together with a finding.

    Args:
        storage: The store of the table.
        path: The path of the file relative to the table.
        line: The number of the line; the first line is 1.

    Returns:
        The line without its line break. None if the line is too long, too far from the beginning of the file, or
        unreadable.
    """
    from deltacli.operations.validate.log_reader import read_log_line as read

    return read(storage, path, line)
