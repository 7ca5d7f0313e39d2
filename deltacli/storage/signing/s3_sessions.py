"""Temporary credentials for one directory in S3: a session of a role that a session policy restricts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deltacli.core.typing import Botocore
from deltacli.storage.libraries import require_libraries
from deltacli.storage.s3.options import make_session, read_s3_options
from deltacli.storage.signing.delegation import CannotMint, Delegation, MintedCredential
from deltacli.storage.signing.policies import MAX_POLICY_CHARACTERS, build_session_policy, parse_role_partition

_DEFAULT_REGION = "us-east-1"
_REGIONS = {"aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
"""Regions of STS for partitions other than "aws"."""

_TRANSIENT_CODES = re.compile(
    r"Throttl|TooManyRequests|RequestLimit|SlowDown|Unavailable|InternalFailure|InternalError|Timeout"
)
_INVALID_IN_SESSION_NAMES = re.compile(r"[^A-Za-z0-9+=,.@_-]")
_MAX_SESSION_NAME_CHARACTERS = 64
_CREDENTIAL_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_TIMEOUT_SECONDS = 10


def mint_session(
    directory: tuple[str, str], options: Mapping[str, str], delegation: Delegation, *, recipient: str, seconds: int
) -> MintedCredential:
    """Assume a role with access to one directory.

    Args:
        directory: The bucket and the prefix of the directory.
        options: The storage options of the server.
        delegation: The role, and the settings for assuming it.
        recipient: The name of the recipient, which becomes part of the session name in the logs of AWS.
        seconds: The duration of the session.

    Raises:
        CannotMint: If STS refuses the request, or cannot be reached.
        UsageError: If an option is invalid.
    """
    from deltacli.storage.s3.errors import BOTOCORE_ERRORS

    require_libraries("s3", "botocore.session")
    bucket, prefix = directory
    partition = parse_role_partition(delegation.role_arn) or "aws"
    policy = build_session_policy(bucket, prefix, partition=partition, uses_kms=delegation.uses_kms)
    if len(policy) > MAX_POLICY_CHARACTERS:
        raise CannotMint(f"its session policy has {len(policy):,} characters, and AWS allows {MAX_POLICY_CHARACTERS:,}")

    session_name = _INVALID_IN_SESSION_NAMES.sub("-", f"deltacli-{recipient}")
    arguments: dict[str, Any] = {
        "RoleArn": delegation.role_arn,
        "RoleSessionName": session_name[:_MAX_SESSION_NAME_CHARACTERS],
        "DurationSeconds": seconds,
        "Policy": policy,
    }
    if delegation.external_id:
        arguments["ExternalId"] = delegation.external_id

    try:
        response = _make_sts_client(options, delegation, partition).assume_role(**arguments)
        credentials = response["Credentials"]
        key_id = str(credentials["AccessKeyId"])
        secret = str(credentials["SecretAccessKey"])
        token = str(credentials["SessionToken"])
        expires_ms = int(credentials["Expiration"].timestamp() * 1_000)
    except BOTOCORE_ERRORS as error:
        raise _build_error(error) from None
    fields = {"accessKeyId": key_id, "secretAccessKey": secret, "sessionToken": token}
    return MintedCredential("awsTempCredentials", fields, expires_ms, key_id[-4:])


def _make_sts_client(options: Mapping[str, str], delegation: Delegation, partition: str) -> Botocore:
    """Return a client of STS with short timeouts, because a recipient is waiting for the credential."""
    import botocore.config

    s3_options = read_s3_options(options)
    session = make_session(s3_options)
    region = s3_options.client.get("region_name") or session.get_config_variable("region")
    config = botocore.config.Config(
        connect_timeout=_TIMEOUT_SECONDS,
        read_timeout=_TIMEOUT_SECONDS,
        retries={"mode": "standard", "total_max_attempts": 2},
    )
    client_arguments = {
        name: s3_options.client[name] for name in (*_CREDENTIAL_NAMES, "verify") if name in s3_options.client
    }
    return session.create_client(
        "sts",
        region_name=region or _REGIONS.get(partition, _DEFAULT_REGION),
        endpoint_url=delegation.sts_endpoint or None,
        config=config,
        **client_arguments,
    )


def _build_error(error: BaseException) -> CannotMint:
    """Return the error for a failed request to STS. It contains the code only: the message may quote the policy."""
    from botocore import exceptions as boto

    from deltacli.storage.s3.errors import get_error_code, get_status

    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError | boto.CredentialRetrievalError):
        return CannotMint("the server has no usable AWS credentials to assume the role with")
    if not isinstance(error, boto.ClientError):
        return CannotMint(f"STS cannot be reached or understood ({type(error).__name__})", is_transient=True)

    code = get_error_code(error)
    status = get_status(error)
    is_transient = status == 429 or status >= 500 or _TRANSIENT_CODES.search(code) is not None
    return CannotMint(f"STS refused to assume the role ({code or status})", is_transient=is_transient)
