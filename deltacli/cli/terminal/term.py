"""The terminal: its presence, width and colours, all output to stderr, and the signals that it sends."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import threading
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, StrEnum
from functools import lru_cache
from threading import Timer
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from deltacli.cli.invocation import AT, colour_of_environment, give_up, invocation
from deltacli.core import tempfiles
from deltacli.core.documents import dumps

if TYPE_CHECKING:
    import logging
    import subprocess

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

GLUE = "\U0010fffd"
"""A private character, one cell wide. Stands for the blank between a number and its unit while a text is folded."""


class PagerQuitError(Exception):
    """The user has left the pager: the run ends with success."""


class Cleaning(Enum):
    """How a terminal shows control characters of a format."""

    NONE = "the format escapes them itself"
    JSON = "as escapes of JSON: the values stay the same"
    TEXT = "as escapes of Python"


class Style(StrEnum):
    """What a text on the screen is; the value is how that looks, in the words of rich. One look is one member.

    Only the 16 colours of the terminal are used, and of them only those that can be read on a light and on a dark
    background: no blue, no white, no black, no bright variants.
    """

    PLAIN = "none"
    PATH = PLAIN
    HEADING = "bold"
    LABEL = HEADING
    QUIET = "dim"
    TIME = QUIET
    FRAME = QUIET
    NULL = "dim italic"
    PROBLEM = "bold red"
    WARNING = "yellow"
    MAINTENANCE = WARNING
    CHANGED = WARNING
    GOOD = "green"
    WRITES = GOOD
    ADDED = GOOD
    REMOVED = "red"
    DELETES = REMOVED
    SCHEMA_CHANGE = "magenta"
    NOTE = "cyan"
    SIZE = NOTE
    TYPE = NOTE
    NEXT = "bold cyan"


_ANSI = {"bold": 1, "dim": 2, "italic": 3, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}
"""Word of a look -> parameter of the escape sequence."""


class Terminal(NamedTuple):
    """Properties of stdout: a terminal of `width` cells, or a pipe (`width` None), with or without colour.

    A pipe with forced colour has a width, too: results are drawn for it as for a terminal, but not truncated.
    """

    is_terminal: bool
    width: int | None
    colour: bool

    @property
    def is_drawn(self) -> bool:
        """True if results are drawn by rich (`deltacli/cli/render/terminal/`)."""
        return self.width is not None

    def paint(self, text: str, style: Style) -> str:
        """Return a text in the colour of a meaning, if colour is on."""
        if not self.colour or style is Style.PLAIN or not text:
            return text
        return f"\x1b[{';'.join(str(_ANSI[word]) for word in style.split())}m{text}\x1b[0m"


def detect_terminal(colour: str, *, to_file: bool) -> Terminal:
    """Return the properties of stdout. `colour` is auto, always or never.

    The environment may turn auto into one of the others. A result that is written to a file is neither coloured nor
    drawn.
    """
    if to_file:
        return Terminal(is_terminal=False, width=None, colour=False)
    is_terminal = sys.stdout.isatty()
    chosen = colour_of_environment() if colour == "auto" else colour == "always"
    wanted = is_terminal if chosen is None else chosen
    if is_terminal:
        return Terminal(is_terminal, max(columns(), 20), wanted)
    return Terminal(is_terminal, _forced_width(os.environ.get("COLUMNS", "")) if wanted else None, wanted)


def columns() -> int:
    """Return the width of the terminal, 80 where it is unknown."""
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def colours_stderr(colour: str) -> bool:
    if colour == "never" or not sys.stderr.isatty():
        return False
    return colour == "always" or colour_of_environment() is not False


def _forced_width(columns: str) -> int:
    """Return the width of a drawn result without a terminal: `COLUMNS`, else 100."""
    return max(int(columns), 20) if columns.isdecimal() and int(columns) else 100


def visible(text: str) -> str:
    """Return a text that is safe on a terminal: control and direction characters as their escapes."""
    return (
        CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
        if CONTROL.search(text)
        else text
    )


def escaped_json(text: str) -> str:
    """Return a JSON text whose control and direction characters are JSON escapes: its values stay the same."""
    return CONTROL.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def for_screen(text: str) -> str:
    """Return a text that any terminal accepts: `visible`, with bytes that are not UTF-8 as escapes."""
    safe = visible(text)
    return safe if safe.isascii() else safe.encode("utf-8", "backslashreplace").decode("utf-8")


def encoded(text: str) -> bytes:
    """Return a text in UTF-8: file names keep their bytes, a lone surrogate of JSON (`\\ud800`) becomes its escape."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def cells(text: str) -> int:
    """Return the number of terminal cells of a text: wide East Asian characters take two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


@lru_cache(maxsize=4_096)
def _cells_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or "\u1160" <= character <= "\u11ff":
        return 0  # marks, joiners, and the vowels and finals of Hangul, which join their consonant
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def glued(text: str) -> str:
    """Return a text in which a number and its unit are one word, until `unglued`."""
    from deltacli.core.units import keep_units_together

    return keep_units_together(text, GLUE)


def unglued(text: str) -> str:
    """Return a folded text with its blanks."""
    return text.replace(GLUE, " ")


def shorten(text: str, width: int, *, keep_end: bool = False, keep_both: bool = False) -> str:
    """Truncate a text to `width` cells, with an ellipsis: its end, its beginning or its middle."""
    if cells(text) <= width:
        return text
    if keep_both:
        end = shorten(text, width * 2 // 3, keep_end=True)[1:]
        return shorten(text, width - cells(end)) + end
    kept, used = 0, 0
    for character in reversed(text) if keep_end else text:
        used += _cells_of(character)
        if used > max(width - 1, 0):
            break
        kept += 1
    if not keep_end:
        return text[:kept] + "…"
    while kept and _cells_of(text[-kept]) == 0:
        kept -= 1  # a combining mark whose letter was cut
    return "…" + text[len(text) - kept :]


LEAST_ROOM = 24
"""Cells for values below which they stand under their label instead of beside it."""


class LiveLine(Protocol):
    """A redrawn line at the bottom of the terminal, which must be erased before anything else is written."""

    def hidden(self) -> AbstractContextManager[None]:
        """Erase it while something else is written."""

    def stopping(self) -> None:
        """Show that the run was interrupted. Called in a signal handler."""

    def close(self) -> None:
        """Erase it permanently."""

    def leave(self) -> None:
        """Erase it permanently, or give up if that would block."""


_live: list[LiveLine] = []


def set_live_line(line: LiveLine | None) -> None:
    """Set the line that is redrawn on stderr; None: there is none."""
    _live[:] = [] if line is None else [line]


def live_line() -> LiveLine | None:
    return _live[0] if _live else None


def close_live_line() -> None:
    if (line := live_line()) is not None:
        line.close()
        set_live_line(None)


def say(text: str, paint: Callable[[str], str] = str) -> None:
    """Write a line to stderr, without secrets, in the look that `paint` gives it; a closed stderr is ignored."""
    text = safe_text(text)
    if sys.stderr is not None and sys.stderr.isatty():
        text = _folded(text, columns())
    line = live_line()
    with nullcontext() if line is None else line.hidden():
        write_stderr(paint(text) + "\n")


def safe_text(text: str) -> str:
    """Return a text without secrets, whose commands have the `-C` of this run."""
    from deltacli.storage.secrets import without_secrets

    text = without_secrets(text)
    if not invocation.directories or "deltacli " not in text:
        return text
    from deltacli.core.errors import quote_word

    given = "".join(f"{AT} {quote_word(directory)} " for directory in invocation.directories)
    inserted = dumps(given).decode()[1:-1] if text.startswith("{") else given
    return re.sub(rf"(?<![\w./-])deltacli (?=(?:{_first_words()})(?![\w-]))", lambda found: found[0] + inserted, text)


def _first_words() -> str:
    from deltacli.cli.command_table import COMMANDS

    return "|".join({name.split()[0] for name in COMMANDS})


def _folded(text: str, width: int) -> str:
    """Wrap a line between words, with a hanging indent; a command so that it can still be pasted."""
    if cells(text) <= width or "\n" in text or text.startswith("{"):
        return text
    start = re.match(r"[a-z]+: |  \S+(?: \S+)*  +| *", text)
    indent = " " * min(len(start[0]) if start else 0, width // 2)
    said, *commands = re.split(rf"(?<= )(?=deltacli (?:--?|(?:help|{_first_words()})(?: |$)))", text, maxsplit=1)
    others: list[str] = []
    if commands and re.search("[,;] | deltacli ", re.sub(_QUOTED, "", commands[0])):  # a sentence about commands
        commands, (said, *others) = [], pasted_lines(text, width)
    lines = [""]
    for word in glued(said).split(" "):
        if cells(lines[-1]) > len(indent) and cells(lines[-1]) + cells(word) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append(indent)
        lines[-1] += word + " "
    if commands:
        is_long = cells(said) > _PREFIX and cells(lines[-1].rstrip()) + 1 + cells(commands[0]) > width
        first, *others = folded_command(commands[0], width - (0 if is_long else cells(lines[-1]) - 1))
        lines = [*lines, first] if is_long else [*lines[:-1], lines[-1][:-1] + first]
    for line in others:
        is_sentence = not line.startswith(("deltacli ", "    "))
        lines.append(_folded(indent + line, width) if is_sentence else line)
    return unglued("\n".join(line.rstrip() for line in lines))


_QUOTED = r"""'[^']*'|"(?:[^"\\]|\\.)*\""""
_PREFIX = 30
"""Cells of what may stand before a command on its line, such as `next: `."""


