"""Values of options that may be secrets: `--storage-option K=V`, `--spark-conf K=V`, `--remote`.

A secret on the command line is visible in the process list, so it is refused. `@FILE` reads it from a file instead.
"""

from __future__ import annotations

from deltacli.core.errors import UsageError
from deltacli.storage.secrets import contains_secret, is_secret_name


def parse_storage_option(text: str) -> tuple[str, str]:
    """Return the key and the value of a `--storage-option`. Raises UsageError."""
    return parse_pair("--storage-option", text, "the store's own environment variables and profiles")


def parse_pair(option: str, text: str, secret_places: str) -> tuple[str, str]:
    """Return the key and the value of an option `K=V` or `K=@FILE`.

    Args:
        option: The name of the option.
        text: The text after the option.
        secret_places: The places for secrets other than a file, for the error.

    Raises:
        UsageError: If the text has another form, the file cannot be read, or the value is a secret.
    """
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError(f"the value of {option} is not K=V")
    return key, read_option_value(f"{option} {key}", "=", value, secret_places, key=key)


def read_option_value(option: str, separator: str, value: str, secret_places: str, *, key: str = "") -> str:
    """Return the value of an option, or the content of the file for `@FILE`.

    Args:
        option: The name of the option, for errors.
        separator: The text between the option and its value, for errors.
        value: The value as the user typed it.
        secret_places: The places for secrets other than a file, for the error.
        key: The key of the value. A value with a key such as `password` is a secret.

    Raises:
        UsageError: If the file cannot be read, or the value is a secret.
    """
    if value.startswith("@"):
        return read_text_file(value[1:], option)
    if is_secret_name(key) or contains_secret(value):
        raise UsageError(
            f"{option}: a secret on the command line is visible in the process list",
            code="usage.secret",
            facts={"instead": f"{option}{separator}@FILE, or {secret_places}"},
        )
    return value


def read_text_file(path: str, option: str) -> str:
    """Return the content of a file without surrounding whitespace. Raises UsageError, which begins with `option`."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise UsageError(f"{option}: {path} cannot be read: {(error.strerror or '').lower()}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{option}: {path} is not text in UTF-8") from error
