"""Kubeconfigs and the other fields of get-credentials."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from typing import Any

import yaml

from localcloud.control_plane import AuthType, ClusterCredentials, ClusterSpec, ControlPlaneError
from localcloud.kubernetes.home import Home
from localcloud.kubernetes.pki import ADMIN_GROUP, client_certificate


def issue_credentials(
    cluster: ClusterSpec, home: Home, address: str, auth_type: AuthType, lifetime: timedelta
) -> ClusterCredentials:
    """New credentials for the API server at `address`.

    `admin_cert`: a key and certificate of their own, of group system:masters, valid for `lifetime`. `oidc`: neither,
    but a kubeconfig that calls kubelogin (`kubectl oidc-login`). Raises ControlPlaneError for `oidc` on a cluster
    without OIDC settings.
    """
    ca_certificate = home.certificate("ca.crt").read_text()
    user_name = f"{cluster.name}-{'admin' if auth_type == 'admin_cert' else 'oidc'}"
    if auth_type == "admin_cert":
        certificate, key = client_certificate(home, user_name, ADMIN_GROUP, lifetime)
        user: dict[str, Any] = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
    else:
        certificate, key = "", ""
        user = {"exec": _kubelogin(cluster)}
    return ClusterCredentials(
        cluster_name=cluster.name,
        cluster_address=address,
        cluster_ca_certificate=ca_certificate,
        user_name=user_name,
        user_client_certificate=certificate,
        user_client_key=key,
        kube_config=_kubeconfig(cluster.name, address, ca_certificate, user_name, user),
    )


def _kubelogin(cluster: ClusterSpec) -> dict[str, Any]:
    oidc = cluster.oidc
    if oidc is None:
        raise ControlPlaneError(
            f"Cluster {cluster.name} has no OIDC settings. Ask for credentials with auth_type=admin_cert."
        )
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "kubectl",
        "args": [
            "oidc-login",
            "get-token",
            f"--oidc-issuer-url={oidc.issuer_url}",
            f"--oidc-client-id={oidc.client_id}",
        ],
        "interactiveMode": "IfAvailable",
    }


def _kubeconfig(name: str, address: str, ca_certificate: str, user_name: str, user: dict[str, Any]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {"server": address, "certificate-authority-data": _base64(ca_certificate)},
                }
            ],
            "users": [{"name": user_name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user_name}}],
            "current-context": name,
        },
        sort_keys=False,
    )


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
