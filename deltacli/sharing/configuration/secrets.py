"""Bearer tokens, and files that only their owner may read: those with secrets or hashes, and profile files.

A token is `dct_`, 32 random bytes and their checksum in letters and digits. Scanners for leaked secrets recognize the
form, and a mistyped or cut token is recognized without the server. Only the SHA-256 of a token is stored: a slow hash
protects secrets that can be guessed, and 256 random bits cannot.

Spec: Delta Sharing, Profile File Format.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from deltacli.core.documents import dumps
from deltacli.core.errors import StorageFailed, UsageError, command, quote_word
from deltacli.core.hosts import is_loopback
from deltacli.core.times import DAY_MS, EPOCH, format_age, format_timestamp
from deltacli.core.typing import Json
from deltacli.sharing.model import Problem
from deltacli.storage.locked_drafts import LockedDraft, remove_abandoned_drafts
from deltacli.storage.os_errors import translate_write_errors

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


def is_intact(token: str) -> bool:
    """Return True if a token of our form is complete and has its checksum."""
    body = token[len(PREFIX) : -_CHECKSUM_LENGTH]
    return _FORM.fullmatch(token) is not None and token.endswith(_checksum(body))


def digest_token(token: str) -> bytes:
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


# -- files that hold secrets or hashes ---------------------------------------------------------------------------------

MODE = 0o600
_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.05


def write_private(path: Path, data: bytes, *, replace: bool = True) -> bool:
    """Write a file of mode 0600 that appears with its whole content, or not at all, and return True.

    A link is followed. Without `replace`, False is returned where the name exists. Raises StorageFailed.
    """
    with translate_write_errors(os.path.realpath(path), str(path)):
        return write_atomically(path, data, replace=replace)


def write_atomically(path: Path, data: bytes, *, replace: bool = True) -> bool:
    """Write a file as `write_private` does. Raises OSError."""
    target = os.path.realpath(path)
    directory, name = os.path.split(target)
    draft = LockedDraft(directory, f".{name[:100]}.", MODE)
    try:
        remove_abandoned_drafts(directory, f".{name[:100]}.", draft.changed_ns)
        _fill(draft.local_path, data)
        if replace:
            os.replace(draft.local_path, target)
        elif not _claim(draft.local_path, target):
            return False
        _sync_directory(directory)
        return True
    finally:
        draft.close()


@contextmanager
def locked(path: Path, pause: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Hold the lock of a file: a lock on an empty file beside it, because the file itself is replaced.

    Raises StorageFailed (`share.locked`) where another command holds it for 10 seconds.
    """
    place = f"{os.path.realpath(path)}.lock"
    with translate_write_errors(place, place):
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, MODE)
    try:
        _wait_for_lock(descriptor, path, pause)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        with suppress(OSError):
            os.close(descriptor)


def _wait_for_lock(descriptor: int, path: Path, pause: Callable[[float], None]) -> None:
    for _ in range(int(_PATIENCE_SECONDS / _PAUSE_SECONDS)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause(_PAUSE_SECONDS)
        except OSError as fault:
            raise StorageFailed(
                f"{path} was not changed: its lock is not available: {os.strerror(fault.errno or 0).lower()}",
                code="share.locked",
                hint=f"df {quote_word(str(path))}   # shows the file system, which has to support locks",
            ) from fault
        else:
            return
    raise StorageFailed(
        f"{path} was not changed: another command has been changing it for {_PATIENCE_SECONDS:.0f} seconds",
        code="share.locked",
        hint=f"fuser -v {quote_word(f'{path}.lock')}   # shows that command; then repeat this one",
    )


def others_may_read(path: Path) -> bool:
    """Return True if the group or all users may read a file. Raises OSError."""
    return bool(stat.S_IMODE(os.stat(path).st_mode) & 0o077)


def _fill(place: str, data: bytes) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, MODE)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claim(place: str, target: str) -> bool:
    """Give the file its name, and return False where that exists."""
    try:
        os.link(place, target)
    except FileExistsError:
        return False
    return True


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- profile files -----------------------------------------------------------------------------------------------------

CODE = "share.profile"
_HINT = "ask the provider of the share for a profile file"
SOON_MS = 7 * DAY_MS
_MOST_BYTES = 1024 * 1024
_VERSIONS = (1, 2)
_SECRETS = frozenset({"bearerToken", "clientSecret", "password", "privateKey"})
_TYPES_V2 = ("bearer_token", "oauth_client_credentials", "oauth_jwt_bearer_private_key_jwt", "basic")


@dataclass(frozen=True)
class Profile:
    """A profile as it was found; `credentials` are in no text that is made of it."""

    path: Path
    version: object
    endpoint: object
    kind: str
    expiration: object
    credentials: dict[str, object] = field(repr=False)
    is_readable_by_others: bool = False

    @property
    def expires_ms(self) -> int | None:
        """Return when the token expires, None if the profile has no valid time."""
        return parse_expiration(self.expiration)

    def as_json(self) -> dict[str, Json]:
        """Return the profile for documents, without secrets."""
        expires_ms = self.expires_ms
        return {
            "profile": str(self.path),
            "shareCredentialsVersion": self.version if isinstance(self.version, int) else None,
            "endpoint": _without_access(self.endpoint) if isinstance(self.endpoint, str) else None,
            "type": self.kind,
            "secrets": sorted(name for name in self.credentials if name in _SECRETS),
            **({} if expires_ms is None else {"expiresMs": expires_ms, "expires": format_timestamp(expires_ms)}),
            "readableByOthers": self.is_readable_by_others,
        }


def _without_access(url: str) -> str:
    """Return a URL without a user, a password and the values of a query: a profile that has them is wrong."""
    shown, mark, _ = re.sub(r"(?<=//)[^/]*@", "…@", url).partition("?")
    return shown + (mark and "?…")


