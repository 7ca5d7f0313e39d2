"""The libraries of stores, which are extras: imported when a scheme needs them, with a hint how to install them."""

from __future__ import annotations

from importlib import import_module

from deltacli.core import errors
from deltacli.core.optional_packages import allow_optional_packages

_EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
    "wasb": "azure",
    "wasbs": "azure",
}
"""Scheme -> the extra of this package that it needs."""


def require_libraries(scheme: str, *modules: str) -> None:
    """Import libraries of a scheme's extra. Raises UsageError unless they are installed."""
    allow_optional_packages("dateutil", "pytz")  # botocore needs it
    try:
        for name in modules:
            import_module(name)
    except ImportError as error:
        raise scheme_unavailable_error(scheme) from error


def scheme_unavailable_error(scheme: str) -> errors.UsageError:
    """Return the error for an unknown scheme, or one whose extra is not installed."""
    if scheme in _EXTRAS:
        extra = _EXTRAS[scheme]
        return errors.UsageError(
            f"{scheme}:// needs the extra {extra!r}, which is not installed",
            code="usage.missing-extra",
            hint=errors.install_command(extra),
        )
    return errors.UsageError(
        f"the scheme {scheme}:// is not supported",
        code="usage.scheme",
        facts={
            "supported": "a path, file://, memory://, s3://, gs://, abfss://, az://, "
            "or any scheme with an installed file system of fsspec"
        },
    )
