"""Values of `--storage-option` for S3: the names of s3fs, and those of the cloud's own variables."""

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
_NOT_IN_CREDENTIALS = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class S3Options:
    """The arguments of a client. `client` and `config` are arguments of botocore. `max_attempts`
    limits the attempts of a call within the budget of the run; None: no limit. `held`: credentials
    that a server gave, and the only ones then.
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
        """Values that must not be printed."""
        return tuple(str(self.client[name]) for name in _CREDENTIALS if self.client.get(name))


def read_s3_options(options: Mapping[str, str]) -> S3Options:
    """Return the options as values. Raises UsageError for an unknown name or an invalid value."""
    given = read_known_options(options, _KNOWN, _CANONICAL, "S3")
    client = _json(given, "client_kwargs")
    client |= {_CLIENT_NAMES[name]: text for name, text in given.items() if name in _CLIENT_NAMES}
    client |= {name: _credential(name, client[name]) for name in _CREDENTIALS if isinstance(client.get(name), str)}
    client |= {name: read_flag(given, name) for name in ("use_ssl",) if name in given}
    if "verify" in given:
        client["verify"] = read_verify(given)
    config: dict[str, Any] = {"max_pool_connections": MOST_CONNECTIONS, "connect_timeout": CONNECT_SECONDS}
    config |= _json(given, "config_kwargs")
    if "AWS_REQUEST_CHECKSUM_CALCULATION" not in os.environ:
        # S3-compatible stores often do not support the newer checksum trailers, and every request
        # is signed anyway.
        config.setdefault("request_checksum_calculation", "when_required")
    if "addressing_style" in given:
        config["s3"] = {**config.get("s3", {}), "addressing_style": given["addressing_style"]}
    return S3Options(
        anonymous=read_flag(given, "anon"),
        profile=given.get("profile"),
        requester_pays=read_flag(given, "requester_pays"),
        max_attempts=_max_attempts(config.pop("retries", None)),
        client=client,
        config=config,
    )


def read_endpoint_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the endpoint and the region that variables of AWS name, as options, with the priorities of its SDKs."""
    reach = {}
    if environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() != "true":
        reach["endpoint_url"] = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    reach["region"] = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
    return {name: text for name, text in reach.items() if text}


def make_session(options: S3Options) -> Botocore:
    """Return a session with botocore's own credential chain. Its errors are not translated."""
    import botocore.exceptions
    import botocore.session

    from deltacli.storage.s3.bounded_botocore import bound_metadata

    if options.held is not None:
        return _vended_session(options.held)
    session = botocore.session.Session(profile=options.profile)
    if region := os.environ.get("AWS_REGION"):  # as in all other SDKs of AWS; botocore reads AWS_DEFAULT_REGION only
        session.set_config_variable("region", region)
    with suppress(botocore.exceptions.UnknownCredentialError):  # a profile excludes the environment
        session.get_component("credential_provider").get_provider("env").environ = _environment()
    bound_metadata(session)
    return _prepared(session)


def _prepared(session: Botocore) -> Botocore:
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=read_moment)
    return session


class _VendedKeys:
    """The keys of a held grant, as the object that botocore's signer asks for keys before each request."""

    method = "vended"
    account_id = None

    def __init__(self, held: RenewableGrant) -> None:
        self._held = held

    def get_frozen_credentials(self) -> Botocore:
        """Return the keys now. Raises StorageFailed."""
        from botocore.credentials import ReadOnlyCredentials

        keys = self._held.options()
        return ReadOnlyCredentials(keys["key"], keys["secret"], keys.get("token") or None)

    def get_deferred_property(self, name: str) -> Callable[[], str | None]:
        return lambda: getattr(self.get_frozen_credentials(), name, None)

    def load_credentials(self) -> _VendedKeys:
        return self


