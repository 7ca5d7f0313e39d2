"""`python -m tests.support.killed_operations URI OPERATION NOW_MS OPTIONS`: run an operation, killed before a request.

Reads numbers from stdin, and for each one forks a process that dies before the request of that number, counted from 0.
Writes `killed`, or how many requests the operation sent, or the error that it ended with. With the operation `copy` a
line has the fields of the request as JSON behind the number, the target as an address; URI is that of a store.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from botocore.httpsession import URLLib3Session

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError
from deltacli.core.machine import fixed_clock
from deltacli.storage import open_storage
from deltacli.storage.objects.http import Transport
from deltacli.storage.retry import Retry
from tests.support.clouds import OPERATIONS
from tests.support.effort import import_the_whole_product


def run_and_die(run: Callable[[], object], at: int, sender: Any) -> int:
    """Run the operation, and return how many requests it sent where it was not killed."""
    numbers = itertools.count()  # also where threads send
    send = sender.send

    def counted(self: Any, request: Any) -> Any:
        if next(numbers) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return send(self, request)

    sender.send = counted
    run()
    return next(numbers)


def answer(run: Callable[[], object], at: int, sender: Any, out: int) -> None:
    """Run the operation in this process, and write how it ended."""
    try:
        said = str(run_and_die(run, at, sender))
    except DeltacliError as fault:
        said = f"{fault.code}: {fault.message}"
    os.write(out, said.encode())


def main(uri: str, operation: str, now_ms: str, options: str) -> None:
    import_the_whole_product()  # once, and not in every process
    sender: Any = URLLib3Session if uri.startswith("s3:") else Transport  # Any: what sends requests, by its `send`

    def make() -> Table:
        storage = open_storage(uri, json.loads(options), retry=Retry(pause=lambda _: None))
        return Table(storage, clock=fixed_clock(int(now_ms)))

    if operation == "copy":  # what the store can do is probed here, so that the probes are none of the requests
        place = open_storage(uri)
        place.put_if_absent("probed", b"probed")
        place.copy_within("probed", "probed by copying")

    def run(given: str) -> object:
        if operation != "copy":
            return OPERATIONS[operation](make())
        request = json.loads(given)
        return open_table(request.pop("source")).copy(**request)

    for line in sys.stdin:
        at, _, given = line.partition(" ")
        read, write = os.pipe()
        process = os.fork()
        if process == 0:
            answer(lambda: run(given), int(at), sender, write)  # noqa: B023  (called at once)
            os._exit(0)
        os.close(write)
        with open(read, "rb") as said:
            text = said.read().decode()
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{'killed' if os.WIFSIGNALED(status) else text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
