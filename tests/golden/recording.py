"""What a run left, as text that is the same in every run, and the files that keep it."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from deltacli import __version__
from tests.cli.screen import marked
from tests.golden.cases import FORMS, WAYS, Case, Change, cases_of
from tests.golden.places import Places
from tests.golden.python_api import call_in, calls
from tests.golden.running import run_in

STORED = Path(__file__).parent / "runs"
PYTHON = "python api"
"""The name under which the calls of the Python API are kept."""

_CONTENT = re.compile(r"(_delta_log/\d{20}\.json|schema/schema-\d+|snapshot/snapshot-\d+)$")
"""Files whose content is kept: commits, and schemas and snapshots of Paimon."""


def record(places: Places, change: Change, chosen: Sequence[Case] | None = None) -> dict[str, str]:
    """Run the cases of a change and return the text of each under its title. What happened to the files is told once
    for the forms of a way, where it is the same.
    """
    found: dict[str, str] = {}
    told: dict[str, tuple[str, str]] = {}
    for case in cases_of(change) if chosen is None else chosen:
        head, files = _run(places, case)
        form, first = told.setdefault(case.way, (case.form, files))
        found[case.title] = head + (files if form == case.form or files != first else f"--- files as {form}\n")
    return found


def record_calls(places: Places) -> dict[str, str]:
    """Run the calls of the Python API and return the text of each under its line."""
    found = {}
    for line, call in calls():
        place = places.begin(call.place, call.before)
        before = _tree(place)
        found[line] = "".join(_told(places, before, call_in(place, line)))
    return found


def _run(places: Places, case: Case) -> tuple[str, str]:
    """Run a case and return what it said, and what happened to the files."""
    change, way, form = case.change, WAYS[case.way], FORMS[case.form]
    place = places.begin(change.place, case.before)
    before = _tree(place)
    seen = run_in(
        place,
        [found for word in shlex.split(case.command) for found in _globbed(place, word)],
        width=form.width,
        colour=form.colour,
        answer=way.answer,
        interrupted_after=change.act if way.is_interrupted else 0,
    )
    said = f"$ deltacli {case.command}\nexit {seen.code}\n{_quoted('stdout', seen.out)}{_quoted('stderr', seen.err)}"
    return _told(places, before, said)


def _told(places: Places, before: Mapping[str, bytes | None], said: str) -> tuple[str, str]:
    """Return what was said, and what happened to the files since, without what differs between runs."""
    changes = _changes(before, _tree(places.place))
    head, *files = scrub(_SEAM.join([said, *changes]), places.root).split(_SEAM)
    # What is named by chance has its place in the list by the name that it has here.
    return head, "".join(["--- files\n", *sorted(files, key=lambda text: text[2:])] if files else [])


_SEAM = "\0"


def _globbed(place: Path, word: str) -> list[str]:
    return [str(path.relative_to(place)) for path in place.glob(word)] if "*" in word else [word]


def _quoted(name: str, text: str) -> str:
    if not text:
        return ""
    lines = "".join(f"|{line}\n" for line in marked(text).removesuffix("\n").split("\n"))
    return f"--- {name}\n{lines}" + ("" if text.endswith("\n") else "(no end of line)\n")


def _tree(place: Path) -> dict[str, bytes | None]:
    """Return every file below a directory with its content, and every directory."""
    return {str(path.relative_to(place)): path.read_bytes() if path.is_file() else None for path in place.rglob("*")}


def _changes(before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]) -> Iterator[str]:
    """Yield what happened to each file and directory: it appeared, changed or vanished; with the content of commits
    first, so that ids in them are counted by their order.
    """
    known = {content: name for name, content in before.items() if content}
    names = {name for name in before.keys() | after.keys() if before.get(name, 0) != after.get(name, 0)}
    for name in sorted(names, key=lambda name: (not _CONTENT.search(name), name)):
        sign = "-" if name not in after else "+" if name not in before else "~"
        content = after.get(name, before.get(name))
        text = f"{sign} {name}{'/' if content is None else ''}"
        if sign != "-" and content in known:
            yield f"{text} (as {known[content]})\n"
        elif sign != "-" and content is not None and _CONTENT.search(name):
            yield f"{text}\n" + "".join(f"  |{line}\n" for line in content.decode().splitlines())
        else:
            yield f"{text}\n"


_IDS = re.compile(
    r"(?<![0-9a-f])(?:"
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?<=\dZ-)[0-9a-f]{8}"  # of a run
    r"|(?<=_deltacli-doctor-)[0-9a-f]{12}"
    r"|(?<=deltacli-pull/)[0-9a-f]{32}"
    r"|(?<=leases/)[0-9a-f]{16}"  # of the place of a table
    r'|(?:(?<="planId":")|(?<="planId": "))[0-9a-f]{16}'  # of the same, where a log or schemas expire
    r")(?![0-9a-f])"
)
_DURATIONS = (
    (re.compile(r'(?<="durationMs":)\d+'), "0"),
    (re.compile(r"(?m)^(\|.*/place/lake/.*?) *\b\d+\.\d+( \|)?$"), r"\1 SECONDS\2"),
    (re.compile(r"\b\d\.\d s\b"), "0.0 s"),
)
"""What a run of a fleet measures, in each format."""


def scrub(text: str, root: Path) -> str:
    """Return a text without what differs between runs: the place, ids, the version of deltacli, and durations. Each has
    another of the same length in its place, so that columns stay where they are; ids are counted.
    """
    ids: dict[str, str] = {}
    text = text.replace(str(root), re.sub(r"\d", "0", str(root)))
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
    text = text.replace(f"deltacli/{__version__}", "deltacli/VERSION")
    if text.startswith("$ deltacli fleet run"):
        for pattern, instead in _DURATIONS:
            text = pattern.sub(instead, text)
    return _IDS.sub(lambda found: ids.setdefault(found[0], _numbered(found[0], len(ids) + 1)), text)


def _numbered(found: str, number: int) -> str:
    digits = iter(f"{number:0{sum(one != '-' for one in found)}}")
    return "".join(one if one == "-" else next(digits) for one in found)


def without_files(text: str) -> str:
    """Return the text of a run without what happened to the files."""
    return text.partition("--- files")[0]


def stored_in(name: str, directory: Path = STORED) -> Path:
    return directory / f"{name.replace(' ', '_')}.txt"


def stored(name: str, directory: Path = STORED) -> dict[str, str]:
    """Return the kept text of each run of a change under its title."""
    sections = re.split(r"^=== (.*)\n", stored_in(name, directory).read_bytes().decode(), flags=re.MULTILINE)
    return dict(zip(sections[1::2], sections[2::2], strict=True))


def store(name: str, runs: Mapping[str, str], directory: Path = STORED) -> None:
    """Keep the text of each run of a change, in the order of the runs."""
    directory.mkdir(exist_ok=True)
    stored_in(name, directory).write_bytes("".join(f"=== {title}\n{text}" for title, text in runs.items()).encode())


def difference(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Return what differs between the kept texts of runs and those found, as a unified diff; "" where nothing does."""
    lines: list[str] = []
    for title in [*expected, *(title for title in found if title not in expected)]:
        before, after = (texts.get(title, "").splitlines(keepends=True) for texts in (expected, found))
        lines += difflib.unified_diff(before, after, f"kept: {title}", f"found: {title}", n=1)
    return "".join(lines)


@contextmanager
def places() -> Iterator[Places]:
    """Yield the places of golden runs in a directory whose name has the same length in every run."""
    root = Path(f"/tmp/deltacli-golden-{os.getpid():07d}")
    try:
        yield Places(root)
    finally:
        shutil.rmtree(root)
