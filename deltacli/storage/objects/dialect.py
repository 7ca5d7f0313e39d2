"""Error codes and terms of a cloud, and the interpretation of its errors.

`Dialect` lists the codes and terms. `classify_failed_creation` decides whether a failed request may have created an
object, and `translate_http_error` builds the error that the user sees.
"""

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

# Codes of gateways and S3-compatible stores that reject the digest or the format of a bulk deletion.
_BULK_REFUSAL_CODES = frozenset({"MissingContentMD5", "InvalidDigest", "BadDigest", "InvalidRequest", "MalformedXML"})


@dataclass(frozen=True)
class Dialect:
    """The error codes and terms of a cloud.

    Attributes:
        store: The name of the cloud in messages.
        container_noun: The term for a container of objects: "bucket" or "container".
        container_missing_codes: Error codes for a bucket or container that does not exist.
        exists_codes: Error codes of a conditional creation whose key exists. Status 412 always means that.
        identity_command: The shell command that shows the identity in use.
        list_command: The shell command that lists buckets or containers.
        endpoint_check: The settings to check if the endpoint is wrong, for hints.
        create_condition: The header or parameter that makes a creation conditional.
        not_executed_statuses: HTTP statuses of a conditional creation that was not executed. Status 429 always
            means that.
        not_executed_codes: Error codes of a conditional creation that was not executed, with any status.
        unordered_note: An addition to the error for unordered listings that names a possible reason.
    """

    store: str
    container_noun: str
    container_missing_codes: frozenset[str]
    exists_codes: frozenset[str]
    identity_command: str
    list_command: str
    endpoint_check: str
    create_condition: str
    not_executed_statuses: frozenset[int] = frozenset()
    not_executed_codes: frozenset[str] = frozenset()
    unordered_note: str = ""


class CreationAnswer(Enum):
    """The effect of a failed request to create an object.

    Attributes:
        EXISTS: The key exists already, so nothing was created.
        NOT_DONE: The request was not executed and may be repeated.
        REFUSED: The request was not executed, and repeating it would fail again.
        UNSUPPORTED: The store does not support the condition.
        UNKNOWN: The object may have been created.
    """

    EXISTS = auto()
    NOT_DONE = auto()
    REFUSED = auto()
    UNSUPPORTED = auto()
    UNKNOWN = auto()


def classify_failed_creation(error: HttpError, dialect: Dialect) -> CreationAnswer:
    """Decide whether a failed conditional request may have created the object.

    A request with an unknown effect must not be repeated. If the first request created the object and its response
    was lost, the second one would fail with 412, and this writer would take its own commit for the commit of another
    writer. So the result is UNKNOWN in all cases of doubt, and the caller reads the object back. Reading costs one
    request; a wrong NOT_DONE or EXISTS costs a commit.

    | error                                           | result      |
    |-------------------------------------------------|-------------|
    | no connection                                   | REFUSED     |
    | connection broken, or response of a proxy       | UNKNOWN     |
    | 412, or a code for an existing key              | EXISTS      |
    | 408: a gateway timed out, not the store         | UNKNOWN     |
    | 429, or documented by the cloud as not executed | NOT_DONE    |
    | 501                                             | UNSUPPORTED |
    | 409, other 5xx, no status                       | UNKNOWN     |
    | other 4xx                                       | REFUSED     |

    A 500 is UNKNOWN because the store may have failed after it stored the object. A 409 of S3 means that a concurrent
    request for the key was running and this one was not executed, so the dialect of S3 contains it.

    Args:
        error: The error of a request that was sent once.
        dialect: The error codes of the cloud.
    """
    match error.outcome:
        case RequestOutcome.UNSENT:
            return CreationAnswer.REFUSED
        case RequestOutcome.BROKEN | RequestOutcome.UNEXPECTED:
            return CreationAnswer.UNKNOWN

    if error.status == 412 or error.reason in dialect.exists_codes:
        return CreationAnswer.EXISTS
    if error.status == 408:
        # S3 itself answers 400 RequestTimeout. A 408 comes from a gateway, and the store may have got the request.
        return CreationAnswer.UNKNOWN
    if error.status == 429 or error.status in dialect.not_executed_statuses:
        return CreationAnswer.NOT_DONE
    if error.reason in dialect.not_executed_codes:
        return CreationAnswer.NOT_DONE
    if error.status == 501:
        return CreationAnswer.UNSUPPORTED
    if error.status >= 500 or error.status in (0, 409):
        return CreationAnswer.UNKNOWN
    return CreationAnswer.REFUSED


def is_bulk_deletion_refused(error: HttpError) -> bool:
    """Return whether the store does not support bulk deletions. It may still delete single objects."""
    if error.outcome is not RequestOutcome.ANSWERED:
        return False
    return error.status in (405, 411, 501) or error.reason in _BULK_REFUSAL_CODES


def translate_http_error(
    http_error: HttpError, location: str, verb: str, dialect: Dialect, endpoint: str, identity: str
) -> StorageFailed:
    """Return the error that the user sees for an HTTP error. It contains no secrets.

    Args:
        http_error: The error of the request.
        location: The URI of the object.
        verb: A participle that says what could not be done, such as "written".
        dialect: The error codes and terms of the cloud.
        endpoint: The host that the request was sent to.
        identity: The source of the credentials.
    """
    error = _choose_error(http_error, location, verb, dialect, endpoint, identity)
    error.facts |= describe_attempts(http_error)
    error.__cause__ = MaskedCause.of(http_error)
    return error


def build_permission_error(
    failed: str, facts: Mapping[str, str], identity: str, *, renewal_command: str, identity_command: str
) -> PermissionRefused:
    """Return the error for credentials that have expired or lack a permission.

    Args:
        failed: The failed action, for example "s3://bucket/key cannot be read".
        facts: Facts about the request.
        identity: The source of the credentials.
        renewal_command: The command that renews expired credentials; '' if they have not expired.
        identity_command: The command that shows the identity in use.
    """
    reason = "the credentials have expired" if renewal_command else "access is denied"
    return PermissionRefused(
        reason,
        preamble=f"{failed}: ",
        facts={**facts, "credentials": identity},
        hint=renewal_command or identity_command,
    )


def _choose_error(
    http_error: HttpError, location: str, verb: str, dialect: Dialect, endpoint: str, identity: str
) -> StorageFailed:
    """Return the error for the first condition that applies, from the most specific to the most general."""
    failed = f"{location} cannot be {verb}"
    container_name = location.split("/")[2]
    facts = {"store says": str(MaskedCause.of(http_error)).partition(": ")[2], "endpoint": endpoint}

    if http_error.reason in dialect.container_missing_codes:
        return StorageFailed(
            f"{dialect.container_noun} {container_name} not found",
            code="storage.bucket-missing",
            facts=facts,
            hint=dialect.list_command,
        )
    if http_error.status == 404:
        return FileMissing(f"{location} does not exist")
    if http_error.renewal_command or http_error.status in (401, 403):
        is_anonymous = identity == ANONYMOUS
        omit_anon = f"omit {parameter('storage_options.anon', 'true')}"
        return build_permission_error(
            failed,
            facts,
            identity,
            renewal_command=http_error.renewal_command,
            identity_command=omit_anon if is_anonymous else dialect.identity_command,
        )

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
        # A code of Azure. S3 reports archived objects with another code, which `s3/errors.py` handles.
        facts["next"] = "move the object to another access tier, with az storage blob set-tier"
        return StorageFailed(failed, code="storage.archived", facts=facts)
    return StorageFailed(failed, facts=facts)
