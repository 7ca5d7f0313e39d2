"""A terminal at work: progress, interruptions, pagers, widths, and streams that somebody closed."""

from __future__ import annotations

import json
import os
import pydoc
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from deltacli.cli.app import run
from deltacli.cli.terminal.characters import count_cells, shorten
from deltacli.cli.terminal.signals import Interrupted
from tests.cli.pty_session import Session, gate, read_some
from tests.cli.screen import as_pasted
from tests.cli.support import ROOT, deltacli, make_sample
from tests.support.waiting import in_time

CONTROL_C = "\x03"
ERASED = "\r\x1b[K"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
AGAIN = "interrupted: finishing what is running; Ctrl-C again leaves at once"
SLOW = "00000000000000000012.json"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
WAITING_PAGER = f"""#!{sys.executable}
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGINT}})
print(sys.stdin.read(), "[ready]", flush=True)
signal.sigwait({{signal.SIGINT}})
print("[caught]", flush=True)
print("[" + open("/dev/tty").readline().strip() + "]", flush=True)
"""


def commit(table: Path, version: int, *actions: object) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


@pytest.fixture(scope="session")
def many_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 30,000 files: more than any pipe holds."""
    table = tmp_path_factory.mktemp("many") / "t"
    metadata = {"id": "1", "format": {"provider": "parquet", "options": {}}, "schemaString": "", "partitionColumns": []}
    metadata |= {"schemaString": '{"type":"struct","fields":[]}', "configuration": {}}
    adds = [
        {"path": f"part-{n:08d}.parquet", "partitionValues": {}, "size": n, "modificationTime": 0, "dataChange": True}
        for n in range(30_000)
    ]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    commit(table, 0, protocol, {"metaData": metadata}, *({"add": add} for add in adds))
    return table


# Progress


def test_progress_appears_on_a_terminal_and_is_erased(sample: Path) -> None:
    with gate(SLOW) as slow, Session("history", f"gated://{sample}", "--color", "never", gate=slow) as session:
        slow.wait_for(1)
        session.read_until("13% 2/15 commits")
        slow.open()
        code, seen = session.finish()

    drawn, _, rest = seen.rpartition(ERASED)
    assert 0 == code
    assert "reading the history" in drawn
    assert rest.startswith("version  committed (UTC)")


@pytest.mark.halved
def test_progress_is_shown_while_the_result_is_written_to_a_file_or_a_pipe(sample: Path, tmp_path: Path) -> None:
    arguments = ("snapshot", f"gated://{sample}", "--files", "--format", "ndjson")
    with gate(SLOW) as slow, Session(*arguments, "--output", tmp_path / "out", gate=slow) as session:
        slow.wait_for(1)
        slow.open(1)
        slow.wait_for(1)
        session.read_until(" 2/4 commits")
        slow.open()
        to_file = session.finish()
    read, write = os.pipe()
    with gate(SLOW) as slow, Session(*arguments, stdout=write, gate=slow) as session:
        os.close(write)
        slow.wait_for(1)
        session.read_until(" 2/4 commits")
        slow.open()
        result = b"".join(iter(lambda: read_some(read), b""))
        to_pipe = session.finish()
    os.close(read)

    assert (0, True) == (to_file[0], f"{ERASED}wrote" in to_file[1])
    assert (0, True) == (to_pipe[0], to_pipe[1].endswith(ERASED))
    assert 22 == len(result.splitlines()) == len((tmp_path / "out").read_bytes().splitlines())


def test_a_log_gets_whole_lines_and_a_dumb_terminal_no_progress(sample: Path) -> None:
    read, write = os.pipe()
    arguments = ("history", f"gated://{sample}", "--progress", "always")
    with gate(SLOW) as slow, Session(*arguments, stderr=write, gate=slow) as session:
        os.close(write)
        slow.wait_for(1)
        first = ""
        while not re.search(r"2/15 commits.*\n", first):
            block = read_some(read).decode()
            assert block, first
            first += block
        slow.open()
        code, _ = session.finish()
    os.close(read)
    is_loaded = """
