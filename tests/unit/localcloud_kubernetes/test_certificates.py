"""The PKI of a control plane and what get-credentials hands out."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from localcloud.control_plane import ControlPlaneError
from localcloud.kubernetes.credentials import issue_credentials
from localcloud.kubernetes.home import Home
from localcloud.kubernetes.pki import make_pki
from tests.unit.localcloud_kubernetes.support import CLUSTER, OIDC, cluster

ADDRESS = "https://127.0.0.1:21003"
YEAR = timedelta(days=365)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path, CLUSTER.id)
    make_pki(home, CLUSTER.name, [CLUSTER.dns_name], [CLUSTER.api_address])
    return home


def authority(home: Home) -> x509.Certificate:
    return x509.load_pem_x509_certificate(home.certificate("ca.crt").read_bytes())


def common_name(certificate: x509.Certificate) -> Any:
    return certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value


def test_the_server_certificate_is_valid_for_the_clusters_names_only(home: Home) -> None:
    certificate = x509.load_pem_x509_certificate(home.certificate("admin.crt").read_bytes())
    verifier = PolicyBuilder().store(Store([authority(home)])).build_server_verifier(x509.DNSName(CLUSTER.dns_name))
    assert verifier.verify(certificate, [])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "10.96.0.1"]


def test_keys_can_be_read_by_this_user_only(home: Home) -> None:
    for name in ("ca.key", "admin.key"):
        assert home.certificate(name).stat().st_mode & 0o077 == 0


def test_an_administrators_certificate_is_trusted_and_of_the_admin_group(home: Home) -> None:
    given = issue_credentials(CLUSTER, home, ADDRESS, "admin_cert", YEAR)
    certificate = x509.load_pem_x509_certificate(given.user_client_certificate.encode())
    certificate.verify_directly_issued_by(authority(home))
    groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [group.value for group in groups] == ["system:masters"]
    assert common_name(certificate) == given.user_name == "train-admin"


def test_every_call_gives_another_certificate_and_key(home: Home) -> None:
    first, second = (issue_credentials(CLUSTER, home, ADDRESS, "admin_cert", YEAR) for _ in range(2))
    assert first.user_client_key != second.user_client_key
    assert first.user_client_certificate != second.user_client_certificate
    assert first.cluster_ca_certificate == second.cluster_ca_certificate


def test_the_lifetime_is_what_was_asked_for(home: Home) -> None:
    given = issue_credentials(CLUSTER, home, ADDRESS, "admin_cert", timedelta(minutes=10))
    certificate = x509.load_pem_x509_certificate(given.user_client_certificate.encode())
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(minutes=9) < left <= timedelta(minutes=10)


def test_the_kubeconfig_carries_everything_inline(home: Home) -> None:
    given = issue_credentials(CLUSTER, home, ADDRESS, "admin_cert", YEAR)
    config = yaml.safe_load(given.kube_config)
    user = config["users"][0]["user"]
    assert config["clusters"][0]["cluster"]["server"] == given.cluster_address == ADDRESS
    assert base64.b64decode(user["client-certificate-data"]).decode() == given.user_client_certificate
    assert base64.b64decode(user["client-key-data"]).decode() == given.user_client_key
    trusted = config["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(trusted).decode() == given.cluster_ca_certificate
    context = next(item["context"] for item in config["contexts"] if item["name"] == config["current-context"])
    assert context == {"cluster": "train", "user": given.user_name}


def test_certificate_fields_are_pem_text_because_clients_encode_them_once_more(home: Home, tmp_path: Path) -> None:
    given = issue_credentials(CLUSTER, home, ADDRESS, "admin_cert", YEAR)
    pair = tmp_path / "pair.pem"
    pair.write_text(given.user_client_certificate + given.user_client_key)
    ssl.create_default_context(cadata=given.cluster_ca_certificate).load_cert_chain(pair)


def test_an_oidc_kubeconfig_has_no_certificate_and_calls_kubelogin(home: Home) -> None:
    given = issue_credentials(cluster(oidc=OIDC), home, ADDRESS, "oidc", YEAR)
    assert given.user_client_certificate == given.user_client_key == ""
    user = yaml.safe_load(given.kube_config)["users"][0]["user"]
    assert list(user) == ["exec"]
    assert user["exec"]["args"] == [
        "oidc-login",
        "get-token",
        "--oidc-issuer-url=https://login.example",
        "--oidc-client-id=platform",
    ]


def test_oidc_credentials_of_a_cluster_without_oidc_are_refused(home: Home) -> None:
    with pytest.raises(
        ControlPlaneError, match=r"has no OIDC settings\. Ask for credentials with auth_type=admin_cert"
    ):
        issue_credentials(CLUSTER, home, ADDRESS, "oidc", YEAR)
