"""The log of the server, on stderr: a line per event, as text or as JSON."""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from multiprocessing import parent_process

from deltacli.storage.secrets import without_secrets

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


_BLANK = "…"
_TOKEN = re.compile(r"dct_[0-9A-Za-z]{4,}")
_BEARER = re.compile(r"(bearer\s+)[^\s\"',;]+", re.IGNORECASE)
_PARAMETER = re.compile(
    r"((?:sig|signature|pageToken|nextPageToken|refreshToken|token|x-amz-[a-z-]+|x-goog-[a-z-]+|se|sp)"
    r"(?:=|\"?\s*:\s*\"))[^&\s\"']+",
    re.IGNORECASE,
)


def scrubbed(text: str) -> str:
    """Return a text without bearer tokens, signatures, page tokens, credentials of stores, and control characters."""
    text = without_secrets(text)
    text = _PARAMETER.sub(rf"\1{_BLANK}", _BEARER.sub(rf"\1{_BLANK}", _TOKEN.sub(f"dct_{_BLANK}", text)))
    return "".join(character if character.isprintable() or character in "\n\t" else "?" for character in text)


class Scrubbing(logging.Filter):
    """Removes secrets from the records of a handler, tracebacks included."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # a faulty call of a library
            message = str(record.msg)
        record.msg, record.args = scrubbed(message), ()
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = scrubbed("".join(traceback.format_exception(*record.exc_info)).rstrip())
            record.exc_info = None
        return True
