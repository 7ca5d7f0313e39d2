"""Every way in for text and numbers: the parameters of each command, as they are declared, and values at the extremes
of both.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import orjson

from deltacli.cli.app import run
from deltacli.cli.command_loading import load_command
from deltacli.cli.command_table import COMMANDS
from deltacli.cli.shared_options import declare_output, declare_settings, read_parameters
from deltacli.core.typing import Click
from tests.golden import places

LONG = "x" * 30_000_000
VALUES: dict[str, str] = {
    "empty": "",
    "blank": " ",
    "NUL": "a\0b",
    "half a surrogate pair": "a\ud800b",
    "Latin-1 byte": "caf\udce9",
    "only bytes": "\udcff\udcfe",
    "30 MB": LONG,
    "30 MB of dots": ".".join(["a"] * 15_000_000),
    "name of 300": "n" * 300,
    "path of 5000": "/".join(["d" * 99] * 50),
    "2^31": str(2**31),
    "2^31-1": str(2**31 - 1),
    "2^53": str(2**53),
    "2^53+1": str(2**53 + 1),
    "2^63-1": str(2**63 - 1),
    "2^63": str(2**63),
    "2^64": str(2**64),
    "10^30": str(10**30),
    "5000 digits": "9" * 5000,
    "0": "0",
    "-1": "-1",
    "-2^63-1": str(-(2**63) - 1),
    "1.5": "1.5",
    "NaN": "NaN",
    "inf": "inf",
    "-inf": "-Infinity",
    "1e400": "1e400",
    "digits of another script": "\u0663\u0664",
    "superscript": "\u00b2",
    "right to left": "\u202etxt.\u05d0",
    "combining": "e\u0301" + "\u0301" * 50,
    "newline": "a\nb",
    "carriage return": "a\rb",
    "line separator": "a\u2028b",
    "escape": "\x1b[31mred",
    "byte order mark": "\ufeffa",
    "outside the BMP": "\U0001f600",
    "quotes": "'\"`;--",
    "percent": "%00%ff%zz",
    "markup": "[bold]x[/]",
    "years": "9999-12-31T23:59:59.999999Z",
    "year 0": "0001-01-01T00:00:00+23:59",
    "days": "999999999999999999d",
    "share": "1e309%",
    "size": "99999999999999999999999EiB",
    "range": "0-99999999999999999999",
    "versions": "0-9000000000000000000",
    "pair": "k=v",
    "file": "@nosuch\udce9",
    "scheme": "nosuch://\udce9/x",
    "file URI": "file:///proc/%E9",
}
"""A name -> a text."""
LONGEST = ("30 MB", "30 MB of dots")

_PAIRS = ("K=V", "K=V|K")
LINES: dict[str, str] = {
    "alter": "alter tbl add tax int --yes",
    "catalog ls": "catalog ls uc://main.sales --retry-budget 0s",
    "catalog publish": "catalog publish uc://main.sales.orders --retry-budget 0s --yes",
    "catalog staged": "catalog staged uc://main.sales.orders --retry-budget 0s",
    "catalog status": "catalog status uc://main.sales.orders --retry-budget 0s",
    "changes": "changes tbl --from 1",
    "checkpoint": "checkpoint tbl",
    "clone": "clone tbl made --yes",
    "completion": "completion bash",
    "convert": "convert tbl --exclude x --yes",
    "copy": "copy tbl made",
    "diff": "diff tbl 3 5",
    "doctor access": "doctor access tbl",
    "doctor storage": "doctor storage tbl --yes",
    "doctor table": "doctor table tbl",
    "explain": "explain tbl",
    "features": "features tbl add deletionVectors --yes",
    "fleet check": "fleet check fleet.toml",
    "fleet init": "fleet init . new.toml",
    "fleet plan": "fleet plan fleet.toml",
    "fleet run": "fleet run fleet.toml --jobs 1 --yes",
    "fleet status": "fleet status fleet.toml",
    "history": "history tbl",
    "log backup": "log backup tbl copy",
    "log cat": "log cat tbl 3",
    "log compact": "log compact tbl --from 11 --to 14",
    "log crc": "log crc tbl",
    "log expire": "log expire tbl --yes",
    "log restore": "log restore tbl backup --yes",
    "manifest": "manifest tbl --yes",
    "optimize": "optimize tbl --yes",
    "stats": "stats tbl --yes",
    "properties": "properties tbl set owner=ops --yes",
    "reach": "reach tbl",
    "read": "read tbl",
    "repair": "repair tbl --yes",
    "restore": "restore tbl --version 8 --yes",
    "schema convert": "schema convert tbl --to paimon",
    "schema diff": "schema diff tbl paimon",
    "schema show": "schema show tbl",
    "share changes": "share changes p.share#s.d.t --from 0 --retry-budget 0s",
    "share check": "share check --config shares.yaml",
    "share head": "share head p.share#s.d.t --retry-budget 0s",
    "share init": "share init tbl --config new.yaml",
    "share key rotate": "share key rotate --config shares.yaml --yes",
    "share ls": "share ls p.share --retry-budget 0s",
    "share profile check": "share profile check p.share",
    "share profile show": "share profile show p.share",
    "share pull": "share pull p.share#s.d.t --to local --retry-budget 0s --yes",
    "share recipient add": "share recipient add acme --grant s --config shares.yaml --yes",
    "share recipient grant": "share recipient grant known s --config shares.yaml --yes",
    "share recipient list": "share recipient list known --config shares.yaml",
    "share recipient remove": "share recipient remove known --config shares.yaml --yes",
    "share recipient revoke": "share recipient revoke known s --config shares.yaml --yes",
    "share schema": "share schema p.share#s.d.t --retry-budget 0s",
    "share serve": "share serve tbl --port 0",
    "share test": "share test p.share --retry-budget 0s",
    "share token create": "share token create known --profile new.share --config shares.yaml --yes",
    "share token list": "share token list known --config shares.yaml",
    "share token revoke": "share token revoke known t1 --config shares.yaml --yes",
    "share token rotate": "share token rotate known --config shares.yaml --yes",
    "snapshot": "snapshot tbl",
    "spark package": "spark package --to .",
    "streams": "streams tbl --checkpoints=chk/*",
    "undelete": "undelete tbl --yes",
    "vacuum": "vacuum tbl --max-delete 100% --yes",
    "validate": "validate tbl",
    "widen-type": "widen-type tbl ride.fare decimal(20,2) --enable --upgrade-protocol --yes",
}
"""Command -> a line that works, or would where a server answers."""

MORE = (
    "alter tbl add tax int --comment c --default 1 --yes",
    "alter tbl rename trip id --yes",
    "alter tbl drop trip --yes",
    "alter tbl move trip first --yes",
    "alter tbl comment trip text --yes",
    "alter tbl default trip 1 --yes",
    "alter tbl nullable trip --yes",
    "alter tbl not-null trip --yes",
    "alter tbl type trip double --yes",
    "alter tbl table-comment text --yes",
    "alter tbl name rides --yes",
    "alter tbl constraint add c 'trip > 0' --upgrade-protocol --yes",
    "alter tbl cluster trip --upgrade-protocol --yes",
    "alter tbl mapping name --upgrade-protocol --yes",
    "alter paimon add tax INT --yes",
    "alter paimon rename price cost --yes",
    "alter paimon comment price text --yes",
    "alter paimon set snapshot.time-retained=2h --yes",
    "alter paimon unset snapshot.time-retained --yes",
    "alter paimon table-comment text --yes",
    "features tbl drop deletionVectors --yes",
    "history paimon",
    "properties tbl unset owner --yes",
    "properties tbl get owner",
    "restore tbl --version 8 --where \"day = '2026-01-02'\" --yes",
    "snapshot paimon",
    "schema show paimon",
    "validate paimon",
    "vacuum paimon --schemas --keep-last 2 --yes",
    "widen-type paimon price 'DECIMAL(20, 2)' --yes",
)
"""Other lines whose words are replaced; the options are tried with those above."""

SHARED = frozenset(
    option.name for declared in (declare_output, declare_settings) for option in read_parameters(declared)
)


class Case(NamedTuple):
    """A command line with a value in one place."""

    command: str
    parameter: str
    words: tuple[str, ...]
    position: int
    form: str = "{}"

    def argv(self, value: str) -> list[str]:
        """Return the words with the value."""
        words = [*self.words]
        words[self.position] = self.form.replace("{}", value)
        return words

    def serves(self, name: str) -> bool:
        """Whether the command would not end: it serves, and the value lets it."""
        return self.command == "share serve" or (self.parameter == "--serve-metrics" and name == "0")

    def __str__(self) -> str:
        return f"{self.command} {self.parameter}" + ("" if self.form.endswith("={}") else f" {self.form}")


@cache
def cases(*, shared: bool | None = None) -> list[Case]:
    """Return the cases of every parameter of every command: those that commands share, or their own; None: both."""
    found = [case for name in COMMANDS for case in _options_of(name, shared)]
    return found if shared else [*found, *_words()]


def _options_of(name: str, shared: bool | None) -> Iterator[Case]:
    line = tuple(shlex.split(LINES[name]))
    for option in _command(name).params:
        if option.param_type_name != "option" or option.is_flag or option.count:
            continue
        if shared is not None and shared != (option.name in SHARED):
            continue
        spelled = max(option.opts, key=len)
        forms = ("{}", "k={}", "{}=v") if option.metavar in _PAIRS else ("{}",)
        for form in forms:
            words = (*line, f"{spelled}=")
            yield Case(name, spelled, words, len(line), f"{spelled}={form}")


def _words() -> Iterator[Case]:
    for text in (*LINES.values(), *MORE):
        line = tuple(shlex.split(text))
        name = max((known for known in COMMANDS if text.startswith(f"{known} ")), key=len)
        for position in range(len(name.split()), len(line)):
            word = line[position]
            if word.startswith("-") or line[position - 1].startswith("--"):
                continue
            yield Case(name, f"{text.removeprefix(name)} ({position})", line, position)
            if "=" in word:
                yield Case(name, f"{text.removeprefix(name)} ({position})", line, position, "owner={}")
                yield Case(name, f"{text.removeprefix(name)} ({position})", line, position, "{}=v")


def _command(name: str) -> Click:
    return load_command(tuple(name.split()))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    code: int
    out: bytes
    err: str


def run_here(argv: Sequence[str]) -> Ended:
    """Run a command line in this process, with streams as those of a pipe."""
    kept = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", errors="strict")
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace")
    try:
        code = run([*argv])
        sys.stdout.flush()
        sys.stderr.flush()
        return Ended(code, out.getvalue(), err.getvalue().decode())
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept


class Place:
    """A directory with everything that the lines name, which is made again after a run that changed something."""

    def __init__(self, root: Path) -> None:
        self._kept, self.root = root / "kept", root / "place"
        self._kept.mkdir()
        _fill(self._kept)
        self._was = _tree(self._kept)
        self._make()

    def _make(self) -> None:
        shutil.rmtree(os.fsencode(self.root), ignore_errors=True)
        shutil.copytree(self._kept, self.root)

    def changed(self) -> list[bytes]:
        """Return the files that differ from how they were."""
        now = _tree(self.root)
        return sorted(path for path in now.keys() | self._was.keys() if now.get(path) != self._was.get(path))

    def again(self) -> None:
        """Make everything as it was."""
        if self.changed():
            self._make()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Run in the directory."""
        before = Path.cwd()
        os.chdir(self.root)
        try:
            yield
        finally:
            os.chdir(before)


