"""Reading `fleet.toml`: every problem of the file with its line, not only the first one.

Reads valid TOML only: parse the text with `tomllib` first.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from deltacli.core.errors import UsageError, command, nearest_name
from deltacli.core.hosts import is_loopback
from deltacli.core.times import format_duration
from deltacli.core.typing import Toml
from deltacli.delta.log.state import DEFAULT_DELETED_FILE_RETENTION_MS, DEFAULT_LOG_RETENTION_MS
from deltacli.fleet.policy_file import model
from deltacli.fleet.policy_file.keys import (
    GROUP_KEYS,
    POLICY_KEYS,
    SECTION_KEYS,
    STEP_KEYS,
    TOP_KEYS,
    WEBHOOK_KEYS,
    Key,
)
from deltacli.fleet.policy_file.value_kinds import TEXTS

# -- the lines of the keys of a TOML file ------------------------------------------------------------------------------

KeyPath = tuple[str | int, ...]
"""Names of keys, and the positions of elements of arrays."""

_TOKEN = re.compile(
    r'(?P<text>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
    r"|(?P<comment>#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<blank>[ \t\r]+)"
    r"|(?P<mark>[][{}=,.])"
    r"|(?P<bare>[^][{}=,.\s#\"']+)",
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """Return the line of each key and of each element of an array; a table that occurs twice has its first line."""
    return _LineReader(text).read()


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind not in ("blank", "comment"):
            yield _Token(kind, match[0], line)
        line += match[0].count("\n")
    yield _Token("end", "", line)


class _LineReader:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._lines: dict[KeyPath, int] = {}
        self._table: KeyPath = ()
        self._sizes: dict[KeyPath, int] = {}

    def read(self) -> Mapping[KeyPath, int]:
        while self._now.kind != "end":
            if self._now.kind == "newline":
                self._at += 1
            elif self._now.text == "[":
                self._header()
            else:
                self._pair(self._table)
        return self._lines

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _header(self) -> None:
        line = self._now.line
        is_element = self._tokens[self._at + 1].text == "["
        self._at += 2 if is_element else 1
        path = self._inside_last(self._key())
        for end in range(1, len(path) + 1):
            self._note(path[:end], line)
        if is_element:
            position = self._sizes[path] = self._sizes.get(path, -1) + 1
            path = (*path, position)
            self._note(path, line)
        self._table = path
        self._at += 2 if is_element else 1

    def _inside_last(self, names: list[str]) -> KeyPath:
        """Return the path of a table, inside the last element of each array of tables on its way."""
        path: KeyPath = ()
        for name in names[:-1]:
            path = (*path, name)
            if path in self._sizes:
                path = (*path, self._sizes[path])
        return (*path, names[-1])

    def _key(self) -> list[str]:
        names = [_name(self._now)]
        self._at += 1
        while self._now.text == ".":
            names.append(_name(self._tokens[self._at + 1]))
            self._at += 2
        return names

    def _pair(self, table: KeyPath) -> None:
        line = self._now.line
        path = table
        for name in self._key():
            path = (*path, name)
            self._note(path, line)
        self._at += 1  # the equals sign
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        match self._now.text:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case _:
                while self._now.kind in ("text", "bare") or self._now.text == ".":
                    self._at += 1

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        position = 0
        while self._now.text != "]":
            if self._now.kind == "newline" or self._now.text == ",":
                self._at += 1
                continue
            self._note((*path, position), self._now.line)
            self._value((*path, position))
            position += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while self._now.text != "}":
            if self._now.text == ",":
                self._at += 1
            else:
                self._pair(path)
        self._at += 1

    def _note(self, path: KeyPath, line: int) -> None:
        self._lines.setdefault(path, line)


def _name(token: _Token) -> str:
    if token.kind == "bare":
        return token.text
    name: str = tomllib.loads(f"name = {token.text}")["name"]
    return name


# -- reading `fleet.toml` ----------------------------------------------------------------------------------------------


def _url_fault(url: str) -> str | None:
    """Return why an address is not one that a summary may be sent to, None where it is."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if not host or any(ord(c) <= 32 or ord(c) > 126 for c in url):
        return "is not a URL"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        return "is not an https URL"
    if parts.username is not None or parts.password is not None:
        return "has credentials, which belong in the secret"
    return "has a fragment" if parts.fragment else None


