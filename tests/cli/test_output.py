"""Where a result is written: into the intended file, never over another one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.cli.support import ROOT, deltacli
from tests.support.waiting import in_time

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_a_link_is_followed_and_the_file_mode_is_kept(sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    target.write_text("before")
    target.chmod(0o640)
    (tmp_path / "link.json").symlink_to(target)

    done = deltacli("snapshot", sample, "--json", "--output", tmp_path / "link.json")

    assert (0, True, 0o640) == (done.code, (tmp_path / "link.json").is_symlink(), target.stat().st_mode & 0o777)
    assert "deltacli.snapshot" == json.loads(target.read_text())["kind"]


def test_a_new_file_has_the_default_mode(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")

    deltacli("snapshot", sample, "--output", tmp_path / "new")

    assert (tmp_path / "plain").stat().st_mode == (tmp_path / "new").stat().st_mode


def test_a_named_pipe_is_written_to_and_not_replaced(sample: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()

    done = deltacli("history", sample, "--json", "--output", pipe)
    reader.join(30)

    assert (0, True) == (done.code, pipe.is_fifo())
    assert "deltacli.history" == json.loads(read[0])["kind"]


def test_an_ending_that_chooses_no_format_is_noted(sample: Path, tmp_path: Path) -> None:
    odd, text = (deltacli("history", sample, "--output", tmp_path / name) for name in ("out.xyz", "out.txt"))

    assert (0, 0, "") == (odd.code, text.code, text.err)
    assert f"note: .xyz chooses no format, so {tmp_path}/out.xyz is text; endings that do: .json, " in odd.err


@pytest.mark.parametrize(
    ("ending", "meant"), [(".cvs", ".csv"), (".jsn", ".json"), (".parqet", ".parquet"), (".mkd", ".md")]
)
def test_an_ending_that_is_almost_one_of_a_format_is_refused(
    sample: Path, tmp_path: Path, ending: str, meant: str
) -> None:
    odd = deltacli("read", sample, "--limit", "2", "--output", tmp_path / f"rows{ending}")
    text = deltacli("read", sample, "--limit", "2", "--output", tmp_path / f"rows{ending}", "--format", "table")

    assert (2, "", 0) == (odd.code, odd.out, text.code)
    assert odd.err.splitlines()[-1] == f"hint: deltacli read {sample} --limit 2 --output {tmp_path}/rows{meant}"


def test_standard_output_has_other_names(sample: Path) -> None:
    command = [sys.executable, "-m", "deltacli", "history", str(sample), "--json", "--output", "/dev/stdout"]

    done = subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=True)

    assert "deltacli.history" == json.loads(done.stdout)["kind"]
    assert Path("/dev/stdout").is_symlink()


def test_standard_output_that_is_a_file_is_not_replaced(sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "redirected"
    with target.open("wb") as stream:
        before = os.fstat(stream.fileno()).st_ino
        command = [sys.executable, "-m", "deltacli", "history", str(sample), "--json", "--output", "/dev/stdout"]

        subprocess.run(command, stdout=stream, env=ENVIRONMENT, check=True)

    assert before == target.stat().st_ino
    assert "deltacli.history" == json.loads(target.read_text())["kind"]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no disk in memory")
def test_a_file_on_a_disk_in_memory_is_replaced_like_any_other(sample: Path) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as held:
        before = os.fstat(held.fileno()).st_ino

        done = deltacli("history", sample, "--json", "--output", held.name)

        assert (0, b"") == (done.code, held.read())
        assert before != os.stat(held.name).st_ino
        assert "deltacli.history" == json.loads(Path(held.name).read_text())["kind"]


@pytest.mark.parametrize("name", ["", "_delta_log/00000000000000000015.json", "_delta_log/_sidecars/x.parquet"])
def test_a_result_is_not_written_into_a_log_or_a_missing_directory(name: str, sample: Path) -> None:
    target = f"{sample}/{name}" if name else ""

    done = deltacli("snapshot", sample, "--json", "--output", target)

    assert (2, False) == (done.code, name != "" and Path(target).exists())


@pytest.mark.parametrize(("name", "code"), [("pipe", 141), ("/dev/full", 7)])
def test_an_unreadable_version_number_does_not_crash(name: str, code: int) -> None:
    if name == "pipe":
        reader, stdout = os.pipe()
        os.close(reader)
    else:
        stdout = os.open(name, os.O_WRONLY)
    command = [sys.executable, "-m", "deltacli", "--version"]

    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, check=False)
    os.close(stdout)

    assert code == done.returncode
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "is_json"),
    [
        (("--format", "table", "--format", "json"), True),
        (("--format=json", "--format", "csv"), False),
        (("--json", "--log-format", "text"), False),
        (("--log-format", "text", "--log-format=json"), True),
    ],
)
def test_the_last_format_determines_the_form_of_errors(arguments: tuple[str, ...], is_json: bool, sample: Path) -> None:
    for wrong in (("--version", "99"), ("--version", "x")):
        done = deltacli("snapshot", sample, *arguments, *wrong)

        assert is_json == done.err.startswith("{")


def test_the_configuration_determines_the_form_of_errors(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('format = "json"\n')

    done = deltacli("snapshot", sample, "--version", "99", "--config", tmp_path / "c.toml")

    assert "table.version-absent" == done.error["code"]


def test_a_path_that_is_not_utf8_is_read_like_any_other(sample: Path, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff"))
    odd.symlink_to(sample, target_is_directory=True)

    done = deltacli("snapshot", odd, "--json")

    assert (0, []) == (done.code, done.document["logSegment"]["problems"])


def test_a_checkpoint_that_was_set_aside_is_named(sample: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(sample), str(copied)], check=True)
    name = f"{10:020d}.checkpoint.parquet"
    (copied / "_delta_log" / name).write_bytes(b"torn")

    done = deltacli("snapshot", copied)

    assert f"note: checkpoint.unreadable: a checkpoint cannot be read; an older start was used ({name})" in done.err


@pytest.mark.parametrize("command", [("history",), ("snapshot", "--files")])
def test_columns_must_name_at_least_one(command: tuple[str, ...], sample: Path) -> None:
    assert 2 == deltacli(command[0], sample, *command[1:], "--columns", ",").code


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("vacuum {table} --dry-run", "--output"),
        ("vacuum {table}", "--save-plan"),
        ("validate {table}", "--write-baseline"),
        ("validate {table}", "--trend"),
        ("read {table} --format parquet", "--output"),
    ],
)
def test_a_result_is_never_written_into_a_table(command: str, option: str, sample: Path, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(sample, table)
    before = {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}
    data = next(path for path in before if path.suffix == ".parquet" and "_delta_log" not in path.parts)
    (tmp_path / "link").symlink_to(data)

    for target in (data, table / "new", tmp_path / "link", table / "_delta_log" / "x.json"):
        done = deltacli(*command.format(table=table).split(), option, target)

        assert (2, True) == (done.code, f"{option} {target} is inside" in done.err), done.err
        assert before == {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}


def test_a_dash_is_standard_output_also_in_the_directory_of_a_table(sample: Path) -> None:
    done = deltacli("history", ".", "--json", "--output", "-", cwd=sample)

    assert "deltacli.history" == done.document["kind"]


def test_an_unbuffered_stdout_gets_every_byte_or_an_error() -> None:
    """
    A raw pipe takes a part of a block when its reader leaves, and Python reports no error for the rest.
    """
    program = "import sys; sys.argv = ['deltacli', '-h']"
    program += "\nfrom deltacli.cli.terminal.standard_streams import repair_standard_streams"
    program += (
        "\nrepair_standard_streams()\ntry:\n    sys.stdout.buffer.write(b'x\\n' * 1_000_000)\n    sys.stdout.flush()"
    )
    program += (
        "\nexcept BrokenPipeError:\n    sys.stderr.write('broken')\n    sys.stderr.flush()\nimport os; os._exit(0)"
    )
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        with in_time(process, "a run whose reader leaves ends"):
            first = process.stdout.readline()
            process.stdout.close()
            said = process.stderr.read()

    assert (b"x\n", b"broken") == (first, said)


@pytest.mark.parametrize(
    ("arguments", "name", "begins"),
    [
        (("read",), "x.parquet", b"PAR1"),
        (("history",), "x.CSV", b"version,timestamp,"),
        (("history",), "x.json", b'{"kind":"deltacli.history",'),
        (("history",), "x.jsonl", b'{"type":"commit",'),
        (("snapshot",), "x.md", b"| "),
        (("validate",), "x.sarif", b'{"$schema":'),
        (("validate", "--format", "sarif"), "x.json", b'{"$schema":'),
        (("history",), "x.txt", b"version  committed (UTC)"),
        (("log", "cat", "--actions", "commitInfo"), "x.jsonl", b'{"commitInfo":'),
        (("schema", "convert", "--to", "delta"), "x.json", b'{"type":"struct"'),
    ],
)
def test_the_name_of_the_output_chooses_the_format(
    arguments: tuple[str, ...], name: str, begins: bytes, sample: Path, tmp_path: Path
) -> None:
    command, others = arguments[:2] if arguments[0] in ("log", "schema") else arguments[:1], arguments[1:]
    others = others[1:] if len(command) == 2 else others

    result = deltacli(
        *command, sample, *others, *(["3"] if command == ("log", "cat") else []), "--output", tmp_path / name
    )

    assert 0 == result.code, result.err
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_the_name_wins_over_the_variable_and_the_configuration(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "deltacli.toml").write_text('format = "markdown"\n')
    out = tmp_path / "x.csv"

    by_variable = deltacli("history", sample, "--output", out, DELTACLI_FORMAT="parquet")
    first = out.read_bytes()
    by_file = deltacli("history", sample, "--output", out, "--config", tmp_path / "deltacli.toml")

    assert (0, 0) == (by_variable.code, by_file.code)
    assert first == out.read_bytes()
    assert first.startswith(b"version,")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("history", "--format", "csv", "--output", "x.json"), "--format csv contradicts --output x.json"),
        (("history", "--output", "x.xlsx"), "--output x.xlsx: deltacli cannot write .xlsx"),
        (("history", "--json", "--output", "x.md"), "--format json contradicts --output x.md"),
        (("read", "--format", "table", "--output", "x.parquet"), "--format table contradicts --output x.parquet"),
        (("history", "--output", "x.parquet"), "--output x.parquet: this command does not write parquet"),
        (("log", "cat", "--output", "x.csv"), "--output x.csv: this command does not write csv"),
    ],
)
def test_an_option_that_contradicts_the_name_is_refused(
    arguments: tuple[str, ...], message: str, sample: Path, tmp_path: Path
) -> None:
    place = arguments.index("--output") if "cat" in arguments else 1

    result = deltacli(*arguments[:place], sample, *arguments[place:], "--log-format", "text", cwd=tmp_path)

    assert 2 == result.code
    assert result.err.startswith(f"error: {message}")
    assert not list(tmp_path.glob("x.*"))
