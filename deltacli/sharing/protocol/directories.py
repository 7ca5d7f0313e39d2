"""What is said about directories of shared tables: access modes, locations, temporary credentials; and about shares.

Each reader returns what it could use and, as named faults, what was wrong with the rest. The client raises for a fatal
fault, and `share test` reports all of them. No fault quotes a secret.

Spec: PROTOCOL.md of Delta Sharing, List Tables in a Schema; Generate Temporary Table Credential; List Shares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qs

from deltacli.core.typing import Json, JsonObject
from deltacli.storage.grants import Grant
from deltacli.storage.vended_locations import Location, parse_location

URL, DIRECTORY = "url", "dir"
MODES = (URL, DIRECTORY)
CREDENTIALS_PATH = "temporary-table-credentials"
MOST_CREDENTIAL_BYTES = 1 << 20
CLOUD_FAMILIES = frozenset({"s3", "gs", "abfss"})


class AccessFault(NamedTuple):
    """A deviation from the protocol. `rule`: its id in `share test` without `share.`; `is_fatal`: this is unusable."""

    rule: str
    message: str
    is_fatal: bool = True


Faults = tuple[AccessFault, ...]

# -- access modes and locations ----------------------------------------------------------------------------------------


class TableAccess(NamedTuple):
    """How a table may be read. `modes`: None where none are stated, which means `url`; empty where only unknown ones
    are. `location` and `auxiliary` are URIs as the server spells them, and were checked.
    """

    modes: frozenset[str] | None = None
    location: str | None = None
    auxiliary: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The modes that are stated and known, in the order of the protocol."""
        return tuple(mode for mode in MODES if self.modes is not None and mode in self.modes)

    @property
    def has_urls(self) -> bool:
        return self.modes is None or URL in self.modes

    @property
    def has_directory(self) -> bool:
        """Whether credentials for its directory are announced."""
        return self.modes is not None and DIRECTORY in self.modes

    def intersection(self, other: TableAccess) -> TableAccess:
        """Return what two answers agree on; the location and the auxiliary ones are those of this one, if stated."""
        modes = self.modes if other.modes is None else other.modes if self.modes is None else self.modes & other.modes
        return TableAccess(modes, self.location or other.location, self.auxiliary or other.auxiliary)


NOT_STATED = TableAccess()


def read_access(item: Mapping[str, Json]) -> tuple[TableAccess, Faults]:
    """Return the access modes and locations of an item of a list, or of `metaData`, and what is wrong with them."""
    modes, faults = _modes(item.get("accessModes"))
    location, more = _location(item.get("location"))
    faults += more
    if location is None and modes is not None and DIRECTORY in modes:
        faults += (AccessFault("access-location-missing", "access by directory is offered without location", False),)
    auxiliary, more = _auxiliary(item.get("auxiliaryLocations"), location)
    return TableAccess(modes, location, auxiliary), faults + more


def _modes(given: Json) -> tuple[frozenset[str] | None, Faults]:
    if given is None:
        return None, ()
    if not isinstance(given, list) or not all(isinstance(mode, str) for mode in given):
        return None, (AccessFault("access-modes-form", "accessModes is not an array of strings"),)
    names = [str(mode).lower() for mode in given]
    faults = list[AccessFault]()
    if not names or len(set(names)) < len(names):
        faults.append(AccessFault("access-modes-form", "accessModes is empty or has duplicates", False))
    if any(mode not in MODES for mode in given):
        faults.append(AccessFault("access-mode-unknown", "accessModes has a value other than url and dir", False))
    return frozenset(names) & set(MODES), tuple(faults)


def _location(given: Json) -> tuple[str | None, Faults]:
    if given is None:
        return None, ()
    rule = "access-location-form"
    found, problem = cloud_location(given)
    return (None, (AccessFault(rule, f"location: {problem}"),)) if found is None else (str(given), ())


def _auxiliary(given: Json, location: str | None) -> tuple[tuple[str, ...], Faults]:
    rule = "auxiliary-form"
    if given is None:
        return (), ()
    if not isinstance(given, list):
        return (), (AccessFault(rule, "auxiliaryLocations is not an array"),)
    kept, faults = list[str](), list[AccessFault]()
    root = None if location is None else parse_location(location)
    for uri in given:
        found, problem = cloud_location(uri)
        if found is None:
            faults.append(AccessFault(rule, f"auxiliaryLocations: {problem}"))
            continue
        if root is not None and found.covers(root):
            faults.append(AccessFault(rule, "an auxiliary location is at or above the location", False))
        kept.append(str(uri))
    return tuple(dict.fromkeys(kept)), tuple(faults)


def cloud_location(given: Json) -> tuple[Location | None, str]:
    """Return a URI of a directory in a cloud store as values, or None and what is wrong with it.

    One bucket alone is a location, too: only a server can know that it holds nothing else.
    """
    if not isinstance(given, str) or not given:
        return None, "not a string with a URI"
    try:
        found = parse_location(given)
    except ValueError as fault:
        return None, str(fault)
    return (found, "") if found.family in CLOUD_FAMILIES else (None, "not in a cloud store")


