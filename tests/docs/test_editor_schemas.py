"""The schemas of `fleet.toml` and `shares.yaml` for editors: they accept what the pages and `init` write, and find the
keys that the program does not know.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from deltacli.core.errors import UsageError
from deltacli.fleet.policy_file.file_schema import make_fleet_file_schema
from deltacli.fleet.policy_file.keys import GROUP_KEYS, POLICY_KEYS, SECTION_KEYS, TOP_KEYS, WEBHOOK_KEYS
from deltacli.fleet.policy_file.reading import read_fleet_file
from deltacli.fleet.policy_file.starting_policy import make_starting_policy
from deltacli.sharing.configuration.file_schema import make_shares_schema
from deltacli.sharing.configuration.keys import TOP_KEYS as SHARES_KEYS
from deltacli.sharing.configuration.keys import Keys
from deltacli.sharing.configuration.shares_yaml import read_configuration
from deltacli.sharing.configuration.starting import StartedTable, make_starting_configuration
from tests.cli.support import ROOT, deltacli, make_sample

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "tasks").glob("*.md"))]
Value = dict[str, Any]  # Any: values of a file


def blocks(language: str) -> list[str]:
    """The blocks of all pages in a language."""
    found = (re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE) for page in PAGES)
    return [block for of_page in found for block in of_page]


def faults(schema: Value, content: object) -> list[str]:
    return [f"{list(fault.path)}: {fault.message}" for fault in Draft7Validator(schema).iter_errors(content)]


def without_required(schema: Any) -> Any:  # Any: JSON
    """A schema for an excerpt of a file."""
    if isinstance(schema, dict):
        kept = {name: without_required(value) for name, value in schema.items() if name != "required"}
        is_choice = isinstance(schema.get("anyOf"), list) and all("required" in one for one in schema["anyOf"])
        return {name: value for name, value in kept.items() if name != "anyOf"} if is_choice else kept
    return [without_required(one) for one in schema] if isinstance(schema, list) else schema


def test_the_schema_of_policies_accepts_every_policy_of_the_project() -> None:
    schema = make_fleet_file_schema()
    excerpt = without_required(schema)
    policy = excerpt["properties"]["policies"]["additionalProperties"]
    whole = [
        (ROOT / "examples" / "fleet" / "fleet.toml").read_text(),
        make_starting_policy("lake", "f", ["lake/a"], "s"),
    ]
    uncommented = re.sub(r"^# (?=[a-z-]+ = |\[)", "", whole[1], flags=re.MULTILINE)
    parts = [tomllib.loads(block) for block in blocks("toml")]

    assert [] == [fault for text in [*whole, uncommented] for fault in faults(schema, tomllib.loads(text))]
    of_file = [part for part in parts if part.keys() <= excerpt["properties"].keys()]
    of_policy = [part for part in parts if part.keys() <= policy["properties"].keys()]
    assert [] == [fault for part in of_file for fault in faults(excerpt, part)]
    assert [] == [fault for part in of_policy for fault in faults(policy, part)]
    assert len(of_file) + len(of_policy) >= 4


def test_the_schema_of_shares_accepts_every_configuration_of_the_project() -> None:
    schema = make_shares_schema()
    written = make_starting_configuration(
        "shares.yaml", [StartedTable("s", "default", "t", "./t")], "shares.schema.json"
    )
    parts = [part for block in blocks("yaml") if isinstance(part := yaml.safe_load(block), dict)]

    of_file = [part for part in parts if part.keys() <= SHARES_KEYS.keys()]
    assert [] == faults(schema, yaml.safe_load(re.sub(r"^(\s*)# (?=[a-zA-Z]+: )", r"\1", written, flags=re.MULTILINE)))
    assert [] == [fault for part in of_file for fault in faults(without_required(schema), part)]
    assert of_file


def misspelt(keys: Keys, above: Value, below: list[Any]) -> Iterator[tuple[str, Value]]:
    """Each key with a letter too many, in an otherwise valid file. `below` is the mapping of the keys in `above`."""
    for name, key in keys.items():
        (mapping,) = below
        mapping[f"{name}x"] = 1
        yield name, json.loads(json.dumps(above))
        del mapping[f"{name}x"]
        if key.of:
            inner: Value = {"name": "n", "location": "/l"} if key.kind == "list" else {}
            inner = {one: value for one, value in inner.items() if one in key.of}
            before, mapping[name] = mapping.get(name), [inner] if key.kind == "list" else inner
            yield from misspelt(key.of, above, [inner])
            mapping[name] = before


def test_a_key_that_the_server_refuses_is_found_by_the_schema(tmp_path: Path) -> None:
    schema = Draft7Validator(make_shares_schema())
    file, start = tmp_path / "shares.yaml", {"version": 1, "shares": []}

    wrong = list(misspelt(SHARES_KEYS, start, [start]))
    for name, content in wrong:
        file.write_text(json.dumps(content))
        with pytest.raises(UsageError, match=f"unknown key '{name}x'"):
            read_configuration(file, environment={}, open_store=None)
        assert not schema.is_valid(content), name
    assert [name for name, _ in wrong] == list(every_key(SHARES_KEYS))


def every_key(keys: Keys) -> Iterator[str]:
    for name, key in keys.items():
        yield name
        yield from every_key(key.of)


POLICIES: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "{}\n[policies.p]\n[groups.g]\npolicy = 'p'\ntables = ['t']\n": ("", TOP_KEYS),
    "[policies.p]\n[groups.g]\npolicy = 'p'\ntables = ['t']\n{}\n": ("groups.g.", GROUP_KEYS),
    "[policies.p]\n{}\n[groups.g]\npolicy = 'p'\ntables = ['t']\n": ("policies.p.", POLICY_KEYS),
    "[policies.p]\n[groups.g]\npolicy = 'p'\ntables = ['t']\n[webhook]\nurl = 'https://h'\n{}\n": (
        "webhook.",
        WEBHOOK_KEYS,
    ),
    **{
        f"[policies.p.{name}]\n{{}}\n[groups.g]\npolicy = 'p'\ntables = ['t']\n": (f"policies.p.{name}.", keys)
        for name, keys in SECTION_KEYS.items()
    },
}


def test_a_key_that_fleets_refuse_is_found_by_the_schema(tmp_path: Path) -> None:
    schema, file = Draft7Validator(make_fleet_file_schema()), tmp_path / "fleet.toml"

    for text, (place, keys) in POLICIES.items():
        assert schema.is_valid(tomllib.loads(text.format(""))), place
        for key in keys:
            content = text.format(f"{key.name}x = 1")
            file.write_text(content)
            assert f"{place}{key.name}x" in [problem.key for problem in read_fleet_file(file).errors]
            assert not schema.is_valid(tomllib.loads(content)), key.name


def test_init_writes_the_schema_beside_the_file_but_not_over_another_one(tmp_path: Path) -> None:
    make_sample(tmp_path / "lake" / "t")
    written = deltacli("fleet", "init", "lake", cwd=tmp_path)
    shared = deltacli("share", "init", "lake", cwd=tmp_path)
    (tmp_path / "other.schema.json").write_text("{}")
    deltacli("fleet", "init", "lake", "other.toml", cwd=tmp_path)
    again = deltacli("fleet", "init", "lake", "--force", cwd=tmp_path)

    assert [0, 0, 0] == [written.code, shared.code, again.code]
    assert "#:schema ./fleet.schema.json" == (tmp_path / "fleet.toml").read_text().splitlines()[0]
    first = (tmp_path / "shares.yaml").read_text().splitlines()[0]
    assert "# yaml-language-server: $schema=./shares.schema.json" == first
    assert make_fleet_file_schema() == json.loads((tmp_path / "fleet.schema.json").read_text())
    assert make_shares_schema() == json.loads((tmp_path / "shares.schema.json").read_text())
    assert ("{}", "# Policy file of deltacli") == (
        (tmp_path / "other.schema.json").read_text(),
        (tmp_path / "other.toml").read_text()[:25],
    )


@pytest.mark.parametrize("command", ["fleet", "share"])
@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "edited"])
def test_what_has_the_name_of_the_schema_is_kept_and_named(command: str, kind: str, tmp_path: Path) -> None:
    make_sample(tmp_path / "lake" / "t")
    file, target = tmp_path / "own.schema.json", tmp_path / "lake" / "t" / "new.json"
    schema = make_fleet_file_schema() if command == "fleet" else make_shares_schema()
    match kind:
        case "link":
            file.symlink_to(target)
        case "pipe":
            os.mkfifo(file)
        case "directory":
            file.mkdir()
        case _:
            file.write_text(json.dumps({**schema, "edited": True}))
    before = file.lstat()

    ran = deltacli(command, "init", "lake", *(["own.toml"] if command == "fleet" else ["-c", "own.yaml"]), cwd=tmp_path)

    after = file.lstat()
    assert (0, False) == (ran.code, target.exists())
    assert (before.st_ino, before.st_mtime_ns, before.st_mode) == (after.st_ino, after.st_mtime_ns, after.st_mode)
    assert "own.schema.json is not the schema of this version, and is kept" in ran.err
    assert "described for editors" not in ran.out