def _vended_session(held: RenewableGrant) -> Botocore:
    """Return a session with the credentials of a grant, without files and variables of AWS but the certificates."""
    import botocore.session
    from botocore.configprovider import ConstantProvider

    session = botocore.session.Session()
    values = {name: default for name, (_, _, default, _) in session.session_var_map.items()}
    values |= {"config_file": os.devnull, "credentials_file": os.devnull, "ignore_configured_endpoint_urls": True}
    values |= {"ca_bundle": os.environ.get("AWS_CA_BUNDLE")}
    for name, value in values.items():
        session.get_component("config_store").set_config_provider(name, ConstantProvider(value))
    session.register_component("credential_provider", _VendedKeys(held))
    return _prepared(session)


def get_profile(options: S3Options) -> str:
    """Return the name of the profile that botocore reads credentials from, by the option or its own variables."""
    import botocore.session

    return str(botocore.session.Session(profile=options.profile).profile or "default")


@cache
def _loader(data_path: str | None) -> Botocore:
    """Return what loads the model of S3, which takes most of the time of making a client, once per process."""
    import botocore.loaders

    return botocore.loaders.create_loader(data_path)


def make_client(options: S3Options, session: Botocore = None) -> Botocore:
    """Return a client that sends each request once and translates no error; the caller retries."""
    import botocore
    import botocore.config

    session = make_session(options) if session is None else session
    config = {**options.config, "retries": {"mode": "standard", "total_max_attempts": 1}}
    if options.anonymous:
        config["signature_version"] = botocore.UNSIGNED
    client = session.create_client("s3", config=botocore.config.Config(**config), **options.client)
    client.meta.events.register("before-call.s3.HeadBucket", _ask_for_a_region_once)
    client.meta.events.register("before-call.s3.DeleteObjects", _send_digest)
    return client


def read_moment(value: Any) -> datetime:  # Any: what botocore's parser gets
    """Return a time of an answer. Takes the form of S3 itself, and leaves others to botocore, whose
    parser takes four fifths of the time of reading a page of a listing. Raises what that raises.
    """
    if isinstance(value, str) and value.endswith("Z"):
        with suppress(ValueError):
            return datetime.fromisoformat(f"{value[:-1]}+00:00")
    from botocore.utils import parse_timestamp

    moment: datetime = parse_timestamp(value)
    return moment


def _ask_for_a_region_once(params: dict[str, Botocore], **_: object) -> None:
    """Prevent botocore from looking up the region of a bucket endlessly: for a redirect without a
    region it sends a request for the bucket, which is redirected as well. Only botocore sends this
    request.
    """
    params.get("context", {}).setdefault("s3_redirect", {})["redirected"] = True


def _send_digest(params: dict[str, Botocore], **_: object) -> None:
    """Add the digest of a deletion of many objects. botocore sends a newer checksum, which many stores do not know."""
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"].setdefault("Content-MD5", base64.b64encode(digest).decode())


def _max_attempts(retries: object) -> int | None:
    """Return the limit of attempts from `config_kwargs` or the environment; None: limited by the budget only."""
    chosen = retries if isinstance(retries, dict) else {}
    if isinstance(total := chosen.get("total_max_attempts"), int) and total > 0:
        return total
    if isinstance(more := chosen.get("max_attempts"), int) and more >= 0:
        return more + 1
    told = os.environ.get("AWS_MAX_ATTEMPTS", "")
    return int(told) if told.isascii() and told.isdecimal() and int(told) > 0 else None


def _environment() -> dict[str, str]:
    """Return the environment with credentials stripped for use in a header. Raises UsageError, naming the variable."""
    names = (*(name.upper() for name in _CREDENTIALS), "AWS_SECURITY_TOKEN")
    return {**os.environ, **{name: _credential(name, os.environ[name]) for name in names if name in os.environ}}


def _credential(name: str, text: str) -> str:
    """Return a credential without white space around it. Raises UsageError, without the value, for some inside."""
    stripped = text.strip()
    if _NOT_IN_CREDENTIALS.search(stripped):
        raise UsageError(
            f"{name} has a space, a line end or a control character inside",
            code="usage.credentials",
            facts={"characters": str(len(text))},
        )
    return stripped


def _json(given: Mapping[str, str], name: str) -> dict[str, Any]:
    if name not in given:
        return {}
    try:
        value = json.loads(given[name])
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{parameter(f'storage_options.{name}')} is not a JSON object", code="usage.storage-option")
    return value
