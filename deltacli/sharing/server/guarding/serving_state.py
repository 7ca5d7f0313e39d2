"""What the server serves at a moment: the configuration and the recipients. A changed file takes effect within a
second, as a whole; a bad one leaves the old state in use.

Each worker watches the files itself, so a revoked token is refused by all of them without a message between processes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from deltacli.core.cached import cached_property
from deltacli.core.errors import DeltacliError, UsageError
from deltacli.core.units import plural
from deltacli.sharing.configuration.bearer_tokens import digest_of
from deltacli.sharing.configuration.recipients import Identity, Recipient, Recipients, TokenRecord, read_recipients
from deltacli.sharing.configuration.settings import Configuration
from deltacli.sharing.configuration.shares_yaml import read_configuration, remember_secrets_of
from deltacli.sharing.model import Catalog, Grant

EVERYONE = "anonymous"
"""The name of the recipient where requests need no token."""

OF_CONFIGURATION = "bearerToken"
"""The name of the recipient with the token of `authorization`."""


@dataclass(frozen=True)
class ServingState:
    """A configuration and its recipients. `generation` counts the reloads."""

    configuration: Configuration
    recipients: Recipients = field(default_factory=Recipients)
    generation: int = 0

    @property
    def is_open(self) -> bool:
        """Return True if requests need no token."""
        return not self.configuration.is_authenticated

    def find_token(self, token: str) -> Identity | None:
        """Return whose token this is, valid or not. Takes the same time for every wrong token."""
        found = self.recipients.find_token(token)
        of_all = self._of_configuration.find_token(token)
        return found or of_all

    def find_recipient(self, name: str) -> Recipient | None:
        """Return the recipient of this name, or None."""
        return self._of_configuration.find(name) or self.recipients.find(name)

    def catalog_of(self, recipient: Recipient) -> Catalog:
        """Return what a recipient may read."""
        if recipient.name == OF_CONFIGURATION:
            return self.configuration.catalog
        found = self._catalogs.get(recipient.name)
        if found is None:
            found = self._catalogs[recipient.name] = self.configuration.catalog.granted(recipient.grants)
        return found

    @cached_property
    def _catalogs(self) -> dict[str, Catalog]:
        return {}

    @cached_property
    def _of_configuration(self) -> Recipients:
        """The recipient of the configuration's token. Its epoch is the token's, so another one ends page tokens too."""
        token = self.configuration.bearer_token
        if token is None:
            return Recipients()
        record = TokenRecord("config", digest_of(token), 0)
        grants = tuple(Grant(share.name) for share in self.configuration.catalog.shares)
        return Recipients((Recipient(OF_CONFIGURATION, (record,), grants, record.epoch),))


def visible_names(state: ServingState) -> Mapping[str, int]:
    """Return how many shares, tables and recipients there are, for the log and for metrics."""
    shares = state.configuration.catalog.shares
    tables = sum(len(schema.tables) for share in shares for schema in share.schemas)
    return {"shares": len(shares), "tables": tables, "recipients": len(state.recipients.items)}


_LOG = logging.getLogger("deltacli.share")

POLL_SECONDS = 0.4
"""Between two looks at the files. Two looks and the reading of the recipients take less than a second."""

RETRY_SECONDS = 5.0
"""Between two attempts to read a configuration that is bad."""

Signature = tuple[tuple[int, ...] | None, ...]
ReadConfiguration = Callable[[Path], Configuration]


@dataclass(frozen=True)
class Reloaded:
    """The outcome of a look at the files. `error` is None unless a file is bad."""

    what: str
    error: DeltacliError | None = None


Loaded = tuple[Configuration | None, Recipients | None]
"""What was loaded; None: it stays as it is."""

Outcome = Loaded | Reloaded | None
"""What was loaded, why it was not, or that nothing changed."""


class Reloader:
    """Holds what is served, and replaces it when files change. `override` changes settings as the command line does.

    `inherited` is what the other workers serve. It stays in use where the files have become bad meanwhile.
    """

    def __init__(
        self,
        path: Path,
        *,
        read: ReadConfiguration = read_configuration,
        override: Callable[[Configuration], Configuration] = lambda configuration: configuration,
        on_outcome: Callable[[Reloaded], None] = lambda _: None,
        inherited: ServingState | None = None,
    ) -> None:
        self._path = path
        self._read = read
        self._override = override
        self._on_outcome = on_outcome
        self._wanted_configuration = asyncio.Event()
        self._wanted_recipients = asyncio.Event()
        self._last_seconds = 0.0
        self._failed: dict[str, DeltacliError] = {}
        self._threads = ThreadPoolExecutor(2, "share-reload")  # its own: those of the application may all be reading
        self._seen: Signature = ()
        self._seen_recipients: Signature = ()
        if inherited is None:
            configuration = self._load_configuration()
            self._state = ServingState(configuration, self._load_recipients(configuration))
            return
        self._state = inherited
        self._watched = inherited.configuration.files or (path,)
        remember_secrets_of(inherited.configuration)
        if (found := self._look_at_recipients(0.0, True)) is not None:
            self._report(self._take(found), None)
        self._wanted_configuration.set()  # not here: it may have to list wildcards

    @property
    def state(self) -> ServingState:
        """Return what is served now. A request takes it once, so that it never sees two states."""
        return self._state

    @property
    def problems(self) -> Mapping[str, str]:
        """Return which files are bad, and why; the state from before they were is in use."""
        return {what: error.message for what, error in self._failed.items()}

    def request(self) -> None:
        """Reload everything at the next opportunity, such as after SIGHUP. May be called from a signal handler."""
        self._wanted_configuration.set()
        self._wanted_recipients.set()

    async def run(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        """Look at the files until cancelled. Recipients have a loop of their own: listing the tables of wildcards may
        take longer than a revocation is allowed to.
        """
        self._last_seconds = asyncio.get_running_loop().time()
        await asyncio.gather(
            self._watch(self._wanted_configuration, self._look_at_configuration, poll_seconds),
            self._watch(self._wanted_recipients, self._look_at_recipients, poll_seconds),
        )

    async def _watch(self, wanted: asyncio.Event, look: Callable[[float, bool], Outcome], poll_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(poll_seconds):
                    await wanted.wait()
            is_forced = wanted.is_set()
            wanted.clear()
            try:
                outcome = await loop.run_in_executor(self._threads, look, loop.time(), is_forced)
            except Exception:  # noqa: BLE001  (a watcher that has ended would never see a revocation)
                _LOG.exception("the configuration could not be checked for changes; the check is repeated")
                continue
            if outcome is not None:
                known = self._failed.get(outcome.what) if isinstance(outcome, Reloaded) else None
                self._report(self._take(outcome), known)

    def look(self, *, is_forced: bool = False, now_seconds: float = 0.0) -> list[Reloaded]:
        """Reload what changed since the last look, or everything, and return the outcomes."""
        looks = (self._look_at_recipients, self._look_at_configuration)
        return [self._take(found) for look in looks if (found := look(now_seconds, is_forced)) is not None]

    def _look_at_configuration(self, now_seconds: float, is_forced: bool) -> Outcome:
        current = self._state.configuration
        is_due = self._is_due(current, now_seconds)
        if not is_forced and not is_due and _signature(self._watched) == self._seen:
            return None
        self._last_seconds = now_seconds
        try:
            configuration = self._load_configuration()
            _require_same_guard(current, configuration)
            is_moved = configuration.recipients_file != current.recipients_file
            return configuration, self._load_recipients(configuration) if is_moved else None
        except DeltacliError as error:
            return Reloaded("configuration", error)

    def _look_at_recipients(self, _now_seconds: float, is_forced: bool) -> Outcome:
        file = self._state.configuration.recipients_file
        if file is None or (not is_forced and _signature([file]) == self._seen_recipients):
            return None
        try:
            return None, self._load_recipients(self._state.configuration)
        except DeltacliError as error:
            return Reloaded("recipients", error)

    def _take(self, outcome: Loaded | Reloaded) -> Reloaded:
        """Replace the state by what was loaded. Called by one thread only, so no change is lost."""
        if isinstance(outcome, Reloaded):
            assert outcome.error is not None
            self._failed[outcome.what] = outcome.error
            return outcome
        configuration, recipients = outcome
        self._state = ServingState(
            configuration or self._state.configuration,
            self._state.recipients if recipients is None else recipients,
            self._state.generation + 1,
        )
        what = "recipients" if configuration is None else "configuration"
        self._failed.pop(what, None)
        return Reloaded(what)

    def _is_due(self, current: Configuration, now_seconds: float) -> bool:
        """Return True where the files may be unchanged, but not what they refer to: the directories that a wildcard
        matches, or what kept the configuration from being read.
        """
        age = now_seconds - self._last_seconds
        is_failing = "configuration" in self._failed
        return (current.has_wildcards and age >= current.settings.wildcard_refresh_seconds) or (
            is_failing and age >= RETRY_SECONDS
        )

    def _load_configuration(self) -> Configuration:
        # The signature is taken before the file is read: a change in between is seen at the next look.
        known: Iterable[Path] = getattr(self, "_watched", (self._path,))
        self._seen = _signature(known)
        configuration = self._override(self._read(self._path))
        self._watched = configuration.files or (self._path,)
        if tuple(self._watched) != tuple(known):
            self._seen = _signature(self._watched)
        return configuration

    def _load_recipients(self, configuration: Configuration) -> Recipients:
        file = configuration.recipients_file
        if file is None:
            return Recipients()
        self._seen_recipients = _signature([file])
        return read_recipients(file)

    def _report(self, outcome: Reloaded, known: DeltacliError | None) -> None:
        """Log an outcome; an error that is `known` is not repeated."""
        if outcome.error is not None and known is not None and known.message == outcome.error.message:
            return
        if outcome.error is None:
            counts = ", ".join(plural(count, name[:-1]) for name, count in visible_names(self._state).items())
            _LOG.info("reloaded the %s: %s", outcome.what, counts)
        else:
            _LOG.error("the %s was not reloaded, the old one is in use: %s", outcome.what, outcome.error)
        self._on_outcome(outcome)


def _require_same_guard(current: Configuration, changed: Configuration) -> None:
    """Raise UsageError where a reload would end authentication: that needs a restart, which checks the address."""
    if current.is_authenticated and not changed.is_authenticated:
        raise UsageError(
            f"{changed.path} has neither authorization nor recipients any more; restart the server for that",
            code="share.unauthenticated",
        )


def _signature(paths: Iterable[Path]) -> Signature:
    """Return what changes when a file is written or replaced; None for one that cannot be accessed."""
    return tuple(map(_stamp, paths))


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)
