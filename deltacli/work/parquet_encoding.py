"""Choose how Parquet files are encoded: the codec and the data page version that the table properties ask for.

Spec: Table Properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from deltacli.core.errors import Refused, command
from deltacli.delta.protocol.known_properties import CODEC, FORMAT_VERSION, PARQUET_VERSIONS

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


DEFAULT_CODEC = "zstd"


class _Codec(NamedTuple):
    """The name of a codec in Arrow, and what precedes `.parquet` in the name of a data file."""

    arrow: str
    ending: str


_CODECS = {
    **dict.fromkeys(("none", "uncompressed"), _Codec("none", "")),
    "snappy": _Codec("snappy", ".snappy"),
    "gzip": _Codec("gzip", ".gz"),
    "brotli": _Codec("brotli", ".br"),
    "zstd": _Codec("zstd", ".zstd"),
    **dict.fromkeys(("lz4", "lz4_raw"), _Codec("lz4", ".lz4raw")),
}
"""By the value of the property. Only Hadoop has `lzo`."""
_ENDINGS = {codec.arrow: codec.ending for codec in _CODECS.values()}


class Encoding(NamedTuple):
    """The encoding of Parquet files: the codec by Arrow's name, and the data page version."""

    codec: str = DEFAULT_CODEC
    page_version: str = "1.0"

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Encoding:
        """Return the encoding that the table properties request.

        Uses the default, if they name no codec that can be written here. Raises Refused for an invalid version of the
        format. Spec: Table Properties.
        """
        version = properties.get(FORMAT_VERSION, "1.0.0").strip()
        if not PARQUET_VERSIONS.fullmatch(version):
            raise Refused(
                f"the property {FORMAT_VERSION} is invalid, so no Parquet file can be written",
                code="property.parquet-version",
                facts={"found": version, "expected": "1.0.0 or 2.x.y"},
                hint=command("properties set", {FORMAT_VERSION: "1.0.0"}),
            )
        return cls(_find_codec(properties) or DEFAULT_CODEC, "2.0" if version.startswith("2.") else "1.0")

    @property
    def extension(self) -> str:
        """The end of the name of a data file: its codec, and `.parquet`."""
        return f"{_ENDINGS[self.codec]}.parquet"


def find_unwritable_codec(properties: Mapping[str, str]) -> str | None:
    """Return the codec that the table properties name, if it cannot be written here."""
    return properties.get(CODEC) if _find_codec(properties) is None else None


def _find_codec(properties: Mapping[str, str]) -> str | None:
    known = _CODECS.get(str(properties.get(CODEC) or "").strip().lower())
    is_there = known is not None and (known.arrow == "none" or pa.Codec.is_available(known.arrow))
    return known.arrow if known is not None and is_there else None
