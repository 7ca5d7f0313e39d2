"""Mask credentials in text before it is printed, logged or written to a report.

Error messages of cloud libraries quote URLs, headers and even keys. Everything that deltacli prints
therefore passes through `mask_secrets`, which masks:

* registered secrets: the values of secret storage options (`remember_secrets`) and the secrets on
  the command line (`mask_command_line`), also if they are escaped or percent-encoded
* the values of environment variables such as `AWS_SECRET_ACCESS_KEY`
* credentials that can be recognized by their context: passwords in URLs, signatures of signed URLs
  and authorization headers

    https://me:pa55@host/t?X-Amz-Signature=8f2c   ->   https://me:…@host/t?X-Amz-Signature=…

`is_secret_name` and `contains_secret` decide whether an option is a secret.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import quote

_MASK = "\u2026"

# A shorter secret would also mask parts of ordinary words.
_MIN_SECRET_LENGTH = 8

_SECRET_NAME_PARTS = (
    *("secret", "password", "passphrase", "passwd", "token", "authorization", "api_key", "api-key"),
    *("account_key", "connection_string", "private_key", "sas"),
)
_OTHER_SECRET_OPTIONS = ("key", "username", "aws_access_key_id", "access_key_id")

# All patterns are texts, which `re` compiles and caches at their first use. Compiling them during the
# import would take several milliseconds in each run of the command line.

_CLOUD_VARIABLE_PREFIXES = ("AWS_", "AZURE_", "DATABRICKS_", "GOOGLE_", "GCS_", "GCLOUD_", "UC_")
_SECRET_VARIABLE = r"(?i)(?:ACCESS_KEY|SECRET|PASSWORD|TOKEN|STORAGE_KEY|ACCOUNT_KEY|CONNECTION_STRING|SAS)"

# A password in a URL: //USER:PASSWORD@. The scheme is not required, because some messages are cut
# off at the left. abfss://CONTAINER@ACCOUNT has no colon before the @ and contains no secret.
_URL_PASSWORD = r"(?<=//)([^/\s\"':@]*):[^/\s\"']*@"

# The parameters of signed URLs and of Azure connection strings.
_SIGNATURE = (
    r"(?i)((?:X-Amz-(?:Signature|Credential|Security-Token)|Signature|AWSAccessKeyId|sig|access_token"
    r"|AccountKey|SharedAccess(?:Key|Signature))=)[^&;\s\"']+"
)

# Libraries quote a header that they reject: Invalid header value b'Bearer …'
_REJECTED_HEADER = r"(?is)(header value\b[^'\"]{0,40})(?:'.*'|\".*\")"

_AUTHORIZATION_HEADER = r"(?i)((?:authorization|x-amz-security-token)\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\"'\r\n]+"

# token=…, "password": "…"
_NAMED_SECRET = rf"(?i)(?:{'|'.join(_SECRET_NAME_PARTS)})\w*[\"']?\s*[:=]\s*[\"']?[^\s\"'{{}}]"

# In a single word, a password may contain slashes that are not percent-encoded. A number after the
# colon is a port.
_URL_PASSWORD_WITH_SLASHES = r"\A(\w+://[^/\s:@]*):(?!\d+(?:/|\Z)).*@"
_QUERY_SECRET = rf"(?i)((?<=[?&;])(?:{'|'.join(_SECRET_NAME_PARTS)})\w*=)[^&;\s\"']+"

_remembered: set[str] = set()
"""Registered secrets."""

_masked_words: dict[str, str] = {}
"""Words of the command line that contain a secret, and the words that replace them in all texts."""


def is_secret_name(name: str) -> bool:
    """Return whether an option with this name contains a secret: `token`, `fs.azure.account.key`."""
    lower_name = name.lower()
    names = (lower_name, re.sub("[.-]", "_", lower_name))
    return any(part in name for name in names for part in _SECRET_NAME_PARTS)


def contains_secret(value: str) -> bool:
    """Return whether an option value contains a secret.

    Examples are a URL with a password or a signature, and a JSON object with a field named `token`.
    """
    return any(re.search(pattern, value) for pattern in (_URL_PASSWORD, _SIGNATURE, _NAMED_SECRET))


def remember_secrets(options: Mapping[str, object]) -> None:
    """Register the secrets in storage options. They are masked in all texts of this process."""
    _remembered.update(find_secrets(options))


def mask_command_line(masked_words: Mapping[str, str], secrets: Iterable[str]) -> None:
    """Register the secrets of a command line. They are masked in all texts of this process.

    Args:
        masked_words: Words of the command line that contain a secret, each with the word to print
            instead. They replace the words of an earlier call.
        secrets: The secrets alone.
    """
    _masked_words.clear()
    for word, masked_word in masked_words.items():
        _masked_words[word] = masked_word
        _masked_words[quote(word, errors="replace")] = quote(masked_word, errors="replace")
    _remembered.update(secrets)


def mask_secrets_of_word(word: str) -> str:
    """Mask the secrets of a single word, such as an argument of the command line.

    In a single word, more can be masked than in a text: passwords that contain slashes, and query
    parameters with the name of a secret.
    """
    word = re.sub(_URL_PASSWORD_WITH_SLASHES, rf"\1:{_MASK}@", word)
    return re.sub(_QUERY_SECRET, rf"\1{_MASK}", mask_secrets(word))


def mask_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text with `…` in place of secrets.

    Args:
        text: Any text.
        secrets: Secrets to mask in addition to the registered ones.
    """
    return _mask(text, frozenset({*secrets, *_remembered, *_find_secret_variables()}))


