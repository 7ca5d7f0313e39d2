"""The settings of a sharing server, as values: what `shares.yaml` says, or the defaults that are declared here.

`keys.py` names the key of the file for each setting, with its meaning and its limits, and takes the defaults from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deltacli.sharing.model import Catalog
from deltacli.sharing.signing.choose import Proxy


@dataclass(frozen=True)
class Limits:
    """What one connection, one request and one recipient may use.

    `requests_per_second`, `concurrent_requests` and `connections_per_address` are unlimited if they are 0.
    """

    body_bytes: int = 2 * 1024 * 1024
    header_bytes: int = 32 * 1024
    json_depth: int = 100
    head_seconds: int = 20
    body_seconds: int = 10
    idle_seconds: int = 75
    stream_idle_seconds: int = 60
    stream_seconds: int = 3_600
    requests_per_second: int = 50
    concurrent_requests: int = 64
    connections: int = 1_000
    connections_per_address: int = 256
    credentials_per_minute: int = 60


@dataclass(frozen=True)
class Tls:
    """The certificate that the server presents.

    Attributes:
        certificate_file: The certificate and those above it, in PEM.
        key_file: The private key of the certificate.
        password_file: A file with the password of the private key, or None if the key has none.
        self_signed: A setting of the reference server, which is refused here: clients do not trust such a certificate.
    """

    certificate_file: Path | None = None
    key_file: Path | None = None
    password_file: Path | None = None
    self_signed: bool = False

    def password(self) -> str | None:
        """Return the password of the private key, or None.

        Raises:
            OSError: If the file cannot be read.
            UnicodeDecodeError: If it is not a text.
        """
        return self.password_file.read_text("utf-8").strip() if self.password_file else None


@dataclass(frozen=True)
class Audit:
    """Where requests are recorded.

    Attributes:
        file: The file that is appended to.
        rotate_bytes: Size at which the file is renamed and a new one is begun.
        keep: Number of renamed files that are kept.
    """

    file: Path
    rotate_bytes: int = 64 * 1024 * 1024
    keep: int = 10


@dataclass(frozen=True)
class AsyncQueries:
    """Which queries are answered later, and where they are kept meanwhile.

    Attributes:
        directory: The directory of the queries, which all workers share. With None, every query is answered at once.
        after_ms: How long a client waits before it is told to ask again.
        pending_per_recipient: Number of queries of one recipient that may be unfinished.
    """

    directory: Path | None = None
    after_ms: int = 10_000
    pending_per_recipient: int = 100


@dataclass(frozen=True)
class Settings:
    """Everything about the server that is not a share or a recipient.

    Attributes:
        allowed_hosts: If it is not empty, requests with another Host header are refused.
        proxy_files: When URLs of files lead to this server, which reads the store itself.
        key_file: The keys that sign page tokens and URLs of files. With None, the server makes a key that is lost when
            it ends.
        credential_lifetime_seconds: How long credentials for directories are valid.
    """

    host: str = "localhost"
    port: int = 80
    endpoint: str = "/delta-sharing"
    public_url: str | None = None
    behind_proxy: bool = False
    admin_host: str = "127.0.0.1"
    admin_port: int | None = None
    tls: Tls | None = None
    allowed_hosts: tuple[str, ...] = ()
    url_lifetime_seconds: int = 3_600
    page_size: int = 10_000
    page_token_lifetime_seconds: int = 3 * 86_400
    refresh_token_lifetime_seconds: int = 3_600
    evaluate_sql_hints: bool = True
    evaluate_json_hints: bool = True
    proxy_files: Proxy = Proxy.WHEN_NEEDED
    cache_bytes: int = 512 * 1024 * 1024
    limits: Limits = field(default_factory=Limits)
    audit: Audit | None = None
    key_file: Path | None = None
    wildcard_refresh_seconds: int = 300
    credential_lifetime_seconds: int = 3_600
    async_queries: AsyncQueries = field(default_factory=AsyncQueries)

    @property
    def base_url(self) -> str:
        """The URL of the endpoint for profiles, without a trailing slash."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        scheme = "https" if self.tls else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}{self.endpoint}"


@dataclass(frozen=True)
class Configuration:
    """A checked `shares.yaml` with its includes.

    Attributes:
        path: The main file.
        catalog: What is shared.
        settings: How it is served.
        bearer_token: The one token that reads everything, or None.
        recipients_file: The file of recipients and their tokens, or None.
        notes: Remarks for the operator, one sentence each.
        files: Every file that was read. If one of them changes, the configuration has changed.
        has_wildcards: Whether tables were found by listing directories, which has to be repeated.
        lines: The place of each table (`file:line`), by its full name in lower case.
    """

    path: Path
    catalog: Catalog
    settings: Settings
    bearer_token: str | None = field(default=None, repr=False)
    recipients_file: Path | None = None
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    has_wildcards: bool = False
    lines: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def is_authenticated(self) -> bool:
        """Whether requests need a token."""
        return self.bearer_token is not None or self.recipients_file is not None
