"""Policies that limit credentials to one directory: session policies of AWS, and access boundaries of Google Cloud.

Both allow reading objects below the directory, and listing them. They allow neither old versions of objects nor
anything outside the directory.
"""

from __future__ import annotations

import json
import re

from deltacli.core.typing import Json

MAX_POLICY_CHARACTERS = 2_048
"""Limit of a session policy. STS also limits the size of the compressed policy, which only STS can compute."""

MAX_EXPRESSION_CHARACTERS = 2_048
"""Limit of the condition of an access boundary."""

_ROLE_ARN = re.compile(r"arn:(aws[a-z-]*):iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,512}")
_SPECIAL_CHARACTER = re.compile(r"[$*?]")


def parse_role_partition(role_arn: str) -> str | None:
    """Return the partition in the ARN of a role, such as "aws" or "aws-cn"; None if it is not the ARN of a role."""
    match = _ROLE_ARN.fullmatch(role_arn)
    return match[1] if match else None


def build_session_policy(bucket: str, directory: str, *, partition: str = "aws", uses_kms: bool = False) -> str:
    """Return the session policy that allows reading and listing below a directory.

    Args:
        bucket: The name of the bucket.
        directory: The prefix of the directory, without a slash at its end.
        partition: The partition of AWS.
        uses_kms: True if objects are encrypted with a KMS key. The policy then allows decrypting them, but only in
            requests to S3 for objects of this directory.
    """
    # In a policy, `*` and `?` are wildcards and `$` begins a variable. For example, `${*}` is a literal `*`.
    literal_directory = _SPECIAL_CHARACTER.sub(lambda match: f"${{{match[0]}}}", directory)
    key_pattern = f"{literal_directory}/*"
    bucket_arn = f"arn:{partition}:s3:::{bucket}"
    statements: list[Json] = [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": [f"{bucket_arn}/{key_pattern}"]},
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": bucket_arn,
            "Condition": {"StringLike": {"s3:prefix": [key_pattern]}},
        },
    ]
    if uses_kms:
        # The encryption context is the object, or the bucket if it uses bucket keys.
        string_like = {
            "kms:ViaService": "s3.*.amazonaws.com",
            "kms:EncryptionContext:aws:s3:arn": [bucket_arn, f"{bucket_arn}/{key_pattern}"],
        }
        statements.append(
            {
                "Effect": "Allow",
                "Action": "kms:Decrypt",
                "Resource": "*",
                "Condition": {"StringLike": string_like},
            }
        )
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def build_boundary_expression(bucket: str, directory: str) -> str:
    """Return the condition of an access boundary, in CEL. It holds for objects and listings below a directory.

    Args:
        bucket: The name of the bucket.
        directory: The prefix of the directory, without a slash at its end.
    """
    # String literals of CEL have the same escape sequences as JSON.
    object_prefix = json.dumps(f"projects/_/buckets/{bucket}/objects/{directory}/", ensure_ascii=False)
    list_prefix = json.dumps(f"{directory}/", ensure_ascii=False)
    requested_prefix = "api.getAttribute('storage.googleapis.com/objectListPrefix', '')"
    return f"resource.name.startsWith({object_prefix}) || {requested_prefix}.startsWith({list_prefix})"


def build_access_boundary(bucket: str, directory: str) -> Json:
    """Return the access boundary that allows reading and listing below a directory."""
    rule = {
        "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        "availablePermissions": ["inRole:roles/storage.objectViewer"],
        "availabilityCondition": {"expression": build_boundary_expression(bucket, directory)},
    }
    return {"accessBoundary": {"accessBoundaryRules": [rule]}}
