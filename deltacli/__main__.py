"""`python -m deltacli` and the console script; answers `--version` before anything heavy is imported."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from deltacli.cli.streams import mend_standard_streams

        mend_standard_streams()
    elif sys.argv[1:] in (["--version"], ["-V"]):
        from deltacli import __version__

        sys.stdout.write(f"deltacli {__version__}\n")
        return
    # Imports and replay make many objects and few cycles: fewer collections, a tenth less time, no more memory.
    gc.set_threshold(20_000, 20, 100)
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # While modules are imported, and after the run, Ctrl-C ends us without a traceback. The run itself handles it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from deltacli.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
