"""What stores that nothing is written to have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NoReturn


class ReadOnlyFiles(ABC):
    """The part of the port that writes, all of it refused. Such a store has no other names and keeps no versions."""

    @property
    def aliases(self) -> tuple[str, ...]:
        return ()

    @property
    def versions(self) -> None:
        return None

    @abstractmethod
    def _refuse(self) -> NoReturn:
        """Raise the refusal."""

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
