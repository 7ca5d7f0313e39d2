"""Opening the stores of a run: one retry policy for all of them, and no logs of their libraries on stderr."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltacli.storage import Allowed, Storage
    from deltacli.storage.retry import Retry
    from deltacli.storage.tally import HostTally


_READING = frozenset(
    {
        *((name,) for name in ("changes", "features", "history", "properties", "read", "snapshot", "validate")),
        *(("share", name) for name in ("changes", "head", "pull", "schema")),
    }
)
"""Commands that read shared tables. Others write to them, or plan to."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Opens stores with the options of a run.

    `allowed`: prefixes that links of a local directory may point to, besides the directory itself. `retry_budget_ms`
    None: the default. `note` is called with messages about delays.
    `calls_per_second`: the maximum rate of requests to each host.
    """

    options: Mapping[str, str]
    allowed: Allowed
    retry_budget_ms: int | None = None
    note: Callable[[str], None] | None = None
    calls_per_second: float | None = None
    _policies: list[Retry] = field(default_factory=list)

    def open(self, uri: str, *, writes: bool = False) -> Storage:
        """Open a store that the command `writes` to or only reads.

        Raises UsageError, and NoAtomicCreate where the store is read-only, before any request is sent.
        """
        from deltacli.storage import open_storage
        from deltacli.storage.base import require_writable

        if "#" in uri and (share := self._open_share(uri, writes=writes)) is not None:
            return share
        if "://" not in uri:
            storage = open_storage(uri, self.options, self.allowed)
        else:
            from deltacli.cli.terminal.libraries import capture_logging

            capture_logging()
            storage = open_storage(uri, self.options, self.allowed, retry=self.policy())
        if writes:
            require_writable(storage)
        return storage

    def _open_share(self, uri: str, *, writes: bool) -> Storage | None:
        """Open a shared table; None where the name is not the address of one."""
        from deltacli.sharing.client.addresses import parse_address

        if parse_address(uri) is None:
            return None
        from deltacli.cli.command_tree import path_of
        from deltacli.cli.invocation import invocation
        from deltacli.cli.terminal.libraries import capture_logging
        from deltacli.sharing.client.faults import read_only
        from deltacli.sharing.client.opening import open_share

        if writes or path_of(invocation.arguments) not in _READING:
            raise read_only(uri)
        capture_logging()
        return open_share(uri, retry=self.policy(), note=self.note)

    @property
    def tallies(self) -> list[HostTally]:
        """Return the calls to object stores so far, by endpoint."""
        return [host for policy in self._policies for host in policy.tally.hosts]

    def policy(self) -> Retry:
        """Return the retry policy that all stores of the run share."""
        from deltacli.cli.terminal.interrupts import is_interrupted
        from deltacli.storage.retry import DEFAULT_BUDGET_SECONDS, Retry

        if not self._policies:
            given = self.retry_budget_ms
            seconds = DEFAULT_BUDGET_SECONDS if given is None else given / 1_000
            chosen: dict[str, Any] = {  # Any: options of a policy
                "is_explicit": given is not None,
                "note": self.note,
                "is_stopping": is_interrupted,
            }
            if self.calls_per_second is None:
                self._policies.append(Retry(seconds, **chosen))
            else:
                from deltacli.storage.retry import ThrottledRetry

                self._policies.append(ThrottledRetry(seconds, self.calls_per_second, **chosen))
        return self._policies[0]
