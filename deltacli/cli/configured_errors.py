"""The form of an error about a value, where the configuration file decides it.

Values are made while a command line is parsed; the configuration is read after that. A program that has
`format = "json"` in its configuration expects errors about values as JSON, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from deltacli.cli.invocation import invocation
from deltacli.cli.options.configuration import Variable, read_configuration
from deltacli.core.errors import UsageError

_JSON_FORMATS = ("json", "ndjson")


def settle_error_format(arguments: Sequence[str]) -> None:
    """Let errors be JSON where only the configuration asks for it.

    Args:
        arguments: The words of the command line. A format that they or the environment name is obeyed without this.
    """
    values: dict[str, str] = {}
    for word, following in pairwise([*arguments, ""]):
        name, separator, value = word.partition("=")
        values[name] = value if separator else following
    if values.keys() & {"--format", "--json", "--log-format"} or Variable.FORMAT.read():
        return

    path = values.get("--config") or Variable.CONFIG.read()
    profile = values.get("--profile-name") or Variable.PROFILE.read()
    with suppress(UsageError):  # the error about the value is told first
        if read_configuration(path, profile).get("format") in _JSON_FORMATS:
            invocation.log_is_json = True
