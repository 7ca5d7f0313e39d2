"""The options that the user has used, as opposed to options with their defaults."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from deltacli.cli.vendored_click import Parameter, ParameterSource
from deltacli.core.errors import UsageError

DELTA_FORMAT = "Delta"
PAIMON_FORMAT = "Paimon"
"""The table formats that an option may be for, as messages name them."""


def is_option_used(context: typer.Context, name: str) -> bool:
    """Return whether the user has used an option.

    The positive one of a pair of flags, such as `--refs` of `--refs/--no-refs`, does not count if it is the default,
    because it has no effect.

    Args:
        context: The context of the command.
        name: The name of the Python parameter, such as `save_plan`.
    """
    if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return False
    parameter = _find_parameter(context, name)
    is_pair_of_flags = bool(getattr(parameter, "secondary_opts", ()))
    return not is_pair_of_flags or context.params[name] != parameter.default


def get_used_options(context: typer.Context, *names: str) -> list[str]:
    """Return the long names of the options that the user has used, in the order of `names`.

    Args:
        context: The context of the command.
        names: The names of the Python parameters.
    """
    return [_find_parameter(context, name).opts[-1] for name in names if is_option_used(context, name)]


def find_mode_option(values: Mapping[str, str | None]) -> str | None:
    """Return the option that selects the mode of a command, such as `--apply`; None if the user has used none of them.

    Args:
        values: The value of each option that selects a mode. None if the option is not used.

    Raises:
        UsageError: If several of the options are used, or the value is empty, as that of an unset variable.
    """
    used_options = [name for name, value in values.items() if value is not None]
    if len(used_options) > 1:
        raise UsageError(f"{' and '.join(used_options)} exclude each other")
    if not used_options:
        return None
    if not values[used_options[0]]:
        raise UsageError(f"{used_options[0]} is empty")
    return used_options[0]


def get_format_options(
    context: typer.Context, *, delta: tuple[str, ...] = (), paimon: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the options that the user has used and that are for tables of one format only.

    Args:
        context: The context of the command.
        delta: The Python parameters for Delta tables.
        paimon: The Python parameters for Paimon tables.

    Returns:
        The options, each with its format. For example, `{"--version": "Delta", "--tag": "Paimon"}`.
    """
    options: dict[str, str] = {}
    for table_format, names in ((DELTA_FORMAT, delta), (PAIMON_FORMAT, paimon)):
        for name in names:
            if is_option_used(context, name):
                options[_get_used_name(context, name)] = table_format
    return options


def _get_used_name(context: typer.Context, name: str) -> str:
    """Return the name of a used option. Of a pair of flags it is the negative one if the value is False."""
    parameter = _find_parameter(context, name)
    negative_names = getattr(parameter, "secondary_opts", ())
    if negative_names and context.params[name] is False:
        return str(negative_names[0])
    return str(parameter.opts[0])


def _find_parameter(context: typer.Context, name: str) -> Parameter:
    return next(parameter for parameter in context.command.params if parameter.name == name)
