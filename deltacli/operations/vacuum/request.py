"""What a caller wants of a vacuum."""

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


class Limit(NamedTuple):
    """How much may be deleted: a share of the files and of the bytes, or bytes."""

    share: float | None = None
    size_bytes: int | None = None
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> Limit:
        """`20%` or `10GiB`. Raises UsageError."""
        if match := _PERCENT.fullmatch(text.strip()):
            share = float(match[1]) / 100
            if share <= 1:
                return cls(share=share, text=text.strip())
        elif "%" not in text:
            return cls(size_bytes=parse_size(text), text=text.strip())
        raise UsageError(f"--max-delete {text} is no share", facts={"expected": "20%, at most 100%, or 10GiB"})


DEFAULT_LIMIT = Limit(share=0.5, text="50%")


@dataclass(frozen=True)
class VacuumRequest:
    """What is to be planned. Durations are milliseconds; None means: as the table says.

    `allowed_below_ms` is the table's own retention, named by somebody who wants less. At most one of `prefix` (a
    directory below the table, without a trailing slash) and `where` (a condition on partition columns) is given.
    `keep_versions` stay whole, whatever their age; so does what the tables at the URIs `protect_from` (clones) need.
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
    max_delete: Limit = DEFAULT_LIMIT
    include_foreign: bool = False
    skip_nested_tables: bool = False


def make_request(
    *,
    mode: str = Mode.FULL.value,
    prefix: str | None = None,
    where: str | None = None,
    keep_versions: Sequence[int] = (),
    protect_from: Sequence[str] = (),
    max_delete: str = DEFAULT_LIMIT.text,
    inventory: str | None = None,
    include_foreign: bool = False,
    retention_ms: int | None = None,
    allowed_below_ms: int | None = None,
    **others: Any,  # Any: fields of VacuumRequest as they are
) -> VacuumRequest:
    """Check what was given as text and what excludes each other. Raises UsageError."""
    if mode not in set(Mode):
        raise UsageError(f"--mode {mode} is none", facts={"expected": " or ".join(Mode)})
    if prefix is not None and where is not None:
        raise UsageError("--prefix and --where exclude each other", facts={"instead": "a condition alone"})
    if min(retention_ms or 0, allowed_below_ms or 0) < 0:
        raise UsageError("a retention is negative", facts={"expected": "0h at least"})
    limits = {"--prefix": prefix, "--where": where, "--inventory": inventory, "--include-foreign": include_foreign}
    given = [option for option, value in limits.items() if value]
    if mode == Mode.LITE and given:
        raise UsageError(
            f"{given[0]} has no meaning with --mode lite, which looks at what commits removed and lists nothing",
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
        max_delete=Limit.parse(max_delete),
        inventory=inventory,
        include_foreign=include_foreign,
        **others,
    )


def _directory(prefix: str) -> str:
    """A directory below the table, as a listing spells it. Raises UsageError."""
    parts = [part for part in prefix.split("/") if part not in ("", ".")]
    if prefix.startswith("/") or "://" in prefix or ".." in parts or not parts:
        raise UsageError(f"--prefix {prefix} is no directory below the table", facts={"expected": "date=2026-01-01"})
    if parts[0] == LOG_DIRECTORY:
        raise UsageError(
            f"--prefix {prefix} is the log, which vacuum never touches", hint="deltacli log expire {table}"
        )
    return "/".join(parts)
