"""Logs, warnings and traces of libraries: shown on stderr with `-vv` only, in `--log-format`, without secrets."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.term import say, visible
from deltacli.core.documents import dumps

if TYPE_CHECKING:
    import logging

_VERBOSE = 2
_handlers: list[logging.Handler] = []


@contextlib.contextmanager
def libraries_muted() -> Iterator[None]:
    """Keep libraries from writing to stderr during a run."""
    shown, traced = warnings.showwarning, threading.excepthook
    warnings.showwarning = _on_warning
    threading.excepthook = _on_thread
    try:
        yield
    finally:
        warnings.showwarning, threading.excepthook = shown, traced
        _release_logging()


def capture_logging() -> None:
    """Capture the logs of libraries from now on. Called before a library that logs is imported, because importing
    `logging` takes time.
    """
    import logging

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                text, trace = record.getMessage(), _trace(record.exc_info)
            except Exception as fault:  # noqa: BLE001  (a library may log arguments that do not fit its text)
                text, trace = f"{record.msg} ({type(fault).__name__})", ""
            show_library_message(record.levelname.lower(), record.name, f"{text}\n{trace}".rstrip())

    if not _handlers:
        _handlers.append(Handler())
        logging.getLogger().addHandler(_handlers[0])


def on_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Show an exception that was raised in a destructor, where nothing can catch it."""
    where = unraisable.err_msg or f"exception ignored in {unraisable.object!r}"
    trace = _trace((unraisable.exc_type, unraisable.exc_value, unraisable.exc_traceback))
    show_library_message("error", "python", f"{where}\n{trace}".rstrip())


def show_library_message(level: str, logger: str, text: str) -> None:
    """Write a message of a library, at `-vv`."""
    if invocation.verbosity < _VERBOSE:
        return
    from deltacli.storage.secrets import without_secrets

    safe = without_secrets(text)
    if invocation.log_is_json:
        say(dumps({"type": "log", "level": level, "logger": logger, "message": safe}).decode())
    else:
        say("\n".join(visible(line) for line in f"{level}: {logger}: {safe}".splitlines()))


def _release_logging() -> None:
    if _handlers:
        import logging

        logging.getLogger().removeHandler(_handlers.pop())


def _on_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    show_library_message("warning", category.__name__, str(message))


def _on_thread(arguments: threading.ExceptHookArgs) -> None:
    name = arguments.thread.name if arguments.thread is not None else "a thread"
    trace = _trace((arguments.exc_type, arguments.exc_value, arguments.exc_traceback))
    show_library_message("error", "python", f"exception in {name}\n{trace}".rstrip())


def _trace(exc_info: Any) -> str:  # Any: what `sys.exc_info` returns, or True
    if not isinstance(exc_info, tuple) or exc_info[0] is None:
        return ""
    import traceback

    return "".join(traceback.format_exception(*exc_info))