def folded_command(command: str, width: int) -> list[str]:
    """Return a command of a shell on lines of a width, broken between its words with a backslash."""
    words = re.findall(rf"""(?:{_QUOTED}|\\.|[^\s'"\\])+""", command)
    if cells(command) <= width or " ".join(words) != command:
        return [command]
    lines = [words[0]]
    for word in words[1:]:
        if cells(lines[-1]) + cells(word) + len("  \\") > width:
            lines.append(f"    {word}")
        else:
            lines[-1] += f" {word}"
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def pasted_lines(text: str, room: int) -> list[str]:
    """Return a text of which the commands, where it does not fit a line, have lines of their own that can be pasted."""
    if text.startswith("deltacli "):
        return folded_command(text, room)
    found = re.fullmatch(_WITHIN, text) if cells(text) > room else None
    if found is None:
        return [text]
    said, command, rest = found.groups()
    command, _, remark = command.partition("   # ")
    rest = "; ".join(filter(None, (remark, rest)))
    return [said, *folded_command(command, room), *(pasted_lines(rest, room) if rest else [])]


def break_words(text: str, room: int) -> str:
    """Return a text in which words too long for a line break after a separator, where that takes no more lines."""
    if cells(text) <= room:
        return text
    return " ".join("\n".join(_pieces(word, room)) for word in text.split(" "))


