"""What the answers of file servers have in common, for downloads in one stream and in ranges."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from deltacli.errors import DataUnreadable, DeltacliError, FileMissing
from deltacli.sharing.client.faults import AccessRefused
from deltacli.sharing.pulling.faults import DIFFERS

if TYPE_CHECKING:
    from deltacli.sharing.client.tables.file_urls import FileUrl

UrlOf = Callable[[str, str | None], "FileUrl | None"]
"""Gets the name of a file and a URL that was not accepted, or None; returns its URL, None for an unknown name."""
Advance = Callable[[int], None]

EXPIRED = frozenset({400, 401, 403, 404, 410})
MOST_CUTS = 3
"""Answers in a row that end early with hardly a new byte."""
LEAST_PROGRESS_BYTES = 64 << 10
CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")


class StoppedError(Exception):
    """Another download failed, or the run was interrupted."""


def find_url(url_of: UrlOf, name: str, not_this: str | None) -> FileUrl:
    """Return the URL of a file. Raises FileMissing for a name that no file of the version has."""
    found = url_of(name, not_this)
    if found is None:
        raise FileMissing(f"{name} is not a file of this version")
    return found


def not_accepted(name: str, status: int) -> DeltacliError:
    """Return the error for a URL that was not accepted, and neither was a new one."""
    if status in (404, 410):
        return FileMissing(f"{name} does not exist at the URL that the server sent")
    return AccessRefused("the URL of a file is not accepted", facts={"file": name, "status": str(status)})


def replaced(name: str) -> DataUnreadable:
    """Return the error for a file whose content keeps changing."""
    return DataUnreadable(f"{name} was replaced while it was downloaded", code=DIFFERS, facts={"file": name})
