"""The log of the server on stderr: what it reloads, refuses and cannot do, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltacli.cli.options.run import Run

LOGGER = "deltacli.share"


def show_server_log(run: Run) -> None:
    """Show the log of the server as notes from now on; faults with their traces, `-q` shows nothing else."""
    import logging

    from deltacli.cli.terminal.libraries import capture_logging
    from deltacli.cli.terminal.term import say
    from deltacli.sharing.server.guarding.scrubbing import Scrubbing

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage() if not record.exc_text else f"{record.getMessage()}\n{record.exc_text}"
            if record.levelno >= logging.ERROR:
                say(f"error: {text}")
            else:
                run.note(text)

    capture_logging()
    logger = logging.getLogger(LOGGER)
    handler = Handler(logging.INFO)
    handler.addFilter(Scrubbing())
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
