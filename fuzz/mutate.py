"""Inputs out of real ones: bytes flipped, cut, doubled, spliced, and tokens put where values were."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

MAX_BYTES = 1 << 20

JSON_TOKENS: tuple[bytes, ...] = (
    b"null",
    b"true",
    b"NaN",
    b"-Infinity",
    b"0",
    b"-1",
    b"-0.0",
    b"1e400",
    b"1.5",
    b"2147483648",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"1" + b"0" * 5_000,
    b'""',
    b'"\\ud800"',
    b'"\\udc80\\ud800"',
    b'"\\u0000"',
    b'"\\u202e\\u001b[31m"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b"\xef\xbb\xbf",
    b"[]",
    b"{}",
    b"[null]",
    b"[[1,2]]",
    b'{"a":{"b":[1]}}',
    b"[" * 500 + b"]" * 500,
    b'{"a":' * 1_200 + b"1" + b"}" * 1_200,
    b"[" * 100_000,
    b'{"add":null}',
    b"\n",
    b"\r",
    b"\0",
    b",",
    b":",
    b'"',
    b"}",
    b"\xe2\x80\xa8",
)
"""Values and pieces that JSON readers have been known to disagree on."""

_SCALAR = re.compile(rb'"(?:[^"\\\n]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')
_NUMBER = re.compile(rb"[0-9]+")

Mutation = Callable[[random.Random, bytearray, Sequence[bytes], Sequence[bytes]], bytearray]


def mutate(rng: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """Return one new input: a seed with one to eight things done to it."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        data = rng.choice(_MUTATIONS)(rng, data, seeds, tokens)
    return bytes(data[:MAX_BYTES])


def _span(rng: random.Random, data: bytearray) -> tuple[int, int]:
    """A random stretch; short ones are as likely as long ones."""
    if not data:
        return 0, 0
    start = rng.randrange(len(data))
    return start, min(len(data), start + (1 << rng.randrange(0, max(len(data).bit_length(), 1))))


def _flip(rng: random.Random, data: bytearray, _s: Sequence[bytes], _t: Sequence[bytes]) -> bytearray:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def _overwrite(rng: random.Random, data: bytearray, _s: Sequence[bytes], _t: Sequence[bytes]) -> bytearray:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 0xFF, 0x7F, 0x80, rng.randrange(256)))
    return data


def _fill(rng: random.Random, data: bytearray, _s: Sequence[bytes], _t: Sequence[bytes]) -> bytearray:
    start, end = _span(rng, data)
    data[start:end] = bytes([rng.choice((0, 0xFF, rng.randrange(256)))]) * (end - start)
    return data


def _delete(rng: random.Random, data: bytearray, _s: Sequence[bytes], _t: Sequence[bytes]) -> bytearray:
    start, end = _span(rng, data)
    del data[start:end]
    return data


def _truncate(rng: random.Random, data: bytearray, _s: Sequence[bytes], _t: Sequence[bytes]) -> bytearray:
    return data[: rng.randrange(len(data) + 1)]


def _double(rng: random.Random, data: bytearray, _s: Sequence[bytes], _t: Sequence[bytes]) -> bytearray:
    start, end = _span(rng, data)
    times = rng.choice((1, 1, 2, 16, 256))
    if (end - start) * times <= 1 << 16:
        data[start:start] = data[start:end] * times
    return data


def _splice(rng: random.Random, data: bytearray, seeds: Sequence[bytes], _t: Sequence[bytes]) -> bytearray:
    other = rng.choice(seeds)
    start, end = _span(rng, data)
    cut = rng.randrange(len(other) + 1)
    data[start:end] = other[cut : cut + rng.choice((1, 8, 64, 512))]
    return data


def _insert_token(rng: random.Random, data: bytearray, _s: Sequence[bytes], tokens: Sequence[bytes]) -> bytearray:
    place = rng.randrange(len(data) + 1)
    data[place:place] = rng.choice(tokens)
    return data


def _replace_value(rng: random.Random, data: bytearray, _s: Sequence[bytes], tokens: Sequence[bytes]) -> bytearray:
    """Put a token, or another value of the same input, where a JSON value stands."""
    found = [match.span() for match in _SCALAR.finditer(data)]
    if not found:
        return data
    start, end = rng.choice(found)
    other = rng.choice(found)
    data[start:end] = rng.choice(tokens) if rng.random() < 0.7 else data[slice(*other)]
    return data


def _replace_number(rng: random.Random, data: bytearray, _s: Sequence[bytes], _t: Sequence[bytes]) -> bytearray:
    """Another number of as many digits, so that what is padded stays padded."""
    found = [span for span in (match.span() for match in _NUMBER.finditer(data)) if span[1] - span[0] < 4_000]
    if not found:
        return data
    start, end = rng.choice(found)
    digits = end - start
    value = rng.choice((0, 1, 2, rng.randrange(20), 2**31, 2**63 - 1, 2**63, 10**digits - 1)) % 10**digits
    data[start:end] = str(value).zfill(digits).encode()
    return data


_MUTATIONS: tuple[Mutation, ...] = (
    _flip,
    _overwrite,
    _fill,
    _delete,
    _truncate,
    _double,
    _splice,
    _insert_token,
    _insert_token,
    _replace_value,
    _replace_value,
    _replace_number,
)
