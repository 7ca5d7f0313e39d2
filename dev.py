#!/usr/bin/env python3
"""Work on deltacli from a fresh clone. Needs Python 3.11 and pip only.

  python3 dev.py demo       create two sample tables in ./demo and run the main commands on them
  python3 dev.py test       run the test suite               [--without-corpus] [pytest arguments]
  python3 dev.py check      check format, lint, types, layers, generated files and the documentation site
  python3 dev.py generate   write completions, manual pages, reference pages, schemas and screens
  python3 dev.py docs       build the documentation site in ./site
  python3 dev.py long       run a quarter of the suites that take minutes, with arguments all of them [pytest arguments]
  python3 dev.py cluster    run the tests of the Spark engine [local|kills|connect|standalone|oldest …] [arguments]
  python3 dev.py judges     let Spark, Kernel and Paimon judge our tables [spark-reads|spark-continues|streams …]
  python3 dev.py typer      test the command line with the oldest and the newest version of Typer [pytest arguments]
  python3 dev.py prepare    set up every environment of these suites; can run beside them
  python3 dev.py soak       run the suites that take hours [races|inputs:K/N|clouds|fleet|spark|judges|fuzz:TARGET …]
  python3 dev.py fuzz       run the parsers on hostile input [TARGET …] [--minutes 20] [--guided TARGET]
  python3 dev.py simulate   play histories of tables from seeds [--seeds A..B|--night DATE] [--jobs N] [--replay N]
  python3 dev.py clients    measure again what clients do with each feature, and write the facts [CLIENT …]
  python3 dev.py release    build wheel, source, single files and recipes in ./dist, and check them [--fast]
  python3 dev.py lock       resolve requirements/*.txt again

Each command sets up the environments that it needs, in .venv and .venv-*. They are rebuilt when requirements/ changes.
A command waits for an environment that another one is setting up.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from tools.suites.memory_disk import files_prefix, memory_disk
from tools.suites.soaks import SOAKS, Soak
from tools.suites.spark_java import java_options

ROOT = Path(__file__).resolve().parent
BIN = "Scripts" if os.name == "nt" else "bin"
DEV, DEMO, PEERS, CLIENTS, SHARING, PAIMON, FUZZ, SPARK, CLUSTER, JUDGES, DOCS, RELEASE = (
    ROOT / f".venv{suffix}"
    for suffix in (
        *("", "-demo", "-peers", "-clients", "-sharing", "-paimon", "-fuzz", "-spark", "-cluster", "-judges"),
        *("-docs", "-release"),
    )
)
JUDGE_JARS = ROOT / ".venv-judges-jars"
AZURITE, AZURITE_VERSION = ROOT / ".venv-azurite", "3.37.0"
SPARK_READER = {"DELTACLI_SPARK_PYTHON": str(SPARK / BIN / "python")}
SHARING_CLIENT = {"DELTACLI_SHARING_PYTHON": str(SHARING / BIN / "python")}
PAIMON_CLIENT = {"DELTACLI_PAIMON_PYTHON": str(PAIMON / BIN / "python")}


TOUR = (
    ("What happened to this table?", "history demo/trips --limit 8", 0),
    ("What is its state?", "snapshot demo/trips", 0),
    ("Which files does no retained version need?", "vacuum demo/trips --dry-run", 0),
    ("A damaged table: reading fails.", "read demo/damaged --limit 3", 3),
    ("What is wrong with it, and how to repair it?", "validate demo/damaged --level storage --now 2026-01-04", 1),
)
"""A title, a command and its exit code each."""


def main(arguments: list[str]) -> int:
    """Run one task and return its exit code."""
    tasks = {"demo": demo, "test": test, "check": check, "generate": generate, "docs": build_site}
    tasks |= {"long": run_long, "cluster": run_cluster, "soak": soak, "fuzz": fuzz, "lock": lock, "prepare": prepare}
    tasks |= {"judges": judges, "clients": measure_clients, "simulate": simulate, "release": release}
    tasks |= {"typer": run_with_other_typers}
    if not arguments or arguments[0] not in tasks:
        print(__doc__)
        if near := get_close_matches(arguments[0] if arguments else "", tasks, 1):
            print(f"error: no such command {arguments[0]!r}; did you mean {near[0]!r}?", file=sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    os.chdir(ROOT)
    return tasks[arguments[0]](arguments[1:])


def demo(_: list[str]) -> int:
    """Create two sample tables, one of them damaged, and run the main commands on them."""
    set_up(DEMO, "demo")
    run(DEMO, "python", "examples/make_sample.py", "demo/trips")
    run(DEMO, "python", "examples/make_sample.py", "demo/damaged", "--damaged")
    for title, command, expected in TOUR:
        print(f"\n# {title}\n$ deltacli {command}", flush=True)
        code = run(DEMO, "deltacli", *command.split(), DELTACLI_PAGER="")
        if code != expected:
            return code or 1
    print(f"\nTry it yourself, also the commands named above:\n{_activation()}\ndeltacli --help")
    return 0


def _activation() -> str:
    """Return the command that finds `deltacli` of the demo by its name."""
    return rf".\{DEMO.name}\Scripts\activate" if os.name == "nt" else f"source {DEMO.name}/bin/activate"


def test(arguments: list[str]) -> int:
    """Run the test suite on all cores, with other engines as oracles; or what names the corpus, also of the long suite,
    as in a clone that has none.
    """
    set_up(DEV, "dev")
    set_up(PEERS, "peers")
    set_up(CLIENTS, "clients")
    if "--without-corpus" in arguments:
        others = [argument for argument in arguments if argument != "--without-corpus"]
        hidden = dict.fromkeys(("DELTACLI_CORPUS", "DELTACLI_PAIMON_CORPUS", "DELTACLI_REFERENCE"), "none")
        hidden |= in_turns(others)
        chosen = ["-m", "not soak", *naming_the_corpus(), *OF_CLIENTS]
        return run_pytest(chosen, others or [same_turn()], place=memory_disk(), **hidden)
    return run_pytest([], arguments or [next_turn()], place=memory_disk())


OF_CLIENTS = [
    f"--deselect=tests/differential/test_client_facts.py::{name}"
    for name in ("test_a_sample_of_the_facts_is_measured_again", "test_protocols_of_versions_alone_follow_from")
]
"""Beginnings of tests that start each client and read no corpus, in a file that names it: `dev.py long` has them."""


def naming_the_corpus() -> list[str]:
    """Return the files of tests that name the corpus, or other material that is not in the repository; not those that
    run on clusters only.
    """
    files = sorted(set((ROOT / "tests").rglob("test_*.py")) - set((ROOT / "tests" / "cluster").iterdir()))
    return [str(path) for path in files if re.search(r"corpus|tests\.support\.material", path.read_text("utf-8"))]


def next_turn() -> str:
    """Return the seed after the one of the last whole run here: in turn, each runs another part of what only
    `dev.py soak` runs in full.
    """
    turn = (last_turn() + 1) % (1 << 32)
    (DEV / "turn").write_text(str(turn))
    print(f"the order of the tests: --randomly-seed={turn}", flush=True)
    return f"--randomly-seed={turn}"


def same_turn() -> str:
    """Return the seed of the last whole run here, so that the suites of a gate have the same turn."""
    return f"--randomly-seed={last_turn()}"


def in_turns(arguments: list[str]) -> dict[str, str]:
    """Return the environment in which the long suite takes turns, which it does where nothing was asked for."""
    return {} if arguments else {"DELTACLI_TURNS": "1"}


def last_turn() -> int:
    """Return the seed of the last whole run here, or any if there was none."""
    last = DEV / "turn"
    return int(last.read_text()) if last.exists() else secrets.randbelow(1 << 32)


NOTHING_CHOSEN = 5
"""The exit code of pytest where no test is run."""


def run_long(arguments: list[str]) -> int:
    """Run the tests marked `long`, with Spark as a reader, the clients of Delta Sharing and Paimon, and Azurite, and
    one in twenty of those marked `matrix`. Without arguments a quarter of them, another one after the next `test`.

    Their files are on disk, because no other suite exercises its locks, renames and syncs.
    """
    set_up(DEV, "dev")
    set_up(PEERS, "peers")
    set_up(CLIENTS, "clients")
    set_up(SPARK, "spark")
    set_up(SHARING, "sharing")
    set_up(PAIMON, "paimon")
    set_up(JUDGES, "judges")  # the facts about Spark and Kernel are measured again
    set_up_judge_jars()
    others = {**SPARK_READER, **java_of(SPARK), **SHARING_CLIENT, **PAIMON_CLIENT, **set_up_azurite()}
    others |= in_turns(arguments)
    arguments = arguments or [same_turn()]
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    alone = [str(path) for path in files if "mark.alone" in path.read_text("utf-8")]
    parts = (["-m", "(long or matrix) and not soak and not alone"], ["-m", "alone", "-n", "0", *alone])
    codes = [run_pytest(part, arguments, place=None, **others) for part in parts]
    return next((code for code in codes if code not in (0, NOTHING_CHOSEN)), min(codes))


CLUSTERS = {
    "local": (CLUSTER, "local", ("-m", "not soak", "-k", "not kills and not smoke_answers")),  # a sample has its tables
    "kills": (CLUSTER, "local", ("-m", "not soak", "-k", "kills")),  # a third of the time of the local cluster
    "connect": (CLUSTER, "connect", ("-m", "not soak", "-k", "not sample")),
    "standalone": (CLUSTER, "standalone", ("-m", "not matrix", "-k", "not sample")),
    "oldest": (SPARK, "local", ("-m", "not soak", "-k", "smoke or traps")),
}
"""A name, the environment, the kind of the cluster, and arguments of pytest."""


def run_cluster(arguments: list[str]) -> int:
    """Run the tests of the Spark engine on clusters on loopback: the named ones, or all of them.

    Two at a time, because a run waits for jobs and for drivers that start. A standalone cluster is alone: its tests and
    those of others would take each other's executors for their own. Without other arguments the tests that are alike on
    all kinds take turns: a third of them with the newest Spark, another third with the oldest.
    """
    names = [name for name in arguments if name in CLUSTERS] or list(CLUSTERS)
    others = [argument for argument in arguments if argument not in CLUSTERS]
    set_up(DEV, "dev")
    for home in {CLUSTERS[name][0] for name in names}:
        set_up(home, home.name.removeprefix(".venv-"))
    halves = {"local": "0", "connect": "1"} if {"local", "connect"} <= set(names) else {}
    shares = {name: {"DELTACLI_HALF": half} for name, half in halves.items()}
    if not others:
        turn = last_turn()
        shares = {name: {**shares.get(name, {}), "DELTACLI_TURN": str(turn + (name == "oldest"))} for name in names}
    works = {name: partial(run_named_cluster, name, others, shares.get(name, {})) for name in names}
    codes = beside([work for name, work in works.items() if name != "standalone"])
    if "standalone" in works:
        codes.append(works["standalone"]())
    return next((code for code in codes if code), 0)


def run_named_cluster(name: str, arguments: Sequence[str], share: Mapping[str, str]) -> int:
    """Run the tests on one of `CLUSTERS`, and print their output when they have ended: all of them, or a share of those
    that are alike on several kinds.
    """
    home, kind, chosen = CLUSTERS[name]
    return run_cluster_tests(home, kind, [*chosen, *SLOWEST, *arguments], title=name, **share)


def run_cluster_tests(
    home: Path, kind: str, arguments: Sequence[str], title: str | None = None, **environment: str
) -> int:
    """Run tests on a kind of cluster, with a sharing server of the environment of dev; let other engines read what they
    write where those are installed.
    """
    options = ("-p", "no:cacheprovider", "-o", "filterwarnings=", "-o", "addopts=-q --strict-markers")
    others = {"PEER": PEERS, "SERVER": DEV}
    environment |= {f"DELTACLI_{name}_PYTHON": str(place / BIN / "python") for name, place in others.items()}
    environment |= {"DELTACLI_CLUSTER": kind, **java_of(home)}
    limit = LONGEST_SUITE if title else None
    command = ("python", "-m", "pytest", *options, *([] if title else NO_LIMIT), *arguments, "tests/cluster")
    return run(home, *command, title=title, limit=limit, **environment)


JUDGES_SUITES = ("spark-reads", "spark-continues", "streams", "kernel", "paimon")
"""The suites of `tests/judges`, each a directory of tests."""


def judges(arguments: list[str]) -> int:
    """Let other engines judge what deltacli reads, writes and deletes: in the named suites, or in all of them.

    With `--turn` only a tenth of the tests runs, another one after the next `dev.py test`: the share of a gate.
    """
    takes_turns = "--turn" in arguments
    named = [name for name in arguments if name in JUDGES_SUITES]
    suites = named or JUDGES_SUITES
    others = [argument for argument in arguments if argument not in (*JUDGES_SUITES, "--turn")]
    turn = str(last_turn()) if takes_turns else ""
    return run_judges(suites, others, DELTACLI_JUDGES_TURN=turn)


def run_judges(suites: Sequence[str], arguments: Sequence[str], **environment: str) -> int:
    """Run suites of `tests/judges`, two engines at a time."""
    set_up(DEV, "dev")  # its uv sets up the other environment
    set_up(JUDGES, "judges")
    set_up_judge_jars()
    environment |= java_of(JUDGES)
    directories = [f"tests/judges/{name.replace('-', '_')}" for name in suites]
    options = ("-p", "no:cacheprovider", "-o", "filterwarnings=", "-o", "addopts=-q --strict-markers", *NO_LIMIT)
    workers = ("-n", "2", "--dist", "worksteal")
    command = ("python", "-m", "pytest", *options, *workers, *SLOWEST, *arguments, *directories)
    return run(JUDGES, *command, **environment)


def set_up_judge_jars() -> None:
    """Fetch the engines that `tests/judges/pom.xml` pins.

    Without Maven there are none, and the tests that need them are skipped with that reason.
    """
    pom = ROOT / "tests" / "judges" / "pom.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()
    stamp = JUDGE_JARS / "fetched"
    with held(JUDGE_JARS):
        if not stamp.exists() or stamp.read_text() != digest:
            maven = shutil.which("mvn")
            if maven is None:
                print("maven is not installed: the judges from Maven Central are left out", flush=True)
                return
            print("fetching the engines of tests/judges/pom.xml", flush=True)
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={JUDGE_JARS}", "-DincludeScope=runtime"]
            for jar in JUDGE_JARS.glob("*.jar"):  # of another version
                jar.unlink()
            subprocess.run([maven, "-q", "-B", "-f", str(pom), *goal], check=True)
            stamp.write_text(digest)


FUZZ_MINUTES = 20


def soak(arguments: list[str]) -> int:
    """Run the named suites, or all of them, one after the other, and print how long each one took."""
    known = [*SOAKS, "spark", "judges", "fuzz"]
    names = arguments or known
    unknown = [name for name in names if not name.startswith("fuzz:") and not SUITE.fullmatch(name)]
    if unknown:
        sys.exit(f"error: no suite named {', '.join(unknown)} (expected: {', '.join(known)}, NAME:K/N, fuzz:TARGET)")
    set_up(DEV, "dev")
    if not all(name.startswith("fuzz") for name in names):
        set_up(PEERS, "peers")
        set_up(SPARK, "spark")
        set_up(SHARING, "sharing")
        set_up(PAIMON, "paimon")
        os.environ.update(set_up_azurite())
    codes, report = [], []
    for name in names:
        began = time.monotonic()
        match name.partition(":"):
            case "fuzz", _, target:
                codes.append(fuzz([*([target] if target else []), "--minutes", str(FUZZ_MINUTES)]))
            case "spark", *_:
                codes += soak_clusters()
            case "judges", *_:
                codes.append(run_judges(JUDGES_SUITES, [], DELTACLI_JUDGES_TURN=""))
            case suite, _, part:
                codes += soak_tests(SOAKS[suite], part)
        report.append(f"{name:<20} {(time.monotonic() - began) / 60:6.1f} min")
    print("\n".join(report))
    return next((code for code in codes if code), 0)


SUITE = re.compile(rf"spark|judges|fuzz|({'|'.join(SOAKS)})(:[1-9]\d*/[1-9]\d*)?")
"""A suite that is soaked, or the K-th of N parts of it."""


def soak_tests(suite: Soak, part: str = "") -> list[int]:
    """Run every pass of a suite, or of a part of it, and return the exit codes."""
    files = [str(path.relative_to(ROOT)) for pattern in suite.patterns for path in sorted(ROOT.glob(pattern))]
    return [
        run_pytest(
            ["-m", suite.marks, *NO_LIMIT, *files],
            [f"--hypothesis-seed={number + 2}", f"--randomly-seed={number + 2}"],
            place=None,
            DELTACLI_EFFORT="soak",
            DELTACLI_PART=part,
            **SPARK_READER,
            **java_of(SPARK),
            **SHARING_CLIENT,
            **PAIMON_CLIENT,
        )
        for number in range(suite.passes)
    ]


def soak_clusters() -> list[int]:
    """Run all tests of the Spark engine on every kind of cluster, with all tables of the corpus."""
    set_up(DEV, "dev")
    set_up(CLUSTER, "cluster")
    kinds = ("local", "connect", "standalone")
    return [run_cluster_tests(CLUSTER, kind, [], DELTACLI_EFFORT="soak") for kind in kinds]


SLOWEST = ("--durations=25", "--durations-min=2")
"""Options of pytest that name the slowest tests at the end."""
NO_LIMIT = ("-o", "faulthandler_timeout=0")
"""Options of pytest for tests that may take longer than the time that pyproject.toml allows one."""
WORKERS = str(max(2, (os.cpu_count() or 1) * 3 // 2))
"""A fifth of the time of tests is spent waiting for other processes and the disk."""
LONGEST_SUITE = 40 * 60
"""The seconds after which a suite of the gate is ended: three times what the longest one takes."""


def run_pytest(chosen: list[str], arguments: list[str], *, place: str | None, **environment: str) -> int:
    """Run tests with their files below `place`. The files of a failed run are kept until the next run."""
    files = tempfile.mkdtemp(prefix=f"{files_prefix()}{os.getpid()}-", dir=place)
    environment |= {"TMPDIR": files, "DELTACLI_PEER_PYTHON": str(PEERS / BIN / "python")}
    workers = ("-n", WORKERS, "--dist", "worksteal")  # none is idle while another has tests left
    limit = None if set(NO_LIMIT) <= set(chosen) else LONGEST_SUITE
    command = ("python", "-m", "pytest", *workers, *SLOWEST, *chosen, *seed(arguments))
    code = run(DEV, *command, limit=limit, **environment)
    if code not in (0, NOTHING_CHOSEN):
        print(f"files of the tests that failed: {files}")
    else:
        shutil.rmtree(files, ignore_errors=True)
    return code


def seed(arguments: list[str]) -> list[str]:
    """Return arguments with a fixed seed, so that every run tries the same examples, and with a random order, which is
    printed, so that a run can be repeated; unless they have these seeds.
    """
    if not any(argument.startswith("--hypothesis-seed") for argument in arguments):
        arguments = ["--hypothesis-seed=1", *arguments]
    if not any(argument.startswith(("--randomly-seed", "no:randomly")) for argument in arguments):
        arguments = [f"--randomly-seed={secrets.randbelow(1 << 32)}", *arguments]
        print(f"the order of the tests: {arguments[0]}", flush=True)
    return arguments


def check(_: list[str]) -> int:
    """Run every check that is not a test, two at a time, and return the first exit code that is not 0."""
    set_up(DEV, "dev")
    steps = (
        ("mypy",),  # the longest one
        ("ruff", "format", "--check", "."),
        ("ruff", "check", "."),
        ("lint-imports", "--no-logo"),
        ("lint-imports", "--no-logo", "--config", "tools/import_contracts.toml"),
        ("python", "-m", "tools.check_rooms"),
        ("python", "-m", "tools.generate", "--check"),
    )
    works = [partial(run, DEV, *step, title=f"$ {' '.join(step)}") for step in steps]
    return next((code for code in beside([*works, partial(build_site, [])]) if code), 0)


def beside(works: Sequence[Callable[[], int]]) -> list[int]:
    """Do pieces of work, two at a time in this order, and return their exit codes."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda work: work(), works))


