"""Any file system that fsspec knows: object stores, HDFS, SSH, its own `memory://`.

Credentials are the store's own chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

from deltacli.errors import FileMissing, PermissionRefused, StorageFailed, UsageError
from deltacli.storage.base import Capabilities, FileStat, PathKind

Answer = TypeVar("Answer")

EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
    "adl": "azure",
}
"""Scheme -> the extra of this package that brings its file system."""

_ALIASES = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names for the same store


class RemoteStorage:
    """Files below a URI of an fsspec file system, opened without its listing cache."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        import fsspec

        self._uri = uri.rstrip("/")
        scheme, _, rest = self._uri.partition("://")
        try:
            fsspec.get_filesystem_class(_ALIASES.get(scheme, scheme))
        except (ImportError, ValueError) as fault:
            raise _scheme_unavailable(scheme) from fault
        url = f"{_ALIASES.get(scheme, scheme)}://{rest}"
        self._fs, self._root = self._ask(
            lambda: fsspec.core.url_to_fs(url, **{"use_listings_cache": False, "skip_instance_cache": True, **options}),
            url,
        )
        self._root = self._root.rstrip("/")

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(cheap_listing=False, parallel_reads=True)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        place = self._at(directory)
        entries = self._ask(lambda: self._fs.ls(place, detail=True), place)
        files = {entry["name"].rstrip("/").rsplit("/", 1)[-1]: entry for entry in entries if entry["type"] == "file"}
        for name in sorted(files):
            if name >= start:
                yield FileStat(name, int(files[name]["size"] or 0), _modified_ms(files[name]))

    def list_directories(self, directory: str) -> list[str]:
        place = self._at(directory)
        entries = self._ask(lambda: self._fs.ls(place, detail=True), place)
        return sorted(entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in entries if entry["type"] == "directory")

    def read(self, path: str) -> bytes:
        place = self._at(path)
        return bytes(self._ask(lambda: self._fs.cat_file(place), place))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        place = self._at(path)
        return bytes(self._ask(lambda: self._fs.cat_file(place, start=offset, end=offset + length), place))

    def open(self, path: str) -> Any:
        place = self._at(path)
        return self._ask(lambda: self._fs.open(place, "rb"), place)

    def kind_of(self, path: str) -> PathKind:
        place = self._at(path)
        try:
            entry = self._ask(lambda: self._fs.info(place), place)
        except FileMissing:
            return PathKind.MISSING
        return PathKind.DIRECTORY if entry["type"] == "directory" else PathKind.FILE

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _ask(self, call: Callable[[], Answer], place: str) -> Answer:
        """Make one call of the file system and turn its faults into ours."""
        try:
            return call()
        except FileNotFoundError as fault:
            raise FileMissing(f"{place} does not exist") from fault
        except PermissionError as fault:
            raise PermissionRefused(
                f"{place} can't be read: the store refuses access", facts={"store says": str(fault)}
            ) from fault
        except (OSError, TimeoutError) as fault:
            raise StorageFailed(
                f"{place} can't be read", facts={"store says": str(fault) or type(fault).__name__}
            ) from fault


def _modified_ms(entry: Mapping[str, Any]) -> int:
    """The modification time under whichever of its usual names a file system gives it, or 0."""
    for key in ("LastModified", "last_modified", "mtime", "modified", "updated", "created"):
        value = entry.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return 0


def _scheme_unavailable(scheme: str) -> UsageError:
    if scheme in EXTRAS:
        extra = EXTRAS[scheme]
        return UsageError(
            f"{scheme}:// needs the extra {extra!r}, which is not installed",
            code="usage.missing-extra",
            hint=f"pip install 'deltacli[{extra}]'",
        )
    return UsageError(
        f"the scheme {scheme}:// is not supported",
        code="usage.scheme",
        facts={
            "supported": "a path, file://, memory://, s3://, gs://, abfss://, "
            "and whatever fsspec has an installed file system for"
        },
    )
