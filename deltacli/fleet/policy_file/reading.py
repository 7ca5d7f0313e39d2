"""Read `fleet.toml`: every problem of the file with its line, not only the first one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from deltacli.core.errors import UsageError, command, nearest_name
from deltacli.core.hosts import is_loopback
from deltacli.core.typing import Toml
from deltacli.fleet.policy_file.file_context import FileContext
from deltacli.fleet.policy_file.groups import read_groups
from deltacli.fleet.policy_file.keys import TOP_KEYS, WEBHOOK_KEYS
from deltacli.fleet.policy_file.model import FleetFile, Problem, RunSettings, Webhook
from deltacli.fleet.policy_file.policies import read_policies
from deltacli.fleet.policy_file.policy_warnings import add_warnings
from deltacli.fleet.policy_file.toml_lines import KeyPath, find_key_lines

CODE = "fleet.config"
"""The code of errors about the file."""

_MOST_BYTES = 16 << 20
_POSITION = re.compile(r" \(at line (\d+), column \d+\)$")
"""Where `tomllib` found an error, at the end of its message."""
_TABLES = ("groups", "policies", "webhook")


def read_fleet_file(path: str | Path) -> FleetFile:
    """Return a policy file with its problems.

    Raises:
        UsageError: If the file cannot be read, or is too large.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a text that names no file
        raise _unreadable_error(path, error) from error
    if len(data) > _MOST_BYTES:
        raise UsageError(f"the policy file {path} is larger than {_MOST_BYTES >> 20} MiB", code=CODE)
    return _read_content(Path(path), data)


def _unreadable_error(path: str | Path, error: OSError | ValueError) -> UsageError:
    """Return the error for a file that cannot be read; for a missing one with a file of a similar name beside it."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    hint = None
    similar_file = None
    if isinstance(error, FileNotFoundError):
        files = {file.stem: str(file) for file in Path(path).parent.glob("*.toml")}
        similar_file = files.get(nearest_name(Path(path).stem, files) or "")
        hint = command("fleet init", ".", *([path] if str(path) != "fleet.toml" else []))
    elif isinstance(error, IsADirectoryError):
        hint = command("fleet init", path)
    message = f"the policy file {path} cannot be read: {reason.lower()}"
    return UsageError(message, code=CODE, hint=hint).suggest_as_fact(str(path), similar_file)


def require_fleet_file(path: str | Path) -> FleetFile:
    """Return a policy file without errors.

    Raises:
        UsageError: For the first error, with its line.
    """
    file = read_fleet_file(path)
    if not file.errors:
        return file

    first, *others = file.errors
    place = f"{path}:{first.line}: {first.key}" if first.key else f"{path}:{first.line}"
    facts = {} if first.expected is None else {"expected": first.expected}
    if others:
        facts["also"] = f"{len(others)} more; {command('fleet check')} lists all of them"
    # `fleet check` would only repeat a single error.
    hint = command("fleet check", path) if others else None
    raise UsageError(f"{place}: {first.message}", code=CODE, facts=facts, hint=hint)


def _read_content(path: Path, data: bytes) -> FleetFile:
    """Return what a file says, and its problems in the order of their lines."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return _make_broken_file(path, line, "the file is not UTF-8")
    try:
        content = tomllib.loads(text)
        lines = find_key_lines(text)
    except ValueError as error:  # of tomllib, also for a number of thousands of digits
        position = _POSITION.search(str(error))
        line = int(position[1]) if position else text.count("\n") + 1
        message = _POSITION.sub("", str(error)).removesuffix(" (at end of document)")
        return _make_broken_file(path, line, f"not TOML: {message[:1].lower()}{message[1:]}")
    except RecursionError:
        return _make_broken_file(path, 1, "not TOML: nested too deeply")

    context = FileContext(path, lines)
    values = context.read_values((), content, TOP_KEYS, other_names=_TABLES)
    excluded = context.read_entries(values, (), "exclude")
    policies = read_policies(context, context.read_section(content, "policies"))
    groups = read_groups(context, context.read_section(content, "groups"), policies, excluded)
    if not groups and not context.problems:
        context.add_error((), "the file has no group of tables", "[groups.NAME]")
    add_warnings(context, groups, content.get("policies", {}))
    webhook = _read_webhook(context, content)
    settings = _read_settings(context, values)
    return FleetFile(
        path=path,
        groups=tuple(groups),
        policies=tuple(policies.values()),
        problems=tuple(sorted(context.problems, key=lambda problem: problem.line)),
        settings=settings,
        webhook=webhook,
    )


def _make_broken_file(path: Path, line: int, message: str) -> FleetFile:
    return FleetFile(path, (), (), (Problem(line, "", message),))


def _read_settings(context: FileContext, values: Mapping[str, Toml]) -> RunSettings:
    """Return the settings of runs, from the valid values of the top of the file."""
    settings = {name.replace("-", "_"): value for name, value in values.items() if name != "exclude"}
    settings["state"] = context.resolve_place(values.get("state", RunSettings().state))
    if "leases" in values:
        settings["leases"] = context.resolve_place(values["leases"])
    if "://" in settings["state"]:
        message = "the state is in a directory of this machine; leases can be in a store"
        context.add_error(("state",), message, "a path")
    return RunSettings(**settings)


def _read_webhook(context: FileContext, content: Mapping[str, Toml]) -> Webhook | None:
    """Return where the summary of each run is sent; None without a valid webhook."""
    at: KeyPath = ("webhook",)
    if "webhook" not in content:
        return None
    table = content["webhook"]
    if not isinstance(table, dict):
        context.add_error(at, "is not a table", "[webhook]")
        return None
    values = context.read_values(at, table, WEBHOOK_KEYS)
    if "url" not in values:
        if "url" not in table:
            context.add_error(at, "the webhook has no url", 'url = "https://…"')
        return None

    error = _find_error_of_url(values["url"])
    if error is not None:
        context.add_error((*at, "url"), error, "https://…, or http:// on loopback")
    if "secret-env" in values and "secret-file" in values:
        context.add_error((*at, "secret-file"), "the secret has two sources", "secret-env or secret-file")
    if "secret-file" in values:
        values["secret-file"] = context.resolve_place(values["secret-file"])
    if "secret-env" not in table and "secret-file" not in table:
        context.add_warning(at, "the requests are not signed: neither secret-env nor secret-file is set")
    return Webhook(**{name.replace("-", "_"): value for name, value in values.items()})


def _find_error_of_url(url: str) -> str | None:
    """Return why an address is not one that a summary may be sent to; None if it is."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port  # which raises ValueError for a port that is not a number
    except ValueError:
        return "is not a URL"
    if not host or any(ord(character) <= 32 or ord(character) > 126 for character in url):
        return "is not a URL"
    is_secure = parts.scheme == "https"
    if not is_secure and not (parts.scheme == "http" and is_loopback(host)):
        return "is not an https URL"
    if parts.username is not None or parts.password is not None:
        return "has credentials, which belong in the secret"
    return "has a fragment" if parts.fragment else None
