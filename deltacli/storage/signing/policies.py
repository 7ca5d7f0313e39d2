"""The permissions of a credential for a directory: the session policy of AWS, and the access boundary of Google."""

from __future__ import annotations

import json
import re

from deltacli.core.typing import Json

MAX_POLICY_CHARACTERS = 2_048
"""Characters of a session policy. STS has another limit for its packed form, which only STS can compute."""
MAX_EXPRESSION_CHARACTERS = 2_048
"""Characters of the condition of a boundary."""
_ROLE = re.compile(r"arn:(aws[a-z-]*):iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,512}")
_PLACEHOLDER = re.compile(r"[$*?]")


def parse_role_partition(role_arn: str) -> str | None:
    """Return the partition of AWS that a role belongs to, None for what is not the ARN of a role."""
    match = _ROLE.fullmatch(role_arn)
    return match[1] if match else None


def build_session_policy(bucket: str, directory: str, *, partition: str = "aws", uses_kms: bool = False) -> str:
    """Return the policy to read and list below a directory of a bucket: no older versions, nothing beside it."""
    inside = f"{_PLACEHOLDER.sub(lambda match: f'${{{match[0]}}}', directory)}/*"
    store = f"arn:{partition}:s3:::{bucket}"
    statements: list[Json] = [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": [f"{store}/{inside}"]},
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": store,
            "Condition": {"StringLike": {"s3:prefix": [inside]}},
        },
    ]
    if uses_kms:
        context = {"kms:EncryptionContext:aws:s3:arn": [store, f"{store}/{inside}"]}
        condition = {"StringLike": {"kms:ViaService": "s3.*.amazonaws.com", **context}}
        statements.append({"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*", "Condition": condition})
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def build_boundary_expression(bucket: str, directory: str) -> str:
    """Return the condition on objects and listings below a directory, in CEL, whose texts are written as in JSON."""
    name = json.dumps(f"projects/_/buckets/{bucket}/objects/{directory}/", ensure_ascii=False)
    prefix = json.dumps(f"{directory}/", ensure_ascii=False)
    listed = "api.getAttribute('storage.googleapis.com/objectListPrefix', '')"
    return f"resource.name.startsWith({name}) || {listed}.startsWith({prefix})"


def build_access_boundary(bucket: str, directory: str) -> Json:
    rule = {
        "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        "availablePermissions": ["inRole:roles/storage.objectViewer"],
        "availabilityCondition": {"expression": build_boundary_expression(bucket, directory)},
    }
    return {"accessBoundary": {"accessBoundaryRules": [rule]}}
