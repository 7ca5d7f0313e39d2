"""The validation of several tables by the same choice: of rules, of a level, of data files.

`Table.validate` and `Paimon.validate` check one table. `RequestedValidation` checks its arguments once, before any
table is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """What to check of tables that are not known yet.

    Attributes:
        level: What is checked: `log`, `storage`, `footers` or `data`.
        sample: The share of the data files to check.
        where: A condition on the data files to check.
        select: Globs over the ids of rules. Empty: all rules.
        ignore: Globs over the ids of rules to skip.
    """

    def __init__(
        self,
        *,
        level: str = "log",
        sample: float = 1.0,
        where: str | None = None,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
    ) -> None:
        """Check the arguments, which are those of `Table.validate`.

        Raises:
            UsageError: If they are invalid.
        """
        from deltacli.operations.validate.findings import ValidateRequest

        request = ValidateRequest(level=level, sample=sample, where=where, select=select, ignore=ignore)
        self.level = str(request.level)
        self.sample = sample
        self.where = where
        self.select = select
        self.ignore = ignore

    def check_delta(
        self, table: TableHandle, *, max_findings: int, on_finding: Callable[[Finding], None] | None = None
    ) -> Validation:
        """Check a Delta table.

        Args:
            table: The table.
            max_findings: The largest number of findings per rule. 0: all of them.
            on_finding: Receives each finding when it is made, in no particular order.

        Raises:
            UsageError: If the request does not fit the table.
            NotATable: If the path does not exist.
        """
        from deltacli.operations.validate.findings import ValidateRequest
        from deltacli.operations.validate.validate import validate_table

        request = ValidateRequest(
            level=self.level,
            sample=self.sample,
            where=self.where,
            select=self.select,
            ignore=self.ignore,
            max_findings=max_findings,
        )
        return validate_table(table, request, on_finding=on_finding)

    def check_paimon(
        self,
        table: Paimon,
        *,
        profile: str,
        with_manifests: bool,
        max_findings: int,
        on_finding: Callable[[Finding], None] | None = None,
    ) -> Validation:
        """Check all branches of a Paimon table.

        Args:
            table: The table.
            profile: The reader that has to accept the table: `java`, `cpp` or `python`.
            with_manifests: True to read manifests, too.
            max_findings: The largest number of findings per rule. 0: all of them.
            on_finding: Receives each finding when it is made, in no particular order.

        Raises:
            UsageError: If the request does not fit the table, or the profile is unknown.
            NotATable: If there is no table.
        """
        from deltacli.operations.paimon.validate import validate_paimon_table
        from deltacli.operations.validate.findings import ValidateRequest
        from deltacli.rules.paimon.catalogue import Profile

        if profile not in set(Profile):
            raise UsageError(f"unknown profile {profile!r}", facts={"expected": ", ".join(Profile)})
        request = ValidateRequest(
            level=self.level,
            sample=self.sample,
            where=self.where,
            select=self.select,
            ignore=self.ignore,
            max_findings=max_findings,
        )
        return validate_paimon_table(
            table, request, profile=Profile(profile), with_manifests=with_manifests, on_finding=on_finding
        )


def read_log_line(storage: ReadStorage, path: str, line: int) -> bytes | None:
    """Return a line of a file of the log, without its end, to show it beside a finding.

    Args:
        storage: The store of the table.
        path: The file, relative to the table.
        line: The number of the line, from 1.

    Returns:
        The line; None where it is too far in, too long, or unreadable.
    """
    from deltacli.operations.validate.log_reader import read_log_line as read

    return read(storage, path, line)
