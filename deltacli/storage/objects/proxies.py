"""Proxies from the environment variables (`HTTPS_PROXY`, `NO_PROXY`) and from the settings of the system."""

from __future__ import annotations

import os
import sys
from urllib.parse import SplitResult


def find_proxy(parts: SplitResult) -> str | None:
    """Return the URL of the proxy for requests to a URL; None if they need none."""
    if sys.platform == "linux" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None

    # This import takes 25 ms, so Linux skips it if no variable is set. Windows and macOS also have system settings.
    from urllib.request import getproxies, proxy_bypass

    proxy = getproxies().get(parts.scheme)
    return proxy if proxy and not proxy_bypass(parts.netloc) else None