def profile_content(endpoint: str, token: str, expires_ms: int | None) -> bytes:
    """Return the content of a profile file."""
    expiration = {} if expires_ms is None else {"expirationTime": format_timestamp(expires_ms)}
    profile = {"shareCredentialsVersion": 1, "endpoint": f"{endpoint.rstrip('/')}/", "bearerToken": token}
    return dumps({**profile, **expiration}, indent=True) + b"\n"


def write_profile(path: Path, endpoint: str, token: str, expires_ms: int | None) -> None:
    """Write a profile file of mode 0600. Raises StorageFailed, and UsageError where the file exists."""
    if not write_private(path, profile_content(endpoint, token, expires_ms), replace=False):
        raise UsageError(
            f"the profile {path} exists, and is not replaced", code=CODE, hint=command("share profile show", path)
        )


def read_profile(path: Path) -> Profile:
    """Return a profile. Raises UsageError for a file that is not one, without quoting it."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        is_readable = others_may_read(path)
    except (OSError, ValueError) as fault:
        if str(path).startswith(("http:/", "https:/")):
            raise UsageError("a profile is a local file, not an address", code=CODE, hint=_HINT) from fault
        reason = (getattr(fault, "strerror", None) or "invalid path").lower()
        raise UsageError(f"the profile {path} cannot be read: {reason}", code=CODE, hint=_HINT) from fault
    try:
        document = json.loads(data) if len(data) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or "shareCredentialsVersion" not in document:
        raise UsageError(
            f"{path} is not a profile: it is not a JSON object with shareCredentialsVersion", code=CODE, hint=_HINT
        )
    kind = document.get("type", "bearer_token")
    names = ("shareCredentialsVersion", "endpoint", "expirationTime", "type")
    return Profile(
        path=path,
        version=document["shareCredentialsVersion"],
        endpoint=document.get("endpoint"),
        kind=kind if isinstance(kind, str) else "unknown",
        expiration=document.get("expirationTime"),
        credentials={name: value for name, value in document.items() if name not in names},
        is_readable_by_others=is_readable,
    )


def find_profile_problems(profile: Profile, now_ms: int) -> list[Problem]:
    """Return what is wrong with a profile, errors first."""
    found = [*_version_problems(profile), *_endpoint_problems(profile), *_token_problems(profile)]
    found += [*_expiry_problems(profile, now_ms), *_permission_problems(profile)]
    return sorted(found, key=lambda problem: not problem.is_error)


def parse_expiration(value: object) -> int | None:
    """Return an `expirationTime` in epoch milliseconds, None for no or an invalid one. Without an offset it is UTC."""
    if not isinstance(value, str):
        return None
    text = re.sub(r"\.([0-9]{1,9})", lambda match: f".{match[1][:6]:0<6}", value.strip())
    try:
        moment = datetime.fromisoformat(text)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def _version_problems(profile: Profile) -> Iterator[Problem]:
    if profile.version not in _VERSIONS or isinstance(profile.version, bool):
        yield Problem("profile.version", "shareCredentialsVersion is neither 1 nor 2, so clients refuse the profile")
    elif profile.version == 2 and profile.kind not in _TYPES_V2:
        yield Problem("profile.type", "the type of credentials is unknown")


def _endpoint_problems(profile: Profile) -> Iterator[Problem]:
    yield from _url_problems("the endpoint", profile.endpoint)
    if profile.kind == "oauth_client_credentials":
        yield from _url_problems("the tokenEndpoint", profile.credentials.get("tokenEndpoint"))


def _url_problems(what: str, text: object) -> Iterator[Problem]:
    try:
        parts = urlsplit(text) if isinstance(text, str) and text.isprintable() else None
        host = parts.hostname if parts and parts.scheme in ("http", "https") and parts.port != 0 else None
    except ValueError:
        parts = host = None
    if parts is None or host is None:
        yield Problem("profile.endpoint", f"{what} is not an http or https URL")
    elif parts.query or parts.fragment:
        yield Problem("profile.endpoint", f"{what} has a query or a fragment, which clients refuse")
    elif parts.username is not None:
        yield Problem("profile.endpoint", f"{what} contains a user name, which clients ignore or leak")
    elif parts.scheme == "http" and not is_loopback(host):
        yield Problem("profile.plain-http", f"{what} is plain http: the token is sent unencrypted", is_error=False)


def _token_problems(profile: Profile) -> Iterator[Problem]:
    if profile.kind != "bearer_token":
        return
    token = profile.credentials.get("bearerToken")
    if not isinstance(token, str) or not token:
        yield Problem("profile.token", "the profile has no bearerToken")
    elif not token.isascii() or not token.isprintable() or " " in token:
        yield Problem("profile.token", "the bearerToken has characters that a header cannot contain")
    elif token.startswith(PREFIX) and not is_intact(token):
        yield Problem("profile.token", "the bearerToken is incomplete or mistyped: its checksum is wrong")


def _expiry_problems(profile: Profile, now_ms: int) -> Iterator[Problem]:
    if profile.expiration is None:
        return
    expires_ms = profile.expires_ms
    if expires_ms is None:
        yield Problem("profile.expiration", "expirationTime is not a time in ISO 8601")
    elif expires_ms <= now_ms:
        yield Problem("profile.expired", f"the token expired {format_age(expires_ms, now_ms)}")
    elif expires_ms - now_ms < SOON_MS:
        yield Problem("profile.expires-soon", f"the token expires {format_age(expires_ms, now_ms)}", is_error=False)


def _permission_problems(profile: Profile) -> Iterator[Problem]:
    if profile.is_readable_by_others:
        yield Problem("profile.permissions", "other users of this machine can read the file", is_error=False)