def build_site(_: list[str]) -> int:
    """Build the documentation site in ./site. `tools/site.py` checks the result."""
    set_up(DOCS, "docs")
    command = ("mkdocs", "build", "--strict", "--quiet", "--clean")
    return run(DOCS, *command, title=f"$ {' '.join(command)}", NO_MKDOCS_2_WARNING="1")


def generate(_: list[str]) -> int:
    """Write the files that are made from the code."""
    set_up(DEV, "dev")
    return run(DEV, "python", "-m", "tools.generate")


def fuzz(arguments: list[str]) -> int:
    """Run every fuzz target for some minutes; `--guided TARGET` runs one by libFuzzer, with all further arguments."""
    if arguments[:1] == ["--guided"]:
        set_up(FUZZ, "fuzz")
        os.makedirs("fuzz/findings", exist_ok=True)
        options = ("-artifact_prefix=fuzz/findings/", "-max_len=65536", "-timeout=20", "-rss_limit_mb=3000")
        return run(FUZZ, "python", "-m", "fuzz.guided", *arguments[1:], *options, PYTHONPATH=str(ROOT))
    set_up(DEV, "dev")
    return run(DEV, "python", "-m", "fuzz", *arguments)


OTHER_TYPERS = ("0.26.0", "0.29.2")
"""The oldest Typer that the metadata allows, and the newest one, which decision 0190 excludes from the metadata."""


