"""Opening the stores of a run: one retry policy for all of them, and no logs of their libraries on stderr.

With `-v` their calls are a line on stderr per endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from deltacli.core.hints import quoted_table

if TYPE_CHECKING:
    from deltacli.core.errors import UsageError
    from deltacli.core.typing import Json
    from deltacli.storage import Allowed, Storage
    from deltacli.storage.retry import Retry
    from deltacli.storage.tally import HostTally

_READING = frozenset(
    {
        *((name,) for name in ("changes", "features", "history", "properties", "reach", "read", "snapshot")),
        ("validate",),
        ("doctor", "table"),
        *(("share", name) for name in ("changes", "head", "pull", "schema")),
    }
)
"""Commands that read shared tables, or say themselves why they cannot. Others write to them, or plan to."""


def _only_reading(name: str, words: Sequence[str], uri: str, *, writes: bool) -> UsageError | None:
    """Return the error for a command that does not change the shared table and yet does not work on it; None for
    others. `words`: how the command was typed.
    """
    from deltacli.cli.help_page import commands_with
    from deltacli.core.errors import UsageError

    hint = f"deltacli {'share schema' if name.startswith('schema ') else 'snapshot'} {quoted_table(uri)}"
    if name in ("repair", "undelete") and (("--from", uri) in pairwise(words) or f"--from={uri}" in words):
        name, hint = f"{name} --from", f"deltacli {name} --help"
    elif name == "checkpoint" and "--verify" in words:
        name = "checkpoint --verify"
    elif writes or (name in commands_with("--dry-run") and name != "log backup"):
        return None
    return UsageError(f"{name} does not work on shared tables", code="share.read-only", hint=hint)


class Stores:
    """Opens stores with the options of a run.

    `allowed`: prefixes that links of a local directory may point to, besides the directory itself. `retry_budget_ms`
    None: the default. `note` is called with messages about delays.
    `calls_per_second`: the maximum rate of requests to each host.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        allowed: Allowed,
        retry_budget_ms: int | None = None,
        note: Callable[[str], None] | None = None,
        calls_per_second: float | None = None,
    ) -> None:
        self._options, self._allowed, self._note = options, allowed, note
        self._retry_budget_ms, self._calls_per_second = retry_budget_ms, calls_per_second
        self._policy: Retry | None = None
        self._has_noted = False

    def open(self, uri: str, *, writes: bool = False) -> Storage:
        """Open a store that the command `writes` to or only reads.

        Raises UsageError, and NoAtomicCreate where the store is read-only, before any request is sent.
        """
        from deltacli.storage import open_storage
        from deltacli.storage.base import require_writable

        if "#" in uri and (share := self._open_share(uri, writes=writes)) is not None:
            return share
        if "://" not in uri or uri.lower().startswith("file:"):
            storage = open_storage(uri, self._options, self._allowed)
            self._note_needless_options()
        else:
            from deltacli.cli.terminal.library_logs import capture_logging

            capture_logging()
            storage = open_storage(uri, self._options, self._allowed, retry=self.policy())
        if writes:
            require_writable(storage)
        return storage

    def _note_needless_options(self) -> None:
        """Say once that options of a store were given, where all tables are on a disk."""
        from deltacli.cli.invocation import invocation

        given = {word.partition("=")[0] for word in invocation.arguments}
        is_elsewhere = any("://" in word and not word.lower().startswith("file:") for word in invocation.arguments)
        if self._note is not None and "--storage-option" in given and not is_elsewhere and not self._has_noted:
            self._has_noted = True
            self._note("note: --storage-option has no effect on a table on a disk")

    def _open_share(self, uri: str, *, writes: bool) -> Storage | None:
        """Open a shared table; None where the name is not the address of one."""
        from deltacli.sharing.client.addresses import parse_address

        if parse_address(uri) is None:
            return None
        from deltacli.cli.command_tree import path_of
        from deltacli.cli.invocation import invocation
        from deltacli.cli.terminal.library_logs import capture_logging
        from deltacli.sharing.client.faults import read_only
        from deltacli.sharing.client.tables.share_storage import open_share

        path = path_of(invocation.arguments)
        if writes or path not in _READING:
            refused = _only_reading(" ".join(path), invocation.arguments, uri, writes=writes)
            raise refused or read_only(uri)
        capture_logging()
        return open_share(uri, retry=self.policy(), note=self._note)

    @property
    def tallies(self) -> list[HostTally]:
        """Return the calls to object stores so far, by endpoint."""
        return [] if self._policy is None else [*self._policy.tally.hosts]

    def policy(self) -> Retry:
        """Return the retry policy that all stores of the run share."""
        from deltacli.cli.terminal.interrupts import is_interrupted
        from deltacli.storage.base import RETRY_BUDGET
        from deltacli.storage.retry import Retry, ThrottledRetry

        if self._policy is None:
            given = self._retry_budget_ms
            seconds = RETRY_BUDGET.total_seconds() if given is None else given / 1_000
            chosen: dict[str, Any] = {  # Any: options of a policy
                "is_explicit": given is not None,
                "note": self._note,
                "is_stopping": is_interrupted,
            }
            if self._calls_per_second is None:
                self._policy = Retry(seconds, **chosen)
            else:
                self._policy = ThrottledRetry(seconds, self._calls_per_second, **chosen)
        return self._policy


def text_of(host: HostTally) -> str:
    """Return the calls to one endpoint for people."""
    from deltacli.core.units import format_size
    from deltacli.storage.tally import Call

    calls = ", ".join(f"{host.calls[call]:,} {call}" for call in Call if host.calls[call]) or "none"
    moved = f"{format_size(host.bytes_read)} read, {format_size(host.bytes_written)} written"
    text = f"calls to {host.host}: {calls}; {moved}"
    if host.prices is None or host.price_usd is None:
        return text
    return f"{text}; estimated price {_dollars(host.price_usd)} ({host.prices.source})"


def document_of(host: HostTally) -> dict[str, Json]:
    """Return the calls to one endpoint for programs."""
    from deltacli.storage.tally import Call

    return {
        "type": "calls",
        "endpoint": host.host,
        "calls": {str(call): host.calls[call] for call in Call},
        "bytesRead": host.bytes_read,
        "bytesWritten": host.bytes_written,
        "estimatedPriceUsd": None if host.price_usd is None else round(host.price_usd, 6),
        "priceSource": None if host.prices is None else host.prices.source,
    }


def _dollars(price_usd: float) -> str:
    return f"${price_usd:,.2f}" if price_usd >= 1 else f"${price_usd:.6f}".rstrip("0").removesuffix(".")


def merged(hosts: Iterable[HostTally]) -> list[HostTally]:
    """Return the calls by endpoint, by name, where several policies of a run sent some to the same one."""
    from deltacli.storage.tally import HostTally

    found: dict[str, HostTally] = {}
    for host in hosts:
        whole = found.setdefault(host.host, HostTally(host.host, host.prices))
        whole.calls += host.calls
        whole.bytes_read += host.bytes_read
        whole.bytes_written += host.bytes_written
    return [found[name] for name in sorted(found)]
