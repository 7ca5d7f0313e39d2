"""Format commands and parameters as command lines for a POSIX shell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltacli.core.command_calls import PAIMON_OPTION, CommandCall, DoubleQuoted, is_table_placeholder
from deltacli.core.quoting import quote_table, quote_word

_TWO_WORD_GROUPS = ("catalog", "doctor", "log", "schema")
"""Groups whose commands take the table after the second word: `deltacli log expire TABLE`.

All other commands take it after the first word: `deltacli properties TABLE set KEY=VALUE`.
"""

_GROUPS_WITHOUT_TABLE = ("fleet", "share", "spark")
"""Groups whose commands find their tables in a policy file, a configuration or a profile."""

_OPTION_NAMES = {
    ("changes", "from_version"): "from",
    ("changes", "to_version"): "to",
    ("log compact", "first"): "from",
    ("open_table", "storage_options"): "storage-option",
    ("log compact", "last"): "to",
    ("undelete", "sources"): "from",
    ("repair", "sources"): "from",
    ("repair", "partition_values"): "partition-value",
    ("restore", "sources"): "from",
    ("vacuum", "keep_versions"): "keep-version",
    ("validate", "with_manifests"): "refs",
}
"""Operation and Python parameter -> option, where the option is not the parameter's name with dashes."""

_VALUE_PLACEHOLDERS = {"save_plan": "FILE", "sources": "COPY", "version": "N"}
"""Python parameter -> the word that command lines show for the value `...`; VALUE for other parameters."""


class ShellSyntax:
    """Formats commands and parameters as command lines of `deltacli`."""

    def format_parameter(self, operation: str, name: str, value: object = None) -> str:
        """Return an option, such as `--mode lite` or `--no-log-entries`. See `HintSyntax.format_parameter`."""
        if operation == "storage_options":
            return f"--storage-option {name}" if value is None else f"--storage-option {name}={value}"

        option = _OPTION_NAMES.get((operation, name))
        if option is None:
            # Options take durations with a unit, so their names have none: retention_ms is --retention.
            option = name.removesuffix("_ms").replace("_", "-")
        if value is False:
            return f"--no-{option}"
        if value is None or value is True:
            return f"--{option}"

        if isinstance(value, Mapping):
            value = " ".join(f"{key}={item}" for key, item in value.items())
        if isinstance(value, list):
            # `format_call` repeats the option for each item, so only lists of one item are passed here.
            (value,) = value
        return f"--{option} {value}"

    def format_call(self, call: CommandCall) -> str:
        """Return a command line, such as `deltacli history trips --limit 10`."""
        words = call.operation.split()
        group = words[0]
        table_position = 2 if group in _TWO_WORD_GROUPS else 1

        line = ["deltacli", *words[:table_position]]
        if call.table is not None and group not in _GROUPS_WITHOUT_TABLE:
            line.append(call.table if is_table_placeholder(call.table) else self.quote_table(call.table))
        line += words[table_position:]
        line += [_format_value(argument) for argument in call.arguments]
        for name, value in call.options.items():
            # The same commands work on Delta and Paimon tables.
            if name != PAIMON_OPTION:
                line += self._format_option(call.operation, name, value)
        return " ".join(line)

    def quote_table(self, table: str) -> str:
        """Return the name of a table as one word for a shell."""
        return quote_table(table)

    def _format_option(self, operation: str, name: str, value: object) -> Iterator[str]:
        """Yield an option with its value, once for each item of a list."""
        placeholder = _VALUE_PLACEHOLDERS.get(name, "VALUE")
        items = value if isinstance(value, list) else [value]
        for item in items:
            formatted_item = item if isinstance(item, bool) else _format_value(item, placeholder)
            yield self.format_parameter(operation, name, formatted_item)


def _format_value(value: object, placeholder: str = "VALUE") -> str:
    """Return an argument or an option value, quoted for a shell.

    >>> _format_value(("a b", "c"))
    "'a b' c"
    >>> _format_value({"delta.x": "1"})
    'delta.x=1'

    Args:
        value: The value. Tuples become several words, mappings several words KEY=VALUE.
        placeholder: The word to show for `...`.
    """
    if value is ...:
        return placeholder
    if isinstance(value, tuple):
        return " ".join(_format_value(item) for item in value)
    if isinstance(value, Mapping):
        return " ".join(_format_pair(key, item) for key, item in value.items())
    if isinstance(value, DoubleQuoted):
        return f'"{value}"'
    return quote_word(str(value))


def _format_pair(key: str, value: object) -> str:
    """Return KEY=VALUE as one word for a shell. A value with a space is quoted alone: `delta.x='a b'`."""
    if value is ...:
        return f"{key}=VALUE"
    if isinstance(value, str) and " " in value:
        return f"{key}={quote_word(value)}"
    return quote_word(f"{key}={value}")
