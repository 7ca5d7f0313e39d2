"""Batches of deletions: many requests in the parts of one, as Google and Azure take them. Spec: RFC 2046,
multipart/mixed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from deltacli.storage.objects.http import Answer, HttpFault

_BOUNDARY = "batch_deltacli"
_GIVEN_BOUNDARY = re.compile(r'boundary="?([^";]+)"?', re.IGNORECASE)
_NUMBER = re.compile(rb"content-id:[^\r\n]*?(\d+)>?[ \t]*\r?\n", re.IGNORECASE)
_ANSWER = re.compile(rb"HTTP/[\d.]+ (\d{3})[^\r\n]*\r?\n(.*?)\r?\n\r?\n", re.DOTALL)

BATCH_CONTENT_TYPE = f"multipart/mixed; boundary={_BOUNDARY}"


class BatchPart(NamedTuple):
    """The deletion of one object: its path with its parameters, and headers."""

    target: str
    headers: Mapping[str, str] = {}


def batch_of(parts: Sequence[BatchPart]) -> bytes:
    """Return the body of a batch of deletions."""
    texts = [
        f"--{_BOUNDARY}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
        f"Content-ID: {number}\r\n\r\nDELETE {part.target} HTTP/1.1\r\n"
        + "".join(f"{name}: {text}\r\n" for name, text in part.headers.items())
        + "\r\n"
        for number, part in enumerate(parts)
    ]
    return ("".join(texts) + f"--{_BOUNDARY}--\r\n").encode("ascii")


def faults_of(
    answer: Answer, keys: Sequence[str], deleted: int, fault_of: Callable[[Answer], HttpFault]
) -> dict[str, HttpFault | None]:
    """Return what an answer of a batch says about each key: None for the status `deleted`. Raises HttpFault for an
    answer that is none.
    """
    return {
        keys[number]: None if part.status == deleted else fault_of(part)
        for number, part in _answers_of(answer).items()
        if number < len(keys)
    }


def _answers_of(answer: Answer) -> Mapping[int, Answer]:
    """Return the answers of a batch by the number of their request. Raises HttpFault for an answer that is none."""
    kind = answer.headers.get("content-type", "")
    found = _GIVEN_BOUNDARY.search(kind)
    if found is None or not kind.lower().startswith("multipart/mixed"):
        raise answer.unexpected("no answer of a batch")
    answers: dict[int, Answer] = {}
    for part in answer.data.split(b"--" + found[1].encode()):
        number, inner = _NUMBER.search(part), _ANSWER.search(part + b"\r\n\r\n")
        if number and inner:
            answers[int(number[1])] = Answer(int(inner[1]), _headers(inner[2]), part[inner.end() :].strip())
    return answers


def _headers(text: bytes) -> dict[str, str]:
    lines = text.decode("latin-1").splitlines()
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}
