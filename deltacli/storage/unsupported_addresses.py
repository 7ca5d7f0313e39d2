"""Suggest the store URI for an HTTP URL or an ARN of a table directory.

Users copy addresses from cloud consoles, browsers and IAM policies, such as
`https://lake.s3.us-east-1.amazonaws.com/sales` or `arn:aws:s3:::lake/sales`. deltacli only opens
`s3://lake/sales`: the endpoint, the region and the signature are determined from the configuration.
The functions here reject such an address with an error that contains the URI to use.
"""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qs, unquote, urlsplit

from deltacli.core.errors import UsageError

_AMAZON = r"amazonaws\.com(?:\.cn)?"
_S3_HOST = rf"s3(?:[.-][a-z0-9.-]+)?\.{_AMAZON}"

# https://s3.us-east-1.amazonaws.com/BUCKET/PATH
_S3_PATH_STYLE_HOST = re.compile(_S3_HOST)

# https://BUCKET.s3.us-east-1.amazonaws.com/PATH
_S3_VIRTUAL_HOST = re.compile(rf"(?P<bucket>[a-z0-9][a-z0-9.-]*?)\.{_S3_HOST}")

# https://NAME-123456789012.s3-accesspoint.us-east-1.amazonaws.com/PATH
_S3_ACCESS_POINT_HOST = re.compile(
    rf"(?P<name>[a-z0-9-]+)-(?P<account>[0-9]{{12}})\.s3-accesspoint(?:[.-][a-z0-9-]+)+?\.{_AMAZON}"
)

# https://us-east-1.console.aws.amazon.com/s3/buckets/BUCKET?prefix=PATH/
_S3_CONSOLE_HOST = re.compile(r"(?:[a-z0-9-]+\.)?console\.(?:aws\.amazon\.com|amazonaws\.cn)")
_S3_CONSOLE_PATH = re.compile(r"/s3/(?:buckets|object)/(?P<bucket>[^/]+)")

# arn:aws:s3:::BUCKET/PATH
_BUCKET_ARN = re.compile(r"arn:aws[a-z-]*:s3:::(?P<bucket>[^/:]+)/?(?P<path>.*)", re.DOTALL)

# arn:aws:s3:us-east-1:123456789012:accesspoint/NAME/object/PATH
_ACCESS_POINT_ARN = re.compile(
    r"arn:aws[a-z-]*:s3:(?P<region>[a-z0-9-]+):(?P<account>[0-9]{12}):accesspoint[/:](?P<name>[a-z0-9-]+)/?(?P<path>.*)",
    re.DOTALL,
)

# https://storage.googleapis.com/BUCKET/PATH
_GOOGLE_HOSTS = ("storage.googleapis.com", "storage.cloud.google.com", "storage-download.googleapis.com")

# https://BUCKET.storage.googleapis.com/PATH
_GOOGLE_VIRTUAL_HOST = re.compile(r"(?P<bucket>[a-z0-9][a-z0-9._-]*)\.storage\.googleapis\.com")

# https://storage.googleapis.com/storage/v1/b/BUCKET/o/PATH, with the slashes of PATH encoded
_GOOGLE_API_PATH = re.compile(r"/(?:download/)?storage/v1/b/(?P<bucket>[^/]+)(?:/o/?(?P<path>[^/]*))?")

# https://console.cloud.google.com/storage/browser/BUCKET/PATH;tab=objects
_GOOGLE_CONSOLE_PATH = re.compile(r"/storage/browser/(?:_details/)?(?P<bucket>[^/;]+)/?(?P<path>[^;]*)")


def require_store_address(uri: str) -> None:
    """Reject an ARN, or an HTTP URL of S3 or Google Cloud Storage.

    Args:
        uri: The address of a table, as the user wrote it.

    Raises:
        UsageError: If the address is an ARN or such a URL. The error suggests the store URI. For an
            S3 access point, it says how to look up the alias.
    """
    lower_uri = uri.lower()
    if lower_uri.startswith("arn:"):
        # File names may contain colons, so a local directory with this name takes precedence.
        if not os.path.lexists(uri):
            _require_no_arn(uri)
    elif lower_uri.startswith(("s3://arn:", "s3a://arn:", "s3n://arn:")):
        _require_no_arn(uri.partition("://")[2])
    elif lower_uri.startswith(("https://", "http://")):
        _require_no_endpoint(uri)


