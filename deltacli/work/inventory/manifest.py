"""Read the `manifest.json` of an S3 Inventory, and find the files that it names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from deltacli.core.errors import Unreadable
from deltacli.core.typing import Json
from deltacli.storage import PathKind, ReadStorage, Storage
from deltacli.work.inventory.columns import CODE
from deltacli.work.inventory.files import split_location

_S3 = re.compile(r"s3[an]?://([^/]+)/", re.IGNORECASE)
_PIECE_BYTES = 8 << 20


class ManifestFile(NamedTuple):
    """A file of an inventory: its key in the destination bucket. `size_bytes` and `md5` are None if not given."""

    key: str
    size_bytes: int | None
    md5: str | None


@dataclass(frozen=True)
class S3Manifest:
    """The contents of a `manifest.json`. `place` is where it was read, `columns` are the columns of CSV files."""

    place: str
    bucket: str
    format: str
    columns: tuple[str, ...]
    created_ms: int | None
    files: tuple[ManifestFile, ...]

    def find(self, file: ManifestFile, open_other: Callable[[str], Storage]) -> tuple[ReadStorage, str]:
        """Return the store that has a file, and its path there. Raises Unreadable with the locations tried.

        A manifest in the destination bucket has its files there. A copy of the manifest may have copies of the files
        next to it.
        """
        tried = []
        for directory, name in self._list_possible_locations(file.key):
            storage = open_other(directory)
            if storage.kind_of(name) is PathKind.FILE:
                return storage, name
            tried.append(f"{directory}/{name}")
        raise Unreadable(
            f"{self.place} names a missing file",
            code=CODE,
            facts={"file": file.key, "tried": ", ".join(tried)},
            hint="copy the files of the inventory to the directory data next to that of the manifest, as on S3",
        )

    def check(self, file: ManifestFile, storage: ReadStorage, name: str) -> None:
        """Raise Unreadable unless a file matches the manifest: its size, and its MD5 if given."""
        size = storage.stat(name).size_bytes
        if file.size_bytes is not None and size != file.size_bytes:
            raise self._make_mismatch_error(file, f"{file.size_bytes} bytes", f"{size} bytes")
        if file.md5 is None:
            return
        digest = hashlib.md5(usedforsecurity=False)
        with storage.open(name) as source:
            while piece := source.read(_PIECE_BYTES):
                digest.update(piece)
        if digest.hexdigest() != file.md5.lower():
            raise self._make_mismatch_error(file, file.md5, digest.hexdigest())

    def _list_possible_locations(self, key: str) -> Iterator[tuple[str, str]]:
        above, _, name = key.rpartition("/")
        in_bucket = f"s3://{self.bucket}/{above}".rstrip("/")
        s3 = _S3.match(self.place)
        if s3 and s3[1] == self.bucket:
            yield in_bucket, name
            return
        directory, _ = split_location(self.place)
        yield (f"{directory.rpartition('/')[0]}/data" if s3 else f"{directory}/../data"), name
        yield f"{directory}/data", name
        yield directory, name
        if s3:
            yield in_bucket, name

    def _make_mismatch_error(self, file: ManifestFile, expected: str, actual: str) -> Unreadable:
        return Unreadable(
            f"a file of the inventory does not match {self.place}",
            code=CODE,
            facts={"file": file.key, "expected": expected, "found": actual},
            hint="copy it again, or use the next inventory",
        )


def read_manifest(data: bytes, location: str) -> S3Manifest:
    """Return the contents of a manifest. Raises Unreadable if it is not a manifest, or lacks a required field."""
    try:
        manifest = orjson.loads(data)
        schema = manifest.get("fileSchema") or ""
        created = manifest.get("creationTimestamp")
        return S3Manifest(
            place=location,
            bucket=str(manifest["destinationBucket"]).rpartition(":")[2],
            format=str(manifest["fileFormat"]).lower(),
            columns=tuple(name.strip() for name in schema.split(",")),
            created_ms=None if created is None else int(created),
            files=tuple(map(_parse_manifest_file, manifest["files"])),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as fault:
        raise Unreadable(
            f"{location} is not a manifest of an S3 Inventory",
            code=CODE,
            facts={
                "reason": f"{type(fault).__name__}: {fault}"[:200],
                "expected": "fileFormat, files, destinationBucket, fileSchema",
            },
        ) from fault


def _parse_manifest_file(entry: Json) -> ManifestFile:
    size = entry.get("size")
    size_bytes = None if size is None else int(size)
    md5 = entry.get("MD5checksum")
    return ManifestFile(str(entry["key"]), size_bytes, str(md5) if md5 else None)
