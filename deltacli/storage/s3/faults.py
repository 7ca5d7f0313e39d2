"""Translation of errors of S3 and its library: whether the request was executed, the reason, and what to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from deltacli.core.errors import CredentialsMissing, FileMissing, StorageFailed, UsageError, parameter
from deltacli.core.typing import Botocore
from deltacli.storage.grants import ASK_PROVIDER, SOURCE
from deltacli.storage.objects.dialect import refused
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome, shorten_message
from deltacli.storage.objects.options import describe_set_or_unset, describe_variables
from deltacli.storage.retry import describe_attempts
from deltacli.storage.retry_after import read_retry_after
from deltacli.storage.s3.bounded_botocore import TooLong
from deltacli.storage.s3.options import S3Options, get_profile
from deltacli.storage.secrets import MaskedCause, mask_secrets

_OF_THE_ANSWER = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, HTTPError)
"""Errors of the library's parsers for unexpected answers."""

BOTOCORE_ERRORS: tuple[type[Exception], ...] = (
    boto.BotoCoreError,
    boto.ClientError,
    ResponseParserError,
    OSError,
    *_OF_THE_ANSWER,
)
"""All errors that a call of the library may raise."""

_BREAKS = (
    boto.ConnectionClosedError,
    boto.ReadTimeoutError,
    boto.ConnectTimeoutError,
    boto.ResponseStreamingError,
    boto.IncompleteReadError,
)
_NEVER_SENT = (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError)
_BROKEN_OFF = (boto.HTTPClientError, boto.SSLError, boto.IncompleteReadError, ResponseParserError)
_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.ProfileNotFound,
    boto.ConfigNotFound,
    boto.ConfigParseError,
    boto.TokenRetrievalError,
    boto.SSOError,
    boto.UnauthorizedSSOTokenError,
    boto.MetadataRetrievalError,
    boto.RefreshWithMFAUnsupportedError,
    boto.InvalidConfigError,
    boto.InfiniteLoopConfigError,
)
_DENIED = {
    "AccessDenied",
    "AllAccessDisabled",
    "AccountProblem",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "RequestTimeTooSkewed",
    "UnauthorizedAccess",
    "401",
    "403",
}
_CREDENTIALS_REFUSED = {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_STATUS = {"InvalidRange": 416, "NotImplemented": 501}
"""Codes that some stores give with another status."""
_ARCHIVED = "InvalidObjectState"
_ABSENT = {"NoSuchKey", "NoSuchVersion", "404", "NotFound"}
_ELSEWHERE = {
    "PermanentRedirect",
    "TemporaryRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "301",
    "307",
}


_CAUSES = {
    boto.ConnectionClosedError: "connection closed without an answer",
    boto.ReadTimeoutError: "no answer in time",
    boto.ConnectTimeoutError: "no connection in time",
    boto.ResponseStreamingError: "connection closed within the answer",
    boto.IncompleteReadError: "connection closed within the answer",
}


_NO_RETRIES = " (reached max retries: 0)"
"""A suffix of the library, which is wrong because only the caller retries."""


def convert_botocore_error(error: BaseException) -> HttpError:
    """Return the error of a request that was sent once, whose cause is what the library raised."""
    if isinstance(error, boto.ClientError):
        status = get_status(error)
        code = get_error_code(error)
        message = shorten_message(str(error.response.get("Error", {}).get("Message", "")))
        reason = "" if code == str(status) else code
        wait_seconds = read_retry_after(_headers_of(error))
        return HttpError(
            RequestOutcome.ANSWERED, message, status=_STATUS.get(code, status), reason=reason, wait_seconds=wait_seconds
        )
    said = shorten_message(str(error))
    if isinstance(error, _NEVER_SENT):
        timed_out = isinstance(error, boto.ConnectTimeoutError)
        return HttpError(
            RequestOutcome.UNSENT, _CAUSES.get(type(error), said), reason="connect-timeout" if timed_out else ""
        )
    if is_broken_off(error):
        return HttpError(RequestOutcome.BROKEN, _CAUSES.get(type(error), "connection broken"))
    return HttpError(
        RequestOutcome.UNEXPECTED if isinstance(error, (*_BROKEN_OFF, *_OF_THE_ANSWER)) else RequestOutcome.UNSENT, said
    )


def refuses_credentials(error: BaseException) -> bool:
    """Return whether nothing was done because credentials have ended or are gone; a HEAD's answer has no words."""
    return isinstance(error, boto.ClientError) and (
        get_error_code(error) in _CREDENTIALS_REFUSED
        or (get_status(error) == 400 and error.operation_name.startswith("Head"))
    )


def is_broken_off(error: BaseException) -> bool:
    """Return True where the connection was closed or timed out."""
    return isinstance(error, _BREAKS) or (isinstance(error, boto.SSLError) and "EOF occurred" in str(error))


def get_error_code(error: BaseException | None) -> str:
    """Return the error code of S3, or the name of the library's class."""
    if isinstance(error, HttpError):
        return error.reason
    if isinstance(error, boto.ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return type(error).__name__ if error is not None else ""


def is_absent(error: BaseException) -> bool:
    return get_error_code(error) in _ABSENT


def translate_boto(
    fault: BaseException, location: str, what: str, options: S3Options, client: Any = None
) -> StorageFailed | UsageError:  # Any: a botocore client
    """Return the error of deltacli, without secrets, for an error; `what` could not be done to `location`."""
    of_library = fault.__cause__ or fault if isinstance(fault, HttpError) else fault
    message = MaskedCause.of(of_library, options.secrets)
    error = _judge(of_library, location, what, options, client, message)
    error.facts |= describe_attempts(fault)
    error.__cause__ = message
    return error


def translate_options(fault: BaseException, location: str, options: S3Options) -> StorageFailed | UsageError:
    """Return the error for an error before a request was sent, caused by wrong options or credentials."""
    if isinstance(fault, TooLong) or not isinstance(fault, boto.ParamValidationError | ValueError | TypeError):
        return translate_boto(fault, location, "read", options)
    message = MaskedCause.of(fault, options.secrets)
    error = UsageError(
        f"S3 does not accept this request for {location}",
        code="usage.storage-option",
        facts={"store says": str(message)},
    )
    error.__cause__ = message
    return error


def _judge(
    fault: BaseException, location: str, what: str, options: S3Options, client: Any, message: MaskedCause
) -> StorageFailed | UsageError:
    """Return the error for the first reason that applies, from the most specific to the least."""
    failed = f"{location} cannot be {what}"
    code = get_error_code(fault)
    bucket = location.split("/")[2]
    facts = {"store says": str(message).replace(_NO_RETRIES, ""), **_where(client)}
    if isinstance(fault, HttpError):  # of an answer that the library took for a good one
        facts["store says"] = fault.message
    if is_absent(fault):
        return FileMissing(f"{location} does not exist")
    expired = renewal(fault, client, options)
    if isinstance(fault, _NO_CREDENTIALS):
        return CredentialsMissing(
            "the AWS credentials have expired" if expired else "no usable AWS credentials",
            preamble=f"{failed}: ",
            facts={"store says": str(message), **s3_sources(options)},
            hint=expired or how_to_log_in_to_aws(),
        )
    if expired or code in _DENIED:
        return refused(failed, facts, used_credentials(client, options), expired, _ask_who(options))
    if code == "NoSuchBucket":
        return StorageFailed(
            f"bucket {bucket} not found",
            code="storage.bucket-missing",
            facts=facts,
            hint="aws s3api list-buckets" if options.held is None else _own_endpoint(),
        )
    region = _region_of(fault)
    if not region and (host := _redirected_to(fault)):
        error = _unexpected(failed, f"a redirect to {host}", {})
        error.facts |= facts
        return error
    if code in _ELSEWHERE:
        name = region or "REGION"
        if region:
            facts["region of the bucket"] = region
        hint = f"add {parameter('storage_options.region', name)}"
        if options.held is None:
            hint += f", or export AWS_REGION={name}"
        return StorageFailed(
            f"the bucket {bucket} is in another region",
            preamble=f"{failed}: ",
            code="storage.region",
            facts=facts,
            hint=hint,
        )
    if isinstance(fault, (*_NEVER_SENT, boto.SSLError)):
        return StorageFailed(
            "the endpoint is unreachable",
            preamble=f"{failed}: ",
            code="storage.unreachable",
            facts=facts,
            hint=f"check AWS_ENDPOINT_URL and AWS_REGION, or {parameter('storage_options.endpoint_url', 'URL')}"
            if options.held is None
            else _own_endpoint(),
        )
    if isinstance(fault, boto.ParamValidationError):
        return UsageError(
            f"S3 does not accept this request for {location}",
            code="usage.storage-option",
            facts={"store says": str(message)},
        )
    is_ours = isinstance(fault, HttpError) and fault.outcome is RequestOutcome.UNEXPECTED
    is_of_a_parser = isinstance(fault, (ResponseParserError, *_OF_THE_ANSWER))
    if is_ours or (is_of_a_parser and not isinstance(fault, boto.BotoCoreError)):
        return _unexpected(failed, facts["store says"][:200], facts)
    error = StorageFailed(failed, facts=facts)
    if code == _ARCHIVED:
        error.code = "storage.archived"
        error.facts["next"] = "restore the archived object first, see aws s3api restore-object help"
    return error


def _own_endpoint() -> str:
    """Return the hint where credentials of a server are used, and so no variable of the environment."""
    return f"if the store has an endpoint of its own, add {parameter('storage_options.endpoint_url', 'URL')}"


def _unexpected(error: str, seen: str, where: Mapping[str, str]) -> StorageFailed:
    """Return the error for an answer that S3 does not give."""
    return StorageFailed(
        "the answer is not a valid answer of S3",
        preamble=f"{error}: ",
        code="storage.unexpected-answer",
        facts={"seen": seen, "expected": "S3 instead of a proxy or login page"}
        | {name: text for name, text in where.items() if name == "endpoint"},
        hint=f"check AWS_ENDPOINT_URL and the proxy settings, or {parameter('storage_options.endpoint_url', 'URL')}",
    )


def _where(client: Botocore) -> dict[str, str]:
    if client is None:
        return {}
    return {"endpoint": mask_secrets(str(client.meta.endpoint_url)), "region": str(client.meta.region_name)}


def get_status(error: BaseException) -> int:
    """Return the status of an answer; 0 without one."""
    if not isinstance(error, boto.ClientError):
        return 0
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _headers_of(error: boto.ClientError) -> Mapping[str, str]:
    """Return the headers of an answer, their names in lower case."""
    headers: Mapping[str, str] = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return headers


def _region_of(fault: BaseException) -> str | None:
    if not isinstance(fault, boto.ClientError):
        return None
    headers = _headers_of(fault)
    error: Mapping[str, str] = fault.response.get("Error", {})
    return headers.get("x-amz-bucket-region") or error.get("Region")


def used_credentials(client: Botocore, options: S3Options) -> str:
    """Return the source of the credentials."""
    if options.anonymous:
        return "none (anon=true)"
    credentials = getattr(getattr(client, "_request_signer", None), "_credentials", None)
    return {
        None: "unknown",
        "explicit": f"{parameter('storage_options.key')}, secret",
        "env": "environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
        "iam-role": "instance metadata",
        "container-role": "container metadata",
        "vended": SOURCE,
    }.get(method := getattr(credentials, "method", None), str(method))


def _redirected_to(error: BaseException) -> str:
    """Return the host that a redirect leads to, '' where it is one of AWS."""
    if not isinstance(error, boto.ClientError) or not 300 <= get_status(error) < 400:
        return ""
    headers = _headers_of(error)
    try:
        host = urlsplit(headers.get("location", "")).hostname or ""
    except ValueError:
        host = "an invalid address"
    return "" if host.endswith((".amazonaws.com", ".amazonaws.com.cn")) else host[:80]


def renewal(error: BaseException, client: Botocore, options: S3Options) -> str:
    """Return how credentials are renewed that have expired; '' for any other error."""
    is_of_session = isinstance(error, _NO_CREDENTIALS) and "expired" in str(error).lower()
    if not is_of_session and get_error_code(error) not in _EXPIRED:
        return ""
    if options.held is not None:
        return ASK_PROVIDER
    credentials = getattr(getattr(client, "_request_signer", None), "_credentials", None)
    if is_of_session or getattr(credentials, "method", "") in ("sso", "login", "assume-role"):
        return f"aws sso login{_profile(options)}"
    return 'eval "$(aws configure export-credentials --profile NAME --format env)"'


def _ask_who(options: S3Options) -> str:
    if options.held is not None:
        return ASK_PROVIDER
    if options.anonymous:
        return f"omit {parameter('storage_options.anon', 'true')}"
    return f"aws sts get-caller-identity{_profile(options)}"


def how_to_log_in_to_aws() -> str:
    return f"export AWS_PROFILE=NAME, or for a public bucket add {parameter('storage_options.anon', 'true')}"


def _profile(options: S3Options) -> str:
    return f" --profile {options.profile}" if options.profile else ""


def _presence(path: str) -> str:
    return "there" if os.path.exists(os.path.expanduser(path)) else "absent"


def s3_sources(options: S3Options) -> dict[str, str]:
    """Return the names of the tried sources, in botocore's order, without values that could be secret."""
    files = (
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        os.environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
    )
    metadata_off = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    return {
        "options": describe_set_or_unset(
            {"key": options.client.get("aws_access_key_id"), "secret": options.client.get("aws_secret_access_key")}
        ),
        "environment": describe_variables("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        "web identity": describe_variables("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
        "profile": get_profile(options),
        "files": ", ".join(f"{name} ({_presence(name)})" for name in files),
        "container": describe_variables("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        "instance metadata": "disabled by AWS_EC2_METADATA_DISABLED" if metadata_off else "no answer",
    }
