"""What S3 URLs of a table are signed with, and sessions of a role, cut to a directory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from deltacli.core.errors import CredentialsMissing
from deltacli.core.typing import Botocore
from deltacli.storage.fsspec_storage import require_libraries
from deltacli.storage.s3.options import S3Options, make_client, make_session, read_s3_options
from deltacli.storage.signing import values

_PROBE = "probe"
_KEY_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def s3_source(uri: str, options: Mapping[str, str]) -> S3SigningSource:
    """Return the source of signatures for a location. Raises CannotSign for anonymous access, UsageError."""
    require_libraries(uri.partition("://")[0], "botocore.session")
    read = read_s3_options(options)
    if read.anonymous:
        raise values.CannotSign("its requests are anonymous (storage option anon)")
    return S3SigningSource(uri, read)


class S3SigningSource:
    """Looks up address, region and credentials on first use, and asks for current credentials each time."""

    def __init__(self, uri: str, options: S3Options) -> None:
        self._uri = uri.rstrip("/")
        self._bucket, _, self._root = self._uri.partition("://")[2].partition("/")
        self._options = replace(options, config={**options.config, "signature_version": "s3v4"})
        self._lock = Lock()
        self._opened: tuple[values.ObjectAddress, str, Botocore] | None = None

    def __call__(self) -> values.S3Signing:
        """Return what to sign with now. Raises StorageFailed and UsageError."""
        from deltacli.storage.s3.faults import FAULTS, translate_boto

        try:
            with self._lock:
                if self._opened is None:
                    self._opened = self._open()
            address, region, credentials = self._opened
            frozen = credentials.get_frozen_credentials()
        except FAULTS as fault:
            error = translate_boto(fault, self._uri, "signed", self._options)
            raise error from error.__cause__
        expiry = getattr(credentials, "_expiry_time", None)
        credential = values.HmacCredential(
            frozen.access_key, frozen.secret_key, frozen.token, int(expiry.timestamp() * 1000) if expiry else None
        )
        payer = (("x-amz-request-payer", "requester"),) if self._options.requester_pays else ()
        return values.S3Signing(address, region, credential, payer)

    def _open(self) -> tuple[values.ObjectAddress, str, Any]:
        options, session = self._options, make_session(self._options)
        credentials = self._given(session) or session.get_credentials()
        if credentials is None:
            raise CredentialsMissing(
                f"URLs of {self._uri} cannot be signed: no usable AWS credentials",
                hint="export AWS_PROFILE=NAME for the server",
            )
        client = make_client(options, session)
        if "endpoint_url" not in options.client and (region := self._region_of_bucket(client)):
            options = replace(options, client={**options.client, "region_name": region})
            client = make_client(options, session)
        return (*self._address(client), credentials)

    def _given(self, session: Botocore) -> Botocore:
        """Return the credentials of the storage options."""
        import botocore.credentials

        key, secret, token = (self._options.client.get(name) for name in _KEY_NAMES)
        if not (key and secret):
            return None
        session.set_credentials(key, secret, token)
        return botocore.credentials.Credentials(key, secret, token)

    def _region_of_bucket(self, client: Any) -> str | None:
        """Return the region of the bucket, which URLs have to name; None if it is not known, or the same."""
        from deltacli.storage.s3.faults import FAULTS

        answer: Mapping[str, Any] = {}
        try:
            answer = client.head_bucket(Bucket=self._bucket)
        except FAULTS as fault:
            answer = getattr(fault, "response", answer)
        region = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
        return region if isinstance(region, str) and region != client.meta.region_name else None

    def _address(self, client: Any) -> tuple[values.ObjectAddress, str]:
        """Return the URL of the table and the region of its signatures, as botocore makes them for one object."""
        url = urlsplit(client.generate_presigned_url("get_object", {"Bucket": self._bucket, "Key": _PROBE}, 60))
        scope = parse_qs(url.query)["X-Amz-Credential"][0].split("/")
        root = quote(self._root, safe="/~")
        path = url.path.removesuffix(_PROBE) + (f"{root}/" if root else "")
        default = {"http": ":80", "https": ":443"}.get(url.scheme, "")  # which the Host header does not have
        return values.ObjectAddress(f"{url.scheme}://{url.netloc.removesuffix(default)}", path), scope[-3]


# -- sessions for a directory ------------------------------------------------------------------------------------------

_REGIONS = {"aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
_TRANSIENT = re.compile(
    r"Throttl|TooManyRequests|RequestLimit|SlowDown|Unavailable|InternalFailure|InternalError|Timeout"
)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9+=,.@_-]")
_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_SECONDS = 10


def mint_session(
    place: tuple[str, str], options: Mapping[str, str], delegation: values.Delegation, *, recipient: str, seconds: int
) -> values.Minted:
    """Return a session for a directory, given as bucket and key. Raises CannotMint and UsageError."""
    from deltacli.storage.s3.faults import FAULTS

    require_libraries("s3", "botocore.session")
    partition = values.partition_of(delegation.role_arn) or "aws"
    policy = values.session_policy(*place, partition=partition, uses_kms=delegation.uses_kms)
    if len(policy) > values.LONGEST_POLICY:
        raise values.CannotMint(
            f"its session policy has {len(policy):,} characters, and AWS allows {values.LONGEST_POLICY:,}"
        )
    asked: dict[str, Any] = {
        "RoleArn": delegation.role_arn,
        "RoleSessionName": _NOT_IN_NAMES.sub("-", f"deltacli-{recipient}")[:64],
        "DurationSeconds": seconds,
        "Policy": policy,
    }
    if delegation.external_id:
        asked["ExternalId"] = delegation.external_id
    try:
        answer = _client(options, delegation, partition).assume_role(**asked)
        found = answer["Credentials"]
        key_id, secret, token = (str(found[name]) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
        expires_ms = int(found["Expiration"].timestamp() * 1_000)
    except FAULTS as fault:
        raise _cannot(fault) from None
    fields = {"accessKeyId": key_id, "secretAccessKey": secret, "sessionToken": token}
    return values.Minted("awsTempCredentials", fields, expires_ms, key_id[-4:])


def _client(options: Mapping[str, str], delegation: values.Delegation, partition: str) -> Any:  # Any: botocore
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


def _cannot(fault: BaseException) -> values.CannotMint:
    """Return why STS gave nothing, by its code: its message may quote the policy."""
    from botocore import exceptions as boto

    from deltacli.storage.s3.faults import code_of, status_of

    if not isinstance(fault, boto.ClientError):
        lacks = (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError)
        if isinstance(fault, lacks):
            return values.CannotMint("the server has no usable AWS credentials to assume the role with")
        return values.CannotMint(f"STS cannot be reached or understood ({type(fault).__name__})", is_transient=True)
    said, status = code_of(fault), status_of(fault)
    is_transient = status == 429 or status >= 500 or _TRANSIENT.search(said) is not None
    return values.CannotMint(f"STS refused to assume the role ({said or status})", is_transient=is_transient)