def run_with_other_typers(arguments: list[str]) -> int:
    """Test the command line with the oldest and the newest version of Typer: recorded usage errors and help, then
    tests/cli.

    The environment of dev has another version. The tested one is installed in a temporary directory that Python
    searches first.
    """
    set_up(DEV, "dev")
    for version in OTHER_TYPERS:
        with tempfile.TemporaryDirectory(prefix=files_prefix()) as directory:
            must(DEV, "uv", "pip", "install", "-q", "--target", directory, f"typer=={version}")
            print(f"Typer {version}", flush=True)
            code = run(DEV, "python", "-m", "tests.golden", "command lines", PYTHONPATH=directory)
            if code:
                return code
            code = run_pytest(["tests/cli"], arguments, place=None, PYTHONPATH=directory, **in_turns(arguments))
            if code:
                return code
    return 0


def simulate(arguments: list[str]) -> int:
    """Play histories of tables from their seeds, in the memory of this machine, and print those that go wrong; with
    `--mutants`, those of the safety code turned off, one check at a time.
    """
    set_up(DEV, "dev")
    files = tempfile.mkdtemp(prefix=files_prefix(), dir=memory_disk())
    try:
        module = "tools.safety_mutants" if "--mutants" in arguments else "tests.simulation"
        others = [argument for argument in arguments if argument != "--mutants"]
        return run(DEV, "python", "-m", module, *others, TMPDIR=files)
    finally:
        shutil.rmtree(files, ignore_errors=True)


