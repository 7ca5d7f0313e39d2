"""Who may read a version, and who may write the next one. Spec: Protocol Evolution; Table Features; Reader Version
Requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from deltacli.core.errors import ProtocolUnsupported, Refused
from deltacli.core.hints import command
from deltacli.delta.protocol.features import CATALOG_FEATURES, FEATURES

NEWEST_READER_VERSION = 3
READER_FEATURES_VERSION = 3
WRITER_FEATURES_VERSION = 7

_COMMIT_COORDINATOR = "delta.coordinatedCommits.commitCoordinator-preview"
_REDIRECTS = ("redirectReaderWriter-preview", "redirectWriterOnly-preview")
"Features, and with the prefix `delta.` the properties that name the target."


class Protocol(NamedTuple):
    """The protocol action of a version; feature lists are sorted, None where the action has none."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @property
    def supported_features(self) -> frozenset[str]:
        """Return every feature the table supports: the listed ones, and those its version numbers imply."""
        named = {*(self.reader_features or ()), *(self.writer_features or ())}
        implied = {
            feature.name
            for feature in FEATURES.values()
            if feature.legacy
            and self.min_writer_version < WRITER_FEATURES_VERSION
            and feature.legacy.writer <= self.min_writer_version
            and feature.legacy.reader <= self.min_reader_version
        }
        return frozenset(named | implied)

    @property
    def is_catalog_managed(self) -> bool:
        """Return True if newer commits may exist that only a catalog has."""
        return bool(self.supported_features & CATALOG_FEATURES)

    def as_json(self) -> dict[str, Any]:
        """Return the action as in the log, without absent lists, lists sorted."""
        document: dict[str, Any] = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
        }
        if self.reader_features is not None:
            document["readerFeatures"] = list(self.reader_features)
        if self.writer_features is not None:
            document["writerFeatures"] = list(self.writer_features)
        return document


def require_readable(protocol: Protocol, version: int) -> None:
    """Raise ProtocolUnsupported, naming every unsupported feature, unless deltacli can rebuild this version."""
    if not 1 <= protocol.min_reader_version <= NEWEST_READER_VERSION:
        raise _unsupported(
            version,
            f"needs reader version {protocol.min_reader_version}; deltacli reads 1 to {NEWEST_READER_VERSION}",
            code="protocol.version-out-of-range",
            facts={"protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"},
            hint=command("history"),
        )
    unknown = [name for name in protocol.reader_features or () if not (name in FEATURES and FEATURES[name].is_readable)]
    if unknown:
        listed = f"{'features' if len(unknown) > 1 else 'feature'} {', '.join(unknown)}"
        raise _unsupported(
            version,
            f"needs the reader {listed}, which deltacli cannot read",
            code="protocol.unknown-feature",
            facts={"readerFeatures": ", ".join(protocol.reader_features or ())},
            hint=command("explain"),
        )


def _unsupported(version: int, needs: str, *, code: str, facts: Mapping[str, str], hint: str) -> ProtocolUnsupported:
    fault = ProtocolUnsupported(f"version {version} {needs}", code=code, facts=facts, hint=hint)
    fault.version, fault.needs = version, needs
    return fault


def require_writable(protocol: Protocol, version: int) -> None:
    """Raise Refused, naming the obstacle, unless deltacli meets all requirements of this version for writers."""
    if not 1 <= protocol.min_writer_version <= WRITER_FEATURES_VERSION:
        raise Refused(
            f"version {version} needs writer version {protocol.min_writer_version}; "
            f"deltacli knows 1 to {WRITER_FEATURES_VERSION}",
            code="protocol.version-out-of-range",
            facts={"protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"},
            hint=command("snapshot"),
        )
    names = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    refused = [name for name in names if name not in FEATURES or not FEATURES[name].is_writable]
    if refused:
        listed = f"{'features' if len(refused) > 1 else 'feature'} {', '.join(refused)}"
        why = "cannot write" if FEATURES.keys() >= {*refused} else "does not know"
        raise Refused(
            f"version {version} has the writer {listed}, which deltacli {why}: it writes nothing to this table",
            code="protocol.unknown-feature",
            facts={"writerFeatures": ", ".join(protocol.writer_features or ())},
            hint=command("snapshot"),
        )


def require_derivable(protocol: Protocol, version: int) -> None:
    """Raise Refused unless deltacli may write files that follow from commits, such as checkpoints: every feature is
    recognized, and the numbers and lists are valid. Spec: Table Features.
    """
    require_writable(protocol, version)
    fault = _illegal(protocol)
    if fault is not None:
        code, seen = fault
        raise Refused(
            f"version {version} has a protocol that no writer may commit to: {seen}",
            code=code,
            facts={"protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"},
            hint=command("validate"),
        )


def require_committable(protocol: Protocol, properties: Mapping[str, str], version: int) -> None:
    """Raise Refused unless deltacli may write the commit after this version, which neither a catalog nor another table
    decides. Spec: Table Features; Catalog-managed tables.
    """
    require_derivable(protocol, version)
    if protocol.is_catalog_managed or properties.get(_COMMIT_COORDINATOR):
        catalogs = sorted(protocol.supported_features & CATALOG_FEATURES)
        raise Refused(
            f"version {version} is managed by a catalog, and only the catalog commits to this table",
            code="catalog.managed",
            facts={"because of": ", ".join(catalogs) or _COMMIT_COORDINATOR},
            hint="make the change through the catalog",
        )
    redirects = [name for name in _REDIRECTS if name in protocol.supported_features or properties.get(f"delta.{name}")]
    if redirects:
        raise Refused(
            f"version {version} redirects its writers to another table",
            code="table.redirected",
            facts={"because of": ", ".join(redirects)},
            hint=command("snapshot"),
        )


def _illegal(protocol: Protocol) -> tuple[str, str] | None:
    """Return the rule that numbers and lists violate together, and what was seen."""
    takes_reader_list = protocol.min_reader_version >= READER_FEATURES_VERSION
    takes_writer_list = protocol.min_writer_version >= WRITER_FEATURES_VERSION
    if takes_reader_list and not takes_writer_list:
        return "protocol.reader3-needs-writer7", f"reader 3 with writer {protocol.min_writer_version}"
    if takes_reader_list and protocol.reader_features is None:
        return "protocol.reader-features-missing", "reader 3 without readerFeatures"
    if takes_writer_list and protocol.writer_features is None:
        return "protocol.writer-features-missing", "writer 7 without writerFeatures"
    lonely = sorted({*(protocol.reader_features or ())} - {*(protocol.writer_features or ())})
    if lonely:
        return "protocol.reader-only-feature", f"{', '.join(lonely)} in readerFeatures alone"
    return None
