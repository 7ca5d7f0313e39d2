"""Read log files as lines of JSON, as `log cat` prints them. Commits are unchanged.

The lines of a checkpoint come from `deltacli.work.checkpoints.raw_lines`, which needs Arrow.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deltacli.delta.log.actions import MAX_LINE_BYTES, kinds_of, line_too_long
from deltacli.delta.log.segment import LogFile
from deltacli.storage import ReadStorage
from deltacli.work.commits.reading import read_blocks

Kinds = frozenset[str] | None
"""The kinds of action to return; None: everything, unchanged."""


@dataclass(slots=True)
class SkippedLines:
    """Number of lines left out because they cannot be parsed."""

    lines: int = 0


def read_commit_lines(storage: ReadStorage, file: LogFile, kinds: Kinds, unjudged: SkippedLines) -> Iterator[bytes]:
    """Yield a commit of any size in blocks of whole lines: all lines, or the lines of the given kinds."""
    for block in split_at_line_ends(read_blocks(storage, file), None if kinds is None else file.name):
        chosen = block if kinds is None else select_lines(block, kinds, unjudged)
        if chosen:
            yield chosen


def split_at_line_ends(blocks: Iterable[bytes], name: str | None) -> Iterator[bytes]:
    """Split blocks at line ends. A line above the limit is yielded in pieces, or with `name` raises CommitCorrupt."""
    unfinished_line = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield unfinished_line + block[:end]
            unfinished_line = block[end:]
            continue
        # The block is in the middle of a line.
        unfinished_line += block
        if len(unfinished_line) > MAX_LINE_BYTES:
            if name is not None:
                raise line_too_long(name)
            yield unfinished_line
            unfinished_line = b""
    if unfinished_line:
        yield unfinished_line


def select_lines(block: bytes, kinds: frozenset[str], unjudged: SkippedLines) -> bytes:
    """Return the lines of a block with an action of these kinds, each unchanged, terminated by LF."""
    chosen = []
    for line in io.BytesIO(block):
        result = kinds_of(line)
        if result is None:
            unjudged.lines += 1
        elif not kinds.isdisjoint(result):
            chosen.append(line if line.endswith(b"\n") else line + b"\n")
    return b"".join(chosen)
