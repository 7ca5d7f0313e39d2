"""A proxy before a server that is not ours: it notes requests, and answers some of them by faults."""

from __future__ import annotations

from http.client import HTTPConnection
from urllib.parse import urlsplit

from tests.support.cloud import Asked, CloudServer, Said

_OF_A_CONNECTION = {"connection", "content-length", "date", "expect", "keep-alive", "server", "transfer-encoding"}


class Relay(CloudServer):
    """Hands requests on as they are, their `Host` too, and answers back. `key` is the access key that requests to S3
    must be signed with, if there is one.
    """

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self.key = ""
        super().__init__()

    def answer(self, asked: Asked) -> Said:
        if self.key and f"Credential={self.key}/" not in asked.headers.get("authorization", ""):
            return s3_problem(400, "ExpiredToken")
        connection = HTTPConnection(self._host, timeout=60)
        try:
            connection.putrequest(asked.method, asked.target, skip_host=True, skip_accept_encoding=True)
            for name, value in asked.headers.items():
                if name not in _OF_A_CONNECTION:
                    connection.putheader(name, value)
            connection.putheader("content-length", str(len(asked.body)))
            connection.endheaders(asked.body)
            found = connection.getresponse()
            kept = {name: value for name, value in found.getheaders() if name.lower() not in _OF_A_CONNECTION}
            if asked.method == "HEAD":
                kept["Content-Length"] = found.getheader("Content-Length") or "0"
            return Said(found.status, found.read(), kept)
        finally:
            connection.close()


def s3_problem(status: int, code: str, message: str = "so it is") -> Said:
    """An error in the words of S3."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return Said(status, body.encode(), {"Content-Type": "application/xml"})
