"""Parsing of the `--storage-option` values that several clouds have in common."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from deltacli.core.errors import UsageError, parameter
from deltacli.storage.secrets import remember_secrets

_BOOLEANS: Mapping[str, bool] = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read_known_options(
    options: Mapping[str, str], known: Iterable[str], canonical: Mapping[str, str], store: str
) -> dict[str, str]:
    """Return the options with canonical names, for example `endpoint_url` for `endpoint`.

    Values that may be secret are registered, so that no message shows them.

    Args:
        options: The options of the command line or the API. Their names are case-insensitive.
        known: The canonical names.
        canonical: The canonical name of each alias, in lower case.
        store: The name of the cloud, for error messages.

    Raises:
        UsageError: If a name is unknown.
    """
    remember_secrets(options)
    canonical_options: dict[str, str] = {}
    for name, text in options.items():
        canonical_name = canonical.get(name.lower(), name.lower())
        if canonical_name not in known:
            raise UsageError(
                f"{parameter(f'storage_options.{name}')} is not an option of {store}",
                code="usage.storage-option",
                facts={"known": ", ".join(known)},
            )
        canonical_options[canonical_name] = text
    return canonical_options


def describe_variables(*names: str) -> str:
    """Return which environment variables are set, without their values: "AWS_PROFILE set, AWS_REGION unset"."""
    return describe_presence({name: os.environ.get(name) for name in names})


def describe_presence(values: Mapping[str, object]) -> str:
    """Return which values are set, without the values: "key set, secret unset"."""
    return ", ".join(f"{name} {'set' if value else 'unset'}" for name, value in values.items())


def read_flag(options: Mapping[str, str], name: str) -> bool:
    """Return a boolean option. The default is False.

    Raises:
        UsageError: If the value is not a boolean.
    """
    text = options.get(name, "false")
    if text.lower() not in _BOOLEANS:
        raise UsageError(
            f"{parameter(f'storage_options.{name}', text)} is neither true nor false", code="usage.storage-option"
        )
    return _BOOLEANS[text.lower()]


def read_verify(options: Mapping[str, str]) -> bool | str:
    """Return the option `verify`: whether to verify TLS certificates, or the path of a file of trusted certificates."""
    text = options.get("verify", "true")
    return _BOOLEANS.get(text.lower(), text)


def read_endpoint(options: Mapping[str, str], default: str) -> str:
    """Return the option `endpoint_url` without a trailing slash. `localhost:9000` becomes `http://localhost:9000`.

    Args:
        options: The options, with canonical names.
        default: The URL if the option is absent or empty.

    Raises:
        UsageError: If the value is not an http or https URL.
    """
    text = options.get("endpoint_url") or default
    url = text if "://" in text else f"http://{text}"
    scheme, _, address = url.partition("://")
    if scheme.lower() not in ("http", "https") or not address.strip("/"):
        raise UsageError(
            f"{parameter('storage_options.endpoint_url', text)} is not an http or https URL",
            code="usage.storage-option",
        )
    return url.rstrip("/")
