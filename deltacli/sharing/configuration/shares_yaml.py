"""Read `shares.yaml` with its includes: what a sharing server shares, and how it serves it.

The keys are those of the server that the authors of the protocol publish, and some of our own; `keys.py` declares them.
Spec: none.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from pathlib import Path

from deltacli.sharing.configuration.directory_access import Inherited
from deltacli.sharing.configuration.fields import ConfigurationFile, Fields
from deltacli.sharing.configuration.keys import AUTHORIZATION_KEYS, FORMAT_VERSION, INCLUDED_KEYS, TOP_KEYS
from deltacli.sharing.configuration.server_settings import read_settings
from deltacli.sharing.configuration.settings import Configuration
from deltacli.sharing.configuration.shared_tables import CatalogReader, OpenStore
from deltacli.storage import open_storage
from deltacli.storage.secrets import remember_secrets


def read_configuration(
    path: Path | str, *, environment: Mapping[str, str] = os.environ, open_store: OpenStore | None = open_storage
) -> Configuration:
    """Return the checked configuration of a file and its includes. Without `open_store`, wildcards match nothing.

    Raises UsageError, which names file, line and key, and StorageFailed where the tables of a wildcard cannot be
    listed.
    """
    source = ConfigurationFile(Path(path), environment)
    top = source.read()
    top.require_known(TOP_KEYS)
    _require_version(top)
    reader = CatalogReader(open_store)
    above = Inherited(reader.options_of(top, {}))
    reader.add_shares(top, above)
    for included in _included(top):
        reader.add_shares(_read_included(included), above)
    token = _read_authorization(top)
    recipients = top.path("recipients")
    if token is None and recipients is None:
        source.note(top.line, "neither authorization nor recipients is set, so requests need no token")
    return Configuration(
        path=source.path,
        catalog=reader.catalog(),
        settings=read_settings(top),
        bearer_token=token,
        recipients_file=recipients,
        notes=tuple(source.notes),
        files=tuple(dict.fromkeys(source.files)),
        has_wildcards=reader.has_wildcards,
        lines=reader.lines,
    )


def remember_secrets_of(configuration: Configuration) -> None:
    """Mask the secrets of a configuration that another process has read in all later texts of this one."""
    remember_secrets({"bearer_token": configuration.bearer_token or ""})
    for share in configuration.catalog.shares:
        for schema in share.schemas:
            for options in {id(table.storage_options): table.storage_options for table in schema.tables}.values():
                remember_secrets(options)


def _require_version(fields: Fields) -> None:
    if "version" not in fields:
        raise fields.source.fault(fields.line, f"{fields.what} has no version", expected=f"version: {FORMAT_VERSION}")
    if (version := fields.whole("version", 0)) != FORMAT_VERSION:
        raise fields.fault("version", f"is {version}", expected=str(FORMAT_VERSION))


def _included(top: Fields) -> list[ConfigurationFile]:
    """Return the files that `include` names, in the order of the patterns and then by name. Raises UsageError."""
    found: list[Path] = []
    for pattern in top.texts("include"):
        place = top.source.place_of(pattern)
        matches = sorted(glob.glob(str(place))) if glob.has_magic(pattern) else [str(place)]
        found += map(Path, matches)
        if not matches:
            top.source.note(top.line_of("include"), f"no file matches {pattern!r}")
    return [top.source.other(path) for path in dict.fromkeys(found)]


def _read_included(source: ConfigurationFile) -> Fields:
    fields = source.read()
    if outside := next((key for key in fields if key in TOP_KEYS and key not in INCLUDED_KEYS), None):
        raise fields.fault(outside, "is allowed in the main file only", expected="version, shares, storageOptions")
    fields.require_known(INCLUDED_KEYS)
    _require_version(fields)
    return fields


def _read_authorization(top: Fields) -> str | None:
    """Return the token for everything, None where there is none. Raises UsageError."""
    fields = top.fields("authorization")
    if fields is None:
        return None
    fields.require_known(AUTHORIZATION_KEYS)
    token, is_clear = fields.secret("bearerToken")
    if token is None:
        raise fields.source.fault(fields.line, "authorization has no bearerToken")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise fields.fault("bearerToken", "is empty or has characters that a header cannot contain")
    if is_clear:
        message = "bearerToken is in clear text: anyone who can read the file can read every share"
        fields.source.note(fields.line_of("bearerToken"), message)
    remember_secrets({"bearer_token": token})
    return token
