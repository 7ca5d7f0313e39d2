"""Symlink manifests: the lists of data files that Athena, Redshift and Presto read instead of the log.

Engines write a file per partition below `_symlink_format_manifest`, with the URI of a data file per line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltacli.delta.paths import locate_all

MANIFESTS = "_symlink_format_manifest"


def named_by(manifest: bytes, uris: Iterable[str]) -> Sequence[set[str]]:
    """Return for each line of a manifest the paths below the table, which has these URIs, that it may mean.

    Engines write a line decoded or percent-encoded. One with another root, such as that of a mount, may mean any file
    whose path it ends with.
    """
    lines = [line for line in manifest.decode("utf-8", "surrogateescape").splitlines() if line]
    found = [set[str]() for _ in lines]
    for uri in uris:
        for spelled in ([line.replace("%", "%25") for line in lines], lines):
            for paths, path in zip(found, locate_all(spelled, uri), strict=True):
                if path is not None:
                    paths.add(path)
    return [paths or _ends_of(line) for line, paths in zip(lines, found, strict=True)]


def _ends_of(line: str) -> set[str]:
    parts = [part for part in line.split("/") if part]
    return {"/".join(parts[start:]) for start in range(len(parts))}
