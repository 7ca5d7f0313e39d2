"""Capture the log records, warnings and ignored exceptions of libraries.

Libraries such as the SDKs of object stores write to stderr by several ways. All of them are captured, so that secrets
can be masked, and are shown only with `-vv`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.characters import escape_control
from deltacli.cli.terminal.stderr import write_message
from deltacli.core.documents import dumps
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    import logging

_VERBOSE = 2
"""Minimum verbosity (`-vv`) at which messages of libraries are shown."""

_log_handlers: list[logging.Handler] = []
"""The handler that `capture_logging` added for this run. At most one."""


@contextlib.contextmanager
def mute_libraries() -> Iterator[None]:
    """Prevent libraries from writing to stderr while the context is open."""
    previous_showwarning = warnings.showwarning
    previous_excepthook = threading.excepthook
    warnings.showwarning = _show_warning
    threading.excepthook = _show_exception_of_thread
    try:
        yield
    finally:
        warnings.showwarning = previous_showwarning
        threading.excepthook = previous_excepthook
        if _log_handlers:
            import logging

            logging.getLogger().removeHandler(_log_handlers.pop())


def capture_logging() -> None:
    """Capture the log records of libraries. Call this before the first import of a library that uses `logging`."""
    # Most commands use no such library. Do not make them wait for the import of `logging`.
    import logging

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            try:
                text = record.getMessage()
                trace = _format_trace(record.exc_info)
            except Exception as error:  # noqa: BLE001  (the arguments of a record may not match its format string)
                text = f"{record.msg} ({type(error).__name__})"
                trace = ""
            show_library_message(record.levelname.lower(), record.name, f"{text}\n{trace}".rstrip())

    if not _log_handlers:
        handler = Handler()
        _log_handlers.append(handler)
        logging.getLogger().addHandler(handler)


def show_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Show an exception that Python ignored because it was raised in a destructor. See `sys.unraisablehook`."""
    message = unraisable.err_msg or f"exception ignored in {unraisable.object!r}"
    trace = _format_trace((unraisable.exc_type, unraisable.exc_value, unraisable.exc_traceback))
    show_library_message("error", "python", f"{message}\n{trace}".rstrip())


def show_library_message(level: str, logger: str, text: str) -> None:
    """Write a message of a library to stderr with masked secrets, if the verbosity is `-vv`."""
    if invocation.verbosity < _VERBOSE:
        return
    text = mask_secrets(text)
    if invocation.log_is_json:
        write_message(dumps({"type": "log", "level": level, "logger": logger, "message": text}).decode())
    else:
        lines = f"{level}: {logger}: {text}".splitlines()
        write_message("\n".join(map(escape_control, lines)))


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    show_library_message("warning", category.__name__, str(message))


def _show_exception_of_thread(arguments: threading.ExceptHookArgs) -> None:
    name = "a thread" if arguments.thread is None else arguments.thread.name
    trace = _format_trace((arguments.exc_type, arguments.exc_value, arguments.exc_traceback))
    show_library_message("error", "python", f"exception in {name}\n{trace}".rstrip())


_ExceptionInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


def _format_trace(exception: _ExceptionInfo | None) -> str:
    """Format the traceback of an exception from `sys.exc_info()`. Return "" if there is no exception."""
    if not isinstance(exception, tuple) or exception[0] is None:
        return ""
    import traceback

    return "".join(traceback.format_exception(*exception))