def measure_clients(arguments: list[str]) -> int:
    """Measure the named clients, or all of them, and write the facts about them."""
    set_up(DEV, "dev")
    code = 0
    of_delta = [name for name in arguments if name != "pypaimon"]
    if of_delta or not arguments:
        set_up(CLIENTS, "clients")
        set_up(SHARING, "sharing")
        set_up(JUDGES, "judges")
        set_up_judge_jars()
        code = run(DEV, "python", "-m", "tools.clients.facts", *of_delta)
    if len(of_delta) < len(arguments) or not arguments:
        set_up(PAIMON, "paimon")
        code = run(DEV, "python", "-m", "tools.clients.paimon") or code
    return code


def release(arguments: list[str]) -> int:
    """Build what a release publishes, and check it."""
    set_up(DEV, "dev")
    set_up(RELEASE, "release")
    return run(DEV, "python", "-m", "tools.release", *arguments)


def lock(_: list[str]) -> int:
    """Resolve the locked environments again. Lock files have names, versions and hashes, and no URL of an index."""
    set_up(DEV, "dev")
    command = ("uv", "pip", "compile", "-q", "--universal", "--python-version", "3.11", "--generate-hashes")
    alone = ("peers", "clients", "sharing", "paimon", "docs", "release")
    for name in ("dev", "demo", *alone, "fuzz", "spark", "cluster", "judges", "base", "full"):
        target = f"requirements/{name}.txt"
        sources = [] if name in alone else ["pyproject.toml"]
        match name:
            case "base" | "full":  # what images and single files have: the versions that the tests ran with
                groups = ("-c", "requirements/dev.txt")
            case "fuzz":
                groups = ("--group", "dev", "--group", "fuzz")
            case _:
                groups = ("--group", name)
        extras = [word for extra in EXTRAS_LOCKED.get(name, ()) for word in ("--extra", extra)]
        options = ("--no-emit-index-url", "--no-header", "--no-annotate", "--upgrade", "-o", target)
        code = run(DEV, *command, *sources, *extras, *groups, *options)
        if code:
            return code
    return 0


