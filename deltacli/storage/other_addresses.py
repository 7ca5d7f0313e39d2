"""Addresses under which consoles and other tools show a store, and the one that opens it here.

Consoles, browsers and other programs show objects by the URL of an HTTP endpoint or by an ARN.
These cannot be opened as such, because the library of a store finds the endpoint, its region and
the signature by itself.
"""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qs, unquote, urlsplit

from deltacli.core.errors import UsageError

_AMAZON = r"amazonaws\.com(?:\.cn)?"
_S3_HOST = rf"s3(?:[.-][a-z0-9.-]+)?\.{_AMAZON}"
_S3_PATH_STYLE = re.compile(_S3_HOST)
_S3_WITH_BUCKET = re.compile(rf"(?P<bucket>[a-z0-9][a-z0-9.-]*?)\.{_S3_HOST}")
_S3_ACCESS_POINT = re.compile(
    rf"(?P<name>[a-z0-9-]+)-(?P<account>[0-9]{{12}})\.s3-accesspoint(?:[.-][a-z0-9-]+)+?\.{_AMAZON}"
)
_S3_CONSOLE = re.compile(r"(?:[a-z0-9-]+\.)?console\.(?:aws\.amazon\.com|amazonaws\.cn)")
_S3_CONSOLE_PATH = re.compile(r"/s3/(?:buckets|object)/(?P<bucket>[^/]+)")
_ARN_OF_BUCKET = re.compile(r"arn:aws[a-z-]*:s3:::(?P<bucket>[^/:]+)/?(?P<path>.*)", re.DOTALL)
_ARN_OF_ACCESS_POINT = re.compile(
    r"arn:aws[a-z-]*:s3:(?P<region>[a-z0-9-]+):(?P<account>[0-9]{12}):accesspoint[/:](?P<name>[a-z0-9-]+)/?(?P<path>.*)",
    re.DOTALL,
)
_GOOGLE_HOSTS = ("storage.googleapis.com", "storage.cloud.google.com", "storage-download.googleapis.com")
_GOOGLE_WITH_BUCKET = re.compile(r"(?P<bucket>[a-z0-9][a-z0-9._-]*)\.storage\.googleapis\.com")
_GOOGLE_OBJECT = re.compile(r"/(?:download/)?storage/v1/b/(?P<bucket>[^/]+)(?:/o/?(?P<path>[^/]*))?")
_GOOGLE_CONSOLE = re.compile(r"/storage/browser/(?:_details/)?(?P<bucket>[^/;]+)/?(?P<path>[^;]*)")


def require_store_address(uri: str) -> None:
    """Refuse an address that names a known store in another way than its scheme.

    Raises:
        UsageError: With the address that opens the same directory, or with how to find it.
    """
    if uri.lower().startswith("arn:"):
        # A colon is allowed in the names of files, so a local directory comes first.
        if not os.path.lexists(uri):
            _require_no_arn(uri)
        return
    if uri.lower().startswith(("s3://arn:", "s3a://arn:", "s3n://arn:")):
        _require_no_arn(uri.partition("://")[2])
        return
    if uri.lower().startswith(("https://", "http://")):
        _require_no_endpoint(uri)


def _require_no_arn(arn: str) -> None:
    if match := _ARN_OF_BUCKET.fullmatch(arn):
        raise _refusal("an ARN is not an address of a table", arn, _join("s3", match["bucket"], match["path"]))
    if match := _ARN_OF_ACCESS_POINT.fullmatch(arn):
        path = match["path"].removeprefix("object/")
        raise _access_point_refusal(match["account"], match["name"], path, match["region"])


def _require_no_endpoint(uri: str) -> None:
    try:
        parts = urlsplit(uri)
        host = (parts.hostname or "").lower()
    except ValueError:
        return
    if match := _S3_ACCESS_POINT.fullmatch(host):
        raise _access_point_refusal(match["account"], match["name"], unquote(parts.path), None)
    address = _find_s3_address(host, parts.path, parts.query) or _find_google_address(host, parts.path)
    if address is not None:
        # The query may hold a signature, so the whole URL is in no message.
        raise _refusal(f"{host} is an HTTP endpoint of a store, not an address of a table", uri, address)


def _find_s3_address(host: str, path: str, query: str) -> str | None:
    if _S3_PATH_STYLE.fullmatch(host):
        bucket, _, below = unquote(path).lstrip("/").partition("/")
        return _join("s3", bucket, below)
    if match := _S3_WITH_BUCKET.fullmatch(host):
        return _join("s3", match["bucket"], unquote(path))
    if _S3_CONSOLE.fullmatch(host) and (match := _S3_CONSOLE_PATH.match(path)):
        prefix = parse_qs(query).get("prefix", [""])[0]
        return _join("s3", unquote(match["bucket"]), prefix)
    return None


def _find_google_address(host: str, path: str) -> str | None:
    if host == "console.cloud.google.com" and (match := _GOOGLE_CONSOLE.match(path)):
        return _join("gs", unquote(match["bucket"]), unquote(match["path"]))
    if host in ("www.googleapis.com", *_GOOGLE_HOSTS) and (match := _GOOGLE_OBJECT.fullmatch(path)):
        return _join("gs", unquote(match["bucket"]), unquote(match["path"] or ""))
    if host in _GOOGLE_HOSTS:
        bucket, _, below = unquote(path).lstrip("/").partition("/")
        return _join("gs", bucket, below)
    if match := _GOOGLE_WITH_BUCKET.fullmatch(host):
        return _join("gs", match["bucket"], unquote(path))
    return None


def _join(scheme: str, bucket: str, path: str) -> str | None:
    """Return the address of a directory; None without a bucket."""
    below = path.strip("/")
    if not bucket:
        return None
    return f"{scheme}://{bucket}/{below}" if below else f"{scheme}://{bucket}"


def _refusal(reason: str, written: str, address: str | None) -> UsageError:
    error = UsageError(reason, code="usage.scheme")
    return error.suggest_as_fact(written, address) if address is not None else error


def _access_point_refusal(account: str, name: str, path: str, region: str | None) -> UsageError:
    """Return the refusal of an access point, whose alias is the name of a bucket for every tool."""
    below = path.strip("/")
    suffix = f"/{below}" if below else ""
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
