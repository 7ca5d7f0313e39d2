"""The engine of a run, from the options of Spark, environment variables and the configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.options.cluster import ClusterOptions, EngineChoice
from deltacli.cli.options.configuration import Variable, get_configured_choice
from deltacli.cli.options.option_values import parse_pair, read_option_value
from deltacli.core.errors import UsageError
from deltacli.core.typing import JsonObject

if TYPE_CHECKING:
    from deltacli.engine.spark.session import SparkSettings


def settle_engine(options: ClusterOptions, settings: JsonObject, configuration: str) -> SparkSettings | None:
    """Return the Spark cluster that does the work of a run. None: this process does the work.

    `--master`, `--remote` and `--spark-conf` require `--engine spark`. In the environment and in the configuration file
    these values are defaults for runs that select Spark.

    Args:
        options: The options of the command line.
        settings: The settings of the configuration file.
        configuration: The phrase that names the configuration file in errors.

    Raises:
        UsageError: If a value is invalid, or if both a master and a Spark Connect server are named.
    """
    engine = options.engine
    if engine is None:
        engine = get_configured_choice(EngineChoice, Variable.ENGINE, settings, configuration) or EngineChoice.EMBEDDED
    if engine is EngineChoice.EMBEDDED:
        _refuse_spark_options(options)
        return None

    from deltacli.engine.spark.session import SparkSettings

    if options.master and options.remote:
        raise UsageError("--master and --remote exclude each other")
    spark_conf = dict(settings.get("spark_conf", {}))
    for text in options.spark_conf or []:
        key, value = parse_pair("--spark-conf", text, "the configuration of Spark itself")
        spark_conf[key] = value

    # An option replaces both the configured master and the configured server.
    if options.master:
        return SparkSettings(options.master, options.remote, spark_conf)
    if options.remote:
        # The address may contain an access token, so it can be read from a file.
        remote = read_option_value("--remote", " ", options.remote, f"the variable {Variable.REMOTE}")
        return SparkSettings(options.master, remote, spark_conf)

    defaults = SparkSettings(
        Variable.MASTER.read() or settings.get("master"),
        Variable.REMOTE.read() or settings.get("remote"),
        spark_conf,
    )
    if defaults.master and defaults.remote:
        raise UsageError("the environment or the configuration names a Spark master and a Spark Connect server")
    return defaults


def _refuse_spark_options(options: ClusterOptions) -> None:
    """Raise UsageError for an option of Spark without `--engine spark`."""
    spark_options = {"--master": options.master, "--remote": options.remote, "--spark-conf": options.spark_conf}
    for name, value in spark_options.items():
        if value:
            raise UsageError(f"{name} needs --engine spark", hint=f"add --engine spark, or omit {name}")
