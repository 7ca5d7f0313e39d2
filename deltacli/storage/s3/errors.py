"""Interpretation of the errors of botocore.

`convert_botocore_error` returns an `HttpError`, which says whether the request may have been executed: the retry and
the creation of objects depend on it. `translate_botocore_error` returns the error that the user sees, with the
reason and a hint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from deltacli.core.errors import CredentialsMissing, FileMissing, StorageFailed, UsageError, parameter
from deltacli.core.typing import Botocore
from deltacli.storage.grants import ASK_PROVIDER, SOURCE
from deltacli.storage.objects.dialect import build_permission_error
from deltacli.storage.objects.http_errors import CONNECT_TIMEOUT, HttpError, RequestOutcome, shorten_message
from deltacli.storage.objects.options import describe_presence, describe_variables
from deltacli.storage.retry import describe_attempts
from deltacli.storage.retry_after import read_retry_after
from deltacli.storage.s3.bounded_botocore import TooLong
from deltacli.storage.s3.options import S3Options, get_profile
from deltacli.storage.secrets import MaskedCause, mask_secrets

_PARSER_ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, HTTPError)
"""Errors that botocore raises when it parses an invalid response."""

BOTOCORE_ERRORS: tuple[type[Exception], ...] = (
    boto.BotoCoreError,
    boto.ClientError,
    ResponseParserError,
    OSError,
    *_PARSER_ERRORS,
)
"""All errors that a call of botocore may raise."""

_CONNECTION_ERRORS = (
    boto.ConnectionClosedError,
    boto.ReadTimeoutError,
    boto.ConnectTimeoutError,
    boto.ResponseStreamingError,
    boto.IncompleteReadError,
)
_UNSENT_ERRORS = (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError)
_RESPONSE_ERRORS = (boto.HTTPClientError, boto.SSLError, boto.IncompleteReadError, ResponseParserError)
_CREDENTIALS_ERRORS = (
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

_DENIED_CODES = {
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
_REFUSED_CREDENTIALS_CODES = {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired"}
_EXPIRED_CODES = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_STATUS_BY_CODE = {"InvalidRange": 416, "NotImplemented": 501}
"""Statuses of S3 for codes that some compatible stores send with another status."""
_ARCHIVED_CODE = "InvalidObjectState"
_MISSING_CODES = {"NoSuchKey", "NoSuchVersion", "404", "NotFound"}
_OTHER_REGION_CODES = {
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
"""A suffix of botocore's messages. It is misleading, because deltacli retries by itself."""

_MAX_HOST_CHARACTERS = 80
_MAX_SEEN_CHARACTERS = 200


def convert_botocore_error(error: BaseException) -> HttpError:
    """Return the `HttpError` for an error of a request that botocore sent once.

    The outcome is UNSENT only for errors that botocore raises before it sends anything. Conditional creations depend
    on that: an UNSENT request is known not to have created an object.
    """
    if isinstance(error, boto.ClientError):
        status = get_status(error)
        code = get_error_code(error)
        return HttpError(
            RequestOutcome.ANSWERED,
            shorten_message(str(error.response.get("Error", {}).get("Message", ""))),
            status=_STATUS_BY_CODE.get(code, status),
            reason="" if code == str(status) else code,
            wait_seconds=read_retry_after(_get_headers(error)),
        )

    message = shorten_message(str(error))
    if isinstance(error, _UNSENT_ERRORS):
        reason = CONNECT_TIMEOUT if isinstance(error, boto.ConnectTimeoutError) else ""
        return HttpError(RequestOutcome.UNSENT, _CAUSES.get(type(error), message), reason=reason)
    if is_connection_broken(error):
        return HttpError(RequestOutcome.BROKEN, _CAUSES.get(type(error), "connection broken"))
    if isinstance(error, (*_RESPONSE_ERRORS, *_PARSER_ERRORS)):
        return HttpError(RequestOutcome.UNEXPECTED, message)
    return HttpError(RequestOutcome.UNSENT, message)


