"""What a credential for a directory allows, decided as the clouds document it: session policies of AWS, signatures of
Azure, boundaries of Google. The stubs of stores apply none of these. Written apart from the code that makes them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

Policy = Mapping[str, Any]

# -- AWS: IAM JSON policy language -------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"\$\{([^}]*)\}|\*|\?")


def _matches(pattern: str, value: str, variables: Mapping[str, str]) -> bool:
    """Whether a pattern with `*`, `?`, `${*}`, `${?}`, `${$}` and policy variables matches; an unknown variable never
    does.
    """
    parts, at = [], 0
    for found in _SPECIAL.finditer(pattern):
        parts.append(re.escape(pattern[at : found.start()]))
        at = found.end()
        name = found[1]
        if name is None:
            parts.append(".*" if found[0] == "*" else ".")
        elif name in ("*", "?", "$"):
            parts.append(re.escape(name))
        elif name in variables:
            parts.append(re.escape(variables[name]))
        else:
            return False
    parts.append(re.escape(pattern[at:]))
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


def _listed(value: Any) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


VARIABLES = {"aws:username": "other", "aws:userid": "AROA:other", "aws:PrincipalTag/team": "other", "s3:prefix": "x"}


def aws_allows(policy: Policy, action: str, resource: str, context: Mapping[str, str]) -> bool:
    """Whether a policy allows an action, as a session policy has to besides the role."""
    variables = {**VARIABLES, **context}
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        assert statement.keys() <= {"Effect", "Action", "Resource", "Condition"}
        if not any(_matches(one, action, {}) for one in _listed(statement["Action"])):
            continue
        if not any(_matches(one, resource, variables) for one in _listed(statement["Resource"])):
            continue
        conditions = statement.get("Condition", {})
        assert conditions.keys() <= {"StringLike"}
        wanted = conditions.get("StringLike", {})
        if all(
            name in context and any(_matches(one, context[name], variables) for one in _listed(values))
            for name, values in wanted.items()
        ):
            return True
    return False


# -- Azure: user delegation SAS of a directory -------------------------------------------------------------------------


def sas_fields(token: str) -> dict[str, str]:
    assert not token.startswith("?")
    assert "&amp;" not in token
    pairs = parse_qsl(token, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def sas_allows(token: str, key: bytes, account: str, container: str, path: str, right: str) -> bool:
    """Whether a signature, checked by the key of its identity, gives a right on a path: `r` to read a blob, `l` to list
    a directory. The signed directory is the first `sdd` segments of the path of the request.
    """
    given = sas_fields(token)
    if given["sr"] != "d" or given["spr"] != "https" or right not in given["sp"]:
        return False
    segments = path.split("/") if path else []
    depth = int(given["sdd"])
    if depth < 1 or len(segments) < depth or (len(segments) == depth and right == "r"):
        return False
    resource = "/".join(["/blob", account, container, *segments[:depth]])
    names = ("sp", "st", "se", None, "skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid", "sip",
             "spr", "sv", "sr", "snapshot", "ses", "rscc", "rscd", "rsce", "rscl", "rsct")  # fmt: skip
    text = "\n".join(resource if name is None else given.get(name, "") for name in names)
    expected = base64.b64encode(hmac.new(key, text.encode("utf-8", "surrogateescape"), hashlib.sha256).digest())
    return hmac.compare_digest(expected, given["sig"].encode())


# -- Google: credential access boundary, with the part of CEL that it is written in -----------------------------------

_TOKENS = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|\|\||[A-Za-z_][A-Za-z0-9_]*|[.,()])', re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        assert match is not None, text[at:]
        found.append(match[1])
        at = match.end()
    return found


def _literal(token: str) -> str:
    assert not re.search(r"[\x00-\x1f]", token), "a line end ends a text of CEL"

    def unescape(found: re.Match[str]) -> str:
        if found[1][0] == "u":
            code = int(found[1][1:], 16)
            assert not 0xD800 <= code <= 0xDFFF, "no text of CEL has half a character"
            return chr(code)
        return _ESCAPES[found[1]]

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", unescape, token[1:-1], flags=re.DOTALL)


@dataclass
class _Cel:
    tokens: list[str]
    variables: Mapping[str, str]
    attributes: Mapping[str, str]
    at: int = field(default=0)

    def take(self, expected: str | None = None) -> str:
        token = self.tokens[self.at]
        assert expected is None or token == expected, (token, expected)
        self.at += 1
        return token

    def disjunction(self) -> bool:
        found = self.starts_with()
        while self.at < len(self.tokens):
            self.take("||")
            other = self.starts_with()
            found = found or other
        return found

    def starts_with(self) -> bool:
        value = self.subject()
        for token in (".", "startsWith", "("):
            self.take(token)
        prefix = _literal(self.take())
        self.take(")")
        return value.startswith(prefix)

    def subject(self) -> str:
        first = self.take()
        self.take(".")
        member = self.take()
        if (first, member) == ("resource", "name"):
            return self.variables["resource.name"]
        assert (first, member) == ("api", "getAttribute")
        self.take("(")
        name = _literal(self.take())
        self.take(",")
        default = _literal(self.take())
        self.take(")")
        return self.attributes.get(name, default)


_VIEWER = {"storage.objects.get", "storage.objects.list"}


def gcp_allows(boundary: Policy, permission: str, bucket: str, *, key: str = "", prefix: str | None = None) -> bool:
    """Whether a boundary allows a permission: on an object, or a listing with a prefix."""
    for rule in boundary["accessBoundary"]["accessBoundaryRules"]:
        if rule["availableResource"] != f"//storage.googleapis.com/projects/_/buckets/{bucket}":
            continue
        assert rule["availablePermissions"] == ["inRole:roles/storage.objectViewer"]
        if permission not in _VIEWER:
            continue
        name = f"projects/_/buckets/{bucket}" + (f"/objects/{key}" if prefix is None else "")
        attributes = {} if prefix is None else {"storage.googleapis.com/objectListPrefix": prefix}
        expression = rule["availabilityCondition"]["expression"]
        if _Cel(_tokens(expression), {"resource.name": name}, attributes).disjunction():
            return True
    return False


# -- keys beside and below a directory ---------------------------------------------------------------------------------


def near_keys(directory: str) -> Iterator[str]:
    """Keys outside a directory that a careless comparison takes for inside."""
    parent, _, name = directory.rpartition("/")
    above = f"{parent}/" if parent else ""
    yield from (directory, f"{directory}0", f"{directory}-backup/x", f"{directory}.", f"{directory[:-1]}", f"{above}x")
    yield from (f"{directory}/../x"[len(directory) + 1 :], f"{directory}%2Fx", f"{directory}\\x", f"/{directory}/x")
    yield from (f"{above}{name.upper()}/x" if name.upper() != name else f"{above}x/", f"x/{directory}/x", above, "")
    yield from (f"{above}/{name}/x", f"{above}{name[1:]}/x", f"{directory}\n/x", f"{above}*", f"{above}other/x")


def policy_of(text: str) -> Policy:
    found: Policy = json.loads(text)
    return found
