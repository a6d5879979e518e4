# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificate authority of simulated services. Nodes trust it because their base image contains its certificate.

All simulators of a user share one authority in the cache folder, so that images need not be built again. It can sign
only names of key vaults and of Resource Manager, so a leaked key harms only machines of these images.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from simulator.keyvault.store import DOMAIN
from simulator.resources import now

MANAGEMENT_HOST = "management.azure.com"
"""Resource Manager's name, with which machines reach the simulated one."""
DOMAINS = (DOMAIN, MANAGEMENT_HOST)
CERTIFICATE, KEY = "ca.crt", "ca.key"
YEARS, DAYS_LEFT = 10, 30
"""How many years a new authority is valid, and how many days before its end it is replaced."""


@dataclass(frozen=True)
class Authority:
    """A certificate authority.

    :ivar certificate: its certificate in PEM.
    """

    certificate: bytes
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def fresh(cls, *domains: str) -> Authority:
        """A new one, which can sign only names in these domains; without any, in those of all simulated services."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hpcai.azure simulator: trust this in tests only")])
        names = _names(domains or DOMAINS)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        built = (
            _certificate(name, name, key.public_key(), YEARS * 365)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(names, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(built.public_bytes(serialization.Encoding.PEM), key)

    @classmethod
    def kept(cls, folder: Path) -> Authority:
        """The authority in this folder. The caller holds a lock.

        It is created if it is missing, expires soon, or was made for other names.
        """
        try:
            certificate = (folder / CERTIFICATE).read_bytes()
            key = serialization.load_pem_private_key((folder / KEY).read_bytes(), None)
            stated = x509.load_pem_x509_certificate(certificate)
            is_usable = stated.not_valid_after_utc > now() + timedelta(days=DAYS_LEFT) and (
                stated.extensions.get_extension_for_class(x509.NameConstraints).value == _names(DOMAINS)
            )
            if isinstance(key, ec.EllipticCurvePrivateKey) and is_usable:
                return cls(certificate, key)
        except (FileNotFoundError, ValueError, x509.ExtensionNotFound):
            pass
        made = cls.fresh()
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / KEY, _private_pem(made.key), 0o600)
        _write(folder / CERTIFICATE, made.certificate, 0o644)
        return made

    def server_context(self, names: list[str]) -> ssl.SSLContext:
        """TLS for a server with these names, with a new certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        authority = x509.load_pem_x509_certificate(self.certificate)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "simulated service")])
        built = (
            _certificate(subject, authority.subject, key.public_key(), 365)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        context = LazyHandshakeContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        with tempfile.TemporaryDirectory(prefix="hpcai-tls-") as folder:
            file = Path(folder) / "server.pem"
            _write(file, _private_pem(key) + built.public_bytes(serialization.Encoding.PEM), 0o600)
            context.load_cert_chain(file)
        return context


class LazyHandshakeContext(ssl.SSLContext):
    """Does the handshake of each connection in its own thread, so that a silent client does not block all others."""

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        """Wrap a socket without waiting for its handshake."""
        return super().wrap_socket(*arguments, **{**options, "do_handshake_on_connect": False})


def _names(domains: Sequence[str]) -> x509.NameConstraints:
    return x509.NameConstraints([x509.DNSName(domain) for domain in domains], None)


def _certificate(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    # Valid from yesterday, for machines whose clock is slightly wrong.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - timedelta(days=1))
        .not_valid_after(now() + timedelta(days=days))
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    part.replace(path)