def are_credentials_refused(error: BaseException) -> bool:
    """Return whether S3 refused a request because its credentials have expired or do not exist any more.

    A response to HEAD has no body and therefore no error code. Its status is 400 in this case.
    """
    if not isinstance(error, boto.ClientError):
        return False
    if get_error_code(error) in _REFUSED_CREDENTIALS_CODES:
        return True
    return get_status(error) == 400 and error.operation_name.startswith("Head")


def is_connection_broken(error: BaseException) -> bool:
    """Return whether the connection was closed or timed out."""
    is_cut_tls = isinstance(error, boto.SSLError) and "EOF occurred" in str(error)
    return isinstance(error, _CONNECTION_ERRORS) or is_cut_tls


def get_error_code(error: BaseException | None) -> str:
    """Return the error code of S3, for example "NoSuchKey"; for other errors of botocore the name of the class."""
    if isinstance(error, HttpError):
        return error.reason
    if isinstance(error, boto.ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return type(error).__name__ if error is not None else ""


def is_missing(error: BaseException) -> bool:
    """Return whether the object or the version does not exist."""
    return get_error_code(error) in _MISSING_CODES


def translate_botocore_error(
    error: BaseException, location: str, verb: str, options: S3Options, client: Botocore = None
) -> StorageFailed | UsageError:
    """Return the error that the user sees. It contains no secrets.

    Args:
        error: An error of botocore, or the `HttpError` made from it.
        location: The URI of the object.
        verb: A participle that says what could not be done, such as "written".
        options: The options of the store.
        client: The client of botocore; None if the error occurred before there was one.
    """
    botocore_error = error.__cause__ or error if isinstance(error, HttpError) else error
    masked_cause = MaskedCause.of(botocore_error, options.secrets)
    translated = _choose_error(botocore_error, location, verb, options, client, masked_cause)
    translated.facts |= describe_attempts(error)
    translated.__cause__ = masked_cause
    return translated


def translate_setup_error(error: BaseException, location: str, options: S3Options) -> StorageFailed | UsageError:
    """Return the error that the user sees if a client cannot be created, because of its options or credentials."""
    is_invalid_option = isinstance(error, boto.ParamValidationError | ValueError | TypeError)
    if isinstance(error, TooLong) or not is_invalid_option:
        return translate_botocore_error(error, location, "read", options)
    masked_cause = MaskedCause.of(error, options.secrets)
    usage_error = _build_request_error(location, str(masked_cause))
    usage_error.__cause__ = masked_cause
    return usage_error


def _choose_error(
    error: BaseException,
    location: str,
    verb: str,
    options: S3Options,
    client: Botocore,
    masked_cause: MaskedCause,
) -> StorageFailed | UsageError:
    """Return the error for the first condition that applies, from the most specific to the most general."""
    failed = f"{location} cannot be {verb}"
    code = get_error_code(error)
    facts = {"store says": str(masked_cause).replace(_NO_RETRIES, ""), **_describe_client(client)}
    if isinstance(error, HttpError):
        # botocore accepted the response, and deltacli rejected it.
        facts["store says"] = error.message

    if is_missing(error):
        return FileMissing(f"{location} does not exist")

    # Credentials and permissions.
    renewal_command = get_renewal_command(error, client, options)
    if isinstance(error, _CREDENTIALS_ERRORS):
        return CredentialsMissing(
            "the AWS credentials have expired" if renewal_command else "no usable AWS credentials",
            preamble=f"{failed}: ",
            facts={"store says": str(masked_cause), **describe_s3_sources(options)},
            hint=renewal_command or build_aws_login_hint(),
        )
    if renewal_command or code in _DENIED_CODES:
        return build_permission_error(
            failed,
            facts,
            describe_used_credentials(client, options),
            renewal_command=renewal_command,
            identity_command=_build_identity_hint(options),
        )

    # The bucket and its region.
    bucket = location.split("/")[2]
    if code == "NoSuchBucket":
        return StorageFailed(
            f"bucket {bucket} not found",
            code="storage.bucket-missing",
            facts=facts,
            hint="aws s3api list-buckets" if options.held is None else _build_endpoint_hint(),
        )
    region = _find_region(error)
    foreign_host = "" if region else _find_foreign_redirect(error)
    if foreign_host:
        redirect_error = _build_unexpected_response_error(failed, f"a redirect to {foreign_host}", {})
        redirect_error.facts |= facts
        return redirect_error
    if code in _OTHER_REGION_CODES:
        return _build_region_error(failed, bucket, region, facts, options)

    # The endpoint, the request and the response.
    if isinstance(error, (*_UNSENT_ERRORS, boto.SSLError)):
        check_variables = (
            f"check AWS_ENDPOINT_URL and AWS_REGION, or {parameter('storage_options.endpoint_url', 'URL')}"
        )
        return StorageFailed(
            "the endpoint is unreachable",
            preamble=f"{failed}: ",
            code="storage.unreachable",
            facts=facts,
            hint=check_variables if options.held is None else _build_endpoint_hint(),
        )
    if isinstance(error, boto.ParamValidationError):
        return _build_request_error(location, str(masked_cause))
    if _is_invalid_response(error):
        return _build_unexpected_response_error(failed, facts["store says"][:_MAX_SEEN_CHARACTERS], facts)

    storage_error = StorageFailed(failed, facts=facts)
    if code == _ARCHIVED_CODE:
        storage_error.code = "storage.archived"
        storage_error.facts["next"] = "restore the archived object first, see aws s3api restore-object help"
    return storage_error


def _is_invalid_response(error: BaseException) -> bool:
    """Return whether the response does not come from S3: deltacli rejected it, or botocore could not parse it."""
    if isinstance(error, HttpError):
        return error.outcome is RequestOutcome.UNEXPECTED
    is_parser_error = isinstance(error, (ResponseParserError, *_PARSER_ERRORS))
    return is_parser_error and not isinstance(error, boto.BotoCoreError)


def _build_request_error(location: str, message: str) -> UsageError:
    """Return the error for an invalid storage option or parameter of a request."""
    return UsageError(
        f"S3 does not accept this request for {location}",
        code="usage.storage-option",
        facts={"store says": message},
    )


def _build_region_error(
    failed: str, bucket: str, region: str | None, facts: dict[str, str], options: S3Options
) -> StorageFailed:
    """Return the error for a bucket in another region.

    Args:
        failed: The failed action, for example "s3://bucket/key cannot be read".
        bucket: The bucket.
        region: The region of the bucket; None if the response does not say it.
        facts: Facts about the request. The region is added.
        options: The options of the store.
    """
    region_argument = region or "REGION"
    if region:
        facts["region of the bucket"] = region
    hint = f"add {parameter('storage_options.region', region_argument)}"
    # Variables of the environment have no effect with credentials of a server.
    if options.held is None:
        hint += f", or export AWS_REGION={region_argument}"
    return StorageFailed(
        f"the bucket {bucket} is in another region",
        preamble=f"{failed}: ",
        code="storage.region",
        facts=facts,
        hint=hint,
    )


def _build_endpoint_hint() -> str:
    """Return the hint for a wrong endpoint with credentials of a server, which ignore environment variables."""
    return f"if the store has an endpoint of its own, add {parameter('storage_options.endpoint_url', 'URL')}"


def _build_unexpected_response_error(failed: str, seen: str, facts: Mapping[str, str]) -> StorageFailed:
    """Return the error for a response that does not come from S3.

    Args:
        failed: The failed action, for example "s3://bucket/key cannot be read".
        seen: A description of the response.
        facts: Facts about the request. Only the endpoint is copied.
    """
    endpoint_facts = {name: text for name, text in facts.items() if name == "endpoint"}
    return StorageFailed(
        "the answer is not a valid answer of S3",
        preamble=f"{failed}: ",
        code="storage.unexpected-answer",
        facts={"seen": seen, "expected": "S3 instead of a proxy or login page", **endpoint_facts},
        hint=f"check AWS_ENDPOINT_URL and the proxy settings, or {parameter('storage_options.endpoint_url', 'URL')}",
    )


def _describe_client(client: Botocore) -> dict[str, str]:
    """Return the endpoint and the region of a client."""
    if client is None:
        return {}
    return {"endpoint": mask_secrets(str(client.meta.endpoint_url)), "region": str(client.meta.region_name)}


def get_status(error: BaseException) -> int:
    """Return the HTTP status of the response; 0 if there is no response."""
    if not isinstance(error, boto.ClientError):
        return 0
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _get_headers(error: boto.ClientError) -> Mapping[str, str]:
    """Return the headers of the response. Their names are in lower case."""
    headers: Mapping[str, str] = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return headers


def _find_region(error: BaseException) -> str | None:
    """Return the region of the bucket, if the response contains it."""
    if not isinstance(error, boto.ClientError):
        return None
    headers = _get_headers(error)
    error_fields: Mapping[str, str] = error.response.get("Error", {})
    return headers.get("x-amz-bucket-region") or error_fields.get("Region")


def _find_foreign_redirect(error: BaseException) -> str:
    """Return the target host of a redirect that leads outside AWS; '' for other errors."""
    if not isinstance(error, boto.ClientError) or not 300 <= get_status(error) < 400:
        return ""
    headers = _get_headers(error)
    try:
        host = urlsplit(headers.get("location", "")).hostname or ""
    except ValueError:
        host = "an invalid address"
    return "" if host.endswith((".amazonaws.com", ".amazonaws.com.cn")) else host[:_MAX_HOST_CHARACTERS]


def _get_credentials_method(client: Botocore) -> str | None:
    """Return how botocore found the credentials, for example "env" or "sso"; None if that is unknown."""
    # botocore has no public attribute for the credentials of a client.
    credentials = getattr(getattr(client, "_request_signer", None), "_credentials", None)
    return getattr(credentials, "method", None)


def describe_used_credentials(client: Botocore, options: S3Options) -> str:
    """Return the source of the credentials in use, for messages."""
    if options.anonymous:
        return "none (anon=true)"
    method = _get_credentials_method(client)
    descriptions = {
        None: "unknown",
        "explicit": f"{parameter('storage_options.key')}, secret",
        "env": "environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
        "iam-role": "instance metadata",
        "container-role": "container metadata",
        "vended": SOURCE,
    }
    return descriptions.get(method, str(method))


def get_renewal_command(error: BaseException, client: Botocore, options: S3Options) -> str:
    """Return the command that renews expired credentials; '' for other errors."""
    has_session_expired = isinstance(error, _CREDENTIALS_ERRORS) and "expired" in str(error).lower()
    if not has_session_expired and get_error_code(error) not in _EXPIRED_CODES:
        return ""
    if options.held is not None:
        return ASK_PROVIDER
    if has_session_expired or _get_credentials_method(client) in ("sso", "login", "assume-role"):
        return f"aws sso login{_build_profile_argument(options)}"
    return 'eval "$(aws configure export-credentials --profile NAME --format env)"'


def _build_identity_hint(options: S3Options) -> str:
    """Return how the user finds out why access is denied."""
    if options.held is not None:
        return ASK_PROVIDER
    if options.anonymous:
        return f"omit {parameter('storage_options.anon', 'true')}"
    return f"aws sts get-caller-identity{_build_profile_argument(options)}"


def build_aws_login_hint() -> str:
    """Return the hint for missing credentials."""
    return f"export AWS_PROFILE=NAME, or for a public bucket add {parameter('storage_options.anon', 'true')}"


def _build_profile_argument(options: S3Options) -> str:
    return f" --profile {options.profile}" if options.profile else ""


def _describe_file(path: str) -> str:
    state = "there" if os.path.exists(os.path.expanduser(path)) else "absent"
    return f"{path} ({state})"


def describe_s3_sources(options: S3Options) -> dict[str, str]:
    """Return the sources of credentials in the order in which botocore tries them, with their states.

    The values contain names of variables and files, but no secrets.
    """
    credentials_file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    config_file = os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")
    is_metadata_disabled = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    return {
        "options": describe_presence(
            {"key": options.client.get("aws_access_key_id"), "secret": options.client.get("aws_secret_access_key")}
        ),
        "environment": describe_variables("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        "web identity": describe_variables("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
        "profile": get_profile(options),
        "files": f"{_describe_file(credentials_file)}, {_describe_file(config_file)}",
        "container": describe_variables("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        "instance metadata": "disabled by AWS_EC2_METADATA_DISABLED" if is_metadata_disabled else "no answer",
    }
