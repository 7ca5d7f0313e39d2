"""Fixtures for all tests."""

from __future__ import annotations

import ast
import errno
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import ShellSyntax, use_hint_syntax
from deltacli.storage import secrets
from tests.support import azurite as emulator
from tests.support import effort
from tests.support.azure import AzureServer
from tests.support.builder import TableBuilder
from tests.support.effort import (
    begin_turn,
    forgive_slowness,
    import_the_whole_product,
    left_to_soaking,
    let_many_take_turns,
)
from tests.support.gcs import GcsServer
from tests.support.gcs_api import GcsApi
from tests.support.material import Skips
from tests.support.s3 import S3Server, running

LONG_FOLDERS = ("tests/property/", "tests/differential/")
SLOWEST = (
    "tests/completions/test_completions.py",
    "tests/docs/test_docstrings.py",
    "tests/hostile/test_inputs_python.py",
    "tests/operations/copy/test_killed.py",
    "tests/operations/optimize/test_order.py",
    "tests/operations/repair/test_faults.py",
    "tests/simulation/test_simulation.py",
    "tests/sharing/client/test_corpus.py",
    "tests/spark/test_stored_conditions.py",
    "tests/sharing/pulling/test_corpus.py",
    "tests/sharing/test_client.py",
    "tests/spark/test_checkpoints.py",
)
"""Files with the longest tests, which begin before all others, so that none of them is the last one."""


@pytest.hookimpl(trylast=True)  # after pytest-randomly, which chooses the seed
def pytest_configure(config: pytest.Config) -> None:
    """Let the runs that tests start hear signals, also where we don't: under `nohup`, in a script's background. And let
    no property test fail by the clock.
    """
    config.addinivalue_line("markers", "quartered: every case is run by `python3 dev.py soak`, elsewhere one in four")
    config.addinivalue_line("markers", "halved: every case is run by `python3 dev.py soak`, elsewhere one in two")
    config.addinivalue_line("markers", "in_turn: all of its cases are run by `python3 dev.py soak`, elsewhere a part")
    config.pluginmanager.register(Skips(config))
    begin_turn(config.getoption("randomly_seed", 0))
    forgive_slowness()
    gc.set_threshold(50_000, 20, 100)  # as the command line does; it saves the tests a twentieth of the time
    ast.parse = _parse_without_collecting  # type: ignore[assignment]  # with the arguments of the original
    os.close = _close_and_note_failures  # type: ignore[assignment]  # as above
    for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@wraps(ast.parse)
def _parse_without_collecting(*arguments: Any, _parse: Callable[..., ast.AST] = ast.parse, **options: Any) -> ast.AST:
    """Parse while no garbage is collected. Python 3.11 counts the depth of the tree for all threads together: a
    finalizer that lets another thread run, whose traceback is shown (it parses the line), made a test fail with
    "SystemError: AST constructor recursion depth mismatch".
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return _parse(*arguments, **options)
    finally:
        if collects:
            gc.enable()


_closed_twice: list[str] = []
"""The stack of each call of `os.close` for a descriptor that was not open."""


@wraps(os.close)
def _close_and_note_failures(descriptor: int, _close: Callable[[int], None] = os.close) -> None:
    """Close a descriptor. If it is not open, note the stack, even if the caller suppresses the error."""
    try:
        _close(descriptor)
    except OSError as error:
        if error.errno == errno.EBADF:
            _closed_twice.append("".join(traceback.format_stack(limit=12)[:-1]))
        raise


@pytest.fixture(autouse=True)
def descriptors_are_closed_once() -> Iterator[None]:
    """Fail if a descriptor is closed that is not open.

    A second attempt to close it is harmless only by chance: a file that another thread opens in between gets the same
    number, and would be closed instead.
    """
    yield
    attempts = _closed_twice.copy()
    _closed_twice.clear()
    assert attempts == [], "\n".join(attempts)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave whole folders to the long suite: random examples, and comparisons with other engines. Mark the tests whose
    cases take turns for the soak.
    """
    if "in_turn" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.in_turn)
    if item.nodeid.startswith(LONG_FOLDERS):
        item.add_marker(pytest.mark.long)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Choose before others put the tests in order, which takes as long as there are tests."""
    let_many_take_turns(items)
    left = left_to_soaking(items)
    if left:
        config.hook.pytest_deselected(items=left)
        chosen = set(map(id, left))
        items[:] = [item for item in items if id(item) not in chosen]
    yield
    items.sort(key=lambda item: not item.nodeid.startswith(SLOWEST))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the garbage collector leave alone what stays to the end: thousands of tests, which each full collection would
    look through again. That is a fifth of the processor time.
    """
    if any(item.get_closest_marker("hypothesis") for item in session.items):
        import_the_whole_product()
    if "deltacli.cli.app" in sys.modules:
        from tests.support.built_commands import build_commands

        build_commands()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> Iterator[None]:
    """Forget the secrets of a test at its end, which texts of later ones would lose."""
    known = {*secrets._remembered}
    yield
    secrets._remembered.intersection_update(known)


