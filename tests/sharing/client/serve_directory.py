"""Serve a table by URLs and in a bucket to another process.

`python -m tests.sharing.client.serve_directory PLACE PATH MS`: credentials are valid for MS milliseconds. It prints the
address of the table and the URL of the store as JSON, and serves until its input ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deltacli.core.machine import system_clock
from tests.sharing.client.vending import vending
from tests.support.s3 import S3Server


def main(place: str, path: str, life_ms: str) -> None:
    cloud = S3Server()
    with vending(Path(place), Path(path), cloud) as server:
        server.proxy.served.now_ms = system_clock()
        server.change = lambda document: {
            "credentials": document["credentials"] | {"expirationTime": system_clock() + int(life_ms)}
        }
        sys.stdout.write(json.dumps({"address": server.address, "endpoint_url": cloud.url}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    cloud.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
