"""The stores of the contract: each is made from files, and the ones that a race needs can be opened in any process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pytest

from deltacli.storage import LocalStorage, Storage, open_storage
from tests.simulation.schedule import Schedule
from tests.simulation.store import Tree, World
from tests.support.azure import ACCOUNT, AzureServer
from tests.support.azurite import PROGRAM, Azurite
from tests.support.builder import StoredFile
from tests.support.gcs import GcsServer
from tests.support.gcs_api import GcsApi
from tests.support.in_memory import MemoryStorage
from tests.support.s3 import S3Server

Files = Mapping[str, bytes]

ODD_NAMES = ("a b", "50%", "%20", "%2F", "a#b", "a?b", "a?versionId=1", "a&b=<c>", "1+1", 'it\'s "so"', "ü😀", "[a]*")


@dataclass(frozen=True)
class Place:
    """One kind of store. `storage` is empty; `put` puts files in place behind its back.

    `odd_names` are those it can hold; `tells_missing`: deleting tells whether the file was there.
    """

    storage: Storage
    put: Callable[[Files], None]
    tells_missing: bool = True
    odd_names: tuple[str, ...] = (*ODD_NAMES, "line\nbreak")

    def holding(self, files: Files) -> Storage:
        """The store with these files in it."""
        self.put(files)
        return self.storage


def local(request: pytest.FixtureRequest) -> Place:
    root: Path = request.getfixturevalue("tmp_path")

    def put(files: Files) -> None:
        for path, data in files.items():
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)

    return Place(LocalStorage(str(root)), put)


def memory(request: pytest.FixtureRequest) -> Place:
    storage = MemoryStorage()

    def put(files: Files) -> None:
        for path, data in files.items():
            storage.write(path, data)

    return Place(storage, put)


def simulated(_: pytest.FixtureRequest, *, is_disk: bool = True) -> Place:
    """A store of the simulation, where nobody else acts."""
    world = World(Schedule(0), is_disk=is_disk)
    tree = world.places["simulated://lake"] = Tree("lake")

    def put(files: Files) -> None:
        for path, data in files.items():
            tree.put(path, StoredFile(data), "")

    return Place(world.storage("simulated://lake", ""), put)


def remote(request: pytest.FixtureRequest) -> Place:
    tmp_path: Path = request.getfixturevalue("tmp_path")
    root = f"/{tmp_path.parent.name}-{tmp_path.name}"
    system = fsspec.filesystem("memory")

    def put(files: Files) -> None:
        for path, data in files.items():
            system.pipe_file(f"{root}/{path}", data)

    return Place(open_storage(f"memory:/{root}"), put)


def s3(request: pytest.FixtureRequest) -> Place:
    server: S3Server = request.getfixturevalue("s3")
    bucket = server.make_bucket()

    def put(files: Files) -> None:
        for path, data in files.items():
            server.put(bucket, f"lake/a table/{path}", data)

    # S3 allows line breaks in names; moto's routes don't.
    return Place(open_storage(f"s3://{bucket}/lake/a table"), put, tells_missing=False, odd_names=ODD_NAMES)


def gcs(request: pytest.FixtureRequest, *, fixture: str = "gcs") -> Place:
    server: GcsServer | GcsApi = request.getfixturevalue(fixture)
    bucket = server.make_bucket()

    def put(files: Files) -> None:
        for path, data in files.items():
            server.put(bucket, f"lake/a table/{path}", data)

    return Place(open_storage(f"gs://{bucket}/lake/a table"), put, odd_names=ODD_NAMES)


def gcs_by_its_text(request: pytest.FixtureRequest) -> Place:
    """By the emulator that was not written with the store."""
    return gcs(request, fixture="gcs_api")


def azure(request: pytest.FixtureRequest, *, is_hierarchical: bool = False) -> Place:
    server: AzureServer = request.getfixturevalue("azure")
    container = server.make_container(is_hierarchical=is_hierarchical)

    def put(files: Files) -> None:
        for path, data in files.items():
            server.put(container, f"lake/a table/{path}", data)

    return Place(open_storage(f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net/lake/a table"), put)


def azure_tree(request: pytest.FixtureRequest) -> Place:
    """With a hierarchical namespace."""
    return azure(request, is_hierarchical=True)


def azurite(request: pytest.FixtureRequest) -> Place:
    """Azure by the emulator of Microsoft, where it is installed (`dev.py long`)."""
    server: Azurite = request.getfixturevalue("azurite")
    container = server.make_container()

    def put(files: Files) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda path: server.put(container, f"lake/a table/{path}", files[path]), files))

    # Azurite takes a backslash or a control character for another name than Azure does.
    return Place(open_storage(f"az://{container}/lake/a table"), put, odd_names=ODD_NAMES)


EMULATED = {"azurite": azurite} if PROGRAM else {}
WRITABLE: Mapping[str, Callable[[pytest.FixtureRequest], Place]] = {
    "local": local,
    "memory": memory,
    "simulated disk": simulated,
    "simulated objects": partial(simulated, is_disk=False),
    "s3": s3,
    "gcs": gcs,
    "gcs by its text": gcs_by_its_text,
    "azure": azure,
    "azure tree": azure_tree,
    **EMULATED,
}
READABLE = {**WRITABLE, "remote": remote}


def params(places: Mapping[str, Callable[[pytest.FixtureRequest], Place]]) -> list[Any]:  # Any: parameters of pytest
    """The names of stores as parameters. The emulator is slow."""
    return [pytest.param(name, marks=pytest.mark.long) if name in EMULATED else name for name in places]
