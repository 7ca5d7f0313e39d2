"""A headless Chromium, spoken to by the DevTools protocol over a pipe: NUL-separated JSON on descriptors 3 and 4."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]  # Any: JSON values


@dataclass
class Page:
    """A page. `requests` are the addresses that it asked for, `complaints` its console messages and exceptions."""

    reader: int
    writer: int
    session: str | None = None
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    _events: list[Json] = field(default_factory=list)
    _buffer: bytes = b""
    _number: int = 0

    def call(self, method: str, **parameters: object) -> Any:  # Any: JSON values
        """Call a method and return its result; raise where the browser refuses it."""
        self._number += 1
        message: Json = {"id": self._number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._number:
                assert "error" not in found, found
                return found["result"]
            self._events.append(found)

    def open(self, address: str) -> None:
        """Go to an address, and return when it was loaded."""
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next())
        self._events.clear()

    def evaluate(self, expression: str) -> Any:  # Any: JSON values
        """Return the value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _next(self) -> Json:
        while b"\0" not in self._buffer:
            data = os.read(self.reader, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: Json = json.loads(line)
        parameters = found.get("params", {})
        match found.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                self.complaints.append(json.dumps(parameters)[:500])
        return found


@contextmanager
def chromium(home: Path) -> Iterator[Page]:
    """Start Chromium with an empty profile in a directory, and yield a page of it."""
    program = shutil.which("chromium")
    assert program, "this test needs Chromium: apt-get install -y chromium"
    (commands, writer), (reader, answers) = os.pipe(), os.pipe()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={home}"]
    wiring = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
    process = subprocess.Popen(
        ["bash", "-c", wiring, program, *options, "about:blank"],
        pass_fds=(commands, answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(commands)
    os.close(answers)
    try:
        page = Page(reader, writer)
        target = page.call("Target.createTarget", url="about:blank")["targetId"]
        page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        yield page
        page.session = None
        page.call("Browser.close")
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        os.close(reader)
        os.close(writer)
