"""The errors under the name that programs catch them by: `except deltacli.errors.Refused`."""

from deltacli.core.errors import *  # noqa: F403
