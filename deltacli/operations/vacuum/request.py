"""The request for a vacuum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.errors import UsageError
from deltacli.operations.vacuum.plan import Mode
from deltacli.units import parse_size

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%")


class DeletionLimit(NamedTuple):
    """The limit of a deletion: a share of the files and of the bytes, or bytes."""

    share: float | None = None
    size_bytes: int | None = None
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> DeletionLimit:
        """Parse `20%` or `10GiB`. Raises UsageError."""
        if match := _PERCENT.fullmatch(text.strip()):
            share = float(match[1]) / 100
            if share <= 1:
                return cls(share=share, text=text.strip())
        elif "%" not in text:
            return cls(size_bytes=parse_size(text), text=text.strip())
        raise UsageError(
            f"--max-delete {text} is not a share or size", facts={"expected": "20%, at most 100%, or 10GiB"}
        )


DEFAULT_MAX_DELETE = DeletionLimit(share=0.5, text="50%")


@dataclass(frozen=True)
class VacuumRequest:
    """The request for a plan. Durations are milliseconds; None: the table's own.

    `allowed_below_ms` is the table's own retention, named to allow a shorter one. At most one of `prefix` (a directory
    below the table, without a trailing slash) and `where` (a condition on partition columns) is given. The files of
    `keep_versions` are kept whatever their age, and those that the tables at the URIs `protect_from` (clones) need.
    `inventory` is the path or URI of a listing made by the store.
    """

    retention_ms: int | None = None
    allowed_below_ms: int | None = None
    mode: Mode = Mode.FULL
    prefix: str | None = None
    where: str | None = None
    keep_versions: tuple[int, ...] = ()
    protect_from: tuple[str, ...] = ()
    inventory: str | None = None
    max_delete: DeletionLimit = DEFAULT_MAX_DELETE
    include_foreign: bool = False
    skip_nested_tables: bool = False


def make_request(
    *,
    mode: str = Mode.FULL.value,
    prefix: str | None = None,
    where: str | None = None,
    keep_versions: Sequence[int] = (),
    protect_from: Sequence[str] = (),
    max_delete: str = DEFAULT_MAX_DELETE.text,
    inventory: str | None = None,
    include_foreign: bool = False,
    retention_ms: int | None = None,
    allowed_below_ms: int | None = None,
    **others: Any,  # Any: fields of VacuumRequest as they are
) -> VacuumRequest:
    """Parse texts and check for options that exclude each other. Raises UsageError."""
    if mode not in set(Mode):
        raise UsageError(f"invalid --mode {mode}", facts={"expected": " or ".join(Mode)})
    if prefix is not None and where is not None:
        raise UsageError("--prefix and --where exclude each other", facts={"instead": "a condition only"})
    if min(retention_ms or 0, allowed_below_ms or 0) < 0:
        raise UsageError("the retention is negative", facts={"expected": "at least 0h"})
    limits = {"--prefix": prefix, "--where": where, "--inventory": inventory, "--include-foreign": include_foreign}
    given = [option for option, value in limits.items() if value]
    if mode == Mode.LITE and given:
        raise UsageError(
            f"{given[0]} cannot be combined with --mode lite, which does not list the table",
            hint="deltacli vacuum {table} --mode full --dry-run",
        )
    return VacuumRequest(
        retention_ms=retention_ms,
        allowed_below_ms=allowed_below_ms,
        mode=Mode(mode),
        prefix=None if prefix is None else _directory(prefix),
        where=where,
        keep_versions=tuple(keep_versions),
        protect_from=tuple(protect_from),
        max_delete=DeletionLimit.parse(max_delete),
        inventory=inventory,
        include_foreign=include_foreign,
        **others,
    )


def _directory(prefix: str) -> str:
    """Return a directory below the table, as spelled in a listing. Raises UsageError."""
    parts = [part for part in prefix.split("/") if part not in ("", ".")]
    if prefix.startswith("/") or "://" in prefix or ".." in parts or not parts:
        raise UsageError(f"--prefix {prefix} is not a directory below the table", facts={"expected": "date=2026-01-01"})
    if parts[0] == LOG_DIRECTORY:
        raise UsageError(
            f"--prefix {prefix} is the log, which vacuum does not change", hint="deltacli log expire {table}"
        )
    return "/".join(parts)
