"""What was probably meant by a wrong command line, as a command to paste where that is known."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from glob import glob
from itertools import pairwise
from typing import NamedTuple

from typer.core import TyperGroup

from deltacli.cli.command_table import COMMANDS, GROUPS
from deltacli.cli.command_tree import HERE, TAKES_VALUE, is_command, leads_on, path_of
from deltacli.cli.invocation import ASK_FOR_VERSION
from deltacli.cli.options.values import InvalidValue
from deltacli.cli.other_programs import (
    COMMANDS_THAT_WRITE_ROWS,
    OF_A_TABLE,
    OF_OTHER_FORMATS,
    OF_OTHER_OPTIONS,
    OF_OTHERS,
    WHAT_FLAGS_ARE,
)
from deltacli.cli.parameter_types import choices_of
from deltacli.cli.terminal.suggested_commands import (
    CLUSTER_OPTIONS,
    remove_option_value,
    repeat_command,
    repeat_command_with,
    repeat_command_without_cluster,
)
from deltacli.cli.usage_errors import UnexpectedWords, UnknownCommand, has_one_format, is_action, name_in_errors
from deltacli.cli.vendored_click import Command, MissingParameter, NoSuchOption, UsageError
from deltacli.core.errors import nearest_name, quote_word
from deltacli.storage import open_storage

_ROWS = frozenset({"-n", "--head", "--last", "--lines", "--max-rows", "--number", "--rows"})
_BEHIND_TABLE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("history", "read", "snapshot", "validate"), ()),
    **dict.fromkeys(("optimize", "repair", "stats", "undelete", "vacuum"), ("--dry-run",)),
    "changes": ("--from", "0"),
    "restore": ("--version", "VERSION", "--dry-run"),
}
"""Command -> what follows its table in a hint."""
_ALIKE, _ALIKE_COMMANDS, _ALIKE_VERSION = 0.75, 0.65, 0.8


class Meant(NamedTuple):
    """What was probably meant instead of an unknown word, and the command that does it."""

    name: str | None
    hint: str
    fact: str | None = None
    """What to say where nothing else was meant."""
    instead: str | None = None
    """The message, where that of the parser names another reason."""


def find_meant(error: Exception, arguments: Sequence[str]) -> Meant | None:
    """Return what was probably meant by a command line that the parser refused; None where nothing is known."""
    path = path_of(arguments)
    words = arguments[len(path) :]
    if isinstance(error, UnknownCommand):
        return _command_for(" ".join(path), error.word, words[1:]) if words and words[0] == error.word else None
    if path == ("schema", "diff") and len(words) == 3 and "".join(words[1:]).isdecimal():
        return Meant("'diff'", repeat_command(["diff", *words]))
    if isinstance(error, UnexpectedWords):
        return _for_unexpected_words(error, arguments)
    if isinstance(error, MissingParameter):
        return _for_missing(error, path, words)
    if isinstance(error, NoSuchOption):
        return _option_for(error, error.option_name, _options_of(error), arguments)
    if isinstance(error, InvalidValue):
        return _for_invalid_value(error, path, arguments)
    return None


def _for_unexpected_words(error: UnexpectedWords, arguments: Sequence[str]) -> Meant | None:
    if error.words == [""]:
        said = "an argument is empty: a variable of the script may be unset"
        return Meant(None, repeat_command([word for word in arguments if word]), instead=said)
    word = error.words[0]
    is_single = len(error.words) == 1 and word != "" and not re.search(r"\s", word)
    return for_extra(word, _options_of(error), arguments) if is_single else None


def _for_missing(error: MissingParameter, path: Sequence[str], rest: Sequence[str]) -> Meant | None:
    """Return the command line with what is missing, or the command that shows what it can be."""
    if error.param is None:
        return None
    what = name_in_errors(error.param)
    if path == ("diff",) and what == "V1|OTHER" and len(rest) == 1:
        return Meant(None, repeat_command(["history", *rest]))
    if path == ("diff",) and what == "V1|OTHER" and (ends := re.findall(r"--(?:from|to)[ =](\d+)", " ".join(rest))):
        return Meant(None, repeat_command(["diff", rest[0], *ends]))
    if path == ("changes",) and (paimon := next(filter(is_local_paimon, rest), None)):
        said = "this is a Paimon table, and this command works on Delta tables only"
        return Meant(None, repeat_command(["snapshot", paimon]), instead=said)
    if path == ("changes",) and what == "--from" and rest:
        return Meant(None, repeat_command_with([*path, *rest], "--from", "0"))
    if path == ("share", "ls") and what == "SHARES" and (profiles := sorted(glob("*.share"))):
        return Meant(None, repeat_command([*path, profiles[0], *rest]))
    if what == "TABLE" and path[:1] != ("share",):
        return Meant(None, repeat_command([*path, HERE, *rest]))
    if not rest or not re.fullmatch("[A-Z]+( [A-Z]+)?", what):
        return None
    is_first = all(word.startswith("-") for word in rest)
    return Meant(None, repeat_command([*path, what, *rest] if is_first else [*path, *rest, *what.split()]))


def _for_invalid_value(error: InvalidValue, path: Sequence[str], arguments: Sequence[str]) -> Meant | None:
    parameter = error.param
    if parameter is None:
        return None
    if has_one_format(error):
        return Meant(None, repeat_command(_without_format(arguments, error.text)))
    if is_action(parameter):
        return _action_for(error.text, error.choices, path, arguments[len(path) :])

    is_format = parameter.opts == ["--format"] and re.fullmatch(r"\w+", error.text)
    if is_format and f"--{error.text}" in _options_of(error):  # a file beside the result
        words = _without_format(arguments, error.text)
        file = f"{path[-1]}.{error.text}"
        return Meant(f"--{error.text} FILE", repeat_command_with(words, f"--{error.text}", file))
    return _value_for(error, name_in_errors(parameter), arguments)


def is_local_paimon(word: str) -> bool:
    from deltacli.operations.paimon.table_files import is_paimon

    return os.path.isdir(word) and not os.path.lexists(f"{word}/_delta_log") and is_paimon(open_storage(word))


def for_extra(word: str, options: Sequence[str], arguments: Sequence[str]) -> Meant | None:
    """Return what was meant by a word too many: a version, a retention, the unit of a number, or another table."""
    option = "--version" if word.isdecimal() else "--retention"
    is_given = any(one.partition("=")[0] == option for one in arguments)
    if re.fullmatch(r"\d+[smhdw]?", word) and option in options and not is_given:
        return Meant(f"{option} {word}", repeat_command_with([one for one in arguments if one != word], option, word))
    place = list(arguments).index(word) if word in arguments else 0
    number, unit = arguments[place - 1], _UNITS.get(word.lower().removesuffix("s"), word)
    if place > 1 and re.fullmatch(r"(--[a-z-]+=)?\d+", number) and re.fullmatch("[smhdw]|[KMGT]i?B", unit):
        meant = f"{number}{unit}"
        return Meant(
            meant.rpartition("=")[2], repeat_command([*arguments[: place - 1], meant, *arguments[place + 1 :]])
        )
    if "://" in word or os.path.isdir(word):
        fact = f"{' '.join(path_of(arguments))} works on one table"
        return Meant(None, repeat_command([*arguments[:place], *arguments[place + 1 :]]), fact)
    return None


_UNITS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}


def _value_for(error: InvalidValue, option: str, arguments: Sequence[str]) -> Meant | None:
    """Return the value of an option that was meant: the nearest of several, or none for the newest version."""
    given = error.text
    if not error.choices:
        is_newest = option == "--version" and given in _NEWEST
        if is_newest:
            return Meant(None, repeat_command(remove_option_value(arguments, option, given)))
        if option == "--version" and re.fullmatch(r"v\d+", given):
            return Meant(None, repeat_command_with(arguments, option, given[1:]))
        tables = [word for word in arguments[len(path_of(arguments)) :] if not word.startswith("-") and word != given]
        is_version = option in ("--version", "VERSION") and len(tables) == 1
        return Meant(None, f"deltacli history {quote_word(tables[0])}") if is_version else None
    known = error.choices
    other = OF_OTHER_FORMATS.get(given.lower(), "") if option == "--format" else ""
    near = other if other in known else nearest_name(given, known, ignores_case=True, cutoff=_ALIKE)
    if near is None:
        return None
    words = zip(arguments, ["", *arguments], strict=False)
    meant = [near if (last, word) == (option, given) else word for word, last in words]
    return Meant(
        repr(near), repeat_command([f"{option}={near}" if word == f"{option}={given}" else word for word in meant])
    )


_NEWEST = frozenset({"current", "head", "HEAD", "last", "latest", "newest"})
"""What other programs call the newest version, which is the default here."""


def _action_for(word: str, actions: Sequence[str], path: Sequence[str], rest: Sequence[str]) -> Meant | None:
    """Return the action behind a table that was meant: before the table, by another name, or misspelled."""
    if list(rest[1:2]) == [word] and rest[0] in actions:  # properties get TABLE
        return Meant(None, repeat_command([*path, word, rest[0], *rest[2:]]))
    if word not in rest:
        return None
    place = rest.index(word)
    if place == 1 and (action := _action_of(word, path)):
        return Meant(repr(action), repeat_command([*path, rest[0], action, *rest[place:]]))
    near = next((one for one in _OF_OTHER_ACTIONS.get(word, ()) if one in actions), nearest_name(word, actions))
    if near is None:
        return None
    return Meant(repr(near), repeat_command([*path, *rest[:place], near, *rest[place + 1 :]]))


def _action_of(word: str, path: Sequence[str]) -> str | None:
    """Return the action that was left out before a property or a feature; None for another word."""
    if path == ("properties",) and "." in word:
        return "set" if "=" in word else "get"
    if path == ("features",):
        from deltacli.delta.protocol.features import FEATURES

        return "add" if nearest_name(word, FEATURES, ignores_case=True, cutoff=_ALIKE) else None
    return None


_OF_OTHER_ACTIONS = {
    "add-column": ("add",),
    "delete": ("drop", "unset"),
    "disable": ("drop", "unset"),
    "drop-column": ("drop",),
    "enable": ("add", "set"),
    "remove": ("drop", "unset"),
    "rename-column": ("rename",),
    "show": ("get",),
}
"""Another word for an action -> the actions that it may mean."""


def _without_format(arguments: Sequence[str], given: str) -> list[str]:
    return remove_option_value(arguments, "--format", given)


def _command_for(group: str, word: str, rest: Sequence[str]) -> Meant | None:
    """Return the command that was meant by an unknown word behind a group, or behind the program."""
    if group in OF_A_TABLE and ("://" in word or "#" in word or os.path.exists(word)):
        name = OF_A_TABLE[group]
        if group == "share" and ("#" in word or word.endswith(".share")):
            name = "share ls"
        elif group == "fleet" and word.endswith(".toml"):
            name = "fleet plan"
        return Meant(repr(name), repeat_command([*name.split(), word, *rest]))
    path = path_of(rest)
    if not group and is_command(path) and ("/" in word or os.path.exists(word)):  # TABLE history
        return Meant(repr(" ".join(path)), repeat_command([*path, word, *rest[len(path) :]]))
    if not group and not rest and ("://" in word or os.path.isdir(word)):  # a table alone
        return Meant("'snapshot'", repeat_command(["snapshot", word]))
    if not group and word == "version":
        return Meant("--version", "deltacli --version")
    if not group and word == "compact":
        hint = f"deltacli optimize {quote_word(rest[0])} --dry-run" if len(rest) == 1 else "deltacli optimize --help"
        return Meant("'optimize' or 'log compact'", hint)
    if (group, word) == ("log", "ls"):
        return Meant("'history'", repeat_command(["history", *rest]))
    if not group and word in OF_OTHERS:
        if rest and leads_on(tuple(rest[:1])):  # describe history TABLE
            return Meant(repr(rest[0]), repeat_command(rest))
        if rest and rest[0] in OF_OTHERS:
            return _command_for(group, rest[0], rest[1:])
        name = OF_OTHERS[word]
        first, *options = name.split()
        more = _BEHIND_TABLE.get(first)
        is_whole = more is not None and len(rest) == 1 and not rest[0].startswith("-")
        hint = repeat_command([first, *rest, *options, *(more or ())]) if is_whole else f"deltacli {first} --help"
        return Meant(repr(name), hint)
    if not group and word in COMMANDS_THAT_WRITE_ROWS:
        return Meant(None, "deltacli --help", "deltacli does not write rows")
    return _alike_command(group, word, rest)


def _alike_command(group: str, word: str, rest: Sequence[str]) -> Meant | None:
    """Return the command of a group with exactly this name, else the nearest one."""
    inner = [name for name in (*COMMANDS, *GROUPS) if not group and name.split()[1:] == [word]]
    near = nearest_name(word, _commands_of(group), cutoff=_ALIKE_COMMANDS)
    found = inner or ([near] if near and near != f"un{word}" else [])
    if not found:
        known = f"the commands of {group} are {', '.join(_commands_of(group))}"
        return Meant(None, f"deltacli {group} --help", known) if group else None
    if inner and rest and os.path.isdir(rest[0]):  # a table; these are commands for a policy file, or a share
        return Meant(" or ".join(map(repr, found)), f"deltacli {found[0]} --help")
    path = [*group.split(), *found[0].split()]
    is_whole = not group and found[0] in GROUPS and not (rest and leads_on((*path, rest[0])))
    hint = f"deltacli {found[0]} --help" if is_whole else repeat_command([*path, *rest])
    return Meant(" or ".join(map(repr, found)), hint)


def _commands_of(group: str) -> Iterable[str]:
    depth = len(group.split())
    words = [name.split() for name in (*COMMANDS, *GROUPS)]
    return dict.fromkeys(word[depth] for word in words if word[:depth] == group.split() and len(word) > depth)


def _command_of(error: UsageError) -> Command | None:
    return error.ctx.command if error.ctx is not None else None


def _options_of(error: UsageError) -> list[str]:
    """Return the long names of the options that the command of an error accepts; of a group, the shared ones."""
    command = _command_of(error)
    if command is None:
        return []
    names = [name for parameter in command.params for name in parameter.opts]
    shared = TAKES_VALUE if isinstance(command, TyperGroup) else ()
    return [name for name in (*names, *shared) if name.startswith("--")]


def _has_other_choices(error: UsageError, option: str, name: str, arguments: Sequence[str]) -> bool:
    """Return whether the value that was given to an unknown option is none of the choices of this one."""
    command = _command_of(error)
    if command is None:
        return False
    choices = [word for found in command.params if option in found.opts for word in choices_of(command, found)]
    given = re.search(rf"\0{re.escape(name)}[=\0]([^\0]*)", "\0" + "\0".join(arguments))
    return bool(choices) and given is not None and given[1] not in choices


def _option_for(error: UsageError, name: str, options: Sequence[str], arguments: Sequence[str]) -> Meant | None:
    """Return the option that was meant by an unknown one, or the command that has it."""
    found = _beside_version(arguments) or _behind_command(name, arguments) or _command_instead(name, arguments)
    found = found or _in_our_options(name, options, arguments) or _without_engine(name, arguments)
    if found is not None:
        return found
    path = " ".join(path_of(arguments))
    if name[2:] in _ACTIONS.get(path, ()) and list(arguments[2:3]) == [name]:  # properties TABLE --set K=V
        return Meant(repr(name[2:]), repeat_command([*arguments[:2], name[2:], *arguments[3:]]))
    if name in _CONSENT and not {"--yes", name} & {*options} and is_command(path_of(arguments)):
        kept = [word for word in arguments if word != name]
        return Meant(None, repeat_command(kept), f"{path} needs no confirmation")
    if (path, name) == ("history", "--version") and all(word.startswith("-") for word in arguments[1:]):
        return Meant(None, "deltacli --version", "deltacli --version prints the version of the program")
    if arguments[0] == "history" and nearest_name(name.lstrip("-"), ["version"], cutoff=_ALIKE_VERSION):
        value = ["N"] if arguments[-1] == name else []
        meant = repeat_command(["snapshot", *_with_option(name, "--version", arguments[1:]), *value])
        return Meant(None if name == "--version" else "--version of 'snapshot'", meant)
    if name == "--dry-run" and list(arguments[:2]) == ["fleet", "run"]:
        return Meant(
            None, repeat_command(["fleet", "plan", *(word for word in arguments[2:] if word not in (name, "--yes"))])
        )
    if name == "--upgrade-protocol" and arguments[0] == "features":  # features add does it
        return Meant(None, repeat_command([word for word in arguments if word != name]))
    spelled = "--retain-hours" if name == "--retain" else name  # as in SQL
    united = re.fullmatch(r"(--.+)-(weeks|days|hours|minutes|seconds)", spelled)
    if united and (option := OF_OTHER_OPTIONS.get(united[1], united[1])) in options:
        return Meant(option, repeat_command(_with_unit(option, united[2][0], name, arguments)))
    if name == "-n" and not re.search(r"\0-n\0\d", "\0".join(arguments)):  # a dry run of make, rsync and others
        near: str | None = "--dry-run" if "--dry-run" in options else None
    elif name in _ROWS and "--limit" in options:
        near = "--limit" if name != "--head" or re.search(r"\0--head[=\0]\d", "\0".join(arguments)) else None
    elif (known := _known_here(name, options, arguments)) is not None:
        near = known
    else:
        plain = {option.lstrip("-"): option for option in options}
        begun = [one for one in options if one.startswith(name) and name[3:]]
        near = plain.get(nearest_name(name.lstrip("-"), plain, cutoff=_ALIKE) or "")
        near = begun[0] if len(begun) == 1 else near
        near = None if near is not None and _has_other_choices(error, near, name, arguments) else near
    if near is None:
        return _of_another_command(name, arguments) if name.startswith("--") and name not in _CONSENT else None
    words = _with_option(name, near, arguments)
    for other in {word.partition("=")[0] for word in words} & {*OF_OTHER_OPTIONS} - {*options}:
        words = _with_option(other, _known_here(other, options, words) or other, words)
    return Meant(near, repeat_command(words))


_ACTIONS = {"alter": ("add", "drop", "rename"), "features": ("add", "drop"), "properties": ("get", "set", "unset")}
"""Command -> actions behind its table that other programs have as options."""
_CONSENT = frozenset({"-y", "--force", "--yes"})


_IN_THIS_PROCESS = {
    "copy": "a store copies its files itself, and between stores the bytes pass through this machine",
    "clone": "it writes one commit and copies no files",
    "convert": "it reads only the footers of the files",
    "manifest": "it reads only the log",
    "streams": "it reads only checkpoints of queries and logs",
    "catalog ls": "it only asks the catalog",
    "catalog status": "it only asks the catalog and lists the log",
    "catalog staged": "it only asks the catalog and lists the log",
    "catalog publish": "it copies only commits",
    "properties": "it reads only the log, and commits",
}
"""Command without `--engine` -> why a cluster would not help."""


def _without_engine(name: str, arguments: Sequence[str]) -> Meant | None:
    path = " ".join(path_of(arguments))
    if name not in CLUSTER_OPTIONS or path not in _IN_THIS_PROCESS:
        return None
    said = f"{path} does not run on a Spark cluster: {_IN_THIS_PROCESS[path]}"
    return Meant(None, repeat_command_without_cluster(arguments), instead=said)


_OF_OPERATIONS = (
    "history",
    ("--format", "csv", "--columns", "version,timestamp,operation"),
    "history has no filter by operation",
)
_LACKING = {
    ("validate", "--fix"): ("repair", ("--dry-run",), "repair does it"),
    ("validate", "--repair"): ("repair", ("--dry-run",), "repair does it"),
    ("history", "--operation"): _OF_OPERATIONS,
}
"""Command and option that it does not have -> the command that helps, its options, and what is said."""


def _command_instead(name: str, arguments: Sequence[str]) -> Meant | None:
    """Return the command on the same table that does what an option of other programs does."""
    lacking = _LACKING.get((arguments[0], name))
    if lacking is None or not arguments[1:] or arguments[1].startswith("-"):
        return None
    command, options, fact = lacking
    return Meant(None, repeat_command([command, arguments[1], *options]), fact)


def _in_our_options(name: str, options: Sequence[str], arguments: Sequence[str]) -> Meant | None:
    """Return the command line with what a flag of other programs is here; None for another option."""
    ours = WHAT_FLAGS_ARE.get(name, ("",))
    if ours[0] not in options or ours[0] in arguments:
        return None
    meant = repeat_command([one for word in arguments for one in (ours if word == name else (word,))])
    return Meant(" ".join(ours), meant)


def _beside_version(arguments: Sequence[str]) -> Meant | None:
    """Return the command that prints the version of the program, which has one format."""
    if path_of(arguments) or not {*ASK_FOR_VERSION} & {*arguments}:
        return None
    return Meant(None, "deltacli --version", instead="--version takes no other option than --json")


def _behind_command(name: str, arguments: Sequence[str]) -> Meant | None:
    """Return the command line whose option is before its command with the option behind it."""
    from deltacli.cli.command_loading import has_option

    if arguments[0].partition("=")[0] != name:
        return None
    for place in (1, 2):
        path = path_of(arguments[place:])
        if has_option(path, name):
            said = f"{name} is an option of {' '.join(path)}: it must follow the command"
            return Meant(None, repeat_command([*arguments[place:], *arguments[:place]]), instead=said)
    return None


def _known_here(name: str, options: Sequence[str], arguments: Sequence[str]) -> str | None:
    """Return the option for one of other programs: of a time or a version; --from is a source without --to."""
    known = OF_OTHER_OPTIONS.get(name)
    is_number = re.search(rf"\0{re.escape(name)}[=\0]\d+(?=\0|\Z)", "\0" + "\0".join(arguments))
    known = "--version" if known == "--timestamp" and is_number else known
    return known if known in options and ("--to" in options or known != "--from") else None


def _with_option(name: str, meant: str, arguments: Sequence[str]) -> list[str]:
    split = [word.partition("=") for word in arguments]
    return [(meant if word == name else word) + equals + value for word, equals, value in split]


def _with_unit(option: str, unit: str, name: str, arguments: Sequence[str]) -> list[str]:
    """Return a command line with the value of `--retention-hours 168` as that of `--retention`: 168h."""
    meant = []
    for last, word in pairwise(["", *arguments]):
        given, equals, value = word.partition("=")
        if last == name and word.isdecimal():
            meant.append(f"{word}{unit}")
        elif given == name:
            meant.append(f"{option}{equals}{value}{unit if value.isdecimal() else ''}")
        else:
            meant.append(word)
    return meant


def _of_another_command(option: str, arguments: Sequence[str]) -> Meant | None:
    """Return the help of the command that has an option, of the same group first; never of one that asks."""
    from deltacli.cli.option_index import commands_with

    group = arguments[:1]
    having = {*commands_with(option)} - {*commands_with("--yes")}
    having = {one for one in having if one.split()[:1] == group or not {one.split()[0], *group} & {"fleet", "share"}}
    found = sorted(having, key=lambda command: (command.split()[:1] != group, command))
    if not found or (len(found) > _FEW and found[0].split()[:1] != group):
        return None
    return Meant(f"{option} of {found[0]!r}", f"deltacli {found[0]} --help")


_FEW = 2
"""Commands up to which an option is one of theirs, and not of many."""
