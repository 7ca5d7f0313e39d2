"""The log of the server, on stderr: a line per event, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from multiprocessing import parent_process

from deltacli.sharing.server.guarding.scrubbing import Scrubbing

NAME = "deltacli.share"
"""The logger of everything in the server."""


class _Lines(logging.Formatter):
    """Formats events as text, with a traceback below where there is one, or as one JSON object. Where several processes
    answer, each event has the id of its process.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        level, message = record.levelname.lower(), record.getMessage()
        worker = record.process if parent_process() is not None else None
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        if not self._as_json:
            source = "" if worker is None else f"worker {worker}: "
            return f"{moment} {level} {source}{message}" + (f"\n{trace}" if trace else "")
        fields = {"type": "log", "time": moment, "level": level, "worker": worker, "message": message}
        fields["traceback"] = trace
        return json.dumps({name: value for name, value in fields.items() if value})


def log_to_stderr(*, as_json: bool = False, level: int = logging.INFO) -> None:
    """Write the events of the server from `level` on, and warnings of libraries, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(as_json=as_json))
    handler.addFilter(Scrubbing())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(NAME).setLevel(level)
