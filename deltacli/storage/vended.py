"""Stores that are opened with credentials that a server gave for one directory, and for a time.

Nothing of the environment is used beside them: no profile, no metadata service, no anonymous access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Grant(NamedTuple):
    """Credentials for a directory and what is below it.

    `location`: the URI that they cover, without a trailing slash. `options`: the credentials by the names of storage
    options (`key`, `secret`, `token` of S3; `sas_token` of Azure; `access_token` of Google), empty for local files.
    `expires_ms`: epoch milliseconds, None where they do not end.
    """

    location: str
    options: Mapping[str, str]
    expires_ms: int | None = None

    def __repr__(self) -> str:
        return f"Grant({self.location!r})"
