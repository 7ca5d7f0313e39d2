"""Keeping secrets out of whatever is printed: messages of libraries quote URLs, headers and keys."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PASSWORD = re.compile(r"(?<=://)([^/\s\"':@]*):[^/\s\"']*@")  # abfss://container@account holds none
_SIGNED = re.compile(
    r"((?:X-Amz-(?:Signature|Credential|Security-Token)|Signature|AWSAccessKeyId|sig|access_token)=)[^&\s\"']+", re.I
)

_SHORTEST_SECRET = 8  # a shorter one would blank out parts of ordinary words


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without passwords in URLs, signatures, and these very strings."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "\u2026")
    return _SIGNED.sub("\\1\u2026", _PASSWORD.sub("\\1:\u2026@", text))


class StoreFault(Exception):
    """What a library of a store said, without secrets: the cause of our error in its stead, with its traceback."""

    @classmethod
    def of(cls, fault: BaseException, secrets: Iterable[str] = ()) -> StoreFault:
        """Return the witness of a fault."""
        name = type(fault).__name__
        text = without_secrets(str(fault), secrets)
        return cls(f"{name}: {text}" if text else name).with_traceback(fault.__traceback__)