def _pieces(word: str, room: int) -> list[str]:
    fewest = -(-cells(word) // max(room, 1))
    for marks in ("/", "/.=_-") if fewest > 1 else ():
        pieces, rest = list[str](), word
        while cells(rest) > room and (end := max(rest.rfind(mark, 0, room) for mark in marks) + 1):
            pieces.append(rest[:end])
            rest = rest[end:]
        if cells(rest) <= room and len(pieces) < fewest:
            return [*pieces, rest]
    return [word]


_WITHIN = r"(.*?:) (deltacli [^;]+)(?:; (.*))?"
"""A sentence with a command at its end, and what follows."""


def say_json(document: bytes) -> None:
    """Write a JSON object as a line on stderr, safe on a terminal."""
    say(escaped_json(document.decode()))


def write_stderr(text: str) -> None:
    """Write a text to stderr unchanged; discard it once stderr is closed."""
    try:
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))
        sys.stderr.flush()
    except (OSError, ValueError):
        give_up(sys.stderr, 2)


# -- logs, warnings and traces of libraries ----------------------------------------------------------------------------

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
        if _handlers:
            import logging

            logging.getLogger().removeHandler(_handlers.pop())


def capture_logging() -> None:
    """Capture the logs of libraries that are imported from now on; importing `logging` takes time."""
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


# -- signals: the first one ends the run gracefully, a second one at once ----------------------------------------------

# Python only marks a signal; its handler runs between two instructions of the interpreter. A signal that arrives just
# before a blocking system call would wait for that call to return. Here the call is always `select`, on the descriptor
# and on a pipe that every signal writes to, so a signal at any moment ends the wait.

_MEANING = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
"""Signal -> what the user reads. SIGHUP is unknown to some systems."""


_A_LITTLE_LATER = 0.001