EXTRAS_LOCKED = {
    "demo": ("share", "share-client"),
    "full": ("s3", "gcs", "azure", "share", "share-client", "catalog", "paimon", "constraints"),
}


def prepare(_: list[str]) -> int:
    """Set up the environments in the order in which the gate needs them."""
    set_up(DEV, "dev")
    for home in (DOCS, PEERS, CLIENTS, SPARK, SHARING, PAIMON, CLUSTER, JUDGES):
        set_up(home, home.name.removeprefix(".venv-"))
        if home is CLIENTS:
            compile_tests()
        if home in (SPARK, CLUSTER, JUDGES):
            java_of(home)
    set_up_judge_jars()
    set_up_azurite()
    # PySpark comes as a source distribution, of which uv keeps 1.4 GB more with each environment; this drops what no
    # environment can use again.
    must(DEV, "uv", "cache", "prune", "-q")
    return 0


def compile_tests() -> None:
    """Compile the tests once: in a fresh clone each process of pytest would do so, for 25 seconds of a core. What is
    wrong with a test, its run says.
    """
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [str(DEV / BIN / "python"), "-m", "pytest", "--collect-only", "-n", "0", "-p", "no:cacheprovider"]
    subprocess.run(command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def set_up(home: Path, name: str) -> None:
    """Create an environment from its lock file, unless it is up to date.

    Its packages are compiled to bytecode where deltacli is one of them, so that measured start-up times are those of
    users.
    """
    wanted = (ROOT / "requirements" / f"{name}.txt").read_bytes()
    has_project = name in ("dev", "demo")
    if has_project:
        wanted += (ROOT / "pyproject.toml").read_bytes()
    stamp, digest = home / "locked", hashlib.sha256(wanted).hexdigest()
    with held(home):
        if not stamp.exists() or stamp.read_text() != digest:
            count = sum(b"==" in line and not line.startswith((b" ", b"#")) for line in wanted.splitlines())
            print(
                f"setting up {home.name}: an environment, then {count} packages of requirements/{name}.txt", flush=True
            )
            began = time.monotonic()
            quiet = () if sys.stderr.isatty() else ("-q",)  # uv shows what it downloads on a terminal
            venv.EnvBuilder(with_pip=not has_uv(home), clear=True).create(home)
            if not has_uv(home):
                must(home, "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile", "uv")
            print("installing the packages", flush=True)
            install(home, *quiet, "--require-hashes", "-r", f"requirements/{name}.txt")
            if has_project:
                install(home, "-q", "--no-deps", "--no-build-isolation", "-e", ".")
                print("compiling them", flush=True)
                must(home, "python", "-m", "compileall", "-q", "-j", "0", str(home / "lib"))
            stamp.write_text(digest)
            print(f"{home.name} is set up: {time.monotonic() - began:.0f} s", flush=True)
        if has_project:
            must(home, "python", "-m", "compileall", "-q", "deltacli")


def java_of(home: Path) -> dict[str, str]:
    """Return the options of Java for an environment of Spark."""
    with held(home):
        return java_options(home, home / BIN / "python")


def has_uv(home: Path) -> bool:
    """Return whether the uv of the environment of dev can set up another one: not that of the demo, in which people
    may want pip.
    """
    return home not in (DEV, DEMO) and (DEV / "locked").exists()


def install(home: Path, *arguments: str) -> None:
    """Install packages in an environment."""
    must(DEV if has_uv(home) else home, "uv", "pip", "install", "--python", str(home / BIN / "python"), *arguments)


@contextlib.contextmanager
def held(home: Path) -> Iterator[None]:
    """Let no other process set up an environment while this one does. Its end, whatever it is, lets go."""
    home.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        if sys.platform != "win32":
            import fcntl

            directory = os.open(home, os.O_RDONLY)  # `venv` empties it and leaves it in place
            stack.callback(os.close, directory)
            fcntl.flock(directory, fcntl.LOCK_EX)
        yield


def set_up_azurite() -> dict[str, str]:
    """Install Microsoft's emulator of Azure, 365 MB, and return the variable that names its program to the tests.

    Without npm its tests are left out; a stub runs the same contract.
    """
    npm, program = shutil.which("npm"), AZURITE / "node_modules" / ".bin" / "azurite-blob"
    if npm is None:
        print("npm is not installed: the tests against Azurite are left out", flush=True)
        return {}
    with held(AZURITE):
        if not program.exists():
            print(f"setting up {AZURITE.name} …", flush=True)
            package = f"azurite@{AZURITE_VERSION}"
            subprocess.run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(AZURITE), package], check=True)
    return {"DELTACLI_AZURITE": str(program)}