import sys
from deltacli.cli.app import run
run(sys.argv[1:])
print("deltacli.cli.terminal.progress" in sys.modules)
"""
    with Session("history", sample, environment={"TERM": "dumb"}) as session:
        _, seen = session.finish()
    done = subprocess.run(
        [sys.executable, "-c", is_loaded, "history", str(sample), "--json"],
        capture_output=True,
        env=ENVIRONMENT,
        check=True,
    )

    assert re.fullmatch(r"([^\r\x1b]*\n)*reading the history  2/15 commits  13%  [^\r\x1b]*\n", first)
    assert 0 == code
    assert "\x1b" not in seen
    assert (b"False", b"") == (done.stdout.splitlines()[-1], done.stderr)


# Interruptions


def test_one_control_c_finishes_what_is_in_flight_and_leaves_no_output(sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("before")
    arguments = ("snapshot", f"gated://{sample}", "--files", "--format", "csv", "--output", target)
    with gate(SLOW) as slow, Session(*arguments, gate=slow) as session:
        slow.wait_for(1)
        slow.open(1)
        slow.wait_for(1)
        files = len(list(tmp_path.iterdir()))
        session.type(CONTROL_C)
        session.read_until(AGAIN)
        is_waiting = session.process.poll() is None
        slow.open()
        code, seen = session.finish()

    assert (2, True) == (files, is_waiting)
    assert 130 == code
    assert f"{ERASED}interrupted; nothing was changed\n" in seen
    assert "Traceback" not in seen
    assert [target] == list(tmp_path.iterdir())
    assert "before" == target.read_text()


def test_a_second_control_c_exits_at_once_even_if_a_thread_hangs(sample: Path, tmp_path: Path) -> None:
    arguments = ("snapshot", f"gated://{sample}", "--files", "--format", "csv", "--output", tmp_path / "out")
    with gate(SLOW) as slow, Session(*arguments, gate=slow) as session:
        slow.wait_for(1)
        slow.open(1)
        slow.wait_for(1)
        session.type(CONTROL_C)
        session.read_until(AGAIN)
        session.type(CONTROL_C)
        code, seen = session.finish()

    assert 130 == code
    assert seen.endswith(ERASED)
    assert "Traceback" not in seen
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "hung up")],
)
def test_every_signal_has_its_exit_code_and_its_json_error(
    sample: Path, number: signal.Signals, code: int, words: str
) -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / "error.json").read_text())
    read, write = os.pipe()
    arguments = ("history", f"gated://{sample}", "--json", "--progress", "never")
    with gate(SLOW) as slow, Session(*arguments, stderr=write, gate=slow) as session:
        os.close(write)
        slow.wait_for(1)
        session.send(number)
        slow.open()
        found = session.finish()
    error = json.loads(b"".join(iter(lambda: read_some(read), b"")))
    os.close(read)

    assert (code, "") == found
    assert [] == [fault.message for fault in Draft202012Validator(schema).iter_errors(error)]
    assert ("interrupted", code) == (error["code"], error["exit"])
    assert f"{words}; nothing was changed" == error["message"]
    assert {"signal": number.name} == error["details"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("properties", "set", "a=b", "--yes"), "version 15 was committed"),
        (("properties", "set", "a=b", "--dry-run"), "nothing was changed"),
    ],
)
def test_an_interruption_behind_a_change_does_not_deny_it(
    words: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise Interrupted(signal.SIGINT)

    make_sample(tmp_path / "tbl")
    monkeypatch.setattr("deltacli.cli.running.context.CommandContext.suggest_command", interrupt)

    assert 130 == run([words[0], str(tmp_path / "tbl"), *words[1:]])
    assert f"interrupted; {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "moment", "output", "is_whole"),
    [
        ("os.replace", "before", "rows.csv", False),
        ("os.replace", "behind", "rows.csv", True),
        ("deltacli.cli.running.context.CommandContext._note_written_file", "before", "rows.csv", True),
        ("deltacli.cli.running.context.CommandContext.write", "before", "rows/", True),
        ("deltacli.table.output._OutputRun.finish", "before", "rows/", False),
    ],
)
def test_an_interruption_behind_a_written_output_says_that_it_is_whole(
    place: str,
    moment: str,
    output: str,
    is_whole: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    owner, _, name = place.rpartition(".")
    original = getattr(pydoc.locate(owner), name)

    def interrupt(*arguments: object) -> None:
        if moment == "behind":
            original(*arguments)
        raise Interrupted(signal.SIGINT)

    make_sample(tmp_path / "tbl")
    monkeypatch.setattr(place, interrupt)
    wanted = f"{tmp_path}/{output}"

    assert 130 == run(["read", str(tmp_path / "tbl"), "--columns", "trip", "--output", wanted])
    said = f"{wanted} was written completely" if is_whole else "nothing was changed"
    assert f"interrupted; {said}\n" in capsys.readouterr().err
    assert is_whole == os.path.exists(wanted)


SHARES = """
version: 1
recipients: recipients.json
shares:
  - name: main
    schemas: [{name: s, tables: [{name: t, location: tbl}]}]
