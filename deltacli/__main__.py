"""`python -m deltacli` and the console script. It answers `--version` before imports that take time."""

from __future__ import annotations

import gc
import io
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line and exit with its exit code."""
    has_streams = None not in (sys.stdin, sys.stdout, sys.stderr)
    if has_streams and sys.argv[1:] in (["--version"], ["-V"]):
        from deltacli import __version__

        try:
            sys.stdout.write(f"deltacli {__version__}\n")
            sys.stdout.flush()
        except OSError:
            pass  # nobody reads, or the output cannot be written: the full code path reports it, with its exit code
        else:
            return
    if has_streams and sys.argv[1:2] == ["--table-words"] and len(sys.argv) > 2:
        from deltacli.cli.terminal.table_words import table_words

        sys.stdout.write("".join(f"{word}\n" for word in table_words(*sys.argv[2:])))
        _leave(0)
    if not has_streams or isinstance(sys.stdout.buffer, io.RawIOBase):
        from deltacli.cli.terminal.standard_streams import repair_standard_streams

        repair_standard_streams()
    # Imports and replay create many objects and few cycles: fewer collections save a tenth of the time, and no memory.
    gc.set_threshold(50_000, 20, 100)
    import signal

    from deltacli.core.optional_packages import leave_out_optional_packages

    leave_out_optional_packages()

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # During imports and after the run, Ctrl-C ends the process without a traceback. The run itself handles it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from deltacli.cli.app import run

    _leave(run(sys.argv[1:]))


def _leave(code: int) -> None:
    """End the process. Results are flushed before, so that a closed pipe is no error of the interpreter's end."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    sys.exit(code)


if __name__ == "__main__":
    main()
