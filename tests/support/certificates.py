"""Certificates for servers on loopback, by an authority that nobody else trusts."""

from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certify(place: Path, *, ends: int = 2100) -> Path:
    """Write a certificate for 127.0.0.1 and share.test, `server.pem`, with `server.key`, which ends with a year; return
    that of its signer.
    """

    def certificate(name: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey) -> bytes:
        is_root = key is signer
        made = x509.CertificateBuilder(
            issuer_name=x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "root")]),
            subject_name=x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=datetime(2020, 1, 1, tzinfo=UTC),
            not_valid_after=datetime(2100 if is_root else ends, 1, 1, tzinfo=UTC),
        )
        made = made.add_extension(x509.BasicConstraints(is_root, None), critical=True)
        if not is_root:
            names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("share.test")])
            made = made.add_extension(names, critical=False)
        return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    root, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    (place / "root.pem").write_bytes(certificate("root", root, root))
    (place / "server.pem").write_bytes(certificate("server", own, root))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (place / "server.key").write_bytes(own.private_bytes(*form))
    return place / "root.pem"
