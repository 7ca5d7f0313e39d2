"""A log for shared files, which no server sends: one checkpoint per version, written in columns while the answer comes.

Spec: Checkpoints.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from deltacli.delta.checkpoint.content import Columns, checkpoint_schema, small_rows, struct_of_actions
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.file_actions import action_schemas, whole_actions
from deltacli.sharing.client.answers import AnswerHead
from deltacli.storage.disk_faults import writing_faults
from deltacli.work.checkpoints.writing import Encoding, FileEncoder

if TYPE_CHECKING:
    import pyarrow

_ACTIONS_A_BATCH = 8_192
_KINDS = ("add", "metaData", "protocol")
_SOURCE = "the answer of the sharing server"


class CheckpointOfAnswer:
    """Collects the adds of an answer and writes them to a file without a name."""

    def __init__(self, place: str, head: AnswerHead) -> None:
        self._schema = checkpoint_schema(Columns(), kinds=_KINDS)
        self._encoder = FileEncoder(place, self._schema, Encoding(), name="the list of shared files")
        self._pending: list[Action] = []
        small = [("protocol", head.delta_protocol), ("metaData", head.delta_metadata)]
        self._encoder.add_rows(small_rows(small, self._schema))

    def add(self, action: Action) -> None:
        """Add a file."""
        self._pending.append(action)
        if len(self._pending) >= _ACTIONS_A_BATCH:
            self._flush()

    def add_rows(self, rows: pyarrow.RecordBatch) -> None:
        """Add many files, in columns of adds."""
        self._flush()
        self._encoder.add("add", struct_of_actions(rows, self._schema.field("add").type, {}))

    def finish(self) -> int:
        """Write the rest and return the bytes of the checkpoint."""
        self._flush()
        return self._encoder.finish().size_bytes

    def close(self) -> None:
        """Release the file."""
        self._encoder.__exit__()

    def _flush(self) -> None:
        if self._pending:
            self._encoder.add("add", adds_of(self._pending, self._schema.field("add").type))
            self._pending = []


def adds_of(actions: list[Action], kind: Any) -> Any:  # Any: an Arrow struct type, a struct array
    """Return adds as found as the struct of a checkpoint. Raises CommitCorrupt."""
    rows: pyarrow.RecordBatch = whole_actions(actions, action_schemas().add, _SOURCE)
    return struct_of_actions(rows, kind, {})


@contextmanager
def hidden_file() -> Iterator[tuple[str, list[int]]]:
    """Yield the path of an empty file, and a list that has its open descriptor afterwards, when its name is gone."""
    with writing_faults(tempfile.gettempdir(), "a temporary file"):
        written, place = tempfile.mkstemp(prefix="deltacli-share-")
    os.close(written)
    opened: list[int] = []
    try:
        yield place, opened
        opened.append(os.open(place, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        with suppress(OSError):
            os.unlink(place)
