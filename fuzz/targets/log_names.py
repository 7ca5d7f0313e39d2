"""Names of log files and paths of data files: a listing, one name a line."""

from __future__ import annotations

import contextlib

import pyarrow as pa

from deltacli.core.errors import DeltacliError
from deltacli.delta.log.segment import LogFileKind, choose_segment, make_log_file, parse_log_path, read_listing
from deltacli.delta.paths.spelling import canonicalize_path, decode
from deltacli.delta.paths.spelling_columns import canonicalize_paths, decode_column
from fuzz.mutate import JSON_TOKENS
from fuzz.targets.collect import collect
from tests.support import strategies as some

TOKENS = (
    *JSON_TOKENS,
    b"00000000000000000000.json",
    b"\n00000000000000000003.checkpoint.parquet",
    b"\n00000000000000000003.checkpoint.0000000001.9999999999.parquet",
    b"\n00000000000000000003.checkpoint.0000000001.0000000001.parquet",
    b"\n00000000000000000003.checkpoint.0000000000.0000000000.parquet",
    b"\n09223372036854775807.checkpoint.parquet",
    b"\n09223372036854775808.json",
    "\n٠٠000000000000000003.json".encode(),
    b"%",
    b"%25",
    b"%00",
    b"%ff",
    b"%C3%A9",
    b"..",
    b"/./",
    b"//",
    b"file:///",
    b"S3A://b//",
)


def seeds() -> list[bytes]:
    """Listings of whole logs, of logs with holes and junk, and spellings of paths."""
    logs = collect(some.any_logs(), 60)
    names = ["\n".join(path.removeprefix("_delta_log/") for path in log.files) for log in logs]
    paths = ["\n".join(collect(some.paths(), 60))]
    return [text.encode() for text in names + paths]


def test_one_input(data: bytes) -> None:
    """Names are read or passed over; a segment is a checkpoint and all commits after it; columns decode like values."""
    names = data.decode("utf-8", "surrogateescape").split("\n")
    _check_listing(names)
    _check_paths([name for name in names if _is_text(name)])
    for name in names:
        canonicalize_path(name)
        decode(name)


def _check_listing(names: list[str]) -> None:
    files = [make_log_file(name, len(name) % 3, 0) for name in names]
    for name in names:
        found = parse_log_path(name)
        if found.kind is LogFileKind.COMMIT and name != f"{found.version:020d}.json":
            raise AssertionError(f"{name!r} is read as commit {found.version}")
    listing = read_listing(files)
    reachable = listing.reconstructable
    if reachable != sorted(set(reachable)):
        raise AssertionError(f"{reachable} is not ascending")
    for version in {None, 0, 3, listing.newest_version, *reachable[-3:]}:
        segment = None
        with contextlib.suppress(DeltacliError):
            segment = choose_segment(listing, version)
        if segment is None and version in reachable:
            raise AssertionError(f"version {version} is called reconstructable, and is not rebuilt")
        if segment is not None:
            start = segment.checkpoint.version + 1 if segment.checkpoint else 0
            if [file.version for file in segment.commits] != list(range(start, segment.version + 1)):
                raise AssertionError(f"a hole in {segment}")


def _check_paths(paths: list[str]) -> None:
    column = pa.array(paths, pa.string())
    for whole, one in ((canonicalize_paths, canonicalize_path), (decode_column, decode)):
        expected = [one(path).encode("utf-8", "surrogateescape") for path in paths]
        found = whole(column).to_pylist()
        if expected != found:
            raise AssertionError(f"{one.__name__}: {expected!r} one by one, {found!r} as a column")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
