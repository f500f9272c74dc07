"""The certificates of a control plane.

They are made here and not by kwokctl, whose CA has no serial number and whose server certificate names every address of
the machine. kwokctl keeps a `pki` folder that it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from localcloud.control_plane import ControlPlaneError
from localcloud.kubernetes.home import Home, write_private
from localcloud.kubernetes.ports import LOOPBACK

ADMIN_GROUP = "system:masters"
_PLATFORM_USER = "crusoe-cloud"
_SERVICE_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_TEN_YEARS = timedelta(days=3652)
_CLOCK_SKEW = timedelta(minutes=5)


def make_pki(home: Home, cluster_name: str, dns_names: Sequence[str], addresses: Sequence[str]) -> None:
    """Make the CA and the one certificate that all components share, as kwokctl has it.

    That certificate serves the API at 127.0.0.1, `addresses` and `dns_names`, and is an administrator's client
    certificate.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"{cluster_name}-ca")
    authority = (
        _builder(name, name, key, _TEN_YEARS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(home, "ca", authority, key)
    admin_key = ec.generate_private_key(ec.SECP256R1())
    alternatives = [
        *(x509.DNSName(name) for name in (*_SERVICE_NAMES, *dns_names)),
        *(x509.IPAddress(IPv4Address(address)) for address in (LOOPBACK, *addresses)),
    ]
    admin = (
        _builder(_name(_PLATFORM_USER, ADMIN_GROUP), authority.subject, admin_key, _TEN_YEARS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(home, "admin", admin, admin_key)


def client_certificate(home: Home, user_name: str, group: str, lifetime: timedelta) -> tuple[str, str]:
    """A new client certificate signed by the cluster's CA, and its key, both PEM text."""
    authority = x509.load_pem_x509_certificate(home.certificate("ca.crt").read_bytes())
    authority_key = load_pem_private_key(home.certificate("ca.key").read_bytes(), password=None)
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
        raise ControlPlaneError(f"{home.certificate('ca.key')} isn't the CA key made with the cluster. Restore it.")
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_name(user_name, group), authority.subject, key, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM).decode(), _key_text(key)


@dataclass(frozen=True)
class ServingCertificate:
    """A server's certificate, its key and the CA behind it, all PEM text."""

    certificate: str
    key: str
    authority: str


def serving_certificate(dns_names: Sequence[str], lifetime: timedelta) -> ServingCertificate:
    """A server certificate for these names, signed by a CA made for it alone."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"{dns_names[0]}-ca")
    authority = (
        _builder(name, name, authority_key, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_name(dns_names[0]), name, key, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in dns_names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return ServingCertificate(
        certificate.public_bytes(Encoding.PEM).decode(),
        _key_text(key),
        authority.public_bytes(Encoding.PEM).decode(),
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _write(home: Home, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    write_private(home.certificate(f"{name}.crt"), certificate.public_bytes(Encoding.PEM).decode())
    write_private(home.certificate(f"{name}.key"), _key_text(key))


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    # Kubernetes reads service account keys in this older form only.
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
