"""The request for an optimization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from deltacli.core.errors import UsageError, command, parameter
from deltacli.core.units import parse_size, plural, require_fraction
from deltacli.table.api_arguments import require_count

_WITHOUT_ORDER = ("purge", "min_size", "min_files", "purge_ratio")
"""What chooses files one by one; files that are sorted together are chosen for their order."""
_SIZES = ("target_size", "min_size", "max_bytes")
_LEAST_TARGET = 1024
"""The smallest size of new files. An empty Parquet file takes half of it, so that less means a forgotten unit."""
COMMIT_BYTES, COMMIT_BINS = 1 << 30, 64
"""A commit has the bins of so many bytes, or so many bins."""
TARGET_SIZE, DEFAULT_TARGET_BYTES = "delta.targetFileSize", 128 << 20


@dataclass(frozen=True, kw_only=True)
class OptimizeRequest:
    """Which files to rewrite, and how. With `zorder` or `cluster`, queries on the columns skip more files.

    Attributes:
        where: A condition on partition columns. Other partitions are left alone.
        target_size: Size of new files, in bytes or as text such as `128MiB`. None: that of the property
            `delta.targetFileSize`, or 128 MiB.
        min_files: The smallest number of files that are written as one; at least 2.
        min_size: Size from which a file is left alone. None: half of `target_size`.
        zorder: Columns. The rows of each partition are sorted by a z-order of them.
        cluster: True to sort new rows by the clustering columns of the table.
        purge: True to rewrite only files with deleted rows, with dropped columns, with NaN beyond the bounds in
            their footers, or with timestamps that some engines misread as INT96.
        purge_ratio: Share of deleted rows above which a file of any size is rewritten.
        max_bytes: The largest number of bytes to rewrite. None: no limit.
        time_budget_ms: No commit begins after this time, in milliseconds. None: no limit.
        verify: True to compare all rows once more after the commits.
        temp_dir: Directory for temporary files of sorted rows. None: that of the system.
        commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
        dry_run: True to plan only, and change nothing.
    """

    where: str | None = None
    target_size: str | int | None = None
    min_files: int = 2
    min_size: str | int | None = None
    zorder: Sequence[str] = ()
    cluster: bool = False
    purge: bool = False
    purge_ratio: float = 0.05
    max_bytes: str | int | None = None
    time_budget_ms: int | None = None
    verify: bool = False
    temp_dir: str | None = None
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Bring sizes to bytes. Raises UsageError."""
        for name in _SIZES:
            given = getattr(self, name)
            size = parse_size(given, parameter(f"optimize.{name}")) if isinstance(given, str) else given
            if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
                raise UsageError(f"{parameter(f'optimize.{name}')} {given} is not a size of at least one byte")
            object.__setattr__(self, name, size)
        _require_plausible(self.target_size)
        if require_count(self.min_files, "min_files") < 2:
            raise UsageError(f"{parameter('optimize.min_files')} {self.min_files} is less than 2")
        require_fraction(self.purge_ratio, parameter("optimize.purge_ratio"))
        if self.time_budget_ms is not None and self.time_budget_ms < 0:
            raise UsageError(f"{parameter('optimize.time_budget_ms')} is negative")
        if isinstance(self.zorder, str):
            raise UsageError(f"{parameter('optimize.zorder')} is a text, expected a list of columns")
        object.__setattr__(self, "zorder", tuple(self.zorder))
        self._require_one_purpose()
        object.__setattr__(self, "commit_metadata", dict(self.commit_metadata))  # a proxy cannot be sent to executors

    def _require_one_purpose(self) -> None:
        """Raise UsageError for fields that contradict each other."""
        order = "zorder" if self.zorder else "cluster" if self.cluster else None
        if order is None:
            if self.temp_dir is not None:
                raise _together("temp_dir", "is for sorting: use it with", "zorder", "or", "cluster")
            return
        defaults = {one.name: one.default for one in fields(self)}
        if self.zorder and self.cluster:
            raise _together("zorder", "cannot be used with", "cluster")
        if self.cluster and self.where is not None:
            raise _together("cluster", "sorts the whole table, so it cannot be used with", "where")
        for name in _WITHOUT_ORDER:
            if getattr(self, name) != defaults[name]:
                raise _together(name, "cannot be used with", order)


def target_of(properties: Mapping[str, str]) -> int:
    """Return the property, which is bytes or has a binary unit as in `128mb`, else the default."""
    from deltacli.delta.protocol.known_properties import SIZE

    text = str(properties.get(TARGET_SIZE) or "").strip()
    if not SIZE.fullmatch(text):
        return DEFAULT_TARGET_BYTES
    digits = text.rstrip("bBkKmMgGtTpPiI ")
    unit = text[len(digits) :].strip().lower().removesuffix("b").removesuffix("i")
    return parse_size(f"{digits}{unit}iB" if unit else digits) or DEFAULT_TARGET_BYTES


def _require_plausible(target: object) -> None:
    """Raise UsageError for a target below the size of a file with any content."""
    if isinstance(target, int) and target < _LEAST_TARGET:
        name = parameter("optimize.target_size")
        raise UsageError(
            f"{name}: {plural(target, 'byte')} cannot be the size of a data file",
            code="usage.size",
            facts={"expected": "at least 1KiB, with a unit, as in 128MiB"},
            hint=command("optimize", target_size=f"{target}MiB", dry_run=True),
        )


def _together(*words: str) -> UsageError:
    known = {one.name for one in fields(OptimizeRequest)}
    return UsageError(" ".join(parameter(f"optimize.{word}") if word in known else word for word in words))
