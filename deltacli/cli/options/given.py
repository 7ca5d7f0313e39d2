"""Which options the user gave: on the command line, not by a default."""

from __future__ import annotations

import typer

from deltacli.cli.vendored_click import Parameter, ParameterSource

OF_DELTA = "Delta"
OF_PAIMON = "Paimon"
"""The formats of tables that an option may be for, as messages name them."""


def is_given(context: typer.Context, name: str) -> bool:
    """Return whether the parameter of this name was given on the command line.

    The affirmative one of two flags, such as `--refs` of `--refs/--no-refs`, does not count where it is the default: it
    asks for nothing.
    """
    if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return False
    parameter = _find_parameter(context, name)
    is_pair_of_flags = bool(getattr(parameter, "secondary_opts", ()))
    return not is_pair_of_flags or context.params[name] != parameter.default


def given_options(context: typer.Context, *names: str) -> list[str]:
    """Return the spellings of those of these parameters that were given, in the order of `names`."""
    return [_find_parameter(context, name).opts[-1] for name in names if is_given(context, name)]


def given_options_of_one_format(
    context: typer.Context, *, delta: tuple[str, ...] = (), paimon: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the given options that work on tables of one format only, each with its format.

    Args:
        context: The context of the command.
        delta: The parameters that work on Delta tables only.
        paimon: The parameters that work on Paimon tables only.
    """
    options: dict[str, str] = {}
    for table_format, names in ((OF_DELTA, delta), (OF_PAIMON, paimon)):
        for name in names:
            if is_given(context, name):
                options[_spell_as_given(context, name)] = table_format
    return options


def _spell_as_given(context: typer.Context, name: str) -> str:
    """Return how a given option is spelled first; the negative one of two flags where its value is False."""
    parameter = _find_parameter(context, name)
    negative_spellings = getattr(parameter, "secondary_opts", ())
    if negative_spellings and context.params[name] is False:
        return str(negative_spellings[0])
    return str(parameter.opts[0])


def _find_parameter(context: typer.Context, name: str) -> Parameter:
    return next(parameter for parameter in context.command.params if parameter.name == name)