# -- temporary credentials ---------------------------------------------------------------------------------------------


class Cloud(NamedTuple):
    """A member of `credentials`: its store, its fields with their storage options, and those that may be missing."""

    family: str
    options: Mapping[str, str]
    optional: frozenset[str] = frozenset()


_AWS = {"accessKeyId": "key", "secretAccessKey": "secret", "sessionToken": "token"}
CLOUDS: Mapping[str, Cloud] = {
    "awsTempCredentials": Cloud("s3", _AWS),
    "azureUserDelegationSas": Cloud("abfss", {"sasToken": "sas_token"}),
    "gcpOauthToken": Cloud("gs", {"oauthToken": "access_token"}),
    "r2Credentials": Cloud("s3", _AWS, frozenset({"sessionToken"})),
}
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999."""
_SHORT_MS = 5 * 60_000
_LONGEST_MS: Mapping[str, int] = {"abfss": 7 * 86_400_000}
_USUAL_LONGEST_MS = 36 * 3_600_000
_SECRET = r"[\x21-\x7e]{1,65536}"
_TEXT_OF_INTEGER = r"-?\d{1,19}"


class VendedCredential(NamedTuple):
    """A checked answer. `member`: the cloud's name in it; `grant` has its location as the server spells it."""

    member: str
    grant: Grant

    def __repr__(self) -> str:
        return f"VendedCredential({self.member!r}, {self.grant!r})"


def read_credential(body: bytes, wanted: str | None, now_ms: int) -> tuple[VendedCredential | None, Faults]:
    """Return the credential of an answer, None where a fault is fatal, and what is wrong with the answer.

    `wanted` is the location that the grant has to cover, None where it is not known yet. `now_ms`: epoch milliseconds,
    by the clock of the server where it tells the time.
    """
    try:
        document = _one_document(body)
    except ValueError as fault:
        return None, (AccessFault("credential-answer", str(fault)),)
    given = document.get("credentials") if isinstance(document, dict) else None
    if not isinstance(given, dict):
        return None, (AccessFault("credential-answer", "the answer has no object 'credentials'"),)
    faults = list[AccessFault]()
    member, options = _cloud_of(given, faults)
    location = _granted(given.get("location"), wanted, member, faults)
    expires_ms = _expiry(given.get("expirationTime"), now_ms, member, faults)
    if member and location is not None:
        faults += _quality(member, options, location)
    if any(fault.is_fatal for fault in faults) or expires_ms is None:
        return None, tuple(faults)
    return VendedCredential(member, Grant(str(given["location"]), options, expires_ms)), tuple(faults)


def _one_document(body: bytes) -> Json:
    """Return the JSON document of an answer. Raises ValueError for anything but one without duplicate keys."""

    def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise KeyError
        return found

    if len(body) > MOST_CREDENTIAL_BYTES:
        raise ValueError(f"the answer has more than {MOST_CREDENTIAL_BYTES:,} bytes")
    try:
        document: Json = json.loads(body.decode(), object_pairs_hook=unique)
    except KeyError:
        raise ValueError("the answer has a key twice") from None
    except (ValueError, RecursionError):
        raise ValueError("the answer is not one JSON document") from None
    return document


def _cloud_of(given: JsonObject, faults: list[AccessFault]) -> tuple[str, dict[str, str]]:
    """Return the name of the one cloud member and its storage options, '' where there is no such member."""
    rule = "credential-one-cloud"
    names = [name for name in CLOUDS if given.get(name) is not None]
    if len(names) != 1:
        many = f"{len(names)} of {', '.join(CLOUDS)}" if names else f"none of {', '.join(CLOUDS)}"
        faults.append(AccessFault(rule, f"the credentials have {many}"))
        return "", {}
    cloud, fields, options = CLOUDS[names[0]], given[names[0]], dict[str, str]()
    for name, option in cloud.options.items():
        text = fields.get(name) if isinstance(fields, dict) else None
        if name in cloud.optional and text in (None, ""):
            continue
        if not isinstance(text, str) or not re.fullmatch(_SECRET, text):
            faults.append(AccessFault(rule, f"{name} of {names[0]} is missing, empty or not a printable string"))
        else:
            options[option] = text.removeprefix("?") if option == "sas_token" else text
    return names[0], options


def _granted(given: Json, wanted: str | None, member: str, faults: list[AccessFault]) -> Location | None:
    found, problem = cloud_location(given)
    if found is None:
        faults.append(AccessFault("credential-location", f"location of the credentials: {problem}"))
        return None
    if member and CLOUDS[member].family != found.family:
        faults.append(AccessFault("credential-cloud-fits", f"{member} does not fit {found.family}://"))
    if wanted is not None:
        asked = parse_location(wanted)
        if not found.covers(asked):
            faults.append(AccessFault("credential-location", "the credentials are for another directory"))
        elif found != asked:
            message = "the credentials are for a directory above the one asked for"
            faults.append(AccessFault("credential-broad", message, False))
    return found


