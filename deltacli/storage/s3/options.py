"""Options of S3 stores, and the sessions and clients of botocore that are created from them.

The names of the options are those of s3fs, for example `key` and `endpoint_url`. The names of the environment
variables of AWS, for example `AWS_ACCESS_KEY_ID`, are accepted as well.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from deltacli.core.errors import UsageError, parameter
from deltacli.core.typing import Botocore
from deltacli.storage.base import CONNECT_SECONDS, MOST_CONNECTIONS
from deltacli.storage.objects.options import read_flag, read_known_options, read_verify

if TYPE_CHECKING:
    from deltacli.storage.grants import RenewableGrant

_CANONICAL: Mapping[str, str] = {
    "aws_access_key_id": "key",
    "access_key_id": "key",
    "username": "key",
    "aws_secret_access_key": "secret",
    "secret_access_key": "secret",
    "password": "secret",
    "aws_session_token": "token",
    "session_token": "token",
    "aws_region": "region",
    "aws_default_region": "region",
    "region_name": "region",
    "aws_profile": "profile",
    "aws_endpoint": "endpoint_url",
    "aws_endpoint_url": "endpoint_url",
    "aws_endpoint_url_s3": "endpoint_url",
    "endpoint": "endpoint_url",
    "aws_skip_signature": "anon",
    "skip_signature": "anon",
}
_KNOWN = (
    "anon",
    "profile",
    "region",
    "endpoint_url",
    "key",
    "secret",
    "token",
    "use_ssl",
    "verify",
    "addressing_style",
    "requester_pays",
    "client_kwargs",
    "config_kwargs",
)
_CLIENT_NAMES: Mapping[str, str] = {
    "region": "region_name",
    "endpoint_url": "endpoint_url",
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
}
_CREDENTIALS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_INVALID_IN_CREDENTIALS = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class S3Options:
    """The parsed options of an S3 store.

    Attributes:
        anonymous: True to send unsigned requests.
        profile: The profile of the AWS configuration; None for the default.
        requester_pays: True if the caller pays for requests to the bucket.
        max_attempts: The maximum number of attempts of a call; None for no limit except the retry budget.
        client: Arguments of `Session.create_client`, such as `region_name`.
        config: Arguments of `botocore.config.Config`, such as `connect_timeout`.
        held: Credentials that a server has vended for the table. No other credentials are used with them.
    """

    anonymous: bool = False
    profile: str | None = None
    requester_pays: bool = False
    max_attempts: int | None = None
    client: Mapping[str, Botocore] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    held: RenewableGrant | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must not be printed."""
        return tuple(str(self.client[name]) for name in _CREDENTIALS if self.client.get(name))


def read_s3_options(options: Mapping[str, str]) -> S3Options:
    """Parse storage options.

    Raises:
        UsageError: If a name is unknown, or if a value is invalid.
    """
    canonical = read_known_options(options, _KNOWN, _CANONICAL, "S3")
    client = _build_client_arguments(canonical)
    config = _build_config_arguments(canonical)
    # Only deltacli retries, so botocore never gets this setting.
    retries = config.pop("retries", None)
    return S3Options(
        anonymous=read_flag(canonical, "anon"),
        profile=canonical.get("profile"),
        requester_pays=read_flag(canonical, "requester_pays"),
        max_attempts=_read_max_attempts(retries),
        client=client,
        config=config,
    )


def _build_client_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `Session.create_client`. Single options override `client_kwargs`.

    Args:
        options: The options, with canonical names.

    Raises:
        UsageError: If a value is invalid.
    """
    arguments = _parse_json(options, "client_kwargs")
    for name, text in options.items():
        if name in _CLIENT_NAMES:
            arguments[_CLIENT_NAMES[name]] = text
    for name in _CREDENTIALS:
        if isinstance(arguments.get(name), str):
            arguments[name] = _strip_credential(name, arguments[name])
    if "use_ssl" in options:
        arguments["use_ssl"] = read_flag(options, "use_ssl")
    if "verify" in options:
        arguments["verify"] = read_verify(options)
    return arguments


def _build_config_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `botocore.config.Config`. `addressing_style` overrides `config_kwargs`.

    Args:
        options: The options, with canonical names.

    Raises:
        UsageError: If `config_kwargs` is not a JSON object.
    """
    arguments: dict[str, Any] = {"max_pool_connections": MOST_CONNECTIONS, "connect_timeout": CONNECT_SECONDS}
    arguments |= _parse_json(options, "config_kwargs")
    if "AWS_REQUEST_CHECKSUM_CALCULATION" not in os.environ:
        # S3-compatible stores often do not support the newer checksum trailers, and every request is signed anyway.
        arguments.setdefault("request_checksum_calculation", "when_required")
    if "addressing_style" in options:
        arguments["s3"] = {**arguments.get("s3", {}), "addressing_style": options["addressing_style"]}
    return arguments


