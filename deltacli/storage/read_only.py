"""A base class for stores that cannot be written to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NoReturn


class ReadOnlyFiles(ABC):
    """Implements the writing methods of `Storage`, each of which raises an error.

    Such a store has no aliases and no object versions.
    """

    @property
    def aliases(self) -> tuple[str, ...]:
        return ()

    @property
    def versions(self) -> None:
        return None

    @abstractmethod
    def _refuse(self) -> NoReturn:
        """Raise the error, which says why the store is read-only."""

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def draft(self, path: str) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def copy_within(self, source: str, target: str) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def delete_many(self, paths: Iterable[str]) -> NoReturn:  # noqa: ARG002
        self._refuse()

    def remove_directory(self, path: str) -> NoReturn:  # noqa: ARG002
        self._refuse()
