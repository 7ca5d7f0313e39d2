"""`python -m deltacli` and the console script; answers `--version` before anything heavy is imported."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib.util import find_spec

_LEFT_OUT = ("numpy", "dateutil", "pytz")


def main() -> None:
    """Run the command line and leave with its exit code."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from deltacli.cli.terminal.streams import mend_standard_streams

        mend_standard_streams()
    elif sys.argv[1:] in (["--version"], ["-V"]):
        from deltacli import __version__

        try:
            sys.stdout.write(f"deltacli {__version__}\n")
            sys.stdout.flush()
        except OSError:
            pass  # nobody reads, or nothing can be written: the long way says which, with its exit code
        else:
            return
    # Imports and replay make many objects and few cycles: fewer collections, a tenth less time, no more memory.
    gc.set_threshold(20_000, 20, 100)
    _leave_out_what_pyarrow_looks_for()
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # While modules are imported, and after the run, Ctrl-C ends us without a traceback. The run itself handles it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from deltacli.cli.app import run

    _leave(run(sys.argv[1:]))


def _leave(code: int) -> None:
    """End the process without tearing the interpreter down, which takes a tenth of a short command with pyarrow.

    Everything that must be finished is: results are flushed, threads have ended, temporary files are gone.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _leave_out_what_pyarrow_looks_for() -> None:
    """Spare pyarrow its search for packages that it can do without.

    It looks for them whenever it makes an array or a scalar of Python values, each time anew where they are missing:
    100 µs a call instead of 24. Where numpy and pandas are installed, importing them would take longer than the
    command.
    """
    for name in _LEFT_OUT:
        if name == "numpy" or find_spec(name) is None:
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None: an import fails at once
    sys.meta_path.insert(0, _NoPandas)


class _NoPandas:
    """Says that there is no pandas. A None among the modules is what pyarrow takes for pandas itself, at the first time
    with a zone that becomes a Python value.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)


if __name__ == "__main__":
    main()