"""


@pytest.mark.parametrize("moment", ["before", "behind"])
@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("deltacli.operations.vacuum.saved.save_plan", "vacuum tbl --save-plan {}"),
        ("deltacli.operations.repair.plan.save_repair_plan", "repair tbl --save-plan {}"),
        ("deltacli.cli.running.trend_file.Trend.append", "validate tbl --trend {}"),
        ("deltacli.storage.LocalStorage.put_if_absent", "fleet init . {}"),
        ("deltacli.storage.LocalStorage.put_if_absent", "share init . --config {}"),
        ("os.replace", "validate tbl --write-baseline {}"),
        (
            "deltacli.sharing.configuration.recipients.write_private",
            "share recipient add acme --grant main --config c.yaml",
        ),
    ],
)
def test_an_interruption_behind_a_file_that_a_command_writes_names_it(
    place: str,
    command: str,
    moment: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    owner, _, name = place.rpartition(".")
    original = getattr(pydoc.locate(owner), name)

    def interrupt(*arguments: object, **options: object) -> None:
        if moment == "behind":
            original(*arguments, **options)
        raise Interrupted(signal.SIGINT)

    monkeypatch.chdir(tmp_path)
    make_sample(tmp_path / "tbl")
    wanted = "out.file" if "{}" in command else "recipients.json"
    Path("c.yaml").write_text(SHARES)
    monkeypatch.setattr(place, interrupt)

    assert 130 == run(command.format(wanted).split())
    said = f"{wanted} was written completely" if moment == "behind" else "nothing was changed"
    assert f"interrupted; {said}\n" in capsys.readouterr().err
    assert (moment == "behind") == os.path.exists(wanted)


def test_a_signal_that_the_parent_ignores_stays_ignored(sample: Path) -> None:
    """
    As under nohup.
    """
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with gate(SLOW) as slow, Session("history", f"gated://{sample}", "--limit", "4", gate=slow) as session:
            slow.wait_for(1)
            session.send(signal.SIGHUP)
            slow.open()
            code, seen = session.finish()
    finally:
        signal.signal(signal.SIGHUP, before)

    assert 0 == code
    assert "showing 4 of 15 versions" in seen


def test_an_interruption_during_a_destructor_is_not_lost() -> None:
    script = """
import os, signal, sys, threading
from deltacli.cli.terminal.signals import Interrupted, raise_on_signals
class Careless:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
try:
    with raise_on_signals():
        Careless()
        threading.Event().wait(30)
except Interrupted as interruption:
    sys.exit(interruption.exit_code)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=ENVIRONMENT, check=False)

    assert (143, b"") == (done.returncode, done.stderr)


def test_an_interruption_that_was_put_off_ends_a_wait_that_began_as_it_arrived() -> None:
    """The first tick comes during `sum`, where Python only marks it, and the next instruction blocks."""
    script = """
import faulthandler, functools, operator, os, signal, sys
faulthandler.dump_traceback_later(60, exit=True)
from deltacli.cli.terminal import signals
try:
    with signals.raise_on_signals():
        exec("os.kill(os.getpid(), signal.SIGTERM)", {"__name__": "threading", "os": os, "signal": signal})
        list(map(operator.call, (functools.partial(sum, range(2_000_000)), signal.pause)))
except signals.Interrupted as interruption:
    sys.exit(interruption.exit_code)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=ENVIRONMENT, check=False)

    assert (143, b"") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("work", "apart", "tick"), [("pool", "7", "1e-3"), ("process", "1", "1e-3"), ("pool", "7", "3e-5")]
)
def test_an_interruption_leaves_no_lock_held_and_no_process_unknown(work: str, apart: str, tick: str) -> None:
    """A signal at every instruction of Python's library that the main thread runs while a pool or a process works: it
    always ends. A lock that stayed held would stop the pool's threads, and with them the end of the process. Where it
    is put off, ticks come so fast that one falls into the last, as on a busy machine.
    """
    script = """
