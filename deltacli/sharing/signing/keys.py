"""The secret keys of the server, and the tokens that are sealed with them, which only this server checks.

All workers of a server share the file. The first one creates it, with one atomic link, so all get the same key.
Rotation adds a key that signs a little later, when every worker has read the file, and keeps the older ones for
checking until they retire.

A token is accepted only for the kind, the table, the parameters and the recipient that it was made for, and until it
expires. So a token of an older version is never accepted from someone who did not get it from the server.

The URLs are `{base}/_files/{scope}/{path}?sp=r&se={expiry}&sig={signature}`. The scope has the table, the recipient and
the epoch of its token. Scope and path are opaque texts of [A-Za-z0-9_-], which no client and no proxy normalizes.
delta-kernel takes a URL for a signed one only if it has one of a few known parameters; `sp` is one of them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import stat
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

from deltacli.core.errors import StorageFailed, UsageError, command
from deltacli.core.lock_free_property import cached_property
from deltacli.sharing.configuration.secrets import write_atomically
from deltacli.sharing.signing.choose import SignedUrls, hmac_states

SECRET_BYTES = 32
ID_BYTES = 4
STARTS_AFTER_MS = 60_000
"""Time until a new key signs: every worker has read the file by then."""
READ_EVERY_MS = 10_000
"""How often a worker looks whether the file has changed."""
_SALT = b"deltacli share keys 1"
_LARGEST_FILE = 64 << 10
_CODE = "share.keys"


class DerivedKey(NamedTuple):
    """A key for one kind of signature. `id` names the server key that it was derived from."""

    id: bytes
    secret: bytes


@dataclass(frozen=True)
class ServerKey:
    """A secret. It signs from `starts_ms` on, and is accepted until `retires_ms` (None: no end)."""

    secret: bytes
    starts_ms: int
    retires_ms: int | None = None

    def __repr__(self) -> str:
        return f"ServerKey({self.id.hex()}, starts_ms={self.starts_ms}, retires_ms={self.retires_ms})"

    @cached_property
    def id(self) -> bytes:
        """Return a name for the key that does not reveal it."""
        return hkdf(self.secret, b"id", ID_BYTES)


class Keys(Protocol):
    """Keys that sign and check: `ServerKeys`, or those of a file that may change."""

    def signing(self, kind: str, now_ms: int) -> DerivedKey:
        """Return the key that signs now."""

    def checking(self, kind: str, key_id: bytes, now_ms: int) -> DerivedKey | None:
        """Return the key of this id for checking a signature, None if it is not accepted."""


@dataclass(frozen=True)
class ServerKeys:
    """The keys of a server, newest first."""

    keys: tuple[ServerKey, ...]

    def signing(self, kind: str, now_ms: int) -> DerivedKey:
        """Return the key that signs now: the newest that has started."""
        started = [key for key in self.keys if key.starts_ms <= now_ms and not _is_retired(key, now_ms)]
        return self._derived(started[0] if started else self.keys[0], kind)

    def checking(self, kind: str, key_id: bytes, now_ms: int) -> DerivedKey | None:
        """Return the key of this id for checking a signature, None if there is none or it is retired."""
        for key in self.keys:
            if hmac.compare_digest(key.id, key_id) and not _is_retired(key, now_ms):
                return self._derived(key, kind)
        return None

    def _derived(self, key: ServerKey, kind: str) -> DerivedKey:
        known = self._cache.get((key.id, kind))
        if known is None:
            known = self._cache[key.id, kind] = DerivedKey(key.id, hkdf(key.secret, kind.encode(), SECRET_BYTES))
        return known

    @cached_property
    def _cache(self) -> dict[tuple[bytes, str], DerivedKey]:
        return {}

    def __repr__(self) -> str:
        return f"ServerKeys({', '.join(key.id.hex() for key in self.keys)})"

    @classmethod
    def generate(cls, now_ms: int, random: Callable[[int], bytes] = os.urandom) -> ServerKeys:
        """Return one new key, for a server that keeps none."""
        return cls((ServerKey(random(SECRET_BYTES), now_ms),))

    @classmethod
    def read(cls, path: Path) -> ServerKeys:
        """Return the keys of a file that exists. Raises UsageError (`share.keys`) and StorageFailed."""
        try:
            return _read(path)
        except FileNotFoundError:
            message = f"the key file {path} does not exist; the server creates it when it starts"
            raise UsageError(message, code=_CODE, hint=command("share serve")) from None
        except OSError as fault:
            raise _unusable(path, fault) from fault

    @classmethod
    def read_or_create(cls, path: Path, *, now_ms: int, random: Callable[[int], bytes] = os.urandom) -> ServerKeys:
        """Return the keys of a file, which is created if it is missing.

        Raises UsageError (`share.keys`) for a file that others can read or that is damaged, StorageFailed if it cannot
        be read or created.
        """
        try:
            return _read(path)
        except FileNotFoundError:
            pass
        except OSError as fault:
            raise _unusable(path, fault) from fault
        try:
            write_atomically(path, _written(cls.generate(now_ms, random)), replace=False)
            return _read(path)
        except OSError as fault:
            raise _unusable(path, fault) from fault

    @classmethod
    def rotate(
        cls, path: Path, *, now_ms: int, overlap_ms: int, random: Callable[[int], bytes] = os.urandom
    ) -> ServerKeys:
        """Add a new key to a file, as `rotated` does, and return all. Raises what `read_or_create` raises.

        Two rotations at once keep one of the new keys only, so the caller holds a lock.
        """
        old = cls.read_or_create(path, now_ms=now_ms, random=random)
        keys = old.rotated(now_ms=now_ms, overlap_ms=overlap_ms, random=random)
        try:
            write_atomically(path, _written(keys))
        except OSError as fault:
            raise _unusable(path, fault) from fault
        return keys

    def rotated(self, *, now_ms: int, overlap_ms: int, random: Callable[[int], bytes] = os.urandom) -> ServerKeys:
        """Return these keys and a new one, without those that have retired. The keys before are accepted for
        `overlap_ms` from when the new one signs. Without an overlap that is now: they may be known to others.
        """
        starts_ms = now_ms + (STARTS_AFTER_MS if overlap_ms else 0)
        until_ms = starts_ms + overlap_ms
        kept = [
            replace(key, retires_ms=until_ms if key.retires_ms is None else min(key.retires_ms, until_ms))
            for key in self.keys
            if overlap_ms and not _is_retired(key, now_ms)
        ]
        return ServerKeys((ServerKey(random(SECRET_BYTES), starts_ms), *kept))


class KeyFile:
    """The keys of a file, which is read again when it has changed. A file that has become unusable changes nothing:
    `problem` says why, and the keys that were read before are used.
    """

    def __init__(
        self,
        path: Path,
        *,
        now_ms: int,
        random: Callable[[int], bytes] = os.urandom,
        inherited: ServerKeys | None = None,
    ) -> None:
        """`inherited` are the keys in use, whatever the file has become; it is read at the first use."""
        self._path = path
        self._keys = inherited or ServerKeys.read_or_create(path, now_ms=now_ms, random=random)
        self._seen, self._seen_ms = (self._identity(), now_ms) if inherited is None else ((0,), now_ms - READ_EVERY_MS)
        self._lock = Lock()
        self.problem: str | None = None

    def signing(self, kind: str, now_ms: int) -> DerivedKey:
        return self.current(now_ms).signing(kind, now_ms)

    def checking(self, kind: str, key_id: bytes, now_ms: int) -> DerivedKey | None:
        """Return the key of this id for checking a signature, None if it is not accepted."""
        return self.current(now_ms).checking(kind, key_id, now_ms)

    def current(self, now_ms: int) -> ServerKeys:
        """Return the keys in use."""
        if 0 <= now_ms - self._seen_ms < READ_EVERY_MS:
            return self._keys
        with self._lock:
            self._seen_ms = now_ms
            seen = self._identity()
            if seen != self._seen or self.problem:
                self._seen = seen
                try:
                    self._keys, self.problem = _read(self._path), None
                except (OSError, UsageError) as fault:
                    self.problem = str(fault)
        return self._keys

    def _identity(self) -> tuple[int, ...]:
        try:
            found = self._path.lstat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode


def hkdf(secret: bytes, info: bytes, length: int, salt: bytes = _SALT) -> bytes:
    """Return a key derived from a secret, by HKDF with SHA-256 (RFC 5869)."""
    extracted = hmac.digest(salt, secret, "sha256")
    blocks, block = b"", b""
    for number in range(1, -(-length // hashlib.sha256().digest_size) + 1):
        block = hmac.digest(extracted, block + info + bytes([number]), "sha256")
        blocks += block
    return blocks[:length]


def _is_retired(key: ServerKey, now_ms: int) -> bool:
    return key.retires_ms is not None and key.retires_ms <= now_ms


# -- the file ---------------------------------------------------------------------------------------------------------


def _read(path: Path) -> ServerKeys:
    """Return the keys of a file. Raises OSError and UsageError."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) or (os.name != "nt" and mode & 0o077):
            raise UsageError(
                f"the key file {path} can be read or written by other users",
                code=_CODE,
                facts={"mode": f"{stat.S_IMODE(mode):04o}", "expected": "0600"},
                hint=f"delete {path} if others may have read it, else: chmod 600 {path}",
            )
        content = file.read(_LARGEST_FILE)
    try:
        document = json.loads(content)
        if document["version"] != 1 or not document["keys"]:
            raise ValueError
        return ServerKeys(tuple(_parsed(key) for key in document["keys"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(
            f"the key file {path} is damaged",
            code=_CODE,
            hint=f"delete {path}: a new key is made, and recipients have to repeat their queries",
        ) from None


def _parsed(key: Any) -> ServerKey:
    secret, starts, retires = base64.b64decode(key["secret"], validate=True), key["startsMs"], key.get("retiresMs")
    if len(secret) != SECRET_BYTES or type(starts) is not int or type(retires) not in (int, type(None)):
        raise ValueError
    return ServerKey(secret, starts, retires)


def _written(keys: ServerKeys) -> bytes:
    listed = [
        {
            "secret": base64.b64encode(key.secret).decode(),
            "startsMs": key.starts_ms,
            **({} if key.retires_ms is None else {"retiresMs": key.retires_ms}),
        }
        for key in keys.keys
    ]
    return json.dumps({"version": 1, "keys": listed}, indent=2).encode() + b"\n"


def _unusable(path: Path, fault: OSError) -> StorageFailed:
    message = f"the key file {path} cannot be read or created: {fault.strerror or fault}"
    return StorageFailed(message, code=_CODE, hint="name a file in a directory that only the server can write to")


# -- what only this server checks --------------------------------------------------------------------------------------

_FORMAT = b"\x01"
_TIME_BYTES = 8
_MAC_BYTES = 32
_HEAD_BYTES = len(_FORMAT) + ID_BYTES + _TIME_BYTES
_LONGEST = 8_192
_ALPHABET = re.compile(r"[A-Za-z0-9_-]+")


class TokenRefused(Exception):
    """A token or a URL that is not accepted. `reason`: `invalid` or `expired`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Bound:
    """What a token belongs to. `parameters` identifies the rest of the request."""

    recipient: str
    epoch: int
    table_id: str = ""
    parameters: str = ""


class Seal:
    """Makes and opens tokens. Their content is readable by anyone, but only the server can make one."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def seal(self, kind: str, payload: Mapping[str, Any], *, bound: Bound, expires_ms: int, now_ms: int) -> str:
        """Return a token of [A-Za-z0-9_-]. `payload`: JSON values. `now_ms` chooses the key."""
        key = self._keys.signing(f"token {kind}", now_ms)
        body = json.dumps(payload, separators=(",", ":"), sort_keys=True).encode()
        signed = _FORMAT + key.id + expires_ms.to_bytes(_TIME_BYTES) + body
        return to_text(signed + _mac(key.secret, bound, signed))

    def open(self, kind: str, token: str, *, bound: Bound, now_ms: int) -> dict[str, Any]:
        """Return the payload of a token. Raises TokenRefused."""
        data = from_text(token)
        if len(data) <= _HEAD_BYTES + _MAC_BYTES or data[:1] != _FORMAT:
            raise TokenRefused("invalid")
        key = self._keys.checking(f"token {kind}", data[1 : 1 + ID_BYTES], now_ms)
        signed, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
        if key is None or not hmac.compare_digest(_mac(key.secret, bound, signed), mac):
            raise TokenRefused("invalid")
        if int.from_bytes(signed[1 + ID_BYTES : _HEAD_BYTES]) <= now_ms:
            raise TokenRefused("expired")
        payload: dict[str, Any] = json.loads(signed[_HEAD_BYTES:])
        return payload


def to_text(data: bytes) -> str:
    """Return bytes as text of [A-Za-z0-9_-]."""
    return urlsafe_b64encode(data).decode().rstrip("=")


def from_text(text: str) -> bytes:
    """Return the bytes of a text. Raises TokenRefused unless it is exactly what `to_text` makes of them."""
    if not isinstance(text, str) or len(text) > _LONGEST or not _ALPHABET.fullmatch(text) or len(text) % 4 == 1:
        raise TokenRefused("invalid")
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if to_text(data) != text:  # unused bits of the last character
        raise TokenRefused("invalid")
    return data


def _mac(secret: bytes, bound: Bound, signed: bytes) -> bytes:
    """Return the code of a token. Each part is preceded by its length, so none can grow into its neighbour."""
    parts = (
        bound.recipient.encode("utf-8", "surrogatepass"),
        str(bound.epoch).encode(),
        bound.table_id.encode("utf-8", "surrogatepass"),
        bound.parameters.encode("utf-8", "surrogatepass"),
        signed,
    )
    return hmac.digest(secret, b"".join(len(part).to_bytes(4) + part for part in parts), "sha256")


SEGMENT = "_files"
FILE_KEY = "file"
_QUERY = re.compile(r"sp=r&se=([1-9][0-9]{0,15})&sig=([A-Za-z0-9_-]{43})")
_TO_URL = bytes.maketrans(b"+/", b"-_")


class SignedFile(NamedTuple):
    """A file that a URL gives access to. The caller checks that the recipient still has the token of the epoch."""

    table_id: str
    recipient: str
    token_epoch: int
    path: str
    "Decoded, below the table's root."
    expires_ms: int


class LocalUrlSigner:
    """Signs URLs of one table for one recipient. `base_url`: up to the prefix of the server, without a slash at the
    end. `not_after_ms`: when the recipient's own token expires, and every URL with it.
    """

    def __init__(
        self,
        keys: Keys,
        base_url: str,
        *,
        table_id: str,
        recipient: str,
        token_epoch: int,
        not_after_ms: int | None = None,
    ) -> None:
        self._keys = keys
        self._base = f"{base_url.rstrip('/')}/{SEGMENT}/"
        self._claims = json.dumps([table_id, recipient, token_epoch], separators=(",", ":")).encode()
        self._not_after_ms = not_after_ms

    def sign(self, paths: Sequence[str], *, expires_ms: int, now_ms: int) -> SignedUrls:
        """Return the URLs of files, given by their decoded paths below the table's root."""
        if self._not_after_ms is not None:
            expires_ms = min(expires_ms, self._not_after_ms)
        key = self._keys.signing(FILE_KEY, now_ms)
        scope = to_text(_FORMAT + key.id + self._claims)
        head, tail = f"{self._base}{scope}/".encode(), f"?sp=r&se={expires_ms}&sig=".encode()
        inner, outer = hmac_states(key.secret)
        inner.update(_fixed(scope, str(expires_ms)))
        urls = []
        for path in paths:
            text = b2a_base64(path.encode("utf-8", "surrogateescape"), newline=False).translate(_TO_URL, b"=")
            code = inner.copy()
            code.update(text)
            seal = outer.copy()
            seal.update(code.digest())
            signature = b2a_base64(seal.digest(), newline=False).translate(_TO_URL, b"=")
            urls.append(b"".join((head, text, tail, signature)).decode())
        return SignedUrls(urls, expires_ms)


def open_file_url(keys: Keys, scope: str, path: str, query: str, *, now_ms: int) -> SignedFile:
    """Return the file of a URL, given by its raw segments and its raw query string. Raises TokenRefused."""
    match = _QUERY.fullmatch(query)
    claims, name = from_text(scope), from_text(path)
    if match is None or claims[:1] != _FORMAT:
        raise TokenRefused("invalid")
    key = keys.checking(FILE_KEY, claims[1 : 1 + ID_BYTES], now_ms)
    if key is None:
        raise TokenRefused("invalid")
    expected = hmac.digest(key.secret, _fixed(scope, match[1]) + path.encode(), "sha256")
    if not hmac.compare_digest(expected, from_text(match[2])):
        raise TokenRefused("invalid")
    if int(match[1]) <= now_ms:
        raise TokenRefused("expired")
    table_id, recipient, token_epoch = json.loads(claims[1 + ID_BYTES :])
    return SignedFile(table_id, recipient, token_epoch, name.decode("utf-8", "surrogateescape"), int(match[1]))


def _fixed(scope: str, expires: str) -> bytes:
    """Return what is the same in the signatures of all files. No part can contain the separator."""
    return f"{scope}\n{expires}\n".encode()
