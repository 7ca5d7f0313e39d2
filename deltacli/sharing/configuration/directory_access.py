"""The keys of `shares.yaml` about access by directory, and why a table must not be given so, by the file alone.

Spec: Generate Temporary Table Credential; none says which tables a directory may be given of. What decides is that a
credential shows the whole prefix: every version in the log, deleted rows, change data, and what is in commitInfo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from deltacli.core.errors import DeltacliError
from deltacli.sharing.configuration.fields import Fields
from deltacli.sharing.configuration.keys import DIRECTORY_ACCESS_KEYS
from deltacli.sharing.model import URL_ONLY, AccessMode, SharedTable
from deltacli.sharing.protocol import directories
from deltacli.storage.signing.delegation import Delegation
from deltacli.storage.signing.policies import (
    MAX_EXPRESSION_CHARACTERS,
    MAX_POLICY_CHARACTERS,
    build_boundary_expression,
    build_session_policy,
    parse_role_partition,
)
from deltacli.storage.vended_locations import Location, parse_location


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


def read_about(fields: Fields) -> dict[str, str | Mapping[str, str]]:
    """Return what is said about a share to people. Raises UsageError beyond the limits of the protocol."""
    about: dict[str, str | Mapping[str, str]] = {}
    for key, longest in (("displayName", directories.LONGEST_DISPLAY_NAME), ("comment", directories.LONGEST_COMMENT)):
        if (text := fields.string(key)) is not None:
            _require_readable(fields, key, text, longest, may_have_lines=key == "comment")
            about[key] = text
    given = fields.fields("properties")
    if given is None:
        return about
    names = list(given)
    if len(names) > directories.MOST_PROPERTIES:
        raise fields.fault("properties", f"has {len(names)} entries", expected=f"at most {directories.MOST_PROPERTIES}")
    properties: dict[str, str] = {}
    for name in names:
        if not 0 < len(name) <= directories.LONGEST_PROPERTY_NAME or not name.isprintable():
            raise given.fault(name, "has a name that is empty, too long or not printable")
        properties[name] = given.string(name) or ""
        _require_readable(given, name, properties[name], directories.LONGEST_PROPERTY)
    return about | {"properties": properties}


def _require_readable(fields: Fields, key: str, text: str, longest: int, *, may_have_lines: bool = False) -> None:
    if len(text) > longest:
        raise fields.fault(key, f"has {len(text):,} characters", expected=f"at most {longest:,}")
    plain = text.replace("\n", "").replace("\t", "") if may_have_lines else text
    if not plain.isprintable():
        raise fields.fault(key, "has control characters, or others that cannot be seen")


def read_delegation(fields: Fields, inherited: Delegation) -> Delegation:
    """Return `directoryAccess`, with what it lacks taken from above. Raises UsageError."""
    given = fields.fields("directoryAccess")
    if given is None:
        return inherited
    given.require_known(DIRECTORY_ACCESS_KEYS)
    role = given.text("roleArn")
    if role is not None and parse_role_partition(role) is None:
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


# -- where the directories of a table are ------------------------------------------------------------------------------

_UNRESERVED = "!$&'()*+,;=:@-._~"
_AZURE = ("abfss", "abfs", "wasbs", "wasb", "az", "https")


class NoDirectory(ValueError):
    """A location that no credential can be given for. The message says why, without the location."""


def uri_of(location: Location) -> str:
    """Return the one URI of a directory that is announced, percent-encoded and without a slash at its end."""
    segments = (quote(segment, safe=_UNRESERVED, errors="surrogateescape") for segment in location.segments)
    return "/".join((f"{location.family}://{location.authority}", *segments))


def roots_of(table: SharedTable) -> tuple[Location, ...]:
    """Return the directory of a table, then its auxiliary ones. Raises NoDirectory."""
    places = (table.location, *table.auxiliary_locations)
    root, *others = (_directory(place, table.storage_options) for place in places)
    for other in others:
        if other.family != root.family or _account(other) != _account(root):
            raise NoDirectory("an auxiliary location is in another cloud or account than the table")
        if other.covers(root):
            raise NoDirectory("an auxiliary location is at or above the table")
    return root, *others


def _account(location: Location) -> str:
    return location.authority.rpartition("@")[2] if location.family == "abfss" else ""


def _directory(place: str, options: Mapping[str, str]) -> Location:
    """Return a location of the configuration, whose path is a key as it is stored, with the account of its options."""
    scheme, separator, rest = place.partition("://")
    if not separator or scheme.lower() == "file":
        raise NoDirectory("it is on a local disk, which has no credentials to give")
    if scheme.lower() in _AZURE:
        from deltacli.storage.azure.addresses import read_address
        from deltacli.storage.azure.options import read_azure_options

        address = read_address(place)
        read = read_azure_options(options, address)
        scheme = "abfss"
        rest = f"{address.container}@{read.account}.dfs.{read.suffix}/{address.root}"
    authority, _, path = rest.rstrip("/").partition("/")
    try:
        found = parse_location(f"{scheme}://{authority}/{quote(path, errors='surrogateescape')}")
    except ValueError as fault:
        raise NoDirectory(f"its location is not one of a cloud store that gives credentials: {fault}") from None
    if found.family == "file" or (found.family != "abfss" and found.authority != authority):
        raise NoDirectory("its location is not one of a cloud store that gives credentials")
    if not found.segments:
        raise NoDirectory("it is the root of a bucket or container, and a credential would be for all of that")
    return found


# -- why a table must not be given by directory ------------------------------------------------------------------------


def static_refusal(table: SharedTable) -> str | None:
    """Return why a table must not be given by directory, as far as the configuration shows it; None if it may, or if
    that is not configured.
    """
    if AccessMode.DIR not in table.access_modes:
        return "auxiliaryLocations needs accessModes with dir" if table.auxiliary_locations else None
    if not table.history_shared:
        return "historyShared is false, and its directory shows every version"
    if table.start_version:
        return f"startVersion is {table.start_version}, and its directory shows older versions, too"
    if table.is_feed_hidden:
        return "cdfEnabled is false, and its directory shows change data"
    try:
        roots = roots_of(table)
    except (NoDirectory, DeltacliError) as fault:
        return fault.message if isinstance(fault, DeltacliError) else str(fault)
    return next(_unfit(table, roots), None)


def _unfit(table: SharedTable, roots: tuple[Location, ...]) -> Iterator[str]:
    delegation = table.delegation
    for root in roots:
        path = "/".join(root.segments)
        match root.family:
            case "s3":
                partition = parse_role_partition(delegation.role_arn)
                if partition is None:
                    yield "no role is configured to make credentials with (directoryAccess: roleArn)"
                policy = build_session_policy(
                    root.authority, path, partition=partition or "aws", uses_kms=delegation.uses_kms
                )
                if len(policy) > MAX_POLICY_CHARACTERS:
                    yield f"its session policy has {len(policy):,} characters, and AWS allows {MAX_POLICY_CHARACTERS:,}"
                if any("endpoint" in name.lower() for name in table.storage_options) and not delegation.sts_endpoint:
                    yield "its store has an endpoint of its own, without a token service (directoryAccess: stsEndpoint)"
            case "gs":
                if len(build_boundary_expression(root.authority, path)) > MAX_EXPRESSION_CHARACTERS:
                    yield f"the condition of its credential has more than {MAX_EXPRESSION_CHARACTERS:,} characters"
