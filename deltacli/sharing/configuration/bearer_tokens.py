"""Bearer tokens: how they are made, recognized and stored.

A token is `dct_`, 32 random bytes and their checksum in letters and digits. Scanners for leaked secrets recognize the
form, and a mistyped or cut token is recognized without the server. Only the SHA-256 of a token is stored: a slow hash
protects secrets that can be guessed, and 256 random bits cannot.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib

PREFIX = "dct_"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_BYTES = 32
_RANDOM_LENGTH = 43  # 62**43 > 2**256
_CHECKSUM_LENGTH = 6
_FORM = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM_LENGTH + _CHECKSUM_LENGTH}}}")


def create_token(random: bytes | None = None) -> str:
    """Return a new token; `random` are its 32 bytes, for tests."""
    data = secrets.token_bytes(_RANDOM_BYTES) if random is None else random
    body = _encode(int.from_bytes(data), _RANDOM_LENGTH)
    return f"{PREFIX}{body}{_checksum(body)}"


def has_token_form(token: str) -> bool:
    """Return True for a text that begins like our tokens."""
    return token.startswith(PREFIX)


def is_intact(token: str) -> bool:
    """Return True if a token of our form is complete and has its checksum."""
    body = token[len(PREFIX) : -_CHECKSUM_LENGTH]
    return _FORM.fullmatch(token) is not None and token.endswith(_checksum(body))


def digest_of(token: str) -> bytes:
    """Return the SHA-256 of a token, which is what is stored and compared."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _checksum(body: str) -> str:
    return _encode(zlib.crc32(body.encode()), _CHECKSUM_LENGTH)


def _encode(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
