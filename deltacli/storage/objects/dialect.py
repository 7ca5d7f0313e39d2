"""The words of a store: by which it says what happened, and which appear in messages about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed, parameter
from deltacli.storage.objects.http_errors import (
    ANONYMOUS,
    INVALID_REQUEST,
    UNREACHABLE,
    HttpError,
    RequestOutcome,
)
from deltacli.storage.retry import describe_attempts
from deltacli.storage.secrets import MaskedCause

# Codes by which gateways and copies of S3 refuse the digest or the form of a request with many
# objects.
_REFUSES_BULK = frozenset({"MissingContentMD5", "InvalidDigest", "BadDigest", "InvalidRequest", "MalformedXML"})


@dataclass(frozen=True)
class Dialect:
    """The words that a store has for things.

    Attributes:
        store: The name of the store in messages.
        holder: What holds the objects: "bucket" or "container".
        container_missing_codes: Codes that mean that the bucket or container does not exist.
        exists: Codes, with other statuses than 412, that mean that the name of a conditional
            creation is taken.
        who: The command that shows the identity in use.
        list_command: The command that lists buckets or containers.
        endpoint_check: What to check if the endpoint is wrong.
        condition: What a conditional creation is sent with.
        undone: Statuses, besides 429, by which the store says that it did nothing of a conditional
            creation.
        not_executed_codes: Codes by which it says so, whatever the status.
        disorder: What is known to be listed out of order, for a message.
    """

    store: str
    holder: str
    container_missing_codes: frozenset[str]
    exists: frozenset[str]
    who: str
    list_command: str
    endpoint_check: str
    condition: str
    undone: frozenset[int] = frozenset()
    not_executed_codes: frozenset[str] = frozenset()
    disorder: str = ""


class CreationAnswer(Enum):
    """The effect of a failed request to create an object.

    Attributes:
        EXISTS: The name is taken.
        NOT_DONE: Nothing was done, and the request may be repeated.
        REFUSED: Nothing was done, and repeating the request is useless.
        UNSUPPORTED: The store does not know the condition.
        UNKNOWN: The object may have been created.
    """

    EXISTS = auto()
    NOT_DONE = auto()
    REFUSED = auto()
    UNSUPPORTED = auto()
    UNKNOWN = auto()


def classify_failed_creation(error: HttpError, dialect: Dialect) -> CreationAnswer:
    """Return what a request to create an object has done, from the error of the one time that it was sent.

    In doubt the answer is UNKNOWN: then the object is read back. A mistake in this direction costs
    a request, one in the other direction a commit. A 500 is such a doubt, because the store may
    have failed after it stored the object.

    | error | answer |
    |---|---|
    | no connection | REFUSED |
    | connection broken, or not an answer of the store | UNKNOWN |
    | 412, or a code for an existing name | EXISTS |
    | 429, or what the store documents as "nothing was done" | NOT_DONE |
    | 501 | UNSUPPORTED |
    | 408, 409, 5xx, no status | UNKNOWN |
    | other 4xx | REFUSED |
    """
    match error.outcome:
        case RequestOutcome.UNSENT:
            return CreationAnswer.REFUSED
        case RequestOutcome.BROKEN | RequestOutcome.UNEXPECTED:
            return CreationAnswer.UNKNOWN

    if error.status == 412 or error.reason in dialect.exists:
        return CreationAnswer.EXISTS
    if error.status == 408:
        # S3 itself says 400 RequestTimeout. This one comes from something in front of the store.
        return CreationAnswer.UNKNOWN
    if error.status == 429 or error.status in dialect.undone or error.reason in dialect.not_executed_codes:
        return CreationAnswer.NOT_DONE
    if error.status == 501:
        return CreationAnswer.UNSUPPORTED
    if error.status >= 500 or error.status in (0, 409):
        return CreationAnswer.UNKNOWN
    return CreationAnswer.REFUSED


def is_bulk_deletion_refused(error: HttpError) -> bool:
    """Return whether a store does not take a request to delete several objects. Single deletions may work."""
    if error.outcome is not RequestOutcome.ANSWERED:
        return False
    return error.status in (405, 411, 501) or error.reason in _REFUSES_BULK


def translate_http_error(
    http_error: HttpError, location: str, verb: str, dialect: Dialect, endpoint: str, identity: str
) -> StorageFailed:
    """Return the error of deltacli, without secrets, for an error of a request.

    Args:
        http_error: The error of the request.
        location: The URI of the object.
        verb: What could not be done to it, as a participle: "written".
        dialect: The words of the store.
        endpoint: The host of the store.
        identity: The source of the credentials.
    """
    error = _choose_error(http_error, location, verb, dialect, endpoint, identity)
    error.facts |= describe_attempts(http_error)
    error.__cause__ = MaskedCause.of(http_error)
    return error


def refused(failed: str, facts: Mapping[str, str], identity: str, expired: str, who: str) -> PermissionRefused:
    """Return the error for credentials that do not suffice.

    Args:
        failed: What failed: "s3://bucket/key cannot be read".
        facts: Facts about the request.
        identity: The source of the credentials.
        expired: How expired credentials are renewed; '' if they have not expired.
        who: The command that shows whose credentials they are.
    """
    why = "the credentials have expired" if expired else "access is denied"
    return PermissionRefused(why, preamble=f"{failed}: ", facts={**facts, "credentials": identity}, hint=expired or who)


def _choose_error(
    http_error: HttpError, location: str, verb: str, dialect: Dialect, endpoint: str, identity: str
) -> StorageFailed:
    """Return the error for the first reason that applies, from the most specific to the least."""
    failed = f"{location} cannot be {verb}"
    holder = location.split("/")[2]
    facts = {"store says": str(MaskedCause.of(http_error)).partition(": ")[2], "endpoint": endpoint}

    if http_error.reason in dialect.container_missing_codes:
        return StorageFailed(
            f"{dialect.holder} {holder} not found",
            code="storage.bucket-missing",
            facts=facts,
            hint=dialect.list_command,
        )
    if http_error.status == 404:
        return FileMissing(f"{location} does not exist")
    if http_error.expired or http_error.status in (401, 403):
        who = f"omit {parameter('storage_options.anon', 'true')}" if identity == ANONYMOUS else dialect.who
        return refused(failed, facts, identity, http_error.expired, who)

    endpoint_hint = f"{dialect.endpoint_check}, or {parameter('storage_options.endpoint_url', 'URL')}"
    if http_error.outcome is RequestOutcome.UNEXPECTED:
        return StorageFailed(
            f"the answer is not a valid answer of {dialect.store}",
            preamble=f"{failed}: ",
            code="storage.unexpected-answer",
            facts={
                "seen": http_error.message,
                "expected": f"{dialect.store} instead of a proxy or login page",
                **facts,
            },
            hint=endpoint_hint,
        )
    if http_error.reason in (UNREACHABLE, INVALID_REQUEST):
        return StorageFailed(
            "the endpoint is unreachable",
            preamble=f"{failed}: ",
            code="storage.unreachable",
            facts=facts,
            hint=endpoint_hint,
        )
    if http_error.reason == "BlobArchived":
        facts["next"] = "move the object to another access tier, with az storage blob set-tier"
        return StorageFailed(failed, code="storage.archived", facts=facts)
    return StorageFailed(failed, facts=facts)
