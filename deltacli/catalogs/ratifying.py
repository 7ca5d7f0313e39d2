"""One commit on its way to ratification: staged, sent, and sent again in the same bytes as long as nobody knows.

An answer that is an error proves nothing once a request may have arrived. Then only the state of the catalog decides,
which `changing/commit.py` reads: here the same body is sent, which takes effect at most once, whenever it arrives.

Spec: Catalog-managed tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from deltacli.catalogs.base import CatalogTable, Maintenance, Proposal, Ratified, Verdict
from deltacli.catalogs.lockstep import unmet_contract, updates_of
from deltacli.catalogs.publishing import UNREPORTED, publish
from deltacli.catalogs.ratified import DIVERGED, RatifiedLog, missing_permission, staged_path
from deltacli.core import errors
from deltacli.core.ranges import format_ranges
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.segment import commit_name
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown

if TYPE_CHECKING:
    from deltacli.delta.log.commit_content import PreviousVersion
    from deltacli.storage import Storage

MOST_WAITS = 6
"""How often a proposal that was not ratified is sent again in one go."""
_PAUSES = (0.0, 0.2, 0.8, 3.0, 6.0, 12.0)
"""Seconds before each time that a proposal is sent whose outcome is unknown."""
_LONGEST_WAIT = 60.0
_OF_FILES = (b'{"add":', b'{"remove":', b'{"cdc":')
_METADATA = ("metaData", "protocol", "domainMetadata")
_REARRANGED = b'"dataChange":false'


class Content(NamedTuple):
    """What a commit file says, but for its files: their number and whether some only were rearranged."""

    size_bytes: int
    timestamp_ms: int
    actions: tuple[tuple[str, Action], ...]
    is_rearranged: bool


def content_of(lines: Iterable[bytes], name: str) -> Content:
    """Read the lines of a new commit. Raises ValueError unless each ends with LF and the first is a commitInfo with a
    txnId and a time: servers compare the bytes of files, and other engines publish them line by line.
    """
    size, is_rearranged = 0, False
    actions: list[tuple[str, Action]] = []
    for line in lines:
        if not line.endswith(b"\n") or not line.strip():
            raise ValueError(f"{name} has a line without an end, or an empty one")
        size += len(line)
        if line.startswith(_OF_FILES):
            is_rearranged = is_rearranged or _REARRANGED in line
        else:
            actions += read_actions(line, name)
    kind, info = actions[0]
    stamp = info.get("inCommitTimestamp")
    if kind != "commitInfo" or not info.get("txnId") or type(stamp) is not int:
        raise ValueError(f"{name} does not begin with a commitInfo that has a txnId and an in-commit timestamp")
    return Content(size, stamp, tuple(actions), is_rearranged)


class Ratification:
    """One version of one content. `stage` creates the staged file at a path; it is called with one path only.

    `forgotten_file_name` is the staged file of a commit that is published and that the catalog has forgotten. The file
    is there, so `stage` returns Existed.
    """

    def __init__(
        self,
        log: RatifiedLog,
        store: Storage,
        version: int,
        base: PreviousVersion | None,
        stage: Callable[[str], Creation],
        *,
        forgotten_file_name: str | None = None,
    ) -> None:
        self._log, self._store, self._version, self._base, self._stage = log, store, version, base, stage
        self._is_forgotten = forgotten_file_name is not None
        self.file_name = forgotten_file_name or f"{version:020d}.{log.machine.new_uuid()}.json"
        self._body: bytes | None = None
        self._sent, self._paused = 0, 0.0
        self._unmet: dict[str, str] = {}
        """Properties that the contract of the catalog requires and that the table lacks, if the protocol changes."""
        self._unknown: str | None = None
        """Why it may be ratified, although no answer says so."""

    @property
    def path(self) -> str:
        """Where it is staged, below the table."""
        return staged_path(Ratified(self._version, self.file_name, 0, 0, 0))

    def send(self, content: Callable[[], Content]) -> Creation:
        """Propose the commit: Created where it is ratified, Existed where another one may have the version, Unknown
        where nobody knows. Sends the same bytes whenever it is called again.

        Raises Refused where it cannot be ratified, ConflictLost where too many commits are not published, and
        StorageFailed, all with nothing ratified.
        """
        try:
            return self._send(content)
        except errors.DeltacliError as fault:
            if self._unknown is None:
                raise
            return Unknown(f"{self._unknown}; then: {fault.reason}")  # it proves nothing about what was sent before

    def _send(self, content: Callable[[], Content]) -> Creation:
        if self._log.ended is not None:
            raise self._log.ended
        if self._body is None:
            if (view := self._log.view).latest >= self._version:
                return Existed()
            self._require_follows(view.latest)
            self._body = self._staged(content())
        if not self._pause(self._sent):
            return Unknown(self._unknown or "no answer")
        return self._propose(self._body)

    def _require_follows(self, latest: int) -> None:
        if self._log.unsound is not None:
            fault = _diverged(self._log.unsound, self._version)
            if self._log.is_mended_by_publishing:
                fault.hint = errors.command("catalog publish")
            raise fault
        if latest != self._version - 1 or self._version == 0:
            raise errors.Refused(
                f"version {self._version} cannot follow version {latest}, which the catalog has as the latest",
                preamble=errors.NOTHING_CHANGED,
                code="plan.newer",
                hint=errors.command("catalog status"),
            )
        if self._is_forgotten:
            return
        if self._version in self._log.beyond and self._log.reload().latest < self._version:
            raise _diverged(
                f"{commit_name(self._version)} is published, and the catalog has not ratified it", self._version
            )

    def _staged(self, content: Content) -> bytes:
        """Create the staged file, look at it, and return the body of the request."""
        log, table = self._log, self._log.view.table
        before = log.view.commits.get(self._version - 1)
        if before is not None and content.timestamp_ms <= before.timestamp_ms:
            raise errors.Refused(
                f"version {self._version} would not be later than version {before.version}",
                preamble=errors.NOTHING_CHANGED,
                code="ict.not-increasing",
                facts={"before": str(before.timestamp_ms), "now": str(content.timestamp_ms)},
            )
        if content.is_rearranged:
            require_permission(log, Maintenance.DATA_REORGANIZATION, "rearrange files")
        self._unmet = self._unmet_contract(content)
        updates = () if self._base is None else updates_of(content.actions, self._base, has_uniform=table.has_uniform)
        if self._base is None and any(kind in _METADATA for kind, _ in content.actions):
            raise ValueError("metadata is committed by `commit` only, which knows what it follows")
        self._create(content)
        found = self._store.stat(self.path)
        if found.size_bytes != content.size_bytes:
            raise errors.StorageFailed(
                f"{self.path} has {found.size_bytes} bytes, and {content.size_bytes} were written"
            )
        commit = Ratified(
            self._version, self.file_name, found.size_bytes, max(found.modified_ms, 1), content.timestamp_ms
        )
        return log.catalog.request_of(table, Proposal(commit, updates))

    def _create(self, content: Content) -> None:
        """Create the staged file, also where an answer of the store is lost: nobody else has its name."""
        for asked in range(MOST_WAITS):
            match self._stage(self.path):
                case Created():
                    return
                case Existed() | Unknown():
                    try:
                        if self._store.stat(self.path).size_bytes == content.size_bytes:
                            return
                    except errors.FileMissing:
                        self._log.machine.sleep(_PAUSES[min(asked, len(_PAUSES) - 1)])
        raise errors.StorageFailed(f"{self.path} could not be written")

    def _propose(self, body: bytes) -> Creation:
        log = self._log
        for asked in range(MOST_WAITS):
            self._sent += 1
            answer = log.catalog.ratify(log.view.table, body)  # what it raises means that nothing was sent
            match answer.verdict:
                case Verdict.RATIFIED:
                    log.unsettled.discard(self._version)
                    if answer.table is not None and not self._is_own(answer.table):
                        return self._open("the catalog answered with another state than asked for")
                    publish_after_commit(log, self._store, self._version)
                    return Created()
                case Verdict.LOST:
                    return Existed()
                case Verdict.UNKNOWN:
                    unknown = self._open(answer.said)
                    if answer.table is not None:
                        log.take(answer.table)  # which ends the run for another table
                    return unknown
                case Verdict.REFUSED:
                    if answer.denial is not None:
                        raise answer.denial
                    raise self._refusal(answer.said)
                case Verdict.PUBLISH_FIRST:
                    waited = self._pause(0 if self._publish_first(answer.said) else asked + 1, answer.wait_seconds)
                case Verdict.AGAIN:
                    waited = self._pause(asked + 1, answer.wait_seconds)
            if log.reload().latest >= self._version:
                return Existed()  # perhaps by this commit, which its reader finds out
            if not waited:
                break
        if answer.verdict is Verdict.PUBLISH_FIRST:
            raise errors.ConflictLost(
                "nothing was committed: the catalog says that too many commits are not published, and all are",
                code="catalog.unpublished-limit",
                facts={"catalog": answer.said},
                hint=errors.command("catalog status"),
            )
        raise errors.CatalogUnavailable(
            f"nothing was committed: the catalog does not take the commit now: {answer.said}"
        )

    def _unmet_contract(self, content: Content) -> dict[str, str]:
        """Return what the contract of the catalog lacks behind a commit that changes the protocol; the catalog checks
        it with no other commit.
        """
        actions = dict(content.actions)
        if self._base is None or "protocol" not in actions:
            return {}
        metadata = actions.get("metaData")
        properties = self._base.metadata.configuration if metadata is None else metadata.get("configuration") or {}
        return unmet_contract(properties)

    def _refusal(self, said: str) -> errors.Refused:
        """Return the error for a commit that the catalog does not take."""
        refusal = errors.Refused(
            f"the catalog refuses the commit: {said}",
            preamble=errors.NOTHING_CHANGED,
            code="catalog.refused",
            facts={"staged": self.path},
            hint=errors.command("catalog status"),
        )
        if self._unmet:
            refusal.facts["required"] = ", ".join(f"{key}={value}" for key, value in self._unmet.items())
            refusal.hint = errors.command("properties set", self._unmet)
        return refusal

    def _pause(self, repetition: int, asked_seconds: float = 0.0) -> bool:
        """Wait as long as the catalog asks for, and longer with each repetition. Return False at once where all pauses
        of the proposal would last longer than its budget.
        """
        pause = min(max(asked_seconds, _PAUSES[min(repetition, len(_PAUSES) - 1)]), _LONGEST_WAIT)
        if self._paused + pause > self._log.budget_seconds:
            return False
        self._paused += pause
        self._log.machine.sleep(pause)
        return True

    def _open(self, why: str) -> Unknown:
        self._log.unsettled.add(self._version)
        self._unknown = f"{why or 'no answer'}; the commit is in {self.path}"
        return Unknown(self._unknown)

    def _is_own(self, table: CatalogTable) -> bool:
        """Take the state that came with a success; return False where another file has the version."""
        try:
            view = self._log.take(table)
        except errors.DeltacliError:
            return False
        named = view.commits.get(self._version)
        return view.latest >= self._version and (named is None or named.file_name == self.file_name)

    def _publish_first(self, said: str) -> bool:
        """Publish what the catalog holds; return whether that was anything. Raises ConflictLost."""
        try:
            return bool(publish(self._log, self._store).published)
        except errors.DeltacliError as fault:
            view = self._log.view
            raise errors.ConflictLost(
                f"nothing was committed: too many commits are not published, and they cannot be: {fault.reason}",
                code="catalog.unpublished-limit",
                facts={"not published": format_ranges(view.commits), "catalog": said, **fault.facts},
                hint=errors.command("catalog publish"),
            ) from fault


def publish_after_commit(log: RatifiedLog, store: Storage, version: int) -> None:
    """Publish what is due behind a commit, which is done whatever happens here: the next commit publishes again."""
    try:
        publish(log, store, log.view if log.view.latest >= version else None)
    except errors.DeltacliError as fault:
        is_there = fault.code == UNREPORTED
        log.note(fault.message if is_there else f"the commit is ratified and not published yet: {fault.message}")


def require_permission(log: RatifiedLog, needed: Maintenance, what: str, *, asks: bool = True) -> None:
    """Raise Refused (`catalog.permission`), naming what is missing, unless the catalog permits a maintenance: now, or
    as it answered last.
    """
    view = log.reload() if asks else log.view
    if needed not in (view.table.permissions or ()):
        raise missing_permission(view, needed, what)


def _diverged(why: str, version: int) -> errors.Refused:
    return errors.Refused(
        why,
        preamble=errors.NOTHING_CHANGED,
        code=DIVERGED,
        facts={"version": str(version)},
        hint=errors.command("catalog status"),
    )
