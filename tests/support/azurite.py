"""Azurite, the emulator of Microsoft, which the long suite runs where `DELTACLI_AZURITE` names its program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from uuid import uuid4

from deltacli.storage.azure.addresses import Address
from deltacli.storage.azure.calls import AzureCalls
from deltacli.storage.azure.credentials import AzureCredentials
from deltacli.storage.azure.options import read_azure_options
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.http import Request
from deltacli.storage.retry import Retry

PROGRAM = os.environ.get("DELTACLI_AZURITE", "")
ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key that every emulator has."""


class Azurite(NamedTuple):
    """A running emulator."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find it."""
        named = f"AccountName={ACCOUNT};AccountKey={_KEY};BlobEndpoint={self.url}/{ACCOUNT};"
        return {"AZURE_STORAGE_CONNECTION_STRING": f"DefaultEndpointsProtocol=http;{named}"}

    def calls(self, container: str) -> AzureCalls:
        """The calls of a container."""
        options = read_azure_options({}, Address("", container, ""), self.environment)
        return AzureCalls(container, options, AzureCredentials(options, ""), Retry())

    def make_container(self) -> str:
        """Make an empty container and return its name."""
        name = f"c-{uuid4()}"
        calls = self.calls(name)
        calls.send(Request("PUT", calls.url("", restype="container")), (201,))
        return name

    def put(self, container: str, key: str, data: bytes) -> None:
        """Put a blob in place."""
        self.calls(container).write(key, Body(data), None)


@contextmanager
def running(directory: Path) -> Iterator[Azurite]:
    """The emulator on a free port, with its data in memory."""
    command = (PROGRAM, "--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck")
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "successfully listens" in line)
            # It prints each request, and would wait for a full pipe.
            Thread(target=process.stdout.read, daemon=True).start()
            yield Azurite(line.split()[-1])
        finally:
            process.kill()  # it has nothing to keep, and waits for open connections on SIGTERM
