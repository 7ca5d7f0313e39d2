"""Reading of `--storage-option` values that several stores have."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from deltacli.core.errors import UsageError, parameter
from deltacli.storage.secrets import remember_secrets

_TRUTH: Mapping[str, bool] = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read_known_options(
    options: Mapping[str, str], known: Iterable[str], canonical: Mapping[str, str], store: str
) -> dict[str, str]:
    """Return the options by their canonical names. Raises UsageError for an unknown name."""
    remember_secrets(options)
    given: dict[str, str] = {}
    for name, text in options.items():
        spelled = canonical.get(name.lower(), name.lower())
        if spelled not in known:
            raise UsageError(
                f"{parameter(f'storage_options.{name}')} is not an option of {store}",
                code="usage.storage-option",
                facts={"known": ", ".join(known)},
            )
        given[spelled] = text
    return given


def describe_variables(*names: str) -> str:
    return describe_presence({name: os.environ.get(name) for name in names})


def describe_presence(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {'set' if value else 'unset'}" for name, value in values.items())


def read_flag(given: Mapping[str, str], name: str) -> bool:
    """Return an option that is true or false; false where it is not given. Raises UsageError."""
    text = given.get(name, "false")
    if text.lower() not in _TRUTH:
        raise UsageError(
            f"{parameter(f'storage_options.{name}', text)} is neither true nor false", code="usage.storage-option"
        )
    return _TRUTH[text.lower()]


def read_verify(given: Mapping[str, str]) -> bool | str:
    """Return the option `verify`: true, false, or a file of certificates."""
    text = given.get("verify", "true")
    return _TRUTH.get(text.lower(), text)


def endpoint(given: Mapping[str, str], default: str) -> str:
    """Return the option `endpoint_url`, or a default. Raises UsageError for anything but an http or https URL."""
    text = given.get("endpoint_url") or default
    url = text if "://" in text else f"http://{text}"
    if url.partition("://")[0].lower() not in ("http", "https") or not url.partition("://")[2].strip("/"):
        raise UsageError(
            f"{parameter('storage_options.endpoint_url', text)} is not an http or https URL",
            code="usage.storage-option",
        )
    return url.rstrip("/")
