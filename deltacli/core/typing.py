"""Names for values whose libraries have no types. They are all `Any`, and say what a value is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Any
"""A value of a JSON document: an object, array, string, number, boolean or null."""

JsonObject = Mapping[str, Any]
"""An object of a JSON document."""

ArrowArray = Any
"""An array or chunked array of pyarrow."""

AzureCredential = Any
"""A credential of azure-identity."""

BinaryFile = Any
"""A seekable binary file, which pyarrow reads and `with` closes."""

Botocore = Any
"""A session, client, request or answer of botocore, which makes its classes at run time."""

Click = Any
"""A command, context or parameter of the click that typer brings."""

GoogleAuth = Any
"""Credentials or a request of google-auth."""

Toml = Any
"""A value of a TOML document, as the parser returns it."""

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
