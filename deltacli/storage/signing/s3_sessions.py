"""Sessions of an AWS role for one directory: STS gives credentials that a session policy cuts down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deltacli.storage.libraries import require_libraries
from deltacli.storage.s3.options import make_session, read_s3_options
from deltacli.storage.signing.delegation import CannotMint, Delegation, MintedCredential
from deltacli.storage.signing.policies import MAX_POLICY_CHARACTERS, build_session_policy, parse_role_partition

_REGIONS = {"aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
_TRANSIENT = re.compile(
    r"Throttl|TooManyRequests|RequestLimit|SlowDown|Unavailable|InternalFailure|InternalError|Timeout"
)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9+=,.@_-]")
_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_SECONDS = 10


def mint_session(
    directory: tuple[str, str], options: Mapping[str, str], delegation: Delegation, *, recipient: str, seconds: int
) -> MintedCredential:
    """Return a session for a directory, given as bucket and key. Raises CannotMint and UsageError."""
    from deltacli.storage.s3.errors import BOTOCORE_ERRORS

    require_libraries("s3", "botocore.session")
    partition = parse_role_partition(delegation.role_arn) or "aws"
    policy = build_session_policy(*directory, partition=partition, uses_kms=delegation.uses_kms)
    if len(policy) > MAX_POLICY_CHARACTERS:
        raise CannotMint(f"its session policy has {len(policy):,} characters, and AWS allows {MAX_POLICY_CHARACTERS:,}")
    asked: dict[str, Any] = {
        "RoleArn": delegation.role_arn,
        "RoleSessionName": _NOT_IN_NAMES.sub("-", f"deltacli-{recipient}")[:64],
        "DurationSeconds": seconds,
        "Policy": policy,
    }
    if delegation.external_id:
        asked["ExternalId"] = delegation.external_id
    try:
        response = _client(options, delegation, partition).assume_role(**asked)
        credentials = response["Credentials"]
        key_id, secret, token = (str(credentials[name]) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
        expires_ms = int(credentials["Expiration"].timestamp() * 1_000)
    except BOTOCORE_ERRORS as error:
        raise _cannot(error) from None
    fields = {"accessKeyId": key_id, "secretAccessKey": secret, "sessionToken": token}
    return MintedCredential("awsTempCredentials", fields, expires_ms, key_id[-4:])


def _client(options: Mapping[str, str], delegation: Delegation, partition: str) -> Any:  # Any: botocore
    """Return a client of STS that gives up soon: somebody is waiting for a credential."""
    import botocore.config

    read = read_s3_options(options)
    session = make_session(read)
    region = read.client.get("region_name") or session.get_config_variable("region")
    config = botocore.config.Config(
        connect_timeout=_SECONDS, read_timeout=_SECONDS, retries={"mode": "standard", "total_max_attempts": 2}
    )
    given = {name: read.client[name] for name in (*_NAMES, "verify") if name in read.client}
    return session.create_client(
        "sts",
        region_name=region or _REGIONS.get(partition, "us-east-1"),
        endpoint_url=delegation.sts_endpoint or None,
        config=config,
        **given,
    )


def _cannot(error: BaseException) -> CannotMint:
    """Return why STS gave nothing, by its code: its message may quote the policy."""
    from botocore import exceptions as boto

    from deltacli.storage.s3.errors import get_error_code, get_status

    if not isinstance(error, boto.ClientError):
        lacks = (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError)
        if isinstance(error, lacks):
            return CannotMint("the server has no usable AWS credentials to assume the role with")
        return CannotMint(f"STS cannot be reached or understood ({type(error).__name__})", is_transient=True)
    message = get_error_code(error)
    status = get_status(error)
    is_transient = status == 429 or status >= 500 or _TRANSIENT.search(message) is not None
    return CannotMint(f"STS refused to assume the role ({message or status})", is_transient=is_transient)
