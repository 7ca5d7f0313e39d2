"""Configuration files for tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from deltacli.sharing.configuration.settings import Configuration
from deltacli.sharing.configuration.shares_yaml import read_configuration

REFERENCE = """\
# The format version of this config file
version: 1
shares:
- name: "share1"
  schemas:
  - name: "schema1"
    tables:
    - name: "table1"
      location: "s3a://bucket/t1"
      id: "00000000-0000-0000-0000-000000000000"
    - name: "table2"
      location: "wasbs://container@account.blob.core.windows.net/t2"
      id: "00000000-0000-0000-0000-000000000001"
- name: "share2"
  schemas:
  - name: "schema2"
    tables:
    - name: "table3"
      location: "gs://bucket/t3"
      historyShared: true
      startVersion: 4
      id: "00000000-0000-0000-0000-000000000002"
- name: "empty"
authorization:
  bearerToken: "a-token"
ssl:
  selfSigned: false
  certificateFile: "server.pem"
  certificateKeyFile: "/etc/key.pem"
  certificatePasswordFile: "password"
host: "0.0.0.0"
port: 443
endpoint: "/delta-sharing/"
preSignedUrlTimeoutSeconds: 900
deltaTableCacheSize: 10
stalenessAcceptable: false
evaluatePredicateHints: false
evaluateJsonPredicateHints: true
requestTimeoutSeconds: 30
queryTablePageSizeLimit: 500
queryTablePageTokenTtlMs: 259200000
refreshTokenTtlMs: 3600001
"""
"""Every key of the reference server."""


def write_shares(directory: Path, text: str, name: str = "shares.yaml") -> Path:
    """Write a configuration file."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


def read_text(directory: Path, text: str, **environment: str) -> Configuration:
    """Write a configuration file and read it."""
    return read_configuration(write_shares(directory, text), environment=environment)


def remarks(configuration: Configuration) -> list[str]:
    """Return the notes without their places."""
    return [note.split(": ", 1)[1] for note in configuration.notes]
