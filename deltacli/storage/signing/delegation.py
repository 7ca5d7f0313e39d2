"""Credentials for one directory, which a cloud gives to the server of a share for its recipients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MIN_SESSION_SECONDS = 900
"""AWS gives no session for less."""


class CannotMint(Exception):
    """No credential was made. The message says why, for operators. `is_transient`: the cloud may give one later."""

    def __init__(self, message: str, *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.is_transient = is_transient


@dataclass(frozen=True)
class Delegation:
    """By what a cloud gives credentials for a directory. `role_arn`, `external_id` and `uses_kms`
    are of AWS, `sts_endpoint` is the URL of its token service or of Google's, '' for the usual one.
    """

    role_arn: str = ""
    external_id: str = field(default="", repr=False)
    sts_endpoint: str = ""
    uses_kms: bool = False


@dataclass(frozen=True)
class MintedCredential:
    """A credential. `member` and `fields` are those of the protocol's answer; `expires_ms` is the
    end that the cloud says; `key_end` is the end of the name of its key, for the audit log, ''
    where it has none.
    """

    member: str
    fields: Mapping[str, str] = field(repr=False)
    expires_ms: int
    key_end: str = ""