def run(
    home: Path,
    program: str,
    *arguments: str,
    title: str | None = None,
    limit: float | None = None,
    **environment: str,
) -> int:
    """Run a program of an environment and return its exit code. With a title, its output is printed when it has ended,
    below the title, so that it is in one piece where others run beside it. After `limit` seconds it is killed, and the
    processes that were running are listed.
    """
    settings = {**os.environ, "VIRTUAL_ENV": str(home), **environment}
    settings.pop("PYTHONHOME", None)
    settings.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process of pytest compiles all tests again
    command, began = [str(home / BIN / program), *arguments], time.monotonic()
    with tempfile.TemporaryFile() as kept:
        stdout, stderr = (None, None) if title is None else (kept, subprocess.STDOUT)
        with subprocess.Popen(command, env=settings, stdout=stdout, stderr=stderr) as process:
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                columns = "pid,ppid,stat,wchan:24,etimes,args"
                subprocess.run(["ps", "-o", columns, "-s", str(os.getsid(0))], check=False)
                print(f"error: {' '.join(command)} did not end within {limit:.0f} s", flush=True)
                process.kill()
                code = 1
        if title is not None:
            kept.seek(0)
            text = kept.read().decode(errors="replace")
            print(f"{title}\n{text}{title}: {time.monotonic() - began:.0f} s", flush=True)
    return code


def must(home: Path, program: str, *arguments: str) -> None:
    """Run a program and end with an error if it fails."""
    code = run(home, program, *arguments)
    if code:
        sys.exit(f"error: {program} {' '.join(arguments)} ended with {code}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
