"""The options that choose the engine: what is settled from where, and what is refused before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.options.cluster import ClusterOptions, EngineChoice
from deltacli.cli.settled_engine import settle_engine
from deltacli.core.errors import UsageError, install_command
from deltacli.engine.spark.session import SparkSettings
from tests.cli.support import deltacli

SECRET = "hidden-value"


def settle(*, settings: Mapping[str, object] | None = None, configuration: str = "", **given: Any) -> SparkSettings:
    found = settle_engine(ClusterOptions(**given), settings or {}, configuration)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--master", "local[2]"], "--master needs --engine spark"),
        (["--remote", "sc://h"], "--remote needs --engine spark"),
        (["--spark-conf", "a=b"], "--spark-conf needs --engine spark"),
        (["--engine", "spark", "--master", "local", "--remote", "sc://h"], "exclude each other"),
        (["--engine", "spark", "--spark-conf", "a"], "is not K=V"),
        (["--engine", "spark", "--remote", "@/none"], "cannot be read"),
        (["--engine", "spark", "--remote", f"sc://h;token={SECRET}"], "--remote: a secret on the command line"),
        (["--engine", "spark", "--spark-conf", f"spark.x.password={SECRET}"], "a secret on the command line"),
    ],
)
def test_what_does_not_fit_is_a_usage_error_without_the_secret(
    arguments: list[str], message: str, sample: Path
) -> None:
    done = deltacli("snapshot", sample, *arguments)

    assert 2 == done.code
    assert message in done.err
    assert SECRET not in done.err


def test_an_option_wins_over_the_environment_and_that_over_the_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = tmp_path / "url"
    secret.write_text(f"sc://h;token={SECRET}\n")
    file = {"engine": "spark", "master": "local[1]", "spark_conf": {"a": "1", "b": "2"}}

    configured = settle(settings=file)
    monkeypatch.setenv("DELTACLI_MASTER", "local[2]")
    from_environment = settle(settings=file, spark_conf=["b=3"])
    chosen = settle(settings=file, remote=f"@{secret}")
    monkeypatch.setenv("DELTACLI_ENGINE", "embedded")

    assert ("local[1]", None, {"a": "1", "b": "2"}) == (configured.master, configured.remote, configured.conf)
    assert ("local[2]", {"a": "1", "b": "3"}) == (from_environment.master, from_environment.conf)
    assert (None, f"sc://h;token={SECRET}") == (chosen.master, chosen.remote)
    assert SECRET not in repr(chosen)
    assert settle_engine(ClusterOptions(), file, "") is None


def test_two_clusters_in_the_environment_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTACLI_MASTER", "local")
    monkeypatch.setenv("DELTACLI_REMOTE", "sc://h")

    with pytest.raises(UsageError):
        settle(engine=EngineChoice.SPARK)


CATALOG = ("ls", "status", "staged", "publish")


@pytest.mark.skipif(find_spec("pyspark") is not None, reason="PySpark is installed")
@pytest.mark.parametrize("option, extra", [(["--master", "local"], "spark-local"), (["--remote", "sc://h"], "spark")])
def test_without_pyspark_the_hint_installs_it(option: list[str], extra: str, sample: Path) -> None:
    done = deltacli("snapshot", sample, "--engine", "spark", *option)

    assert 2 == done.code
    assert f"hint: {install_command(extra)}" in done.err


@pytest.mark.parametrize(
    "command",
    ["copy", "clone", "convert", "manifest", "streams", "properties", *(f"catalog {one}" for one in CATALOG)],
)
def test_a_command_without_an_engine_says_why_in_one_sentence(command: str, sample: Path) -> None:
    words = command.split()
    done = deltacli(*words, sample, "--master", "local[1]", "--engine", "spark", "--dry-run")

    assert 2 == done.code
    assert done.err.startswith(f"error: {command} does not run on a Spark cluster: ")
    assert f"hint: deltacli {command} {sample} --dry-run" in done.err
    assert "--engine" not in deltacli(*words, "--help-all").out
