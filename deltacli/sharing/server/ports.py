"""What the application needs from others: who asks, tokens that cannot be forged, and URLs of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deltacli.sharing.model import Catalog, SharedTable

if TYPE_CHECKING:
    import pyarrow
    from starlette.requests import Request

    from deltacli.delta.log.table_configuration import TableConfiguration


@dataclass(frozen=True)
class Caller:
    """A recipient at the time of a request. `epoch` changes when anything is revoked. `expires_ms` is the end of the
    token that was used, in epoch milliseconds; None if it has none.
    """

    name: str
    epoch: int = 0
    expires_ms: int | None = None


@dataclass(frozen=True)
class Access:
    """What a caller sees."""

    caller: Caller
    catalog: Catalog


class Guard(Protocol):
    """Decides who may ask. Both methods raise WireError."""

    async def admit(self, request: Request) -> Access:
        """Return the access of the bearer of a token."""

    def readmit(self, name: str, epoch: int) -> Access:
        """Return the access of the recipient that a signed URL was made for, unless it was revoked since."""


class Seal(Protocol):
    """Makes tokens that nobody can change or make."""

    def seal(self, kind: str, payload: Mapping[str, Any], *, bound: str, expires_ms: int) -> str:
        """Return a token of letters, digits, `-` and `_`."""

    def open(self, kind: str, token: str, *, bound: str, now_ms: int) -> Mapping[str, Any]:
        """Return the payload of a token. Raises WireError unless it was made for the same `kind` and `bound`, and has
        not expired.
        """


class SignedUrls(NamedTuple):
    """URLs, and when the first of them expires, in epoch milliseconds."""

    urls: list[str]
    expires_ms: int


class UrlSigner(Protocol):
    """Makes URLs of the files of one table for one recipient."""

    def sign(self, paths: Sequence[str], expires_ms: int) -> SignedUrls:
        """Return a URL for each path, relative to the table and decoded. They expire at `expires_ms` or before."""


OpenSigner = Callable[[SharedTable, Caller], UrlSigner]
"""Returns the signer of a table for a recipient. Raises WireError where the store of the table cannot be signed for."""


class Selected(NamedTuple):
    """Which files hints keep (None: all), and what was done with the hints, for a header and the log."""

    kept: pyarrow.BooleanArray | None
    note: str


@dataclass(frozen=True, slots=True)
class FileHints:
    """The predicates and the limit of a query."""

    sql: tuple[str, ...] = ()
    json: str | None = None
    limit: int | None = None

    @property
    def is_empty(self) -> bool:
        """Return True where every file is wanted."""
        return not self.sql and self.json is None and self.limit is None


SelectFiles = Callable[["pyarrow.Table", "TableConfiguration", FileHints], Selected]
"""Returns the files that may hold matching rows. Never fails."""


def keep_all(_files: pyarrow.Table, _config: TableConfiguration, _hints: FileHints) -> Selected:
    """Keep every file."""
    return Selected(None, "skipped: hints are not evaluated")
