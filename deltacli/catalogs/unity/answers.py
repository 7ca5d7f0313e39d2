"""Answers of a Unity Catalog as values, each checked: tables, ratified commits, credentials.

Spec: Unity Catalog API, loadTable, credentials; Catalog-managed tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import orjson

from deltacli.catalogs.base import SHOWN, CatalogTable, Maintenance, Ratified, TableName, invalid
from deltacli.catalogs.lockstep import CLUSTERING, MANAGED, PREVIEW, ROW_TRACKING, WIRE_KEYS, is_synthetic
from deltacli.core.errors import CatalogAnswerInvalid, CatalogDenied
from deltacli.core.typing import Json, JsonObject
from deltacli.storage.grants import Grant
from deltacli.storage.secrets import remember_secrets

_FEATURE = "delta.feature."
_HIGH_WATER_MARK = "rowIdHighWaterMark"
_LARGEST = (1 << 63) - 1
_DEEPEST = 200
"""Levels of objects and lists of a schema."""

_CAMEL = {wire: key for key, wire in WIRE_KEYS.items()}


def table_of(name: TableName, answer: JsonObject, *, is_local: bool) -> CatalogTable:
    """Return the table of an answer of the Delta API. `is_local`: the catalog is on this machine, so that paths of its
    answers are paths here. Raises CatalogAnswerInvalid.
    """
    metadata = answer.get("metadata")
    if not isinstance(metadata, dict):
        raise invalid(name, "metadata is missing", metadata)
    found = properties_of(name, metadata.get("properties"))
    partitions = metadata.get("partition-columns")
    if partitions is not None and not _are_texts(partitions):
        raise invalid(name, "partition-columns is not a list of names", partitions)
    is_managed, latest = is_managed_by(found), None
    commits: tuple[Ratified, ...] = ()
    if is_managed:
        latest = latest_of(name, answer.get("latest-table-version"))
        commits = commits_of(name, answer.get("commits"))
    elif answer.get("commits"):
        raise invalid(name, f"it has commits that may not be published, and no feature {MANAGED}")
    return CatalogTable(
        name=name,
        uuid=text_of(name, metadata, "table-uuid"),
        location=location_of(name, metadata.get("location"), is_local=is_local),
        is_managed=is_managed,
        table_type=_text(metadata.get("table-type")),
        latest=latest,
        commits=commits,
        permissions=_permissions(answer.get("allowed-maintenance-operations")),
        columns=columns_of(name, metadata.get("columns")),
        partition_columns=None if partitions is None else tuple(partitions),
        properties={key: value for key, value in found.items() if not is_synthetic(key)},
        features=features_of(found),
        domains=_domains(found),
        has_uniform=answer.get("uniform") is not None,
    )


def is_managed_by(properties: Mapping[str, str]) -> bool:
    """Return whether properties say that the catalog decides the versions."""
    return any(properties.get(_FEATURE + feature) == "supported" for feature in (MANAGED, PREVIEW))


def features_of(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the features that properties list as supported."""
    return frozenset(
        key.removeprefix(_FEATURE)
        for key, value in properties.items()
        if key.startswith(_FEATURE) and value == "supported"
    )


def properties_of(name: TableName, found: Json) -> dict[str, str]:
    """Return the properties of a table. Raises CatalogAnswerInvalid."""
    if found is None:
        return {}
    if not isinstance(found, dict) or not _are_texts([*found.values()]):
        raise invalid(name, "properties is not an object with texts")
    return found


def _domains(properties: Mapping[str, str]) -> dict[str, JsonObject]:
    """Return the domains that a catalog shows as properties."""
    domains: dict[str, JsonObject] = {}
    clustering = properties.get("delta.clusteringColumns", properties.get("clusteringColumns"))
    mark = properties.get(f"{ROW_TRACKING}.{_HIGH_WATER_MARK}")
    for domain, field, text, kind in (
        (CLUSTERING, "clusteringColumns", clustering, list),
        (ROW_TRACKING, _HIGH_WATER_MARK, mark, int),
    ):
        try:
            value = None if text is None else orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(value, kind):
            domains[domain] = {field: value}
    return domains


