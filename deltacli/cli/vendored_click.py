"""The classes that only the copy of Click inside Typer has, imported here and nowhere else.

Typer documents and exports most of what this program needs. The names below are private to Typer
(typer._click); they exist in all versions that pyproject.toml allows, and the tests run with the
oldest and the newest one.
"""

from __future__ import annotations

from typer._click.core import Command, Context, Parameter, ParameterSource
from typer._click.exceptions import MissingParameter, NoArgsIsHelpError, NoSuchOption, UsageError

__all__ = [
    "Command",
    "Context",
    "MissingParameter",
    "NoArgsIsHelpError",
    "NoSuchOption",
    "Parameter",
    "ParameterSource",
    "UsageError",
]
