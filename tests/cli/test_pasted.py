"""Every example of the help can be pasted into a shell as it stands, and so can every command that a message names."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deltacli.cli.described_commands import describe_tree
from deltacli.sharing.signing.keys import ServerKeys
from tests.cli.support import Result, check_words, deltacli, make_sample
from tests.support.effort import InTurn
from tests.support.paimon_builder import ID, NAME, PRICE, PaimonBuilder, field
from tests.support.stream_checkpoints import offset, write_checkpoint

NOT_USABLE = {2, 70}
"""Exit codes of a usage error and of a bug."""
NOWHERE = "http://127.0.0.1:9"
ENVIRONMENT = {
    "AWS_ENDPOINT_URL": NOWHERE,
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "STORAGE_EMULATOR_HOST": NOWHERE,
    "UC_ENDPOINT": NOWHERE,
    "DELTACLI_RETRY_BUDGET": "0s",
    "WITHOUT_RICH": "",  # no command imports it without a terminal
}
SHARES = """\
version: 1
recipients: recipients.json
keyFile: keys.json
shares:
- name: sales
  schemas:
  - {name: eu, tables: [{name: orders, location: ./tbl}]}
  - {name: us, tables: [{name: orders, location: ./tbl}]}
"""
POLICY = """\
[policies.standard]
checkpoint = { commits = 1 }
vacuum = { every = "7d", consent = true }
[groups.bronze]
policy = "standard"
tables = ["tbl", "nope/gone", "lake/trips"]
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what the examples name."""
    root = tmp_path_factory.mktemp("places")
    make_sample(root / "tbl")
    make_sample(root / "lake" / "trips", damaged=True)
    address = field(7, "address", {"type": "ROW", "fields": [field(8, "zip", "STRING")]})
    paimon = PaimonBuilder(root / "paimon_tbl").schema(ID, NAME).snapshot(0).tag("first", 1)
    paimon.schema(ID, NAME, PRICE, address)
    for number in range(4):
        paimon.schema(ID, NAME, PRICE, address, prefix="branch/branch-dev/", id=number)
    for name, content in (("shares.yaml", SHARES), ("fleet.toml", POLICY), ("prices.toml", "get-per-1000 = 0.001\n")):
        (root / name).write_text(content)
    changes = [{"change": "table-comment", "comment": "trips of a day"}]
    (root / "changes.json").write_text(json.dumps(changes))
    profile = {"shareCredentialsVersion": 1, "endpoint": f"{NOWHERE}/x", "bearerToken": "t"}
    for name in ("acme.share", "a.share"):
        (root / name).write_text(json.dumps(profile))
    shutil.copy(next((root / "tbl").glob("day=*/*.parquet")), root / "part-0.parquet")
    for name in (".zfunc", "pages"):
        (root / name).mkdir()
    return root


def run(place: Path, *words: str) -> Result:
    result = deltacli(*words, cwd=place, HOME=str(place), **ENVIRONMENT)
    assert "Traceback" not in result.err, result.err  # of what runs the command
    return result


def examples() -> Iterator[tuple[str, str]]:
    """Yield each page of the help with each of its examples."""
    for command in describe_tree().walk():
        found = re.search(r"Examples:\n((?: +\S.*\n?)+)", command.help)
        if found:
            yield from ((command.name, line.strip()) for line in found[1].splitlines())


def commands(line: str) -> list[list[str]]:
    """Return the words behind `deltacli` in each command that a line for a shell runs."""
    line = re.sub(r" +# .*", "", line).replace("https://share.example.com/api", f"{NOWHERE}/x")
    line = line.replace(" /backups/", " backups/")  # nothing is written outside of the place
    if inner := re.search(r"[<$]\((deltacli [^)]*)\)", line):
        line = inner[1]
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&>()")
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("|&>()"):
            found.append([])
        else:
            found[-1].append(word)
    return [words[1:] for words in found if words[:1] == ["deltacli"]]


def is_endless(words: Sequence[str]) -> bool:
    """Return whether a command runs until it is stopped: only its words are checked."""
    return words[:2] == ["share", "serve"] or "--serve-metrics" in words


def test_examples_are_of_a_shell() -> None:
    lines = [line for _, line in examples()]
    done = subprocess.run(["bash", "-n"], input="\n".join(lines), capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert 150 < len(lines)
    assert [] == [line for line in lines if not commands(line)]


def prepare(page: str, place: Path) -> None:
    """Make what the examples of a page need to be there, or not to be there."""
    if page == "share test":
        run(place, "validate", "tbl", "--write-baseline", "known.json")
    if page == "convert":
        (place / "events" / "day=2026-01-01" / "country=DE").mkdir(parents=True)
        shutil.copy(place / "part-0.parquet", place / "events" / "day=2026-01-01" / "country=DE")
        (place / "hours" / "at=2026-01-01 13%3A00%3A00").mkdir(parents=True)
        shutil.copy(place / "part-0.parquet", place / "hours" / "at=2026-01-01 13%3A00%3A00")
        (place / "snapshot.json").write_text(run(place, "snapshot", "tbl", "--json").out)
        shutil.copytree(place / "tbl", place / "lost", ignore=shutil.ignore_patterns("_delta_log"))
    if page in ("read", "changes"):
        run(place, "properties", "tbl", "set", "delta.enableRowTracking=true", "--upgrade-protocol", "--yes")
    if page in ("streams", "features"):
        table_id = json.loads(run(place, "snapshot", "tbl", "--json").out)["metadata"]["id"]
        write_checkpoint(place / "chk" / "orders", [offset(table_id, 13), offset(table_id, 14)])
    if page == "share":  # whose examples follow each other
        (place / "shares.yaml").unlink()
        run(place, "share", "init", "./lake")
    if page.startswith("share key"):
        ServerKeys.read_or_create(place / "keys.json", now_ms=0)
    if page.startswith(("share recipient", "share token")) and page != "share recipient add":
        run(place, *["share", "recipient", "add", "acme", "--grant", "sales", "--grant", "sales/eu"])
    if page.startswith("share token"):
        (place / "a.share").unlink()
        (place / "acme.share").unlink()
        run(place, "share", "token", "create", "acme")
        recipients = place / "recipients.json"
        recipients.write_text(re.sub('"id": ?"t[0-9a-f]{8}"', '"id":"t1a2b3c4d"', recipients.read_text()))


def pages() -> dict[str, list[list[str]]]:
    """Return the commands of each page; one that several pages have in the longest, which is about it alone."""
    found: dict[str, list[list[str]]] = {}
    known: list[list[str]] = []
    for page, line in sorted(examples(), key=lambda example: -len(example[0])):
        new = [words for words in commands(line) if words not in known]
        found.setdefault(page, []).extend(new)
        known += new
    return found


PAGES = pages()


@pytest.mark.parametrize("words", PAGES.values(), ids=PAGES)
def test_examples_are_parsed(words: list[list[str]]) -> None:
    for command in words:
        check_words(command)


@pytest.mark.parametrize("page", sorted(page for page, found in PAGES.items() if found))
def test_examples_can_be_pasted(page: str, places: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    shutil.copytree(places, place)
    prepare(page, place)
    problems = []
    for words in PAGES[page]:
        if is_endless(words):
            check_words(words)
        elif (result := run(place, *words)).code in NOT_USABLE:
            problems.append(f"{shlex.join(words)}: {result.err}")
        elif result.code == 4 and not re.search("confirmation is required|exists already", result.err):
            problems.append(f"{shlex.join(words)} is refused: {result.err}")

    assert [] == problems


MISTAKES = """\
history
histroy ./tbl
history nope
history ./tbl --columns typo
history ./tbl --limit x
history .
snapshot ./tbl --version 99
snapshot ./tbl --timestamp 2020-01-01
snapshot ./tbl --mapping
snapshot ./tbl --tombstones --files
snapshot ./tbl --output x.parquet
read ./tbl --limit 2 --output x.parquet
read ./tbl --columns typo
read ./tbl --where "day = 2026-01-01"
read ./tbl --where "trip >"
read ./lake/trips
changes ./tbl --from abc
changes ./tbl --from 99
changes ./tbl --from 9 --to 3
checkpoint ./tbl
checkpoint ./tbl --version 99
checkpoint ./tbl --layout v2
vacuum ./tbl
vacuum ./tbl --retention 1h
vacuum ./tbl --mode x
vacuum ./tbl --apply nope.parquet
vacuum ./tbl --save-plan plan.parquet
vacuum ./paimon_tbl
snapshot ./paimon_tbl --schema-id 99
schema diff ./tbl ./paimon_tbl --to schema:99
validate
validate ./tbl --baseline nope.json
validate ./tbl --select typo.*
validate ./lake/trips --level storage
validate nope
log cat ./tbl
log cat ./tbl 99
log crc ./tbl
log compact ./tbl --from 1 --to 99
log expire ./tbl --retention 1d
log restore ./tbl nope
properties ./tbl get typo
properties ./tbl set
properties ./tbl set delta.appendOnly=maybe
properties ./tbl unset nope
features ./tbl remove appendOnly
features ./tbl add typo
features ./tbl add deletionVectors
widen-type ./tbl trip int
widen-type ./tbl typo long
widen-type ./tbl ride.fare "decimal(20,2)"
alter ./tbl add a INT
alter ./tbl remove ride
alter ./tbl rename ride trip2
alter ./tbl drop ridee
alter ./paimon_tbl drop id
diff ./tbl 3 99
diff ./tbl 3 3
diff ./tbl ./tbll
diff ./tbl 3 7 --rows
reach ./tbl --retention 7
reach ./nope
repair ./lake/trips --dry-run
repair ./lake/trips --from nope
repair ./tbl
properties get ./tbl delta.appendOnly
alter ./paimon_tbl add a
schema convert ./tbl
schema diff ./tbl
schema diff ./tbl --from 3
schema diff ./tbl --from schema:0
schema diff ./paimon_tbl --from version:0
completion
completion tcsh
doctor access nope
fleet check nope.toml
fleet plan nope.toml
fleet run
fleet plan
fleet status
fleet status --state nowhere
fleet init ./lake
share check -c nope.yaml
share recipient add acme -c shares.yaml
share recipient list acme -c shares.yaml
share recipient grant acme nope -c shares.yaml
share token create nobody -c shares.yaml
share token revoke nobody t1 -c shares.yaml
share ls nope.share
share ls acme.share
share test
share test acme.share --baseline nope.json
share serve --profile x.share
vacuum ./tbl --retention 168
vacuum ./tbl --retention-hours 168
vacuum ./tbl --retention-days=7 --dry-run
vacuum ./tbl --max-delete 10XB
vacuum ./tbl --dry-run --protect-from=lak
optimize ./tbl --target-size 12x
optimize ./tbl --where trip=3
optimize ./tbl --zorder nope
log cat ./tbl 3 --format json
log cat ./tbl 3 --format csv
log cat ./tbl 3 --json
schema diff ./tbl MISSING
schema diff ./tbl ./tbll
snapshot ./tbl --output /nope/x.csv
read ./tbl --where tripp=3
validate ./tbl --list-rules
checkpoint ./tbl --v2-top parquet
--progress never --help
properties ./tbl set delta.logRetentionDuration=30x
restore ./tbl
restore ./tbl --version 99
restore ./tbl --version 3 --from nope
restore ./tbl --version 3 --where trip=3
restore ./tbl --version 3 --where "day = 2026-01-01"
restore ./paimon_tbl --version 0
restore ./nope --version 3
explain ./tbl
explain ./tbl --client sparkk
explain ./tbl --client spark=99
explain ./tbl --if add=typo
explain ./tbl --if widen=trip:int
explain ./paimon_tbl
explain ./nope
doctor table ./tbl
doctor table ./lake/trips
doctor table ./nope
doctor table ./tbl --html
optimize ./tbl --dry-run
optimize ./tbl --min-files 2
optimize ./tbl --cluster
optimize ./tbl --purge --dry-run
optimize ./lake/trips --dry-run
optimize ./paimon_tbl
repair ./lake/trips --level storage
repair ./lake/trips --level storage --accept-loss --max-missing 100% --dry-run
repair ./lake/trips --select typo.*
repair ./tbl --apply nope.json
repair ./paimon_tbl
reach ./lake/trips
reach ./paimon_tbl
diff ./tbl 3 7 --rows --key nope
diff ./tbl ./paimon_tbl
alter ./tbl constraint add positive "tripp > 0"
alter ./tbl constraint add positive "trip >"
alter ./tbl constraint drop nope
alter ./tbl cluster trip
alter ./tbl not-null trip
alter ./tbl default trip 1
alter ./tbl type trip int
alter ./tbl --apply nope.json
features ./tbl drop deletionVectors
features ./tbl drop typo
restore ./lake/trips --version 3
undelete ./tbl --from nope
undelete ./tbl --from ./tbl
undelete ./lake/trips
undelete ./tbl --version 99
vacuum ./tbl --quarantine ./tbl/q
vacuum ./tbl --quarantine ./quarantine --purge-older 30
vacuum ./tbl --purge-older 30d
help vacuum.retentoin
restore ./tbl 3
restore ./tbl --timestamp 2020-01-01
restore ./tbl --timestamp yesterday
fleet run --serve-metrics
fleet run --dry-run
fleet plan ./tbl
share head ./tbl
share schema ./tbl
share recipient add acme -c ./nope.yaml
share init ./lake
share init ./lake -c other.yaml
share init ./nope -c third.yaml
help nothing-like-it
"""
"""Lines with a mistake, and lines whose answer names the next command."""

ADVICE = re.compile(r"^ *(?:hint|next|fix)(?::| ) *(?:.*: )?(deltacli [^;\n]+)", re.MULTILINE)


def commands_of_errors(said: str) -> Iterator[str]:
    """Yield the command of each error that is an object."""
    errors = (json.loads(line) for line in said.splitlines() if line.startswith('{"type":"error"'))
    yield from (error["command"] for error in errors if error["command"])


@pytest.mark.parametrize("part", range(4))
def test_commands_of_messages_can_be_pasted(part: int, places: Path, tmp_path: Path, in_turn: InTurn) -> None:
    place = tmp_path / "place"
    shutil.copytree(places, place)
    problems, pasted = [], list[list[str]]()
    for line in in_turn(MISTAKES.splitlines()[part::4], 2):
        result = run(place, *shlex.split(line))
        if result.code == 70:
            problems.append(f"{line}: {result.err}")
        for advice in [*ADVICE.findall(result.out + result.err), *commands_of_errors(result.err)]:
            for words in commands(advice):
                if is_endless(words) or any(word.isupper() for word in words):
                    check_words(words)
                    continue
                if words in pasted:
                    continue
                pasted.append(words)
                followed = run(place, *words)
                if followed.code in NOT_USABLE:
                    problems.append(f"{line}: {advice}: {followed.err}")

    assert [] == problems