def _fill(root: Path) -> None:
    places.streamed(root)
    places.paimon(root)
    (root / "backup").mkdir()
    with _at(root):
        assert 0 == run_here(["log", "backup", "tbl", "backup"]).code
        assert 0 == run_here(["fleet", "init", "tbl", "fleet.toml"]).code
        assert 0 == run_here(["share", "init", "tbl", "--config", "shares.yaml"]).code
        (root / "p.share").write_text(
            '{"shareCredentialsVersion": 1, "endpoint": "http://127.0.0.1:9/x", "bearerToken": "t"}'
        )
    (root / "p.share").chmod(0o600)


@contextmanager
def _at(root: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(root)
    try:
        yield
    finally:
        os.chdir(before)


def _tree(root: Path) -> dict[bytes, tuple[int, int]]:
    """Return each file below a directory with its size and time."""
    found = {}
    for at, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(at, name)
            status = os.lstat(path)
            found[os.path.relpath(path, os.fsencode(root))] = (status.st_size, status.st_mtime_ns)
    return found


def faults_of(table: Path) -> list[str]:
    """Return which commits other engines cannot read: their parsers refuse half a surrogate pair, also as an escape."""
    faults = []
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_bytes().splitlines():
            try:
                action = orjson.loads(line)
                if "metaData" in action:
                    orjson.loads(action["metaData"]["schemaString"])
            except orjson.JSONDecodeError as fault:
                faults.append(f"{commit.name}: {fault}")
    return faults