def _require_no_arn(arn: str) -> None:
    """Raise UsageError if `arn` is the ARN of a bucket, an object or an access point."""
    if match := _BUCKET_ARN.fullmatch(arn):
        store_uri = _format_store_uri("s3", match["bucket"], match["path"])
        raise _unsupported_address_error("an ARN is not an address of a table", arn, store_uri)

    if match := _ACCESS_POINT_ARN.fullmatch(arn):
        path = match["path"].removeprefix("object/")
        raise _access_point_error(match["account"], match["name"], path, match["region"])


def _require_no_endpoint(uri: str) -> None:
    """Raise UsageError if the host of an HTTP URL is an endpoint or a console of S3 or Google Cloud Storage."""
    try:
        parts = urlsplit(uri)
        host = (parts.hostname or "").lower()
    except ValueError:
        # Not a valid URL. The HTTP file system of fsspec reports that.
        return

    if match := _S3_ACCESS_POINT_HOST.fullmatch(host):
        raise _access_point_error(match["account"], match["name"], unquote(parts.path), None)

    store_uri = _convert_s3_url(host, parts.path, parts.query) or _convert_google_url(host, parts.path)
    if store_uri is not None:
        # The query may contain a signature, so the message must not contain the whole URL.
        raise _unsupported_address_error(
            f"{host} is an HTTP endpoint of a store, not an address of a table", uri, store_uri
        )


def _convert_s3_url(host: str, path: str, query: str) -> str | None:
    """Return the `s3://` URI for an HTTP URL of S3 or of its console; None for other hosts.

    Args:
        host: The host in lower case.
        path: The path, percent-encoded.
        query: The query, without `?`.
    """
    if _S3_PATH_STYLE_HOST.fullmatch(host):
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        return _format_store_uri("s3", bucket, key)

    if match := _S3_VIRTUAL_HOST.fullmatch(host):
        return _format_store_uri("s3", match["bucket"], unquote(path))

    if _S3_CONSOLE_HOST.fullmatch(host) and (match := _S3_CONSOLE_PATH.match(path)):
        prefix = parse_qs(query).get("prefix", [""])[0]
        return _format_store_uri("s3", unquote(match["bucket"]), prefix)
    return None


def _convert_google_url(host: str, path: str) -> str | None:
    """Return the `gs://` URI for an HTTP URL of Google Cloud Storage or of its console; None for other hosts.

    Args:
        host: The host in lower case.
        path: The path, percent-encoded.
    """
    if host == "console.cloud.google.com" and (match := _GOOGLE_CONSOLE_PATH.match(path)):
        return _format_store_uri("gs", unquote(match["bucket"]), unquote(match["path"]))

    # The hosts serve objects under two paths: first check for the JSON API.
    if host in ("www.googleapis.com", *_GOOGLE_HOSTS) and (match := _GOOGLE_API_PATH.fullmatch(path)):
        return _format_store_uri("gs", unquote(match["bucket"]), unquote(match["path"] or ""))
    if host in _GOOGLE_HOSTS:
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        return _format_store_uri("gs", bucket, key)

    if match := _GOOGLE_VIRTUAL_HOST.fullmatch(host):
        return _format_store_uri("gs", match["bucket"], unquote(path))
    return None


def _format_store_uri(scheme: str, bucket: str, path: str) -> str | None:
    """Return the URI of a directory without a trailing slash; None if the bucket is empty."""
    if not bucket:
        return None
    prefix = path.strip("/")
    return f"{scheme}://{bucket}/{prefix}" if prefix else f"{scheme}://{bucket}"


def _unsupported_address_error(reason: str, address: str, store_uri: str | None) -> UsageError:
    """Return the error for an unsupported address, which suggests the store URI if that is not None."""
    error = UsageError(reason, code="usage.scheme")
    return error.suggest_as_fact(address, store_uri) if store_uri is not None else error


def _access_point_error(account: str, name: str, path: str, region: str | None) -> UsageError:
    """Return the error for an S3 access point, with the command that prints its alias.

    S3 generates an alias for each access point. All S3 clients accept it instead of a bucket name.

    Args:
        account: The id of the AWS account, 12 digits.
        name: The name of the access point.
        path: The path in the access point.
        region: The region of the access point; None if the address does not contain it.
    """
    prefix = path.strip("/")
    suffix = f"/{prefix}" if prefix else ""
    if region is None:
        hint = f"aws s3control get-access-point --account-id {account} --name {name}"
    else:
        hint = f"aws s3control get-access-point --account-id {account} --name {name} --region {region}"
    return UsageError(
        f"an access point is addressed by its alias, which is used like the name of a bucket: {name}",
        code="usage.scheme",
        facts={"instead": f"s3://ALIAS{suffix}, or s3://BUCKET{suffix} of the bucket behind it"},
        hint=hint,
    )