class Interrupted(BaseException):
    """A signal asked the run to end; raised in the main thread at its current instruction.

    Not an Exception, so that no handler of faults catches it. A command that changes a table catches it, stores what
    it did in `outcome`, and raises it again.
    """

    outcome = "nothing was changed"

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        return 128 + self.number

    @property
    def signal_name(self) -> str:
        return signal.Signals(self.number).name

    @property
    def message(self) -> str:
        return f"{_MEANING[self.signal_name]}; {self.outcome}"

    def unwind(self) -> None:
        """Release the interrupted frames, which closes their generators and ends the tasks in flight."""
        import traceback

        fault: BaseException | None = self
        while fault is not None:
            if fault.__traceback__ is not None:
                traceback.clear_frames(fault.__traceback__)
            fault = fault.__context__


class _State:
    """The signals received in this run."""

    first: int | None = None
    pager_is_running: Callable[[], bool] | None = None
    is_sending_again: bool = False
    has_raised: bool = False
    """Whether it has become an Interrupted, and no tick is waited for."""


_state = _State()

before_leaving: list[Callable[[], None]] = []
"""Called before a second signal ends the process, each once and for two seconds at the most."""


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Turn the first signal into Interrupted; a second one ends the process. Signals that the parent ignores (`nohup`,
    a background job of a script) stay ignored.
    """
    _state.first, _state.has_raised = None, False
    before: dict[int, Any] = {}  # Any: the previous handler
    hook = sys.unraisablehook
    try:
        for name in _MEANING:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, _on_signal)
        sys.unraisablehook = _raise_lost_interruption
    except ValueError:
        pass  # not the main thread: the caller handles signals
    try:
        yield
    finally:
        sys.unraisablehook = hook
        _state.has_raised = True
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def pager_in_front(is_running: Callable[[], bool]) -> Iterator[None]:
    """Leave Ctrl-C to the pager until it has ended."""
    _state.pager_is_running = is_running
    try:
        yield
    finally:
        _state.pager_is_running = None


def is_interrupted() -> bool:
    """Return True once a signal asked this run to end."""
    return _state.first is not None


def _on_signal(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGINT and _state.pager_is_running is not None and _state.pager_is_running():
        return
    if _state.first is None:
        _state.first = number
        if (line := live_line()) is not None:
            line.stopping()
        _interrupt(number, frame)
    elif number in (signal.SIGINT, signal.SIGTERM):  # a terminal that closes sends SIGHUP more than once
        _leave_at_once(number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise the interruption, or a little later where it would be lost or leave a lock held forever."""
    if _state.is_sending_again or _is_locking(frame):  # on a busy machine the hook may still be running
        _send_again(number)
    else:
        _state.has_raised = True
        raise Interrupted(number)


_LOCKING = frozenset(
    {"threading", "queue", "concurrent.futures._base", "concurrent.futures.thread", "logging"}
    | {"importlib._bootstrap", "_frozen_importlib"}
)
"""Modules of Python's library that take locks of other threads in Python code: an exception between a lock's
acquisition and the `try` that releases it leaves it held, and the thread that needs it never ends.
"""


def _is_locking(frame: FrameType | None) -> bool:
    """Return True if the frame may hold a lock that an exception would not release: it is in `_LOCKING`, and neither
    waits for other threads nor is a thread being started there; or if one of `_WHOLE` runs. Without a timer to try
    again: False.
    """
    if not hasattr(signal, "setitimer"):
        return False
    frame = _below_handlers(frame)
    top, is_library = frame, True
    while frame is not None:
        is_library = is_library and frame.f_globals.get("__name__") in _LOCKING
        if is_library and ((frame is top and not _is_waiting(frame)) or frame.f_code.co_name in ("start", "submit")):
            return True
        if frame.f_code.co_name in _WHOLE:
            return True
        frame = frame.f_back
    return False


def _is_waiting(frame: FrameType) -> bool:
    """Return True where Python's library waits, and expects to be interrupted."""
    name = frame.f_code.co_qualname
    return (name == "Condition.wait" and "gotit" in frame.f_locals) or name in _WAITS


_WAITS = ("Thread._wait_for_tstate_lock", "Thread.join", "StreamHandler.emit")
_WHOLE = ("__set_name__", "_execute_child", "_internal_poll", "_start_worker")
"""Of the first, Python 3.11 makes another exception. The next are of `subprocess`: a process is started whose number
nobody would know, and the lock of its end is taken. The last starts a worker of `share serve`.
"""


