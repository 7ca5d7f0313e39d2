"""The keys for presigned URLs of S3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from deltacli.core.errors import CredentialsMissing
from deltacli.core.typing import Botocore
from deltacli.storage.libraries import require_libraries
from deltacli.storage.s3.options import S3Options, make_client, make_session, read_s3_options
from deltacli.storage.signing import values

_EXAMPLE_KEY = "probe"
_EXAMPLE_SECONDS = 60
_CREDENTIAL_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def make_s3_source(uri: str, options: Mapping[str, str]) -> S3SigningSource:
    """Return the source of keys for a table. No request is sent.

    Args:
        uri: The URI of the directory of the table.
        options: The storage options.

    Raises:
        CannotSign: If the options request anonymous access.
        UsageError: If an option is invalid.
    """
    require_libraries(uri.partition("://")[0], "botocore.session")
    s3_options = read_s3_options(options)
    if s3_options.anonymous:
        raise values.CannotSign("its requests are anonymous (storage option anon)")
    return S3SigningSource(uri, s3_options)


class _SigningContext(NamedTuple):
    """The parts of `S3Signing` that do not change.

    Attributes:
        address: The URL of the directory.
        region: The region in the signatures.
        credentials: The credentials of botocore, which renew themselves.
    """

    address: values.ObjectAddress
    region: str
    credentials: Botocore


class S3SigningSource:
    """Returns the keys for URLs of one table. Thread-safe.

    The address, the region and the credentials are looked up at the first call. Each call returns the current keys
    of the credentials.
    """

    def __init__(self, uri: str, options: S3Options) -> None:
        self._uri = uri.rstrip("/")
        self._bucket, _, self._root = self._uri.partition("://")[2].partition("/")
        self._options = replace(options, config={**options.config, "signature_version": "s3v4"})
        self._lock = Lock()
        self._context: _SigningContext | None = None

    def __call__(self) -> values.S3Signing:
        """Return the current keys.

        Raises:
            StorageFailed: If there are no usable credentials, or if the bucket does not exist.
            UsageError: If an option is invalid.
        """
        from deltacli.storage.s3.errors import BOTOCORE_ERRORS, translate_botocore_error

        try:
            with self._lock:
                if self._context is None:
                    self._context = self._look_up_context()
            address, region, credentials = self._context
            keys = credentials.get_frozen_credentials()
        except BOTOCORE_ERRORS as botocore_error:
            error = translate_botocore_error(botocore_error, self._uri, "signed", self._options)
            raise error from error.__cause__

        # Only temporary credentials have this attribute, and botocore has no public one.
        expiry = getattr(credentials, "_expiry_time", None)
        expires_ms = int(expiry.timestamp() * 1000) if expiry else None
        credential = values.HmacCredential(keys.access_key, keys.secret_key, keys.token, expires_ms)
        payer = (("x-amz-request-payer", "requester"),) if self._options.requester_pays else ()
        return values.S3Signing(address, region, credential, payer)

    def _look_up_context(self) -> _SigningContext:
        """Look up the credentials, the region of the bucket and the URL of the directory."""
        options = self._options
        session = make_session(options)
        credentials = self._set_option_credentials(session) or session.get_credentials()
        if credentials is None:
            raise CredentialsMissing(
                f"URLs of {self._uri} cannot be signed: no usable AWS credentials",
                hint="export AWS_PROFILE=NAME for the server",
            )

        client = make_client(options, session)
        if "endpoint_url" not in options.client:
            region = self._find_other_region(client)
            if region is not None:
                options = replace(options, client={**options.client, "region_name": region})
                client = make_client(options, session)
        return self._build_context(client, credentials)

    def _set_option_credentials(self, session: Botocore) -> Botocore:
        """Make a session use the credentials of the storage options, and return them; None if there are none."""
        import botocore.credentials

        key, secret, token = (self._options.client.get(name) for name in _CREDENTIAL_NAMES)
        if not (key and secret):
            return None
        session.set_credentials(key, secret, token)
        return botocore.credentials.Credentials(key, secret, token)

    def _find_other_region(self, client: Botocore) -> str | None:
        """Return the region of the bucket if it differs from the region of the client; None otherwise.

        A presigned URL is valid only in the region of the bucket. S3 sends the region in a header of the response to
        HeadBucket, even if access is denied.
        """
        from deltacli.storage.s3.errors import BOTOCORE_ERRORS

        response: Mapping[str, Botocore] = {}
        try:
            response = client.head_bucket(Bucket=self._bucket)
        except BOTOCORE_ERRORS as error:
            response = getattr(error, "response", response)
        region = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
        return region if isinstance(region, str) and region != client.meta.region_name else None

    def _build_context(self, client: Botocore, credentials: Botocore) -> _SigningContext:
        """Read the URL and the region from an example URL, because botocore decides on the form of the host."""
        parameters = {"Bucket": self._bucket, "Key": _EXAMPLE_KEY}
        example = urlsplit(client.generate_presigned_url("get_object", parameters, _EXAMPLE_SECONDS))
        # The scope is KEY_ID/20261201/REGION/s3/aws4_request.
        scope = parse_qs(example.query)["X-Amz-Credential"][0].split("/")
        region = scope[-3]

        root = quote(self._root, safe="/~")
        path = example.path.removesuffix(_EXAMPLE_KEY) + (f"{root}/" if root else "")
        # The header Host, which is signed, does not contain a default port.
        host = example.netloc.removesuffix(_DEFAULT_PORTS.get(example.scheme, ""))
        return _SigningContext(values.ObjectAddress(f"{example.scheme}://{host}", path), region, credentials)
