"""What a peer answers to one question, and what it says on stderr meanwhile."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any


def listen(question: Callable[[], Any]) -> dict[str, Any]:  # Any: JSON values
    """An answer is `{"value"}` or `{"refused"}`, with `{"said"}` where anything was written on stderr."""
    with tempfile.TemporaryFile() as heard:
        kept = os.dup(2)
        os.dup2(heard.fileno(), 2)
        try:
            answer: dict[str, Any] = {"value": question()}
        except BaseException as fault:  # noqa: BLE001  (whatever it is, a panic too, it is the peer's answer)
            answer = {"refused": f"{type(fault).__name__}: {fault}"}
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
        heard.seek(0)
        said = heard.read().decode(errors="replace").strip()
    return answer | ({"said": said} if said and "value" in answer else {})