def _leave_at_once(number: int) -> NoReturn:
    """End the process without waiting for threads, after removing temporary files and the progress line, and asking
    for the end of what runs elsewhere. Where that takes too long or stderr blocks, another signal ends it.
    """
    tempfiles.remove_all()
    signal.signal(number, signal.SIG_DFL)
    try:
        for act in before_leaving:
            act()
        if (line := live_line()) is not None:
            line.leave()
    finally:
        os._exit(128 + number)


def _raise_lost_interruption(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise an interruption again that was lost in a destructor, after the destructor has ended."""
    if not isinstance(unraisable.exc_value, Interrupted):
        on_unraisable(unraisable)
        return
    _state.is_sending_again = True
    try:
        _send_again(unraisable.exc_value.number)
    finally:
        _state.is_sending_again = False


def _send_again(number: int) -> None:
    """Raise a signal's interruption in this thread after a delay. Uses a timer of the system where available, because a
    thread cannot be started in a signal handler that may have interrupted the start of another. The timer goes on until
    the interruption is raised: a call that blocks as the first tick arrives would otherwise wait forever.
    """
    if hasattr(signal, "setitimer"):
        _state.has_raised = False
        if signal.getsignal(signal.SIGALRM) is not _on_tick:  # never taken back: a late tick without it is an error
            signal.signal(signal.SIGALRM, _on_tick)
        signal.setitimer(signal.ITIMER_REAL, _A_LITTLE_LATER, _A_LITTLE_LATER)
        return
    _state.first = None
    again = Timer(_A_LITTLE_LATER, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def _on_tick(_: int, frame: FrameType | None) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    if not _state.has_raised and _state.first is not None:  # else a tick that another thread took, and told of too late
        _interrupt(_state.first, frame)


def _below_handlers(frame: FrameType | None) -> FrameType | None:
    """Return the frame that the oldest signal interrupted: a tick may come while the last one is handled."""
    found = above = frame
    while above is not None:
        if above.f_code in (_on_signal.__code__, _on_tick.__code__):
            found = above.f_back
        above = above.f_back
    return found


# -- waiting for a terminal or a pager without losing a signal ---------------------------------------------------------

_BLOCK = 4096
"""Bytes per read: the longest line that a terminal delivers at once."""


def read_line(descriptor: int) -> bytes:
    """Return the input up to the end of the line, b"" at the end of the input."""
    line = b""
    with _woken_by_signals() as woken:
        while not line.endswith(b"\n"):
            _wait(woken, reads=[descriptor])
            block = os.read(descriptor, _BLOCK)
            if not block:
                break
            line += block
    return line


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to a pipe, however slowly it is read. Raises BrokenPipeError."""
    rest = memoryview(data)
    with _woken_by_signals() as woken:
        os.set_blocking(descriptor, False)  # a ready pipe accepts less than a large block
        try:
            while rest:
                _wait(woken, writes=[descriptor])
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(descriptor, rest) :]
        finally:
            os.set_blocking(descriptor, True)


def wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Wait until a process ends and return its exit code."""
    with _woken_by_signals(signal.SIGCHLD) as woken:
        if woken is None:
            return process.wait()
        while (code := process.poll()) is None:
            _wait(woken)
        return code


def _wait(woken: int | None, *, reads: list[int] | None = None, writes: list[int] | None = None) -> None:
    """Return when a descriptor is ready. Signal handlers run here and may raise."""
    readable, writable = reads or [], writes or []
    watched = readable if woken is None else [*readable, woken]
    ready, _, _ = select.select(watched, writable, [])
    while woken is not None and ready == [woken]:
        os.read(woken, _BLOCK)
        if not readable and not writable:
            return
        ready, _, _ = select.select(watched, writable, [])


@contextlib.contextmanager
def _woken_by_signals(*also: signal.Signals) -> Iterator[int | None]:
    """Yield the end of a pipe that becomes readable with each signal; None outside the main thread."""
    end, start = os.pipe()
    os.set_blocking(end, False)
    os.set_blocking(start, False)
    try:
        try:
            before = signal.set_wakeup_fd(start, warn_on_full_buffer=False)
        except ValueError:  # not the main thread
            yield None
            return
        handlers = {number: signal.signal(number, lambda *_: None) for number in also}
        try:
            yield end
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            signal.set_wakeup_fd(before)
    finally:
        os.close(end)
        os.close(start)
