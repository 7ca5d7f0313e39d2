"""Logs without secrets: tokens, signatures and page tokens are removed from every line."""

from __future__ import annotations

import logging
import re
import traceback

from deltacli.storage.secrets import without_secrets

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


def scrub_handlers(*loggers: str) -> None:
    """Remove secrets from everything that the handlers of these loggers, and of the root, write."""
    for name in ("", *loggers):
        for handler in logging.getLogger(name or None).handlers:
            if not any(isinstance(one, Scrubbing) for one in handler.filters):
                handler.addFilter(Scrubbing())