def _expiry(given: Json, now_ms: int, member: str, faults: list[AccessFault]) -> int | None:
    rule = "credential-expiry"
    if isinstance(given, str) and re.fullmatch(_TEXT_OF_INTEGER, given):
        given = int(given)
    if type(given) is not int:
        faults.append(AccessFault(rule, "expirationTime is not a whole number of milliseconds"))
        return None
    if given <= now_ms:
        faults.append(AccessFault(rule, "expirationTime is in the past, or not in milliseconds"))
    elif given > LATEST_MS:
        faults.append(AccessFault(rule, "expirationTime is after the year 9999, or not in milliseconds"))
    elif given - now_ms > _LONGEST_MS.get(CLOUDS[member].family if member else "", _USUAL_LONGEST_MS):
        faults.append(AccessFault(rule, "the credentials are valid for longer than temporary ones are", False))
    elif given - now_ms < _SHORT_MS:
        faults.append(AccessFault("credential-short", "the credentials end in less than 5 minutes", False))
    return given


def _quality(member: str, options: Mapping[str, str], location: Location) -> Iterator[AccessFault]:
    """Yield what is wrong with credentials that can be used."""
    if options.get("key", "").startswith("AKIA"):
        yield AccessFault("credential-long-lived", f"{member} has a long-lived access key (AKIA…)", False)
    if CLOUDS[member].optional and "token" not in options:
        yield AccessFault("credential-long-lived", f"{member} has no session token", False)
    signature = options.get("sas_token")
    if signature is None:
        return
    if "&amp;" in signature or "#" in signature:
        yield AccessFault("credential-sas", "sasToken has escaped or other characters that no signature has")
        return
    given = {name: values[-1] for name, values in parse_qs(signature, keep_blank_values=True).items()}
    if "skoid" not in given:
        yield AccessFault("credential-long-lived", "sasToken is not signed with a user delegation key", False)
    wrong = {
        "sp": not set(given.get("sp", "x")) <= set("rle"),
        "sr": given.get("sr") != "d" and bool(location.segments),
        "sdd": given.get("sr") == "d" and given.get("sdd") != str(len(location.segments)),
        "spr": given.get("spr") != "https",
        "se": "ske" in given and given.get("se", "") > given["ske"],
    }
    for name in (name for name, is_wrong in wrong.items() if is_wrong):
        yield AccessFault("credential-sas", f"sasToken: {name} grants more than reading one directory by https", False)


# -- metadata of shares ------------------------------------------------------------------------------------------------

LONGEST_DISPLAY_NAME = 255
LONGEST_COMMENT = 65_536
MOST_PROPERTIES = 50
LONGEST_PROPERTY_NAME = 255
LONGEST_PROPERTY = 1_000


class ShareMetadata(NamedTuple):
    """What people are shown of a share. Texts are as the server sent them, cut at the limits of the protocol."""

    display_name: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] = {}


NOTHING_SHOWN = ShareMetadata()


def read_share_metadata(item: Mapping[str, Json]) -> tuple[ShareMetadata, Faults]:
    """Return the metadata of a share; what has another form is left out. No fault is fatal."""
    faults = list[AccessFault]()
    display_name = _text(item, "displayName", LONGEST_DISPLAY_NAME, faults)
    comment = _text(item, "comment", LONGEST_COMMENT, faults)
    given = item.get("properties")
    if given is None:
        return ShareMetadata(display_name, comment), tuple(faults)
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        faults.append(AccessFault("share-metadata-form", "properties is not a map of strings", False))
    pairs = [(key, value) for key, value in given.items() if isinstance(value, str)] if isinstance(given, dict) else []
    if len(pairs) > MOST_PROPERTIES or any(
        len(key) > LONGEST_PROPERTY_NAME or len(value) > LONGEST_PROPERTY for key, value in pairs
    ):
        limits = f"{MOST_PROPERTIES} pairs, {LONGEST_PROPERTY_NAME} and {LONGEST_PROPERTY:,} characters"
        faults.append(AccessFault("share-metadata-limits", f"properties exceeds {limits}", False))
    kept = {key[:LONGEST_PROPERTY_NAME]: value[:LONGEST_PROPERTY] for key, value in pairs[:MOST_PROPERTIES]}
    return ShareMetadata(display_name, comment, kept), tuple(faults)


def _text(item: Mapping[str, Json], name: str, longest: int, faults: list[AccessFault]) -> str | None:
    given = item.get(name)
    if given is None:
        return None
    if not isinstance(given, str):
        faults.append(AccessFault("share-metadata-form", f"{name} is not a string", False))
        return None
    if len(given) > longest:
        faults.append(AccessFault("share-metadata-limits", f"{name} exceeds {longest:,} characters", False))
    return given[:longest]