def _permissions(found: Json) -> frozenset[Maintenance] | None:
    """Return what is permitted: known names of a list; anything else names nothing."""
    if not isinstance(found, list):
        return None
    return frozenset(one for one in Maintenance if one.value in [each for each in found if isinstance(each, str)])


def columns_of(name: object, found: Json) -> Json:
    """Return a schema of the wire in the spelling of the log; None without columns: some servers send an empty schema
    where they cannot read their own.
    """
    if found is None:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("fields"), list):
        raise invalid(name, "columns is not a struct")
    try:
        return _in_camel_case(found) if found["fields"] else None
    except RecursionError:
        raise invalid(name, "columns are nested too deep") from None


def _in_camel_case(kind: Json, left: int = _DEEPEST) -> Json:
    """Return a type with the keys of the log; metadata stays as it is. Raises RecursionError for deep nesting."""
    if not left:
        raise RecursionError
    if isinstance(kind, str):
        return kind.replace(" ", "") if kind.startswith("decimal") else kind
    if isinstance(kind, list):
        return [_in_camel_case(one, left - 1) for one in kind]
    if not isinstance(kind, dict):
        return kind
    return {
        _CAMEL.get(key, key): value if key in ("metadata", "name") else _in_camel_case(value, left - 1)
        for key, value in kind.items()
    }


# -- ratified commits --------------------------------------------------------------------------------------------------


def latest_of(name: TableName, found: Json) -> int:
    """Return the newest ratified version. Raises CatalogAnswerInvalid."""
    if found is None:
        raise invalid(name, "latest-table-version is missing")
    return _number(name, "the latest version", found)


def commits_of(name: TableName, found: Json, spelled: str = "-") -> tuple[Ratified, ...]:
    """Return the ratified commits of a list, ascending, each with its fields. `spelled`: what is between the words of
    keys. Raises CatalogAnswerInvalid.
    """
    if found is None:
        return ()
    if not isinstance(found, list):
        raise invalid(name, "commits is not a list")
    file_key, *keys = (key.replace("-", spelled) for key in ("file-name", "file-size", "file-modification-timestamp"))
    commits = []
    for one in found:
        if not isinstance(one, dict):
            raise invalid(name, "a commit is not an object", one)
        version = _number(name, "the version of a commit", one.get("version"))
        if (file := one.get(file_key)) is None:
            raise CatalogAnswerInvalid(
                f"{name}: version {version} is an inline commit in the catalog, which is not supported",
                code="catalog.inline-commit",
            )
        if not isinstance(file, str):
            raise invalid(name, f"the file name of version {version} is not a text", file)
        size, modified, at = (
            _number(name, f"{key} of version {version}", one.get(key)) for key in (*keys, "timestamp")
        )
        commits.append(Ratified(version, file, size, modified, at))
    return tuple(sorted(commits))


def _number(name: TableName, what: str, found: Json) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= _LARGEST:
        raise invalid(name, f"{what} is not an integer between 0 and 2^63", found)
    return found


def text_of(name: TableName, found: JsonObject, key: str) -> str:
    """Return a text that must be there. Raises CatalogAnswerInvalid."""
    text = found.get(key)
    if not isinstance(text, str) or not text:
        raise invalid(name, f"{key} is missing", text)
    return text


def _text(found: Json) -> str:
    return found if isinstance(found, str) else ""


def _are_texts(found: Json) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


# -- locations and credentials -----------------------------------------------------------------------------------------

_CLOUDS: Mapping[str, str] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("abfss", "abfs", "wasbs", "wasb"), "azure"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    "file": "file",
}
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "s3": {"s3.access-key-id": "key", "s3.secret-access-key": "secret", "s3.session-token": "token"},
    "azure": {"azure.sas-token": "sas_token"},
    "gcs": {"gcs.oauth-token": "access_token"},
    "file": {},
}
_OPTIONAL = frozenset({"s3.session-token"})