import faulthandler, os, signal, subprocess, sys
faulthandler.dump_traceback_later(60, exit=True)
import concurrent.futures.thread
from deltacli.cli.terminal import signals
from deltacli.engine.embedded import EmbeddedEngine

class Trace:
    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, _):
        if frame.f_globals.get("__name__") not in MODULES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                signals._handle_signal(signal.SIGTERM, frame)
        return self

def below(frame, found=signals._skip_handlers):
    frame = found(frame)
    return below(frame.f_back) if frame.f_code is Trace.__call__.__code__ else frame

signals._skip_handlers = below
signals._RETRY_SECONDS = float(sys.argv[3])

def pool():
    return list(EmbeddedEngine(2).run(lambda piece: piece, range(3)))

def process():
    with subprocess.Popen(["true"]) as child:
        child.poll()
    return [0, 1, 2]

MODULES = {"threading", "concurrent.futures._base", "concurrent.futures.thread", "subprocess"}
ends = []
for at in range(1, 100_000, int(sys.argv[2])):
    trace = Trace(at)
    try:
        with signals.raise_on_signals():
            sys.settrace(trace)
            ends.append(globals()[sys.argv[1]]())
            sys.settrace(None)
            if trace.left > 0:
                break
            signal.pause()
    except signals.Interrupted as interruption:
        interruption.unwind()
        ends.append(interruption.exit_code)
    finally:
        sys.settrace(None)
    for child in list(subprocess._active):
        child.wait()
    try:
        print("unknown:", os.waitpid(-1, 0))
    except ChildProcessError:
        pass
print(ends.pop(), {end for end in ends if isinstance(end, int)}, at > 500)
"""
    words = [sys.executable, "-c", script, work, apart, tick]
    done = subprocess.run(words, capture_output=True, env=ENVIRONMENT, check=False)

    assert (b"[0, 1, 2] {143} True\n", b"", 0) == (done.stdout, done.stderr, done.returncode)


def test_an_interruption_holds_no_lock_of_an_import_and_is_not_changed_by_a_class() -> None:
    """A signal at every instruction with which the main thread imports a module: another thread can import it then.

    Python 3.11 makes a RuntimeError of an exception while a class tells an attribute its name.
    """
    script = """
import faulthandler, importlib, signal, sys, threading
faulthandler.dump_traceback_later(60, exit=True)
from deltacli.cli.terminal import signals

class Trace:
    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, _):
        if frame.f_globals.get("__name__") != "importlib._bootstrap":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                signals._handle_signal(signal.SIGTERM, frame)
        return self

def imported():
    import this_module_is_not_there

def elsewhere():
    try:
        imported()
    except ModuleNotFoundError:
        pass

class Named:
    def __set_name__(self, *_):
        signal.raise_signal(signal.SIGTERM)

ends = set()
for at in range(1, 100_000, 3):
    trace = Trace(at)
    try:
        with signals.raise_on_signals():
            sys.settrace(trace)
            elsewhere()
            sys.settrace(None)
            if trace.left > 0:
                break
            signal.pause()
    except signals.Interrupted as interruption:
        ends.add(interruption.exit_code)
    finally:
        sys.settrace(None)
    thread = threading.Thread(target=elsewhere, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), at
try:
    with signals.raise_on_signals():
        class Naming:
            one = Named()
        signal.pause()
except signals.Interrupted as interruption:
    ends.add(interruption.exit_code)
print(ends, at > 200)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=ENVIRONMENT, check=False)

    assert (b"{143} True\n", b"", 0) == (done.stdout, done.stderr, done.returncode)


def test_objects_of_interrupted_frames_are_released_before_the_end_is_reported() -> None:
    """
    A suspended generator of results, as when the signal falls between two of them: closing it waits for its pieces.
    """
    closed = []

    def results() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed.append(True)

    def consume() -> None:
        held = results()
        next(held)
        raise Interrupted(signal.SIGINT)

    with pytest.raises(Interrupted) as caught:
        consume()
    before = list(closed)
    caught.value.unwind()

    assert ([], [True]) == (before, closed)


