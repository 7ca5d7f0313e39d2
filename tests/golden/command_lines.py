"""Command lines that fail before their command begins, and help: what they print, kept for each command.

The lines are made from the command tree, so a new option brings its own. All run in one empty directory: few get as far
as to look for a table, and there is none.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from deltacli.cli.described_commands import DescribedCommand, DescribedOption, describe_tree
from tests.golden.running import run_in

STORED = Path(__file__).parent / "command_lines"
GENERAL = "deltacli"
"""The name under which the lines of no command are kept."""

_SECRET = "wJalrXUtnFEMIK7MDENG"
_TYPED_SECRETS = (
    f"--storage-option secret_access_key:{_SECRET}",
    f"--storage-opton aws_secret_access_key={_SECRET}",
    f"--token {_SECRET}",
    f"--password={_SECRET}",
    f"--limitt s3://key:{_SECRET}@bucket/tbl",
)

_WRONG_VALUES: Mapping[str, Sequence[str]] = {
    "DURATION": ("7", "-1d", "1 fortnight", "''"),
    "DURATION|never": ("7", "sometimes"),
    "T": ("soon", "2026-13-01", "''"),
    "K=V": ("K", "=V", "''"),
    "SIZE": ("big", "-1", "1 parsec"),
    "SIZE/s": ("big",),
    "N/s": ("fast", "0/s"),
    "N%": ("101%", "-1%", "most"),
    "N%|SIZE": ("101%", "most"),
    "N-M": ("5-3", "all"),
    "A,B-C,…": ("3-1", "all"),
    "N,N-M,…": ("3-1", "all"),
    "V": ("-1", "latest", "1.0"),
    "VERSION": ("-1", "1.0"),
    "V|T": ("-1", "soon"),
    "[HOST:]PORT": ("localhost", "99999"),
}
"""Name of a value -> texts that no option with such a value takes."""
_NO_INTEGERS = ("x", "1.0", "1_000", "' 5'", "-1", "''")
_NO_CHOICE = ("no-such-choice", "''")

_TOPICS = (
    *("exit-codes", "environment", "configuration", "formats", "glossary", "durations", "conditions", "examples"),
    *("3", "--retention", "retention", "--format", "vacuum.unlisted", "commit.empty", "commit.*", "action.*"),
    *("delta.appendOnly", "deletionVectors", "DELTACLI_FORMAT", "AWS_REGION", "s3", "fsck", "vaccum", "no-such-topic"),
)


def lines_of(name: str) -> list[str]:
    """Return the command lines that are kept under a name: of a command, of a group of commands, or of neither."""
    if name == GENERAL:
        return list(dict.fromkeys([*_lines_of_a_group(describe_tree()), *_lines_of_the_root()]))
    found = {command.name: command for command in describe_tree().walk()}[name]
    return list(dict.fromkeys(_lines_of_a_group(found) if found.children else _lines_of_a_command(found)))


def names() -> list[str]:
    """Return the names under which lines are kept."""
    return [GENERAL, *(command.name for command in describe_tree().walk() if command.path)]


@contextmanager
def empty_place() -> Iterator[Path]:
    """Yield an empty directory whose name has the same length in every run, so that lines fold at the same words."""
    place = Path(f"/tmp/deltacli-lines-{os.getpid():07d}")
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place)


def record_lines(place: Path, name: str, lines: Sequence[str] | None = None) -> dict[str, str]:
    """Run the command lines of a name in a directory, and return what each one printed under its text."""
    found = {}
    for line in lines_of(name) if lines is None else lines:
        seen = run_in(place, shlex.split(line), now=None)
        said = f"exit {seen.code}\n{_quoted('stdout', seen.out)}{_quoted('stderr', seen.err)}"
        found[line] = said.replace(str(place), "/PLACE")
    return found


def _quoted(stream: str, text: str) -> str:
    return "".join(f"{stream}|{line}\n" for line in text.removesuffix("\n").split("\n")) if text else ""


def _lines_of_the_root() -> Iterator[str]:
    yield from ("", "--help", "--help-all", "help", "--no-such-option", "no-such-command", "vaccum tbl", "-x", "--")
    yield from ("--format", "--format json", "--format yaml snapshot tbl", "--no-such-option snapshot tbl", "-q", "-qq")
    yield from ("./tbl", "tbl snapshot", "snapshot history tbl", "help snapshot history", "--version=1", "-C")
    yield from (f"help {topic}" for topic in _TOPICS)


def _lines_of_a_group(group: DescribedCommand) -> Iterator[str]:
    name = group.name
    if name:
        yield from (name, f"{name} --help", f"help {name}", f"{name} -h")
    yield from (f"{name} {rest}".strip() for rest in ("no-such-command", "--no-such-option", "-q", "--format json"))
    first = next(child for child in group.children if not child.children)
    yield f"{name} -q {first.path[-1]} --no-such-option".strip()
    yield f"{name} --format json {first.path[-1]} --no-such-option".strip()
    yield f"-q {name} {first.path[-1]} --no-such-option"


def _lines_of_a_command(command: DescribedCommand) -> Iterator[str]:
    """Yield its help, and what is wrong with its arguments and options."""
    name, arguments = command.name, " ".join(_arguments(command))
    whole = f"{name} {arguments}".strip()
    yield from (f"{name} --help", f"{name} --help-all", f"help {name}", f"help {name} --all")
    if any(argument.required for argument in command.arguments):
        yield name
        yield f"{name} --json"
    yield f"{whole} one too many"
    yield from _unknown_options(command, whole)
    own = [option for option in command.options if option.section != "Other" and not _is_shared(option)]
    for option in own:
        yield from _wrong_values(option, whole)
    for option, following in pairwise([*own, *own[:1]]):
        if option.value is not None:  # the next option must not become its value
            yield f"{whole} {option.spellings[-1]} {following.spellings[-1]}"


def _unknown_options(command: DescribedCommand, whole: str) -> Iterator[str]:
    """Yield lines with an unknown, misspelled or secret option, before, between and after the other words.

    Args:
        command: The command.
        whole: Its name with a word for each required argument.
    """
    name, rest = command.name, whole.removeprefix(command.name)
    yield f"{whole} --no-such-option"
    yield f"{name} --no-such-option{rest}"
    yield f"--no-such-option {whole}"
    yield f"{whole} --no-such-option=1 --json"
    yield f"--format json {whole} --no-such-option"
    yield f"{whole} -Z"
    yield f"{whole} --quiett"
    yield f"{whole} --format"
    yield f"{whole} --format no-such-format"
    yield f"{whole} --quiet=yes"
    yield from (f"{whole} {secret}" for secret in _TYPED_SECRETS)
    own = [option for option in command.options if not _is_shared(option)]
    for option in sorted(own, key=lambda option: len(option.spellings[-1]))[-2:]:
        spelled = option.spellings[-1]
        yield f"{whole} {spelled[:-2]}{spelled[-1]}" + (" 1" if option.value else "")


def _wrong_values(option: DescribedOption, whole: str) -> Iterator[str]:
    spelled = option.spellings[-1]
    if option.value is None:
        yield f"{whole} {spelled}=1"
        return
    yield f"{whole} {spelled}"
    if option.value.choices:
        wrong_texts: Sequence[str] = _NO_CHOICE
    elif option.is_integer:
        wrong_texts = _NO_INTEGERS
    else:
        wrong_texts = _WRONG_VALUES.get(option.value.name, ())
    for text in wrong_texts:
        yield f"{whole} {spelled}={text}"


def _arguments(command: DescribedCommand) -> Iterator[str]:
    """Yield words for the required arguments of a command."""
    for argument in command.arguments:
        if argument.required:
            choices = argument.value.choices
            yield choices[0] if choices else argument.value.name.lower().replace(" ", " x")


def _is_shared(option: DescribedOption) -> bool:
    shared = {spelling for one in describe_tree().options for spelling in one.spellings}
    return not shared.isdisjoint(option.spellings)
