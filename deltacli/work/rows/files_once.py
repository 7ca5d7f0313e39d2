"""The files of a scan, each once, although a checkpoint may have one of them twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from deltacli.core.errors import Unreadable, command
from deltacli.core.typing import ArrowScalar
from deltacli.delta.data_files import unique_id
from deltacli.delta.log.disputed_readings import REPEATED_IN_CHECKPOINT
from deltacli.delta.paths.spelling import canonicalize_path

if TYPE_CHECKING:
    from deltacli.work.rows.data_files import DataFile


def contradictory_adds_error(path: str) -> Unreadable:
    """Return the error for a file that a checkpoint has twice, each time with other partition values."""
    return Unreadable(
        f"a checkpoint has {path} twice, with different partition values, and nothing says which ones are right",
        code=REPEATED_IN_CHECKPOINT,
        facts={"file": path},
        hint=command("repair", dry_run=True),
    )


class FilesOnce:
    """Leaves out files of a scan that were there before.

    Attributes:
        has_repeated: Whether a file was left out so far.
    """

    def __init__(self) -> None:
        self.has_repeated = False
        self._constants: dict[str, Mapping[str, ArrowScalar]] = {}
        """The partition values of each file, by the key of the file."""

    def keep_first(self, files: Iterable[DataFile]) -> Iterator[DataFile]:
        """Yield each logical file once.

        Raises:
            Unreadable: `checkpoint.duplicate-key`, for a file that comes again with other partition values.
        """
        for file in files:
            vector_id = unique_id(None if file.vector is None else dict(file.vector))
            key = f"{canonicalize_path(file.path)}\0{vector_id}"
            first = self._constants.get(key)
            # Two adds of one file are harmless if they agree; otherwise rows would be in two partitions.
            if first is None:
                self._constants[key] = file.constants
                yield file
            elif _are_same(first, file.constants):
                self.has_repeated = True
            else:
                raise contradictory_adds_error(file.path)


def _are_same(first: Mapping[str, ArrowScalar], second: Mapping[str, ArrowScalar]) -> bool:
    """Return whether two files have the same partition values. Null and NaN are the same as themselves."""
    return first.keys() == second.keys() and all(_is_same(value, second[name]) for name, value in first.items())


def _is_same(value: ArrowScalar, other_value: ArrowScalar) -> bool:
    is_nan = value != value, other_value != other_value  # noqa: PLR0124  (only NaN is not equal to itself)
    return all(is_nan) or bool(value == other_value)
