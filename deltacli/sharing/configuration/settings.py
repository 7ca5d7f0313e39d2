"""How the shares are served: addresses, limits, lifetimes, certificates, the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deltacli.sharing.model import Catalog
from deltacli.sharing.signing.choose import Proxy


@dataclass(frozen=True)
class Limits:
    """What one connection, one request and one recipient may use. A limit of 0 is none where that is allowed."""

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


@dataclass(frozen=True)
class Tls:
    """The certificate that the server presents. `self_signed` is a setting of other servers, which is refused."""

    certificate_file: Path | None = None
    key_file: Path | None = None
    password_file: Path | None = None
    self_signed: bool = False

    def password(self) -> str | None:
        """Return the password of the private key, or None. Raises OSError and UnicodeDecodeError."""
        return self.password_file.read_text("utf-8").strip() if self.password_file else None


@dataclass(frozen=True)
class Audit:
    """Where requests are recorded: the file, the size at which it is rotated, and how many old files are kept."""

    file: Path
    rotate_bytes: int = 64 * 1024 * 1024
    keep: int = 10


@dataclass(frozen=True)
class Settings:
    """Everything about the server that is not a share or a recipient. Times are seconds."""

    host: str = "localhost"
    port: int = 80
    endpoint: str = "/delta-sharing"
    public_url: str | None = None
    behind_proxy: bool = False
    admin_host: str = "127.0.0.1"
    admin_port: int | None = None
    tls: Tls | None = None
    allowed_hosts: tuple[str, ...] = ()
    """If not empty, requests with another Host header are refused."""

    url_lifetime_seconds: int = 3_600
    page_size: int = 10_000
    page_token_lifetime_seconds: int = 3 * 86_400
    refresh_token_lifetime_seconds: int = 3_600
    evaluate_sql_hints: bool = True
    evaluate_json_hints: bool = True
    proxy_files: Proxy = Proxy.WHEN_NEEDED
    """Whether file URLs lead to this server, which reads the store itself."""

    cache_bytes: int = 512 * 1024 * 1024
    limits: Limits = field(default_factory=Limits)
    audit: Audit | None = None
    key_file: Path | None = None
    """The key that page tokens and file URLs are signed with; None: one that lives as long as the server."""
    wildcard_refresh_seconds: int = 300

    @property
    def base_url(self) -> str:
        """Return the URL of the endpoint for profiles, without a trailing slash."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.endpoint}"


@dataclass(frozen=True)
class Configuration:
    """A checked `shares.yaml` with its includes. `notes` are remarks for the operator, one sentence each."""

    path: Path
    catalog: Catalog
    settings: Settings
    bearer_token: str | None = field(default=None, repr=False)
    recipients_file: Path | None = None
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """Every file that was read for it: a change of any of them is a change of the configuration."""
    has_wildcards: bool = False
    lines: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Full name of a table in lower case -> `file:line` of its entry."""

    @property
    def is_authenticated(self) -> bool:
        """Return True if requests need a token."""
        return self.bearer_token is not None or self.recipients_file is not None