# Streams that somebody closed


@pytest.mark.halved
@pytest.mark.parametrize("format_", ["ndjson", "csv", "table", "json"])
def test_a_reader_that_leaves_in_the_middle_ends_the_run_quietly(many_files: Path, format_: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "deltacli", "snapshot", str(many_files), "--files", "--format", format_],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        with in_time(process, "a run whose reader leaves ends"):
            first = process.stdout.readline()
            process.stdout.close()
            said = process.stderr.read()

    assert first
    assert (141, b"") == (process.returncode, said)


def in_shell(command: str, *arguments: str | Path) -> tuple[int, str, str]:
    """Run a line of bash in which "$@" is the command line."""
    words = [sys.executable, "-m", "deltacli", *map(str, arguments)]
    done = subprocess.run(
        ["bash", "-c", command, "bash", *words], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.halved
def test_streams_closed_from_the_start_do_not_crash(sample: Path, tmp_path: Path) -> None:
    usual = in_shell('"$@"', "history", sample, "--columns", "version")
    without_stdin = in_shell('"$@" <&-', "history", sample, "--columns", "version")
    without_stderr = in_shell('"$@" 2>&-', "history", sample, "--columns", "version")
    without_stdout = in_shell('"$@" >&-', "history", sample)
    to_file = in_shell('"$@" >&- 2>&- <&-', "history", sample, "--columns", "version", "--output", tmp_path / "out")
    failed = in_shell('"$@" >&- 2>&- <&-', "history", sample / "none")
    version = in_shell('"$@" >&-', "--version")

    assert (0, "version") == (usual[0], usual[1].split()[0])
    assert usual == without_stdin == without_stderr
    assert (7, "error: ") == (without_stdout[0], without_stdout[2][:7])
    assert "the result cannot be written: bad file descriptor" in without_stdout[2]
    assert (0, usual[1]) == (to_file[0], (tmp_path / "out").read_text())
    assert 3 == failed[0]
    assert (7, False) == (version[0], "Traceback" in version[2])


def test_an_unread_stderr_does_not_change_the_exit_code(sample: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "deltacli", "history", str(sample / "none")], stderr=write, env=ENVIRONMENT, check=False
    )
    os.close(write)

    assert 3 == done.returncode


def test_help_into_a_closed_pipe_exits_with_141(sample: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "deltacli", "history", "--help"],
        stdout=write,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        check=False,
    )
    os.close(write)

    assert (141, b"") == (done.returncode, done.stderr)


# What to run next


def test_a_refused_dry_run_does_not_suggest_what_would_be_refused(sample: Path, tmp_path: Path) -> None:
    table = shutil.copytree(sample, tmp_path / "t")
    below = ("vacuum", table, "--retention", "1h", "--no-pager", "--color", "never")

    refused = on_screen(*below, "--dry-run", size=(200, 60))[1].splitlines()
    saved = on_screen(*below, "--save-plan", tmp_path / "plan", size=(200, 60))[1].splitlines()
    free = on_screen("vacuum", table, "--dry-run", "--no-pager", size=(200, 60))[1].splitlines()

    plain = f"hint: deltacli vacuum {table} --no-pager --color never"
    assert [True, True] == [plain in "".join(lines) for lines in (refused, saved)]
    assert "--allow-retention-below 3d" in "".join(refused)
    assert not [line for line in (*refused, *saved) if line.startswith("next:")]
    assert f"\x1b[1;36mnext: deltacli vacuum {table} --no-pager\x1b[0m" == free[-1]


def test_an_error_breaks_between_words_and_its_command_can_still_be_pasted(sample: Path, tmp_path: Path) -> None:
    table = shutil.copytree(sample, tmp_path / "t")
    words = ("vacuum", table, "--retention", "1h", "--no-pager", "--color", "never", "--dry-run")
    _, seen = on_screen(*words, size=(80, 60))
    message, _, hint = seen.partition("error: ")[2].rstrip().partition("\nhint: ")
    error = message.partition("\n  guard")[0].splitlines()  # without the facts below

    assert len(error) > 1
    assert [] == [line for line in error[1:] if len(line) > 80 or line != line.rstrip()]
    assert {" " * 7} == {line[:7] for line in error[1:]}
    assert "longer running readers, writers and streams would lose files" in re.sub(r"\s+", " ", " ".join(error))
    assert max(len(line) for line in hint.splitlines() if str(table) not in line) <= 80
    assert as_pasted(hint).startswith(f"deltacli vacuum {table} ")
    assert hint.endswith(" --dry-run")