def location_of(name: object, found: Json, *, is_local: bool) -> str:
    """Return the location of a table as a URI in one spelling, without a last slash: absolute, of a known store, below
    its root. Raises CatalogAnswerInvalid.
    """
    if not isinstance(found, str) or not found.isprintable():
        raise invalid(name, "location is missing", found)
    uri = _plain_uri(found)
    scheme, _, rest = uri.partition("://")
    holder, _, path = rest.partition("/")
    if scheme not in _CLOUDS:
        raise invalid(name, "location is in an unknown store", found)
    if any(segment in (".", "..") for segment in unquote(path).split("/")) or "?" in uri or "#" in uri:
        raise invalid(name, "location is not a plain directory", found)
    if not path or (scheme == "file") == bool(holder):
        raise invalid(name, "location is the root of a store", found)
    if scheme == "file" and not is_local:
        raise CatalogAnswerInvalid(
            f"{name}: the location is on a disk of the catalog, which runs on another machine",
            facts={"location": found[:SHOWN]},
            hint="open the table by its path, where the disk is mounted here",
        )
    return uri


def _plain_uri(text: str) -> str:
    """Return a URI with one of its schemes, `file:///x` for paths, and without a last slash."""
    if text.startswith("/"):
        text = f"file://{text}"
    local = re.match(r"(?i)file:(?://(?=/))?(?=/)", text)
    if local is not None:
        text = f"file:///{text[local.end() :].lstrip('/')}"
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    return f"{'s3' if _CLOUDS.get(scheme) == 's3' else scheme}{separator}{rest}".rstrip("/")


def grant_of(name: TableName, location: str, found: Json) -> Grant:
    """Return the credentials of the longest covering prefix. Raises CatalogDenied without any, CatalogAnswerInvalid."""
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise invalid(name, "storage-credentials is not a list of objects")
    prefixes = [_plain_uri(one["prefix"]) if isinstance(one.get("prefix"), str) else "" for one in found]
    covering = [
        (prefix, one) for prefix, one in zip(prefixes, found, strict=True) if prefix and _covers(prefix, location)
    ]
    if not covering:
        raise CatalogDenied(
            f"{name}: the catalog gave no credentials for the location of the table",
            facts={"location": location, "credentials for": ", ".join(filter(None, prefixes))[:SHOWN] or "nothing"},
        )
    prefix, one = max(covering, key=lambda pair: len(pair[0]))
    return made_grant(name, location, prefix, one.get("config"), one.get("expiration-time-ms"))


def made_grant(name: TableName, location: str, prefix: str, config: Json, expires: Json) -> Grant:
    """Return the grant of credentials with the keys of the Delta API. Raises as `grant_of` does."""
    cloud = _CLOUDS[urlsplit(location).scheme]
    given = {} if config is None else config
    if not isinstance(given, dict) or not _are_texts([*given.values()]):
        raise invalid(name, "config of credentials is not an object with texts")
    others = [key for key in given if key.partition(".")[0] in _OPTIONS and key.partition(".")[0] != cloud]
    if others:
        raise invalid(name, f"the credentials are for another store than that of {location}", sorted(others))
    wanted = _OPTIONS[cloud]
    if missing := [key for key in wanted if not given.get(key) and key not in _OPTIONAL]:
        raise CatalogDenied(f"{name}: the catalog's credentials have no {missing[0]}", facts={"location": location})
    if expires is not None and (not isinstance(expires, int) or isinstance(expires, bool) or abs(expires) > _LARGEST):
        raise invalid(name, "expiration-time-ms of credentials is not an integer", expires)
    options = {option: given[key] for key, option in wanted.items() if given.get(key)}
    remember_secrets({f"secret_{option}": value for option, value in options.items()})
    return Grant(prefix, options, expires)


def _covers(prefix: str, location: str) -> bool:
    return f"{location}/".startswith(f"{prefix}/")
