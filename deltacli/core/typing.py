"""Type aliases for values of libraries without type annotations. Each alias is `Any`; its name documents the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Any
"""A JSON value: an object, array, string, number, boolean or null."""

JsonObject = Mapping[str, Any]
"""A JSON object."""

ArrowArray = Any
"""An array or chunked array of pyarrow."""

AzureCredential = Any
"""A credential of azure-identity."""

BinaryFile = Any
"""A seekable binary file that pyarrow can read, and a context manager that closes it."""

Botocore = Any
"""A session, client, request or response of botocore, which creates its classes at run time."""

Click = Any
"""A command, context or parameter of the copy of click that typer contains."""

GoogleAuth = Any
"""Credentials or a request of google-auth."""

Toml = Any
"""A TOML value, as the parser returns it."""

ArrowField = Any
ArrowScalar = Any
ArrowSchema = Any
ArrowTable = Any
ArrowType = Any
RecordBatch = Any

SparkColumn = Any
SparkFrame = Any
SparkSchema = Any
SparkSession = Any
SparkType = Any
