"""The keys that S3 URLs of a table are signed with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from deltacli.core.errors import CredentialsMissing
from deltacli.core.typing import Botocore
from deltacli.storage.libraries import require_libraries
from deltacli.storage.s3.options import S3Options, make_client, make_session, read_s3_options
from deltacli.storage.signing import values

_PROBE = "probe"
_KEY_NAMES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def make_s3_source(uri: str, options: Mapping[str, str]) -> S3SigningSource:
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
        from deltacli.storage.s3.errors import BOTOCORE_ERRORS, translate_botocore_error

        try:
            with self._lock:
                if self._opened is None:
                    self._opened = self._open()
            address, region, credentials = self._opened
            frozen = credentials.get_frozen_credentials()
        except BOTOCORE_ERRORS as fault:
            error = translate_botocore_error(fault, self._uri, "signed", self._options)
            raise error from error.__cause__
        expiry = getattr(credentials, "_expiry_time", None)
        credential = values.HmacCredential(
            frozen.access_key, frozen.secret_key, frozen.token, int(expiry.timestamp() * 1000) if expiry else None
        )
        payer = (("x-amz-request-payer", "requester"),) if self._options.requester_pays else ()
        return values.S3Signing(address, region, credential, payer)

    def _open(self) -> tuple[values.ObjectAddress, str, Any]:
        options = self._options
        session = make_session(self._options)
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
        from deltacli.storage.s3.errors import BOTOCORE_ERRORS

        response: Mapping[str, Any] = {}
        try:
            response = client.head_bucket(Bucket=self._bucket)
        except BOTOCORE_ERRORS as error:
            response = getattr(error, "response", response)
        region = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
        return region if isinstance(region, str) and region != client.meta.region_name else None

    def _address(self, client: Any) -> tuple[values.ObjectAddress, str]:
        """Return the URL of the table and the region of its signatures, as botocore makes them for one object."""
        url = urlsplit(client.generate_presigned_url("get_object", {"Bucket": self._bucket, "Key": _PROBE}, 60))
        scope = parse_qs(url.query)["X-Amz-Credential"][0].split("/")
        root = quote(self._root, safe="/~")
        path = url.path.removesuffix(_PROBE) + (f"{root}/" if root else "")
        default = {"http": ":80", "https": ":443"}.get(url.scheme, "")  # which the Host header does not have
        return values.ObjectAddress(f"{url.scheme}://{url.netloc.removesuffix(default)}", path), scope[-3]
