"""Import the client libraries of object stores, which are optional extras of this package."""

from __future__ import annotations

from importlib import import_module

from deltacli.core import errors
from deltacli.core.optional_packages import allow_optional_packages

# The extra that each scheme requires.
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


def require_libraries(scheme: str, *modules: str) -> None:
    """Import the libraries of a scheme.

    Args:
        scheme: The scheme, such as `s3`.
        modules: The names of the modules to import, such as `botocore`.

    Raises:
        UsageError: If a module is not installed. The hint is the command that installs the extra.
    """
    # botocore imports dateutil.
    allow_optional_packages("dateutil", "pytz")
    try:
        for name in modules:
            import_module(name)
    except ImportError as error:
        raise scheme_unavailable_error(scheme) from error


def scheme_unavailable_error(scheme: str) -> errors.UsageError:
    """Return the error for an unknown scheme, or a scheme whose extra is not installed."""
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
