"""Removal of secrets from all output, because messages of libraries quote URLs, headers and keys."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import quote

_PASSWORD = r"(?<=//)([^/\s\"':@]*):[^/\s\"']*@"
"""Without the scheme, because texts are shown from their middle on; abfss://container@account contains no secret."""
_SIGNED = (
    r"(?i)((?:X-Amz-(?:Signature|Credential|Security-Token)|Signature|AWSAccessKeyId|sig|access_token"
    r"|AccountKey|SharedAccess(?:Key|Signature))=)[^&;\s\"']+"
)
_HEADER = r"(?is)(header value\b[^'\"]{0,40})(?:'.*'|\".*\")"
"""Messages of libraries that reject a header and quote it."""
_AUTHORIZATION = r"(?i)((?:authorization|x-amz-security-token)\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\"'\r\n]+"

_WORDS = (
    *("secret", "password", "passphrase", "passwd", "token", "authorization", "api_key", "api-key"),
    *("account_key", "connection_string", "private_key", "sas"),
)
_NAMED_SECRET = rf"(?i)(?:{'|'.join(_WORDS)})\w*[\"']?\s*[:=]\s*[\"']?[^\s\"'{{}}]"
_CLOUDS = ("AWS_", "AZURE_", "DATABRICKS_", "GOOGLE_", "GCS_", "GCLOUD_", "UC_")
_OF_CLOUDS = r"(?i)(?:ACCESS_KEY|SECRET|PASSWORD|TOKEN|STORAGE_KEY|ACCOUNT_KEY|CONNECTION_STRING|SAS)"
_SHORTEST_SECRET = 8  # a shorter secret would mask parts of ordinary words
_BLANK = "\u2026"

_WHOLE_PASSWORD = r"\A(\w+://[^/\s:@]*):(?!\d+(?:/|\Z)).*@"  # of a word, with slashes
_IN_QUERY = rf"(?i)((?<=[?&;])(?:{'|'.join(_WORDS)})\w*=)[^&;\s\"']+"

_remembered: set[str] = set()
_typed: dict[str, str] = {}
"""Word of the command line -> the word without its secret."""


def is_secret_name(name: str) -> bool:
    lower = name.lower()
    spellings = (lower, re.sub("[.-]", "_", lower))
    return any(word in spelling for spelling in spellings for word in _WORDS)


def contains_secret(value: str) -> bool:
    """Return whether a value contains a secret: a URL with one, or a JSON object with a field of such a name."""
    return any(re.search(pattern, value) for pattern in (_PASSWORD, _SIGNED, _NAMED_SECRET))


def remember_secrets(options: Mapping[str, object]) -> None:
    """Register the secrets among the options of a store, which are masked in all later texts."""
    _remembered.update(find_secrets(options))


def mask_command_line(words: Mapping[str, str], secrets: Iterable[str]) -> None:
    """Replace these words of a command line in all later texts, and no others, and mask these secrets."""
    _typed.clear()
    for word, shown in words.items():
        _typed.update({word: shown, quote(word, errors="replace"): quote(shown, errors="replace")})
    _remembered.update(secrets)


def mask_secrets_of_word(word: str) -> str:
    """Return a word of a command line without the passwords and signatures of URLs, also unescaped ones."""
    word = re.sub(_WHOLE_PASSWORD, rf"\1:{_BLANK}@", word)
    return re.sub(_IN_QUERY, rf"\1{_BLANK}", mask_secrets(word))


def mask_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without these strings, known secrets, and the credentials of URLs and headers."""
    return _masked(text, frozenset({*secrets, *_remembered, *_of_environment()}))


def mask_secrets_of_all(texts: Iterable[str]) -> Iterator[str]:
    """Yield each text as `mask_secrets` returns it, and read the environment once."""
    known = frozenset({*_remembered, *_of_environment()})
    return (_masked(text, known) for text in texts)


def _masked(text: str, known: frozenset[str]) -> str:
    for word, shown in _typed.items():
        text = text.replace(word, shown)
    for secret in _all_forms(known):
        text = text.replace(secret, _BLANK)
    text = re.sub(_HEADER, rf"\1{_BLANK}", re.sub(_AUTHORIZATION, rf"\1{_BLANK}", text))
    return re.sub(_SIGNED, rf"\1{_BLANK}", re.sub(_PASSWORD, rf"\1:{_BLANK}@", text))


def find_secrets(value: object, name: str = "") -> Iterator[str]:
    """Yield the secrets of options, also those in JSON objects and URLs."""
    match value:
        case Mapping():
            for key, inner in value.items():
                yield from find_secrets(inner, str(key))
        case str() if value.lstrip().startswith("{"):
            try:
                yield from find_secrets(json.loads(value), name)
            except (ValueError, RecursionError):
                yield value
        case str() if is_secret_name(name) or name.lower() in ("key", "username", "aws_access_key_id", "access_key_id"):
            yield value
        case str():
            yield from (match[0].partition(":")[2].removesuffix("@") for match in re.finditer(_PASSWORD, value))


def _of_environment() -> Iterator[str]:
    for name in os.environ:
        if name.startswith(_CLOUDS) and not name.endswith("_FILE") and re.search(_OF_CLOUDS, name):
            yield os.environ.get(name, "")


@lru_cache(maxsize=16)
def _all_forms(secrets: frozenset[str]) -> tuple[str, ...]:
    """Return every form of secrets, the longest first."""
    return tuple(sorted({form for each in secrets for form in _forms(each)}, key=len, reverse=True))


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret in the forms of messages: stripped, by lines, and escaped."""
    for form in {secret, secret.strip(), *secret.split()}:
        for written in {
            form,
            quote(form, safe="", errors="replace"),
            quote(form, errors="replace"),
            json.dumps(form)[1:-1],
            repr(form)[1:-1],
        }:
            if len(written) >= _SHORTEST_SECRET:
                yield written


class MaskedCause(Exception):
    """An error of a library without secrets, used as the cause of an error instead of the original."""

    @classmethod
    def of(cls, error: BaseException, secrets: Iterable[str] = ()) -> MaskedCause:
        """Return the masked cause for an error."""
        name = type(error).__name__
        text = mask_secrets(str(error), secrets)
        return cls(f"{name}: {text}" if text else name).with_traceback(error.__traceback__)