# Pagers

_FAKE = "echo [pager $LESS]; cat; echo [end]"
PAGED = {"PAGER": _FAKE}


def on_screen(*arguments: str | Path, size: tuple[int, int] = (80, 10), **options: str) -> tuple[int, str]:
    """Run without progress, which a busy machine would show; the exit code and the screen."""
    with Session(*arguments, size=size, environment={"DELTACLI_PROGRESS": "never", **options}) as session:
        return session.finish()


def test_output_longer_than_the_screen_is_paged_with_its_colours(sample: Path) -> None:
    code, seen = on_screen("history", sample, "--limit", "0", DELTACLI_PAGER=_FAKE, PAGER="false")
    own = on_screen("history", sample, "--limit", "0", PAGER=_FAKE, LESS="SR")
    document = on_screen("snapshot", sample, "--json", PAGER=_FAKE)

    lines = seen.splitlines()
    assert 0 == code
    assert "[pager FRX]" == lines[0]
    assert ["rows: + added, ~ updated, - deleted", "[end]"] == [ESCAPE.sub("", line) for line in lines[18:20]]
    assert any("\x1b[31m" in line and "DELETE" in line for line in lines)
    assert "next: deltacli snapshot" in seen.partition("[end]")[2]
    assert own[1].startswith("[pager SR]\n")
    assert document[1].startswith("[pager FRX]\n{\n")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("--limit", "4"), {}),
        (("--limit", "0", "--no-pager"), {}),
        (("--limit", "0", "--format", "ndjson"), {}),
        (("--limit", "0"), {"DELTACLI_PAGER": "cat"}),
        (("--limit", "0"), {"DELTACLI_PAGER": ""}),
        (("--limit", "0"), {"DELTACLI_PAGER": "no-such-pager"}),
        (("--limit", "0"), {"TERM": "dumb"}),
    ],
)
def test_the_pager_is_not_used_for_short_or_redirected_output(
    sample: Path, arguments: tuple[str, ...], options: dict[str, str]
) -> None:
    with Session("history", sample, *arguments, size=(80, 10), environment={"PAGER": _FAKE, **options}) as session:
        code, seen = session.finish()

    assert 0 == code
    assert "[pager" not in seen
    assert "WRITE" in seen


def test_the_pager_is_not_used_without_a_keyboard(sample: Path) -> None:
    with (
        open(os.devnull) as nothing,
        Session("history", sample, "--limit", "0", size=(80, 10), stdin=nothing.fileno(), environment=PAGED) as session,
    ):
        code, seen = session.finish()

    assert (0, False) == (code, "[pager" in seen)


def test_quitting_the_pager_early_is_not_an_error(many_files: Path) -> None:
    found = on_screen("snapshot", many_files, "--files", "--limit", "0", "--color", "never", PAGER="head -2")

    assert 0 == found[0]
    assert 2 == len(found[1].splitlines())


