"""Write usage errors as JSON if the configuration file contains `format = "json"`.

The values of options are parsed before the configuration file is read. If a value is invalid, the format of
the error is not known yet: programs that configured JSON would receive text. So the file is read again for
the error alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from deltacli.cli.invocation import invocation
from deltacli.cli.options.configuration import Variable, read_configuration
from deltacli.core.errors import UsageError

_JSON_FORMATS = ("json", "ndjson")
_FORMAT_OPTIONS = ("--format", "--json", "--log-format")


def settle_error_format(arguments: Sequence[str]) -> None:
    """Enable JSON errors if the configuration file selects a JSON format and nothing overrides it.

    Args:
        arguments: The words of the command line. Their options, and the environment variable for the format,
            take precedence over the file.
    """
    values: dict[str, str] = {}
    for word, following in pairwise([*arguments, ""]):
        name, equals, value = word.partition("=")
        values[name] = value if equals else following

    has_format_option = any(option in values for option in _FORMAT_OPTIONS)
    if has_format_option or Variable.FORMAT.read():
        return

    path = values.get("--config") or Variable.CONFIG.read()
    profile = values.get("--profile-name") or Variable.PROFILE.read()
    # The invalid value is reported first. If the file is invalid too, the next run reports that.
    with suppress(UsageError):
        if read_configuration(path, profile).get("format") in _JSON_FORMATS:
            invocation.log_is_json = True
