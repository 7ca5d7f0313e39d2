"""The errors of pulls: targets that cannot take a table, and files that are not what the server declared."""

from __future__ import annotations

from collections.abc import Mapping

from deltacli.errors import DataUnreadable, Refused

DIFFERS = "share.file-differs"


class PullRefused(Refused):
    """The target is not a copy of this table at this or an earlier version. Nothing was changed."""

    code = "share.pull-target"


def other_size(name: str, declared: int | None, found: int) -> DataUnreadable:
    """Return the error for a file whose size is not the declared one."""
    return DataUnreadable(
        f"{name} has another size than the server declared",
        code=DIFFERS,
        facts={"file": name, "declared": f"{declared} bytes", "found": f"{found} bytes"},
    )


def invalid_file(name: str, why: str, facts: Mapping[str, str] | None = None) -> DataUnreadable:
    """Return the error for a file whose content is not that of the shared table."""
    return DataUnreadable(f"{name} was downloaded, but {why}", code=DIFFERS, facts={"file": name, **(facts or {})})