def read_endpoint_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the endpoint and the region from the environment variables of AWS, as storage options.

    The variables have the same precedence as in the SDKs of AWS.
    """
    options = {}
    if environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() != "true":
        options["endpoint_url"] = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    options["region"] = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
    return {name: text for name, text in options.items() if text}


def make_session(options: S3Options) -> Botocore:
    """Return a session of botocore with its usual credential chain, or with vended credentials.

    Errors of botocore are not translated.
    """
    import botocore.exceptions
    import botocore.session

    from deltacli.storage.s3.bounded_botocore import bound_metadata

    if options.held is not None:
        return _make_vended_session(options.held)

    session = botocore.session.Session(profile=options.profile)
    # All SDKs of AWS read AWS_REGION, except botocore, which reads only AWS_DEFAULT_REGION.
    if region := os.environ.get("AWS_REGION"):
        session.set_config_variable("region", region)
    # If a profile is selected, the credential chain has no provider for environment variables.
    with suppress(botocore.exceptions.UnknownCredentialError):
        session.get_component("credential_provider").get_provider("env").environ = _read_environment()
    bound_metadata(session)
    return _register_components(session)


def _register_components(session: Botocore) -> Botocore:
    """Make a session use the shared loader of API models and the fast parser of timestamps. Return the session."""
    session.register_component("data_loader", _make_loader(session.get_config_variable("data_path")))
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_s3_timestamp)
    return session


class _VendedKeys:
    """Vended credentials, in the form that botocore expects.

    botocore calls `get_frozen_credentials` before it signs a request, so that renewed credentials are used for the
    next request. The object is also the credential provider of its session (`load_credentials`).
    """

    method = "vended"
    account_id = None

    def __init__(self, held: RenewableGrant) -> None:
        self._held = held

    def get_frozen_credentials(self) -> Botocore:
        """Return the current keys.

        Raises:
            StorageFailed: If the credentials have expired and cannot be renewed.
        """
        from botocore.credentials import ReadOnlyCredentials

        keys = self._held.options()
        return ReadOnlyCredentials(keys["key"], keys["secret"], keys.get("token") or None)

    def get_deferred_property(self, name: str) -> Callable[[], str | None]:
        return lambda: getattr(self.get_frozen_credentials(), name, None)

    def load_credentials(self) -> _VendedKeys:
        return self


def _make_vended_session(held: RenewableGrant) -> Botocore:
    """Return a session with vended credentials.

    The session ignores the files and the environment variables of AWS, which belong to another identity. Only
    `AWS_CA_BUNDLE`, the trusted certificates, is still read.
    """
    import botocore.session
    from botocore.configprovider import ConstantProvider

    session = botocore.session.Session()
    values = {name: default for name, (_, _, default, _) in session.session_var_map.items()}
    values |= {"config_file": os.devnull, "credentials_file": os.devnull, "ignore_configured_endpoint_urls": True}
    values |= {"ca_bundle": os.environ.get("AWS_CA_BUNDLE")}
    for name, value in values.items():
        session.get_component("config_store").set_config_provider(name, ConstantProvider(value))
    session.register_component("credential_provider", _VendedKeys(held))
    return _register_components(session)


def get_profile(options: S3Options) -> str:
    """Return the profile that botocore reads credentials from, as selected by the options or the environment."""
    import botocore.session

    return str(botocore.session.Session(profile=options.profile).profile or "default")


@cache
def _make_loader(data_path: str | None) -> Botocore:
    """Return the loader of API models. Loading the model of S3 takes most of the time of creating a client, so it is
    loaded once per process.
    """
    import botocore.loaders

    return botocore.loaders.create_loader(data_path)


def make_client(options: S3Options, session: Botocore = None) -> Botocore:
    """Return a client that sends each request once.

    botocore repeats requests by default. A repeated conditional PUT could find the object of its own first attempt,
    so its retries are disabled. Errors are not translated.

    Args:
        options: The options of the store.
        session: The session; None to create one.
    """
    import botocore
    import botocore.config

    session = make_session(options) if session is None else session
    config = {**options.config, "retries": {"mode": "standard", "total_max_attempts": 1}}
    if options.anonymous:
        config["signature_version"] = botocore.UNSIGNED
    client = session.create_client("s3", config=botocore.config.Config(**config), **options.client)
    client.meta.events.register("before-call.s3.HeadBucket", _stop_region_redirects)
    client.meta.events.register("before-call.s3.DeleteObjects", _add_md5_header)
    return client


def parse_s3_timestamp(value: Any) -> datetime:  # Any: the argument of botocore's parser
    """Parse a timestamp in a response.

    `datetime.fromisoformat` parses the format of S3, `2026-12-01T10:00:00.000Z`. The parser of botocore, which
    supports more formats, takes four fifths of the time of parsing a page of a listing, and is the fallback.

    Raises:
        ValueError: If the value is not a timestamp.
    """
    if isinstance(value, str) and value.endswith("Z"):
        with suppress(ValueError):
            return datetime.fromisoformat(f"{value[:-1]}+00:00")
    from botocore.utils import parse_timestamp

    timestamp: datetime = parse_timestamp(value)
    return timestamp


def _stop_region_redirects(params: dict[str, Botocore], **_: object) -> None:
    """Prevent an endless recursion of botocore.

    After a redirect without a region, botocore sends HeadBucket to find the region. If that request is redirected
    without a region as well, botocore sends HeadBucket again. The flag tells botocore that it has followed the
    redirect already.
    """
    params.get("context", {}).setdefault("s3_redirect", {})["redirected"] = True


def _add_md5_header(params: dict[str, Botocore], **_: object) -> None:
    """Add the MD5 digest to a bulk deletion. botocore sends a newer checksum, which many stores do not support."""
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"].setdefault("Content-MD5", base64.b64encode(digest).decode())


def _read_max_attempts(retries: object) -> int | None:
    """Return the maximum number of attempts of a call; None for no limit except the retry budget.

    Args:
        retries: The setting `retries` of `config_kwargs`. Its `total_max_attempts` includes the first attempt, and
            its `max_attempts` does not. Without it, `AWS_MAX_ATTEMPTS` is used.
    """
    settings = retries if isinstance(retries, dict) else {}
    total_attempts = settings.get("total_max_attempts")
    if isinstance(total_attempts, int) and total_attempts > 0:
        return total_attempts
    repeated_attempts = settings.get("max_attempts")
    if isinstance(repeated_attempts, int) and repeated_attempts >= 0:
        return repeated_attempts + 1

    text = os.environ.get("AWS_MAX_ATTEMPTS", "")
    is_number = text.isascii() and text.isdecimal()
    return int(text) if is_number and int(text) > 0 else None


def _read_environment() -> dict[str, str]:
    """Return the environment variables, with credentials that are valid in a header.

    Raises:
        UsageError: If a credential contains white space. The error contains the name of the variable.
    """
    environment = dict(os.environ)
    for name in (*(name.upper() for name in _CREDENTIALS), "AWS_SECURITY_TOKEN"):
        if name in environment:
            environment[name] = _strip_credential(name, environment[name])
    return environment


def _strip_credential(name: str, text: str) -> str:
    """Return a credential without leading and trailing white space, such as the line end of a copied key.

    Raises:
        UsageError: If white space or a control character remains. The error does not contain the value.
    """
    stripped = text.strip()
    if _INVALID_IN_CREDENTIALS.search(stripped):
        raise UsageError(
            f"{name} has a space, a line end or a control character inside",
            code="usage.credentials",
            facts={"characters": str(len(text))},
        )
    return stripped


def _parse_json(options: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return the JSON object in an option; an empty one if the option is absent.

    Raises:
        UsageError: If the value is not a JSON object.
    """
    if name not in options:
        return {}
    try:
        value = json.loads(options[name])
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{parameter(f'storage_options.{name}')} is not a JSON object", code="usage.storage-option")
    return value