def mask_secrets_of_all(texts: Iterable[str]) -> Iterator[str]:
    """Yield each text as `mask_secrets` returns it. The environment is only read once."""
    secrets = frozenset({*_remembered, *_find_secret_variables()})
    return (_mask(text, secrets) for text in texts)


def _mask(text: str, secrets: frozenset[str]) -> str:
    """Mask known secrets and credentials that are recognized by their context."""
    for word, masked_word in _masked_words.items():
        text = text.replace(word, masked_word)
    for secret in _list_encoded_forms(secrets):
        text = text.replace(secret, _MASK)

    text = re.sub(_AUTHORIZATION_HEADER, rf"\1{_MASK}", text)
    text = re.sub(_REJECTED_HEADER, rf"\1{_MASK}", text)
    text = re.sub(_URL_PASSWORD, rf"\1:{_MASK}@", text)
    return re.sub(_SIGNATURE, rf"\1{_MASK}", text)


def find_secrets(value: object, name: str = "") -> Iterator[str]:
    """Yield the secrets in the value of an option.

    Args:
        value: A mapping of option names to values, or the text of one option. The text may be a JSON
            object, whose fields are searched, or a URL with a password.
        name: The name of the option. The whole value is a secret if `is_secret_name` says so.
    """
    match value:
        case Mapping():
            for field_name, field_value in value.items():
                yield from find_secrets(field_value, str(field_name))
        case str() if value.lstrip().startswith("{"):
            try:
                yield from find_secrets(json.loads(value), name)
            except (ValueError, RecursionError):
                # Better mask too much than print a secret of a misspelled document.
                yield value
        case str() if is_secret_name(name) or name.lower() in _OTHER_SECRET_OPTIONS:
            yield value
        case str():
            for match in re.finditer(_URL_PASSWORD, value):
                yield match[0].partition(":")[2].removesuffix("@")


def _find_secret_variables() -> Iterator[str]:
    """Yield the values of environment variables with credentials of clouds."""
    for name in os.environ:
        # Variables such as AWS_WEB_IDENTITY_TOKEN_FILE contain a path.
        if (
            name.startswith(_CLOUD_VARIABLE_PREFIXES)
            and not name.endswith("_FILE")
            and re.search(_SECRET_VARIABLE, name)
        ):
            yield os.environ.get(name, "")


@lru_cache(maxsize=16)
def _list_encoded_forms(secrets: frozenset[str]) -> tuple[str, ...]:
    """Return the secrets in all encodings that messages use.

    The longest come first: if one form contains another, the longer one has to be replaced before.
    """
    forms = {form for secret in secrets for form in _encode(secret)}
    return tuple(sorted(forms, key=len, reverse=True))


def _encode(secret: str) -> Iterator[str]:
    """Yield a secret and its words, each unchanged, percent-encoded, JSON-escaped and as `repr`."""
    for part in {secret, secret.strip(), *secret.split()}:
        forms = {
            part,
            quote(part, safe="", errors="replace"),
            quote(part, errors="replace"),
            json.dumps(part)[1:-1],
            repr(part)[1:-1],
        }
        yield from (form for form in forms if len(form) >= _MIN_SECRET_LENGTH)


class MaskedCause(Exception):
    """Replaces an error of a library as the `__cause__` of a deltacli error. Its text contains no secrets."""

    @classmethod
    def of(cls, error: BaseException, secrets: Iterable[str] = ()) -> MaskedCause:
        """Return a cause with the class name, the masked text and the traceback of an error.

        Args:
            error: The error of a library.
            secrets: Secrets to mask in addition to the registered ones.
        """
        name = type(error).__name__
        text = mask_secrets(str(error), secrets)
        return cls(f"{name}: {text}" if text else name).with_traceback(error.__traceback__)
