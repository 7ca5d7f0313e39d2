"""The corpus of real tables and its manifest: found, unpacked once, and put into the words of a snapshot document.

Without it, each function here skips the test that calls it, or the module that calls it while it is imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.material import CORPUS

ARCHIVE = "corpus.tar.zst"
MANIFEST = "manifest.json"

Document = dict[str, Any]  # Any: JSON values


@dataclass(frozen=True)
class CorpusTable:
    """One table of the manifest."""

    entry: Document

    @property
    def id(self) -> str:
        return str(self.entry["id"])

    @property
    def versions(self) -> list[Document]:
        """One entry per version that the manifest knows the state of, ascending."""
        return list(self.entry.get("versions", []))

    @property
    def history(self) -> list[Document]:
        """One entry per readable commit file, ascending."""
        return list(self.entry.get("history", []))

    @property
    def newest(self) -> Document | None:
        """The entry of the newest version that can be rebuilt."""
        return next((found for found in self.versions if found["version"] == self.entry.get("latest_version")), None)

    def path(self, root: Path) -> Path:
        """Where the table lies in the unpacked corpus."""
        return root / str(self.entry["dir"])

    def facts(self, version: Document) -> Document:
        """What the manifest says about a version: its own names, with protocol and metadata looked up."""
        found = {name: version[name] for name in FACTS if name in version and name not in self.undefined}
        if version.get("protocol") is not None:
            found["protocol"] = _protocol(self.entry["protocols"][version["protocol"]])
        if version.get("metadata") is not None:
            found["metadata"] = self.entry["metadatas"][version["metadata"]]
        return found

    @property
    def undefined(self) -> list[str]:
        """Facts that the protocol leaves open for this table."""
        return list(self.entry.get("undefined_facts", []))


FACTS = (
    "base_checkpoint",
    "live_files",
    "live_bytes",
    "live_paths_sha256",
    "live_raw_paths_sha256",
    "live_keys_sha256",
    "files_with_dv",
    "dv_cardinality",
    "num_records",
    "files_without_num_records",
    "rows",
    "tombstones",
    "tombstone_keys_sha256",
    "txn",
    "domains",
)


def facts_of_snapshot(document: Document, names: list[str]) -> Document:
    """The same facts out of a snapshot document, reduced to `names`."""
    files, tombstones, metadata = document["files"], document["tombstones"], document["metadata"]
    schema = metadata.get("schemaString")
    checkpoint = document["logSegment"].get("checkpoint")
    schema_text = (
        None
        if schema is None
        else json.dumps(json.loads(schema), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    )
    found = {
        "base_checkpoint": checkpoint["version"] if checkpoint else None,
        "live_files": files["count"],
        "live_bytes": files["sizeBytes"],
        "live_paths_sha256": files["pathsSha256"],
        "live_raw_paths_sha256": files["rawPathsSha256"],
        "live_keys_sha256": files["keysSha256"],
        "files_with_dv": files["deletionVectors"]["count"],
        "dv_cardinality": files["deletionVectors"]["deletedRows"],
        "num_records": files["records"],
        "files_without_num_records": files["filesWithoutRecords"],
        "rows": files["rows"],
        "tombstones": tombstones["count"],
        "tombstone_keys_sha256": tombstones["keysSha256"],
        "txn": {transaction["appId"]: transaction["version"] for transaction in document["transactions"]},
        "domains": {domain["domain"]: domain["configuration"] for domain in document["domains"]},
        "protocol": _protocol(document["protocol"]),
        "metadata": {
            "id": metadata["id"],
            "name": metadata.get("name"),
            "description": metadata.get("description"),
            "provider": metadata["format"]["provider"],
            "format_options": metadata["format"]["options"],
            "partitionColumns": metadata["partitionColumns"],
            "configuration": metadata["configuration"],
            "createdTime": metadata.get("createdTime"),
            "schema": schema_text,
            "schema_sha256": None if schema_text is None else hashlib.sha256(schema_text.encode()).hexdigest(),
        },
    }
    return {name: found[name] for name in names}


def facts_of_history(items: list[Document]) -> list[Document]:
    """The items of a history document (newest first) in the words of the manifest, oldest first."""
    return [
        {
            "version": item["version"],
            "has_commit_info": item["hasCommitInfo"],
            "operation": item.get("operation"),
            "timestamp": item.get("commitInfoTimestampMs"),
            "in_commit_timestamp": item.get("inCommitTimestampMs"),
            "engine_info": item.get("engineInfo"),
            "actions": item["actions"],
        }
        for item in reversed(items)
    ]


@lru_cache(maxsize=1)
def tables() -> tuple[CorpusTable, ...]:
    """Every table of the manifest."""
    manifest = CORPUS.require() / MANIFEST
    return tuple(CorpusTable(entry) for entry in json.loads(manifest.read_bytes())["tables"])


def table(name: str) -> CorpusTable:
    """The table with an id."""
    (found,) = (one for one in tables() if one.id == name)
    return found


@lru_cache(maxsize=1)
def unpacked() -> Path:
    """The root of the corpus, unpacked by whichever process comes first. Nobody may write below it."""
    archive = CORPUS.require() / ARCHIVE
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    place = Path(tempfile.gettempdir()) / f"deltacli-corpus-{os.getuid()}-{digest}"
    if not place.is_dir():
        building = Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))
        with (
            pa.OSFile(str(archive), "rb") as packed,
            pa.CompressedInputStream(packed, "zstd") as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            tar.extractall(building, filter="data")
        try:
            building.rename(place)
        except OSError:  # another process was faster
            shutil.rmtree(building)
    return place


def _protocol(action: Document) -> Document:
    """A protocol with its feature lists sorted, and null where the log has none."""
    names = ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures")
    return {name: sorted(value) if isinstance(value := action.get(name), list) else value for name in names}
