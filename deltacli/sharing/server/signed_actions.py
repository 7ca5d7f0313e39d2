"""File actions with URLs instead of paths, as lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from deltacli.sharing.protocol.file_lines import HASHES, IdHash, LineStyle, lines_of
from deltacli.sharing.server.ports import TableUrlSigner
from deltacli.sharing.tables.file_places import places_of
from deltacli.sharing.tables.shareable import vector_place, vectors_of
from deltacli.storage import Storage

if TYPE_CHECKING:
    import pyarrow

ROWS_A_STEP = 512
"""How many lines are made at a time: about 256 KiB, in 5 ms."""
CHUNK_BYTES = 64 << 10


class FileSource(NamedTuple):
    """The store that files are in, and who signs their URLs."""

    storage: Storage
    signer: TableUrlSigner


def sign_lines(source: FileSource, actions: pyarrow.RecordBatch, style: LineStyle) -> bytes:
    """Return the lines of file actions with URLs. Raises PathExternal for a file outside the table."""
    places = places_of(actions, source.storage)
    urls, expires_ms = source.signer.sign(places, style.expires_ms)
    if expires_ms != style.expires_ms:  # the credential was replaced by one that ends earlier
        style = replace(style, expires_ms=expires_ms)
    vectors = vectors_of(actions)
    if not vectors:
        return lines_of(style, actions, urls)
    changed, ids = _with_vector_urls(source, actions, style.expires_ms)
    return lines_of(style, changed, urls, ids)


def _with_vector_urls(
    source: FileSource, actions: pyarrow.RecordBatch, expires_ms: int
) -> tuple[pyarrow.RecordBatch, list[str | None]]:
    """Return actions whose deletion vectors are at URLs, and the ids of their files. Inline vectors are unchanged."""
    import pyarrow as pa

    vectors = vectors_of(actions)
    ids: list[str | None] = [None] * len(vectors)
    stored = [(row, found) for row, found in enumerate(vectors) if found is not None and found["storageType"] != "i"]
    places = [vector_place(descriptor, source.storage.uri) for _, descriptor in stored]
    urls = source.signer.sign(places, expires_ms).urls
    for (row, descriptor), place, url in zip(stored, places, urls, strict=True):
        vectors[row] = {**descriptor, "storageType": "p", "pathOrInlineDv": url}
        ids[row] = HASHES[IdHash.DELTA](place.encode("utf-8", "surrogateescape"))
    index = actions.schema.get_field_index("deletionVector")
    field = actions.schema.field(index)
    return actions.set_column(index, field, pa.array(vectors, field.type)), ids


def in_chunks(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in chunks of 64 KiB, except the last one."""
    held = bytearray()
    for part in parts:
        held += part
        end = len(held) - len(held) % CHUNK_BYTES
        for start in range(0, end, CHUNK_BYTES):
            yield bytes(held[start : start + CHUNK_BYTES])
        del held[:end]
    if held:
        yield bytes(held)
