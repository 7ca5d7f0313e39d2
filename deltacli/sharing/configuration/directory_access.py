"""The keys of `shares.yaml` about access by directory, and why a table must not be given so, by the file alone.

Spec: Generate Temporary Table Credential; none says which tables a directory may be given of. What decides is that a
credential shows the whole prefix: every version in the log, deleted rows, change data, and what is in commitInfo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from deltacli.core.errors import DeltacliError, UsageError
from deltacli.sharing.configuration.fields import Fields
from deltacli.sharing.model import URL_ONLY, AccessMode, SharedTable
from deltacli.storage.minting.policies import (
    LONGEST_EXPRESSION,
    LONGEST_POLICY,
    boundary_expression,
    partition_of,
    session_policy,
)
from deltacli.storage.minting.values import CannotMint, Delegation


class Inherited(NamedTuple):
    """What a share, a schema or a table takes from what it is in."""

    options: Mapping[str, str]
    modes: tuple[AccessMode, ...] = URL_ONLY
    delegation: Delegation = Delegation()


def read_modes(fields: Fields, inherited: tuple[AccessMode, ...]) -> tuple[AccessMode, ...]:
    """Return `accessModes`, each once and URLs first. Raises UsageError."""
    if "accessModes" not in fields:
        return inherited
    found = fields.texts("accessModes")
    if not found or not set(found) <= set(AccessMode) or len(set(found)) < len(found):
        raise fields.fault("accessModes", f"is {', '.join(found)[:60]!r}", expected="[url], [dir], or [url, dir]")
    return tuple(mode for mode in AccessMode if mode in found)


DIRECTORY_ACCESS = ("roleArn", "externalId", "stsEndpoint", "kmsDecrypt")


def read_delegation(fields: Fields, inherited: Delegation) -> Delegation:
    """Return `directoryAccess`, with what it lacks taken from above. Raises UsageError."""
    given = fields.fields("directoryAccess")
    if given is None:
        return inherited
    given.require_known(DIRECTORY_ACCESS)
    role = given.text("roleArn")
    if role is not None and partition_of(role) is None:
        raise given.fault("roleArn", "is not that of a role", expected="arn:aws:iam::123456789012:role/NAME")
    endpoint = given.text("stsEndpoint")
    if endpoint and urlsplit(endpoint).scheme not in ("https", "http"):
        raise given.fault("stsEndpoint", f"is {endpoint[:60]!r}", expected="a URL")
    external, _ = given.secret("externalId")
    return Delegation(
        role_arn=inherited.role_arn if role is None else role,
        external_id=inherited.external_id if external is None else external,
        sts_endpoint=inherited.sts_endpoint if endpoint is None else endpoint,
        uses_kms=given.flag("kmsDecrypt", default=inherited.uses_kms),
    )
