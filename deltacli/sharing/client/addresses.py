"""Addresses of shared tables, `PROFILE#SHARE.SCHEMA.TABLE`, where PROFILE is the path of a profile file; and how they
are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deltacli.core.errors import UsageError
from deltacli.sharing.protocol.names import LONGEST_NAME

CODE = "share.address"
FORM = "PROFILE#SHARE.SCHEMA.TABLE"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]")


class AccessChoice(StrEnum):
    """How a shared table is read: by URLs of its files, or in its directory with temporary credentials."""

    AUTO = "auto"
    URL = "url"
    DIRECTORY = "dir"


class OpenOptions(NamedTuple):
    """How the store of a directory is opened: the options of the user, and what gets notes."""

    storage: Mapping[str, str] = {}
    note: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a shared table. Only names of shares contain dots. Spec: Names."""

    share: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class ShareAddress:
    """A shared table and the profile file to reach it with."""

    profile: str
    name: TableName

    @property
    def uri(self) -> str:
        """The address with the absolute path of the profile."""
        return f"{os.path.abspath(os.path.expanduser(self.profile))}#{self.name}"


def parse_address(text: str) -> ShareAddress | None:
    """Return the address of a shared table, None for anything else. A path that exists is never an address.

    Raises UsageError where a profile file is followed by something other than three names.
    """
    profile, mark, name = text.rpartition("#")
    if not mark or not profile or _SCHEME.match(text) or text[:5].lower() == "file:":
        return None
    if "/" in name or os.path.lexists(os.path.expanduser(text)):
        return None
    if name.count(".") < 2 and not os.path.isfile(os.path.expanduser(profile)):
        return None
    return ShareAddress(profile, parse_table_name(name))


def parse_table_name(text: str) -> TableName:
    """Return the three names of a table, split from the right. Raises UsageError."""
    parts = text.rsplit(".", 2)
    if len(parts) != 3:
        raise UsageError(f"{text!r} is not the name of a shared table", code=CODE, facts={"expected": FORM})
    for part in parts:
        require_name(part)
    return TableName(*parts)


def require_name(name: str) -> str:
    """Return a name that a share, schema or table can have. Raises UsageError."""
    if not name or name in (".", "..") or len(name) > LONGEST_NAME or _REFUSED.search(name):
        raise UsageError(f"{name!r} cannot be a name of a share, schema or table", code=CODE, facts={"expected": FORM})
    return name


def split_profile(text: str) -> tuple[str, str | None]:
    """Return a profile file, and what follows it after `#`, None for nothing. Raises UsageError for an empty name."""
    if os.path.lexists(os.path.expanduser(text)):
        return text, None
    profile, mark, names = text.rpartition("#")
    if not mark:
        return text, None
    if not profile or not names:
        raise UsageError(f"{text!r} does not name shares", code=CODE, facts={"expected": "PROFILE#SHARE.SCHEMA"})
    return profile, names
