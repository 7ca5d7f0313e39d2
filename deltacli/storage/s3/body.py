"""The body of a PUT of S3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deltacli.errors import StorageFailed

_LARGEST_PUT = 5 << 30


class Body:
    """The body of a PUT: bytes, or a local file, read from its start each time."""

    def __init__(self, content: bytes | str) -> None:
        self._content = content
        self.size = len(content) if isinstance(content, bytes) else os.stat(content).st_size

    @contextmanager
    def opened(self) -> Iterator[Any]:  # Any: what botocore takes
        if isinstance(self._content, bytes):
            yield self._content
            return
        with open(self._content, "rb") as file:
            yield file


def require_one_put(place: str, size: int) -> None:
    if size > _LARGEST_PUT:
        raise StorageFailed(f"{place} cannot be written: {size} bytes exceed the limit of 5 GiB for one PUT of S3")
