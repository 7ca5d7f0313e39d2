"""Translation of failed requests: whether they were executed, the reason, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed
from deltacli.core.hints import parameter
from deltacli.storage.objects.http import Fate, HttpFault
from deltacli.storage.retry import PASSING_STATUS, tried
from deltacli.storage.secrets import StoreFault

ANONYMOUS = "none (anonymous)"
"""The identity of requests without credentials."""
THROTTLED = frozenset(
    {
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "TooManyRequests",
        "RequestTimeout",
    }
)
"""Codes by which S3, with several statuses, says that it did nothing. No other cloud has them, so `passing` accepts
them from each.
"""

_NOT_TOGETHER = frozenset({"MissingContentMD5", "InvalidDigest", "BadDigest", "InvalidRequest", "MalformedXML"})
"""Codes by which gateways and copies of S3 refuse the digest or the form of a request with many objects."""


@dataclass(frozen=True)
class Dialect:
    """What a store calls things. `holder` is a bucket or a container."""

    store: str
    holder: str
    holder_missing: frozenset[str]
    """Codes that mean that the bucket or container does not exist."""
    exists: frozenset[str]
    """Codes of other statuses than 412 that mean that the name of a conditional creation is taken."""
    who: str
    """The command that shows the identity in use."""
    list_holders: str
    check_endpoint: str
    condition: str
    """What a conditional creation is sent with."""
    undone: frozenset[int] = frozenset()
    """Statuses besides 429 by which the store says that it did nothing of a conditional creation."""
    undone_reasons: frozenset[str] = frozenset()
    """Codes by which it says so, whatever the status."""
    disorder: str = ""
    """What is known to be listed out of order."""


class Sent(Enum):
    """The outcome of a conditional request to create an object."""

    EXISTS = auto()
    AGAIN = auto()
    """Nothing was done, and the request may be repeated."""
    REFUSED = auto()
    UNSUPPORTED = auto()
    UNKNOWN = auto()


def fate_of_create(fault: HttpFault, dialect: Dialect) -> Sent:
    """Return the outcome of a request that was sent once, from its fault."""
    match fault.fate:
        case Fate.UNSENT:
            return Sent.REFUSED
        case Fate.BROKEN | Fate.UNEXPECTED:
            return Sent.UNKNOWN
    if fault.status == 412 or fault.reason in dialect.exists:
        return Sent.EXISTS
    if fault.status == 408:
        return Sent.UNKNOWN  # S3 itself says 400 RequestTimeout: this is of something before it
    if fault.status == 429 or fault.status in dialect.undone or fault.reason in dialect.undone_reasons:
        return Sent.AGAIN
    if fault.status == 501:
        return Sent.UNSUPPORTED
    return Sent.UNKNOWN if fault.status >= 500 or fault.status in (0, 409) else Sent.REFUSED


def passing(fault: Exception) -> str | None:
    """Return the cause of a temporary fault; None for a permanent one.

    An unknown host and a refused connection are permanent: the endpoint is wrong, or down.
    """
    if not isinstance(fault, HttpFault):
        return None
    if fault.status in PASSING_STATUS or fault.reason in THROTTLED:
        return f"HTTP {fault.status} {fault.reason}".rstrip()
    if fault.fate is Fate.BROKEN:
        return fault.said if fault.reason != "tls" or "EOF" in fault.said else None
    return fault.said if fault.reason == "connect-timeout" else None


def refuses_together(fault: HttpFault) -> bool:
    """Return True where a store has no request that deletes several objects, or does not accept ours: single ones may
    work.
    """
    return fault.fate is Fate.ANSWERED and (fault.status in (405, 411, 501) or fault.reason in _NOT_TOGETHER)


def translate(fault: HttpFault, place: str, what: str, dialect: Dialect, endpoint: str, identity: str) -> StorageFailed:
    """Return the error of deltacli, without secrets, for a fault; `what` could not be done to `place`."""
    said = StoreFault.of(fault)
    error = _judge(fault, place, what, dialect, endpoint, identity)
    error.facts |= tried(fault)
    error.__cause__ = said
    return error


def refused(failed: str, facts: Mapping[str, str], identity: str, expired: str, who: str) -> PermissionRefused:
    """Return the error for credentials that do not suffice: how expired ones are renewed ('': they have not), or which
    command shows `who` they are of.
    """
    why = "the credentials have expired" if expired else "access is denied"
    return PermissionRefused(
        why, said_first=f"{failed}: ", facts={**facts, "credentials": identity}, hint=expired or who
    )


def _judge(fault: HttpFault, place: str, what: str, dialect: Dialect, endpoint: str, identity: str) -> StorageFailed:
    failed, holder = f"{place} cannot be {what}", place.split("/")[2]
    facts = {"store says": str(StoreFault.of(fault)).partition(": ")[2], "endpoint": endpoint}
    if fault.reason in dialect.holder_missing:
        return StorageFailed(
            f"{dialect.holder} {holder} not found",
            code="storage.bucket-missing",
            facts=facts,
            hint=dialect.list_holders,
        )
    if fault.status == 404:
        return FileMissing(f"{place} does not exist")
    if fault.expired or fault.status in (401, 403):
        who = f"omit {parameter('storage_options.anon', 'true')}" if identity == ANONYMOUS else dialect.who
        return refused(failed, facts, identity, fault.expired, who)
    if fault.fate is Fate.UNEXPECTED:
        return StorageFailed(
            f"the answer is not a valid answer of {dialect.store}",
            said_first=f"{failed}: ",
            code="storage.unexpected-answer",
            facts={"seen": fault.said, "expected": f"{dialect.store} instead of a proxy or login page", **facts},
            hint=f"{dialect.check_endpoint}, or {parameter('storage_options.endpoint_url', 'URL')}",
        )
    if fault.reason in ("unreachable", "invalid-request"):
        return StorageFailed(
            "the endpoint is unreachable",
            said_first=f"{failed}: ",
            code="storage.unreachable",
            facts=facts,
            hint=f"{dialect.check_endpoint}, or {parameter('storage_options.endpoint_url', 'URL')}",
        )
    if fault.reason == "BlobArchived":
        facts["next"] = "move the object to another access tier, with az storage blob set-tier"
        return StorageFailed(failed, code="storage.archived", facts=facts)
    return StorageFailed(failed, facts=facts)