def test_control_c_is_handled_by_the_pager(sample: Path, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(WAITING_PAGER)
    pager.chmod(0o755)
    with Session(
        "history", sample, "--limit", "0", size=(80, 10), environment={"PAGER": str(pager)}, is_fork=False
    ) as session:
        session.read_until("[ready]")
        session.type(CONTROL_C)
        session.read_until("[caught]")
        session.type("q\n")
        code, seen = session.finish()

    assert 0 == code
    assert "[q]" in seen
    assert "next: deltacli snapshot" in seen


def test_sigterm_ends_the_pager_too(sample: Path, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\ncat\necho [ready]\nread key </dev/tty\n")
    pager.chmod(0o755)
    with Session(
        "history", sample, "--limit", "0", size=(80, 10), environment={"PAGER": str(pager)}, is_fork=False
    ) as session:
        session.read_until("[ready]")
        session.send(signal.SIGTERM)
        code, seen = session.finish()

    assert 143 == code
    assert seen.endswith("terminated; nothing was changed\n")


# Widths


@pytest.fixture(scope="session")
def worldly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a gap, and names that are wide, combined, long and hostile."""
    table = tmp_path_factory.mktemp("worldly") / "t"
    names = ("日本語のユーザー名前", "e\u0301milie" * 3, "क्षत्रिय", "한국어", "a\u200db" * 9, "x" * 60, "\x9b2J\x1b[2J")
    metadata = {
        "id": "1",
        "name": "表" * 30,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(
            {
                "type": "struct",
                "fields": [{"name": "列" * 40, "type": "string", "nullable": True, "metadata": {"comment": "\x9b1m"}}],
            }
        ),
        "partitionColumns": [],
        "configuration": {"key": "é" * 90},
    }
    for version, name in enumerate(names):
        first = ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata})
        info = {"commitInfo": {"operation": "STREAMING UPDATE", "userName": name, "timestamp": 1}}
        add = {"path": f"{'日' * version}{name}/part-{version}.parquet", "partitionValues": {}, "size": 1 << version}
        add |= {"modificationTime": 0, "dataChange": True}
        commit(table, version, info, *(first if version == 0 else ()), {"add": add})
    commit(table, 9, {"commitInfo": {"operation": "WRITE", "timestamp": 1}})
    return table


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_nothing_wraps_at_any_width_and_important_columns_are_kept(sample: Path, worldly: Path, width: int) -> None:
    for table, version in ((sample, "14"), (worldly, "6")):
        seen = {}
        for arguments in (("history",), ("snapshot",), ("snapshot", "--files"), ("snapshot", "--schema")):
            at = () if arguments[0] == "history" else ("--version", version)
            screen = ("--color", "never", "--no-pager", "-q")
            code, text = on_screen(arguments[0], table, *arguments[1:], *at, *screen, size=(width, 24))
            seen[arguments] = text.splitlines()

            assert 0 == code
            assert [] == [line for line in seen[arguments] if count_cells(line) > width]
            assert "\x1b" not in text
            assert "\x9b" not in text
        assert ["version", "operation"] == [
            word for word in seen[("history",)][0].split() if word in ("version", "operation")
        ]
        assert "".join(line.split()[-1] for line in seen[("snapshot", "--files")][2:]).endswith(".parquet")


@pytest.mark.parametrize(
    ("text", "width", "cut", "cut_before"),
    [
        ("日本語", 6, "日…", "…語"),
        ("\u1112\u1161\u11ab" * 3, 6, "\u1112\u1161\u11ab…", "…\u1112\u1161\u11ab"),
        ("e\u0301" * 5, 5, "e\u0301" * 2 + "…", "…" + "e\u0301" * 2),
        ("a\u200db\ufe0fcd", 4, "a\u200db\ufe0f…", "…cd"),
    ],
)
def test_a_text_takes_the_cells_a_terminal_gives_it(text: str, width: int, cut: str, cut_before: str) -> None:
    assert width == count_cells(text)
    assert (text, cut, cut_before) == (shorten(text, width), shorten(text, 3), shorten(text, 3, keep_end=True))


def test_wide_and_combining_characters_keep_columns_aligned(worldly: Path) -> None:
    _, text = on_screen("history", worldly, "--columns", "userName,version", "--color", "never", "-q", size=(60, 24))

    _, _, *lines = [line for line in text.splitlines() if "missing" not in line]
    assert 8 == len(lines)
    assert 1 == len({count_cells(line) for line in lines})


@pytest.mark.parametrize("format_", ["csv", "json", "ndjson"])
def test_no_format_sends_control_characters_to_a_terminal(worldly: Path, format_: str) -> None:
    arguments = ("history", worldly, "--format", format_, "--columns", "userName")
    code, text = on_screen(*arguments, "--no-pager")
    exact = deltacli(*arguments).out

    assert 0 == code
    assert [] == [character for character in text if character in "\x1b\x9b"]
    assert "\x9b" in exact
    if format_ == "json":
        shown, _ = json.JSONDecoder().raw_decode(text)  # a note on missing versions follows, from stderr
        assert json.loads(exact)["items"] == shown["items"]