FAULT = "fleet.config"
_MOST_BYTES = 16 << 20
_POSITION = re.compile(r" \(at line (\d+), column \d+\)$")
_TABLES = ("groups", "policies", "webhook")
_RETENTIONS = {"log-expire": DEFAULT_LOG_RETENTION_MS, "vacuum": DEFAULT_DELETED_FILE_RETENTION_MS}

Sections = dict[str, dict[str, Any] | None]
"""Step, or `alerts` -> its own keys with their values; None where it is turned off."""


def read_fleet_file(path: str | Path) -> model.FleetFile:
    """Return a policy file with its problems. Raises UsageError where the file cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as fault:  # ValueError: a text that names no file
        reason = ((isinstance(fault, OSError) and fault.strerror) or str(fault)).lower()
        hint, near = None, None
        if isinstance(fault, FileNotFoundError):
            around = {one.stem: str(one) for one in Path(path).parent.glob("*.toml")}
            near = around.get(nearest_name(Path(path).stem, around) or "")
            hint = command("fleet init", ".", *([path] if str(path) != "fleet.toml" else []))
        elif isinstance(fault, IsADirectoryError):
            hint = command("fleet init", path)
        said = f"the policy file {path} cannot be read: {reason}"
        raise UsageError(said, code=FAULT, hint=hint).suggest_as_fact(str(path), near) from fault
    if len(data) > _MOST_BYTES:
        raise UsageError(f"the policy file {path} is larger than {_MOST_BYTES >> 20} MiB", code=FAULT)
    return _Reader(Path(path)).read(data)


def require_fleet_file(path: str | Path) -> model.FleetFile:
    """Return a policy file without errors. Raises UsageError for the first one, with its line."""
    found = read_fleet_file(path)
    if not found.errors:
        return found
    first, *others = found.errors
    facts = {} if first.expected is None else {"expected": first.expected}
    if others:
        facts["also"] = f"{len(others)} more; {command('fleet check')} lists all of them"
    raise UsageError(
        f"{path}:{first.line}: {first.key}: {first.message}" if first.key else f"{path}:{first.line}: {first.message}",
        code=FAULT,
        facts=facts,
        hint=command("fleet check", path) if others else None,  # which repeats a single one
    )


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._problems: list[model.Problem] = []
        self._lines: Mapping[KeyPath, int] = {}

    def read(self, data: bytes) -> model.FleetFile:
        content = self._parse(data)
        if content is None:
            return model.FleetFile(self._path, (), (), tuple(self._problems))
        top = self._values((), content, TOP_KEYS, others=_TABLES)
        excluded = self._entries(top, (), "exclude")
        policies = self._policies(self._table((), content, "policies"))
        groups = self._groups(self._table((), content, "groups"), policies, excluded)
        if not groups and not self._problems:
            self._fault((), "the file has no group of tables", "[groups.NAME]")
        self._warn(groups, content)
        webhook = self._webhook(content)
        in_order = sorted(self._problems, key=lambda problem: problem.line)
        settings = self._settings(top)
        return model.FleetFile(self._path, tuple(groups), tuple(policies.values()), tuple(in_order), settings, webhook)

    def _settings(self, top: Mapping[str, Toml]) -> model.RunSettings:
        places = {name: self._place_of(top[name]) for name in ("leases",) if name in top}
        places["state"] = self._place_of(top.get("state", model.RunSettings().state))
        if "://" in places["state"]:
            self._fault(("state",), "the state is in a directory of this machine; leases can be in a store", "a path")
        keys = {name.replace("-", "_"): value for name, value in top.items() if name != "exclude"}
        return model.RunSettings(**(keys | places))

    def _webhook(self, content: Mapping[str, Toml]) -> model.Webhook | None:
        if "webhook" not in content:
            return None
        at: KeyPath = ("webhook",)
        table = content["webhook"]
        if not isinstance(table, dict):
            self._fault(at, "is not a table", "[webhook]")
            return None
        values = self._values(at, table, WEBHOOK_KEYS)
        if "url" not in values:
            if "url" not in table:
                self._fault(at, "the webhook has no url", 'url = "https://…"')
            return None
        if fault := _url_fault(values["url"]):
            self._fault((*at, "url"), fault, "https://…, or http:// on loopback")
        if {"secret-env", "secret-file"} <= values.keys():
            self._fault((*at, "secret-file"), "the secret has two sources", "secret-env or secret-file")
        if "secret-file" in values:
            values["secret-file"] = self._place_of(values["secret-file"])
        if not {"secret-env", "secret-file"} & table.keys():
            self._fault(at, "the requests are not signed: neither secret-env nor secret-file is set", is_error=False)
        return model.Webhook(**{key.replace("-", "_"): value for key, value in values.items()})

    def _parse(self, data: bytes) -> dict[str, Toml] | None:
        try:
            text = data.decode("utf-8-sig").replace("\r\n", "\n")
            content = tomllib.loads(text)
            self._lines = key_lines(text)
        except UnicodeDecodeError as fault:
            self._problems.append(model.Problem(data.count(b"\n", 0, fault.start) + 1, "", "the file is not UTF-8"))
            return None
        except ValueError as fault:  # of tomllib, also for a number of thousands of digits
            position = _POSITION.search(str(fault))
            line = int(position[1]) if position else text.count("\n") + 1
            message = _POSITION.sub("", str(fault)).removesuffix(" (at end of document)")
            self._problems.append(model.Problem(line, "", f"not TOML: {message[:1].lower()}{message[1:]}"))
            return None
        except RecursionError:
            self._problems.append(model.Problem(1, "", "not TOML: nested too deeply"))
            return None
        return content

    def _fault(self, path: KeyPath, message: str, expected: str | None = None, *, is_error: bool = True) -> None:
        self._problems.append(model.Problem(self._line(path), _spelled(path), message, expected, is_error))

    def _line(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest table around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def _table(self, at: KeyPath, content: Mapping[str, Toml], name: str) -> dict[str, Toml]:
        found = content.get(name, {})
        if isinstance(found, dict):
            return found
        self._fault((*at, name), "is not a table", f"[{_spelled((*at, name))}.NAME]")
        return {}

    def _values(
        self, at: KeyPath, table: Mapping[str, Any], keys: Iterable[Key], *, others: Iterable[str] = ()
    ) -> dict[str, Toml]:
        """Return the valid values of a table by key; unknown keys, but for `others`, are problems."""
        known = {key.name: key for key in keys}
        self._require_known(at, table, [*known, *others])
        found: dict[str, Toml] = {}
        for name in [name for name in table if name in known]:
            try:
                found[name] = known[name].parse(table[name])
            except ValueError:
                path, value = self._first_invalid((*at, name), known[name], table[name])
                self._fault(path, f"invalid value {_shown(value)}", known[name].expected)
        return found

    def _first_invalid(self, path: KeyPath, key: Key, value: object) -> tuple[KeyPath, object]:
        if key.kind is TEXTS and isinstance(value, list):
            for number, element in enumerate(value):
                if not isinstance(element, str) or not element or "\0" in element:
                    return (*path, number), element
        return path, value

    def _require_known(self, at: KeyPath, table: Mapping[str, Toml], known: list[str]) -> None:
        for name in table:
            if name not in known:
                nearest = nearest_name(name.replace("_", "-"), known, ignores_case=True)
                guess = f"; did you mean {nearest!r}?" if nearest else ""
                self._fault((*at, name), f"unknown key{guess}", ", ".join(known))

    def _entries(self, values: Mapping[str, Toml], at: KeyPath, name: str) -> tuple[model.Entry, ...]:
        """Return the texts of a key with their lines, paths as absolute ones."""
        texts = values.get(name, ())
        return tuple(
            model.Entry(self._place_of(text), self._line((*at, name, number))) for number, text in enumerate(texts)
        )

    def _place_of(self, text: str) -> str:
        """Return a URI as it is, and a path as absolute; a relative one belongs to the directory of the file."""
        if "://" in text or text.startswith("file:"):
            return text.rstrip("/") if not text.endswith("://") else text
        below = os.path.join(self._path.parent, os.path.expanduser(text))
        return os.path.normpath(os.path.abspath(below))

    def _policies(self, table: Mapping[str, Toml]) -> dict[str, model.Policy]:
        own = {name: self._own_sections(name, content) for name, content in table.items()}
        resolved = {}
        for name in own:
            sections = self._resolve(name, table, own)
            for step, keys in sections.items():
                if keys and keys.get("ignore_streams_older_ms") is not None and not keys.get("protect_streams"):
                    self._fault(("policies", name, step, "ignore-streams-older"), "needs protect-streams")
                    sections[step] = {key: value for key, value in keys.items() if key != "ignore_streams_older_ms"}
            built = {}
            for step in [step for step in STEP_KEYS if sections[step] is not None]:
                try:
                    built[step] = model.STEP_TYPES[step](**(sections[step] or {}))
                except UsageError as fault:
                    self._fault(("policies", name, step), fault.message)
            thresholds = sections["alerts"]
            alerts = None if thresholds is None else model.AlertPolicy(**thresholds)
            copy = built.get("copy")
            if isinstance(copy, model.CopyPolicy) and (wrong := copy.fault()):
                self._fault(("policies", name, "copy", "to"), wrong, 'to = "s3://backups/{path}"')
            resolved[name] = model.Policy(name, built, self._line(("policies", name)), alerts)
        return resolved

    def _own_sections(self, name: str, content: object) -> Sections:
        at: KeyPath = ("policies", name)
        if not isinstance(content, dict):
            self._fault(at, "is not a table", "a table with steps")
            return {}
        self._values(at, content, POLICY_KEYS, others=SECTION_KEYS)
        sections: Sections = {}
        for step in [step for step in SECTION_KEYS if step in content]:
            settings = content[step]
            if settings is False:
                sections[step] = None
            elif isinstance(settings, dict):
                values = self._values((*at, step), settings, SECTION_KEYS[step])
                for place in [place for place in _PLACES if place in values]:
                    value = values[place]
                    if not isinstance(value, str):
                        values[place] = tuple(map(self._place_of, value))
                    elif value.strip():
                        values[place] = self._place_of(value)
                sections[step] = {key.field_name: values[key.name] for key in SECTION_KEYS[step] if key.name in values}
            else:
                self._fault((*at, step), f"invalid value {_shown(settings)}", "a table, or false")
        return sections

    def _resolve(
        self, name: str, table: Mapping[str, Any], own: Mapping[str, Sections]
    ) -> Sections:  # Any: TOML values
        """Return the steps and thresholds of a policy with those that it inherits."""
        line_of_descent, at = [name], name
        while (above := table[at].get("inherits") if isinstance(table[at], dict) else None) is not None:
            if not isinstance(above, str) or above not in own:
                if at == name and isinstance(above, str):
                    self._unknown(("policies", name, "inherits"), "policy", above, own)
                break
            if above in line_of_descent:
                if above == name:
                    self._fault(
                        ("policies", name, "inherits"),
                        f"the policies inherit from each other: {' -> '.join([*line_of_descent, above])}",
                    )
                break
            line_of_descent.append(above)
            at = above
        steps: Sections = dict.fromkeys(SECTION_KEYS)
        for ancestor in reversed(line_of_descent):
            for step, keys in own[ancestor].items():
                steps[step] = None if keys is None else {**(steps[step] or {}), **keys}
        return steps

    def _unknown(self, path: KeyPath, what: str, name: str, known: Iterable[str]) -> None:
        nearest = nearest_name(name, known, ignores_case=True)
        guess = f"; did you mean {nearest!r}?" if nearest else ""
        self._fault(path, f"{what} {name!r} is not defined{guess}", ", ".join(known) or None)

    def _groups(
        self, table: Mapping[str, Any], policies: Mapping[str, model.Policy], excluded: tuple[model.Entry, ...]
    ) -> list[model.Group]:  # Any: TOML values
        groups = []
        copies = ((policy, policy.steps.get("copy")) for policy in policies.values())
        replicas = [
            model.Entry(copy.targets, policy.line) for policy, copy in copies if isinstance(copy, model.CopyPolicy)
        ]
        for name, content in table.items():
            at: KeyPath = ("groups", name)
            if not isinstance(content, dict):
                self._fault(at, "is not a table", "a table with policy and globs")
                continue
            values = self._values(at, content, GROUP_KEYS)
            chosen = values.get("policy")
            if "policy" not in content:
                self._fault(at, "the group has no policy", 'policy = "NAME"')
            elif chosen is not None and chosen not in policies:
                self._unknown((*at, "policy"), "policy", chosen, policies)
            globs, prefixes = self._entries(values, at, "globs"), self._entries(values, at, "prefixes")
            tables = self._entries(values, at, "tables") + self._listed(values, at)
            if not {"globs", "prefixes", "tables", "lists"} & content.keys():
                self._fault(at, "the group has no tables", "globs, prefixes, tables or lists")
            for replica in replicas:
                if any(_leaves_out(replica.text, entry.text) for entry in (*globs, *prefixes, *tables)):
                    where = f"line {replica.line}: the target of copy matches its tables, and replicas are in no group"
                    self._fault(at, where, "a target beside the tables, or one that the group does not name")
            exclude = (*self._entries(values, at, "exclude"), *excluded, *replicas)
            policy = policies.get(chosen or "", model.Policy("", {}))
            groups.append(model.Group(name, policy, globs, prefixes, tables, exclude, self._line(at)))
        return groups

    def _listed(self, values: Mapping[str, Toml], at: KeyPath) -> tuple[model.Entry, ...]:
        found: list[model.Entry] = []
        for number, text in enumerate(values.get("lists", ())):
            path = (*at, "lists", number)
            try:
                lines = Path(self._place_of(text)).read_text(encoding="utf-8-sig").splitlines()
            except (OSError, UnicodeDecodeError) as fault:
                reason = (fault.strerror or str(fault)).lower() if isinstance(fault, OSError) else "it is not UTF-8"
                self._fault(path, f"{text} cannot be read: {reason}")
                continue
            names = [line.strip() for line in lines]
            found += [
                model.Entry(self._place_of(one), self._line(path)) for one in names if one and not one.startswith("#")
            ]
        return tuple(found)

    def _warn(self, groups: Iterable[model.Group], content: Mapping[str, Toml]) -> None:
        """Warn about policies without steps, steps that can never run, and patterns where names are expected."""
        for policy in {group.policy.name: group.policy for group in groups}.values():
            self._warn_about_retention(policy, content.get("policies", {}))
        for group in groups:
            at: KeyPath = ("groups", group.name, "policy")
            if group.policy.name and not group.policy.steps and group.policy.alerts is None:
                self._fault(at, f"the policy {group.policy.name!r} has no steps", is_error=False)
            for step in [
                name for name, settings in group.policy.steps.items() if getattr(settings, "consent", None) is False
            ]:
                place = _spelled(("policies", group.policy.name, step))
                self._fault(at, f"{step} is planned but never run: {place} lacks consent = true", is_error=False)
            for table in group.tables:
                if "*" in table.text and not model.is_catalog_pattern(table.text):
                    message = f"{table.text} is read as the name of one table; patterns belong in globs"
                    self._fault(("groups", group.name, "tables"), message, is_error=False)

    def _warn_about_retention(self, policy: model.Policy, table: Mapping[str, Toml]) -> None:
        """Warn about a retention below the default of tables, which no table without its own one accepts."""
        for step, default_ms in _RETENTIONS.items():
            settings = policy.steps.get(step)
            if not isinstance(settings, model.ExpirePolicy | model.VacuumPolicy):
                continue
            limit, given = settings.allow_retention_below_ms, settings.retention_ms
            if given is not None and given < default_ms and (limit is None or limit < default_ms):
                default = format_duration(default_ms)
                message = (
                    f"{format_duration(given)} is less than the default retention of tables ({default}): {step} is "
                    f'refused for tables that keep it; to allow it: allow-retention-below = "{default}"'
                )
                self._fault(self._where(policy.name, step, "retention", table), message, is_error=False)
            elif limit is not None and given is None:
                message = f"has no effect on {step} without retention"
                self._fault(self._where(policy.name, step, "allow-retention-below", table), message, is_error=False)

    def _where(self, policy: str, step: str, key: str, table: Mapping[str, Toml]) -> KeyPath:
        """Return the path of a key in the policy, or in the one that it is inherited from."""
        while not (isinstance(settings := table[policy].get(step), dict) and key in settings):
            policy = table[policy]["inherits"]
        return ("policies", policy, step, key)


def _spelled(path: KeyPath) -> str:
    """Return a key as it is spelled in a file: `groups.bronze.globs[0]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


def _shown(value: object) -> str:
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _leaves_out(replicas: str, entry: str) -> bool:
    """Return whether the pattern of all replicas matches every table of an entry of a group."""
    directory, _, rest = replicas.partition("*")
    return rest in ("", "*") and directory.endswith("/") and f"{_WILD.split(entry)[0]}/".startswith(directory)


_PLACES = ("baselines", "protect-from", "protect-streams", "quarantine", "to")
"""The keys of steps that have paths or URIs."""

_WILD = re.compile(r"/?[^/]*[*?\[].*")
"""What follows the directory of a pattern."""
