"""Footers without files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from deltacli.delta.footers.parse import _CHUNK_PLACES, _PART_PLACES, Footer, GroupFacts, Shape, Values, _Plan


def footer_of(schema: bytes, groups: Sequence[GroupFacts]) -> Footer:
    """The footer of these row groups."""
    values: Values = [sum(group.rows for group in groups), len(groups), None, None]
    places = []
    for group in groups:
        open_at = len(values)
        values += [group.rows, len(group.chunks), None, None, *chain.from_iterable(group.chunks)]
        first = open_at + _PART_PLACES
        chunks = range(first, first + _CHUNK_PLACES * len(group.chunks), _CHUNK_PLACES)
        places.append((open_at, tuple(chunks), open_at))
    of_all = [chunk for group in groups for chunk in group.chunks]
    codecs = frozenset(chunk.codec for chunk in of_all)
    is_encrypted = any(chunk.is_encrypted for chunk in of_all)
    return Footer(schema, _Plan(Shape((), ()), tuple(places), 0, is_encrypted, codecs, b""), values)