@pytest.fixture(scope="session", autouse=True)
def in_a_shell() -> Iterator[None]:
    """Tests read messages as a shell shows them; those of the Python API choose its own."""
    with use_hint_syntax(ShellSyntax()):
        yield


@pytest.fixture(autouse=True)
def no_command_line_is_left() -> Iterator[None]:
    """What a test runs in its own process settles how the next messages are written: not those of other tests."""
    yield
    if (module := sys.modules.get("deltacli.cli.invocation")) is not None:
        module.invocation.begin(())


@pytest.fixture
def in_turn(request: pytest.FixtureRequest) -> effort.InTurn:
    """What chooses cases of a test: a third of them, others in its next run; all of them in `dev.py soak`."""
    return partial(effort.in_turn, turn=effort.turn_of(request.node))


@pytest.fixture
def table_builder() -> TableBuilder:
    """An empty description of a table."""
    return TableBuilder()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 on loopback, one a session (and one a worker of xdist)."""
    with running() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The same, with an environment that leads there and a clean log of requests."""
    _lead_to(s3_server.environment, monkeypatch, "AWS_")
    s3_server.requests.clear()
    s3_server.forget_faults()
    return s3_server


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    """A stub of Google Cloud Storage on loopback, one a session."""
    server = GcsServer()
    yield server
    server.stop()


@pytest.fixture
def gcs(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> GcsServer:
    """The same, with an environment that leads there, a clean log of requests, and open to everybody."""
    _lead_to(gcs_server.environment, monkeypatch, "GOOGLE_", "STORAGE_EMULATOR")
    gcs_server.forget()
    gcs_server.token = ""
    return gcs_server


@pytest.fixture(scope="session")
def gcs_api_server() -> Iterator[GcsApi]:
    """An emulator of Google Cloud Storage by the text of its API, one a session."""
    server = GcsApi()
    yield server
    server.stop()


@pytest.fixture
def gcs_api(gcs_api_server: GcsApi, monkeypatch: pytest.MonkeyPatch) -> GcsApi:
    """The same, with an environment that leads there and a clean log of requests."""
    _lead_to(gcs_api_server.environment, monkeypatch, "GOOGLE_", "STORAGE_EMULATOR")
    gcs_api_server.forget()
    return gcs_api_server


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """A stub of Azure Blob Storage on loopback, one a session."""
    server = AzureServer()
    yield server
    server.stop()


@pytest.fixture
def azure(azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> AzureServer:
    """The same, with an environment that leads there, a clean log of requests, and open to everybody."""
    _lead_to(azure_server.environment, monkeypatch, "AZURE_")
    azure_server.forget()
    azure_server.token = azure_server.signature = ""
    return azure_server


@pytest.fixture(scope="session")
def azurite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[emulator.Azurite]:
    """Azurite on loopback, one a session."""
    with emulator.running(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture
def azurite(azurite_server: emulator.Azurite, monkeypatch: pytest.MonkeyPatch) -> emulator.Azurite:
    """The same, with an environment that leads there."""
    _lead_to(azurite_server.environment, monkeypatch, "AZURE_")
    return azurite_server


@pytest.fixture
def own_azurite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[emulator.Azurite]:
    """Azurite for one test that writes a lot: every ten minutes it stops answering while it collects garbage."""
    (place := tmp_path / "azurite").mkdir()
    with emulator.running(place) as server:
        _lead_to(server.environment, monkeypatch, "AZURE_")
        yield server


def _lead_to(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, *prefixes: str) -> None:
    """Let the environment lead to a server, and nowhere else."""
    for name in [name for name in os.environ if name.startswith(prefixes)]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
