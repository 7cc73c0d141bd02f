"""A certificate authority for one test control plane."""

from __future__ import annotations

import datetime
import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_HOUR = datetime.timedelta(hours=1)
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


class Authority:
    """Signs certificates of servers on loopback and of users; writes them as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "ca.crt"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mooring test plane")])
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        self.file.write_bytes(self._sign(builder))

    def server(self, name: str) -> tuple[Path, Path]:
        """Return certificate and key of a server on 127.0.0.1."""
        alternatives = x509.SubjectAlternativeName(
            [
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                *(x509.DNSName(name) for name in _NAMES),
            ]
        )
        return self._issue(name, [], ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, groups: Sequence[str] = ()) -> tuple[Path, Path]:
        """Return certificate and key of a user with groups, as the API server reads them."""
        return self._issue(user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        name: str,
        groups: Sequence[str],
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, False)
        stem = "-".join([name, *groups]).replace(":", "-").replace("/", "-")
        certificate, secret = self.folder / f"{stem}.crt", self.folder / f"{stem}.key"
        certificate.write_bytes(self._sign(builder))
        secret.write_bytes(pem(key))
        return certificate, secret

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _HOUR)
            .not_valid_after(now + 240 * _HOUR)
        )

    def _sign(self, builder: x509.CertificateBuilder) -> bytes:
        signed = builder.sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as text."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def signing_key(file: Path) -> Path:
    """Write a fresh key that signs tokens of service accounts."""
    file.write_bytes(pem(ec.generate_private_key(ec.SECP256R1())))
    return file
