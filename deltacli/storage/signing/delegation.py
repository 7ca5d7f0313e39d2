"""Temporary credentials for one directory, which a Delta Sharing server requests from a cloud for its recipients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MIN_SESSION_SECONDS = 900
"""The shortest session of AWS."""


class CannotMint(Exception):
    """A credential could not be created. The message contains the reason, for the operator of the server.

    Attributes:
        is_transient: True if a later request may succeed, for example after a timeout of the cloud.
    """

    def __init__(self, message: str, *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.is_transient = is_transient


@dataclass(frozen=True)
class Delegation:
    """Settings for creating credentials.

    Attributes:
        role_arn: The role of AWS that the server assumes.
        external_id: The external id that the trust policy of the role requires; '' if it requires none.
        sts_endpoint: The URL of the token service of AWS or Google; '' for the default.
        uses_kms: True if objects in S3 are encrypted with a KMS key.
    """

    role_arn: str = ""
    external_id: str = field(default="", repr=False)
    sts_endpoint: str = ""
    uses_kms: bool = False


@dataclass(frozen=True)
class MintedCredential:
    """A temporary credential.

    Attributes:
        member: The field of the response of the sharing protocol, for example "awsTempCredentials".
        fields: The value of that field.
        expires_ms: The expiry that the cloud states, in epoch milliseconds.
        key_end: The last characters of the key id, for the audit log; '' if the credential has no key id.
    """

    member: str
    fields: Mapping[str, str] = field(repr=False)
    expires_ms: int
    key_end: str = ""
