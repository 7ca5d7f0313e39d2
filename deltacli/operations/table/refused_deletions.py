"""Deletions that fail for lack of permission."""

from __future__ import annotations

from dataclasses import dataclass

from deltacli.errors import PermissionRefused
from deltacli.storage import Failed
from deltacli.units import plural


@dataclass(slots=True)
class Denials:
    """The number of deletions refused for lack of permission, and the first refusal."""

    count: int = 0
    first: PermissionRefused | None = None

    def note(self, failure: Failed) -> None:
        """Count a failure if permission was missing."""
        if failure.denied is not None:
            self.count += 1
            self.first = self.first or failure.denied

    def require_some_permission(self, failed: tuple[str, str], *, failures: int) -> None:
        """Raise PermissionRefused if all failures are denials; `failed` is the path and the reason of the first one.

        Only for a run that deleted nothing, because the same command would fail again.
        """
        if self.first is None or self.count < failures:
            return
        path, reason = failed
        raise PermissionRefused(
            f"nothing was deleted: no permission to delete {plural(failures, 'file')}",
            facts={"first": path, "why": reason},
            hint=self.first.hint,
        ) from self.first
